# SPDX-License-Identifier: MIT
"""The statistics that a server writes when it stops."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bench.host.process import guarded
from bench.subjects.running import lines_of

from .. import processes
from ..client import CLOSE, FORM, form, request
from ..harness import Server, Start, is_sanitized, of
from ..redisbox import PrivateRedis
from ..small import cpu_seconds, fill
from ..timing import PACE, TIMEOUT, undisturbed_test, wait_until

POST = request("POST", "/guestbook", (FORM, *CLOSE), form(guest_name="A", guest_remarks="B"))


def _whole(server: Server, data: bytes) -> bytes:
    """Send a request that ends the connection and return every byte of the response."""
    with server.client() as client:
        client.send(data)
        return client.read_to_end()


def test_statistics(start: Start) -> None:
    """The statistics have the exact numbers of requests, responses and bytes."""
    server = start("--workers", "4", "--each-worker")
    sent = [request("GET", "/t/digits.txt", CLOSE)] * 5
    sent += [request("GET", "/guestbook", CLOSE)] * 2 + [request("HEAD", "/t/80k.bin", CLOSE)]
    sent += [request("GET", "/t/none", CLOSE)] * 3 + [b"nonsense\r\n\r\n"]
    sent += [request("GET", "/t/plain", CLOSE)] * 4 + [POST]
    received = [_whole(server, data) for data in sent]
    expecting = POST.replace(b"Connection: close", b"Expect: 100-continue")
    head, body = expecting[: -len(b"guest-name=A&guest-remarks=B")], b"guest-name=A&guest-remarks=B"
    with server.client() as client:
        interim = client.exchange(head)
        client.send(body)
        client.half_close()
        received.append(interim.head + client.read_to_end())
    kept = 50 if server.kind.keeps_alive else 0
    with server.client() as client:  # requests are counted, not connections
        for _ in range(kept):
            response = client.exchange(request("GET", "/t/digits.txt"))
            received.append(response.head + response.body)
        assert server.stop() == 0
    figures = server.statistics()
    assert figures["requests"] == str(18 + kept)
    assert " ".join(figures["responses"].split()) == f"1xx 1 2xx {8 + kept} 3xx 6 4xx 4 5xx 0"
    assert int(figures["bytes"]) == sum(map(len, received))
    assert re.fullmatch(r"user \d+\.\d{3} s  system \d+\.\d{3} s", figures["cpu"])
    assert re.fullmatch(r"\d+\.\d us", figures["cpu/request"])
    assert re.fullmatch(r"\d+\.\d MB \(largest process\)", figures["peak memory"])
    workers = sorted(int(v) for k, v in figures.items() if k.startswith("worker "))
    if server.kind.has_workers:
        assert len(workers) == 4
        assert sum(workers) == 18 + kept
        least, median, most, idle = map(int, re.findall(r"\d+", figures["per worker"]))
        assert (least, median, most) == (workers[0], workers[2], workers[3])
        assert idle == workers.count(0)
    else:
        assert workers == []
    assert not processes.session_processes(server.pid)


@pytest.mark.of_servers("preforking", "prethreading", "multicore")
def test_statistics_of_many_workers(start: Start) -> None:
    """The statistics have one line for all workers, unless --each-worker is given."""
    server = start("--workers", "50")
    server.get("/t/digits.txt")
    assert server.stop() == 0
    figures = server.statistics()
    assert figures["per worker"] == "least 0  median 0  most 1  idle 49"
    assert not [key for key in figures if key.startswith("worker ")]


@of("forking", "preforking", "prethreading", "epoll")
def test_resources_are_those_of_the_kernel(start: Start, redis: PrivateRedis) -> None:
    """The statistics have the CPU time of all processes of the server, and the memory of the
    largest process. No other process is counted."""
    store = redis.client(redis.unused())
    store.do("RPUSH", "guestbook_remarks", *["x" * 18_000] * 50)
    server = start("--workers", "1", redis=redis.url(store.database))
    assert len(server.get("/guestbook").body) > 900_000
    cpu = 0.0
    while cpu < 0.2:
        for _ in range(100):
            server.get("/sorted")
        wait_until(lambda: server.is_at_rest(1), "the last child has ended")
        cpu = cpu_seconds(server)
    peak = max(processes.status_number(pid, "VmHWM") for pid in server.pids())
    assert server.stop() == 0
    figures = server.statistics()
    used = [float(figure) for figure in re.findall(r"\d+\.\d+", figures["cpu"])]
    assert cpu - 0.05 < sum(used) < cpu + 1 * PACE.slowness, (cpu, used)
    megabytes = float(figures["peak memory"].split()[0])
    # The kernel has a counter for each CPU, so its sums are not exact to the page.
    assert megabytes > peak / 1024 - 0.5
    assert megabytes < 20 or is_sanitized(server.binary)


@pytest.mark.shared_code
@undisturbed_test(0.9)  # slightly less than OUTPUT_TIMEOUT
def test_statistics_wait_for_their_reader(binary: Path, site: Path) -> None:
    """A late reader, like a terminal after Ctrl-S, gets all statistics. In this test the server
    has had no request."""
    reader, writer = os.pipe()
    command = guarded(Server(binary, site, "unix:/nowhere").command())
    with os.fdopen(reader, "rb") as output, subprocess.Popen(command, stdout=writer) as server:
        assert any(b"confined" in line for line in output), "no banner"
        fill(writer)
        os.close(writer)
        server.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        figures = lines_of(output.read().decode().lstrip("x"))  # fill() wrote the x
        assert figures["requests"] == "0"
        assert not re.search("nan|inf", figures.get("cpu/request", ""))
        assert server.wait(TIMEOUT * PACE.slowness) == 0


def _read_until(descriptor: int, words: str) -> str:
    text = ""
    while words not in text and (more := os.read(descriptor, 1 << 16)):
        text += more.decode()
    return text


@pytest.mark.shared_code
def test_lost_lines_are_counted_before_the_statistics(binary: Path, site: Path) -> None:
    """If the last line of a log was dropped, the number of dropped lines is written at the stop.
    Standard output is the access log; standard error has the line that Redis is unavailable."""
    (log, errors), (full_log, full_errors) = zip(os.pipe(), os.pipe(), strict=True)
    server = Server(binary, site, "redis://127.0.0.1:1", ("--log", "--workers", "1"))
    command = guarded(server.command())
    process = subprocess.Popen(command, stdout=full_log, stderr=full_errors)
    with process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        banner = _read_until(errors, "confined")
        server.banner = {"url": re.findall(r"http\S+", banner)[0]}
        for pipe in (full_log, full_errors):
            fill(pipe)
            os.close(pipe)
        assert server.get("/guestbook").status == 503
        time.sleep(0.2)  # the line of the access log is written after the response
        for pipe in (log, errors):
            os.read(pipe, 1 << 20)
        process.send_signal(signal.SIGTERM)
        name = f"{binary.name}: 1 line was dropped here"
        assert _read_until(log, "\n").startswith(name)
        assert re.match(rf"{name}.*\nrequests  ", _read_until(errors, "peak memory"))
        assert process.wait(TIMEOUT * PACE.slowness) == 0
    os.close(log)
    os.close(errors)
