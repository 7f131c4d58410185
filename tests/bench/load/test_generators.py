# SPDX-License-Identifier: MIT
"""The probe checks the first response, with which all others are compared. The parsers read the
output of oha, ab and wrk: of recorded runs (good, stalled, cut off) and, if possible, real runs."""

import csv
import json
import shutil
import socket
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from bench.host.process import SignalWatch
from bench.host.project import ROOT
from bench.load import generators
from bench.load.client import Response
from bench.load.generators import OHA, WRK, WRK_PIPELINED, Times, parse_ab, parse_oha, parse_wrk
from bench.load.running import FIRST_SECONDS, Generator, Load, ProbeError, probe, require_content
from bench.records.figures import AbFigures, Latency
from bench.records.workloads import WORKLOADS, workload_for
from bench.subjects.subject import server_subject

from ..measuring import broken_server, started

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_good_run_of_oha() -> None:
    figures, body = parse_oha(recorded("oha_good.json"), 1000.0)
    assert (figures.sent, figures.succeeded, figures.errors) == (500, 500, {})
    assert (figures.status_codes, figures.rate_asked, body) == ({"200": 500}, 1000, 500 * 508)
    assert figures.rate_done == pytest.approx(500 / figures.seconds)


def test_oha_corrects_latencies_and_follows_no_redirect() -> None:
    words, kept = (
        OHA.command(Load("http://h/", 1000, 50, 20.0, rate=500.0, **more), Path())
        for more in ({}, {"keep_alive": True, "form": "a=b"})
    )
    assert {"--latency-correction", "--disable-keepalive"} < set(words)
    assert {("--redirect", "0"), ("-q", "500")} < set(pairwise(words))
    assert "--disable-keepalive" not in kept
    assert {("-d", "a=b"), ("--db-url", generators.DATABASE)} < set(pairwise(kept))


def stalled() -> list[Times]:
    """Return the requests of oha_stalled.json: 500 per second, with a stall of 0.2 s."""
    with (RECORDED / "oha_stalled.csv").open() as file:
        return [Times(*map(float, row.values())) for row in csv.DictReader(file)]


def test_both_latencies_come_from_the_same_requests() -> None:
    said = json.loads(recorded("oha_stalled.json"))
    rows = stalled()
    assert len(rows) == parse_oha(json.dumps(said), 500.0)[0].succeeded == 300
    corrected = generators.latency_of([row.end - row.due for row in rows], "")
    names = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}
    its = {ours: said["latencyPercentiles"][name] for ours, name in names.items()}
    its |= {"max": said["summary"]["slowest"], "mean": said["summary"]["average"]}
    assert corrected.model_dump(exclude={"count", "source"}) == {
        name: round(seconds * 1000, 4) for name, seconds in its.items()
    }, "latencies from oha's database, as oha calculates them"
    uncorrected = generators.latency_of([row.end - row.sent for row in rows], "")
    assert uncorrected.p90 < 3, "in ms: only ten requests waited during the stall"
    assert corrected.p90 > 100, "all requests of the stall were late"
    assert uncorrected.mean < corrected.mean / 5
    assert uncorrected.max <= corrected.max


def test_percentiles_of_few_and_of_none() -> None:
    assert generators.latency_of([], "") is None
    same = dict.fromkeys(("p50", "p90", "p99", "p999", "max", "mean"), 250)
    assert generators.latency_of([0.25], "x") == Latency(**same, count=1, source="x")


def test_a_missing_database_has_no_requests(tmp_path: Path) -> None:
    assert generators.requests_in(tmp_path / "missing") == []
    (tmp_path / "text").write_text("no database")
    assert generators.requests_in(tmp_path / "text") == []


@pytest.mark.skipif(OHA.version() is None, reason="oha is not installed")
def test_a_real_run_of_oha() -> None:
    with broken_server("good") as url:
        done = OHA.run(Load(url, 200, 5, 60.0, rate=400.0), (), SignalWatch())
    assert done.status == 0
    assert done.message == "", "oha reported an error"
    assert str(Path("/tmp")) not in " ".join(done.command)
    assert done.latency is not None
    assert done.figures.succeeded == 200
    sent = done.figures.uncorrected
    assert sent.count == done.latency.count == 200
    assert sent.mean <= done.latency.mean
    assert sent.max <= done.latency.max


def test_good_run_of_ab() -> None:
    assert parse_ab(recorded("good.txt")) == AbFigures(
        complete=2000,
        failed=0,
        concurrency=100,
        requests_per_second=8684.51,
        seconds=0.230,
        mean_ms=11.515,  # per request, not across all concurrent requests
        transferred_bytes=3_154_000,
        html_bytes=3_000_000,
    )
    precise = generators.parse_percentile_file(recorded("good.csv"))
    assert (len(precise), precise["99"], precise["100"]) == (101, 16.457, 20.263)


def test_concurrency_ceiling() -> None:
    said = "ab: Invalid Concurrency [Range 0..20000]\nUsage: ab [options] ...\n"
    assert generators.parse_concurrency_ceiling(said) == 20_000
    assert generators.parse_concurrency_ceiling("ab: wrong number of arguments") is None


def test_good_run_of_wrk() -> None:
    """The parser reads wrk's output of a run of epoll with a connection per request."""
    figures, latency = parse_wrk(recorded("wrk.txt"))
    assert (figures.complete, figures.statuses) == (3000, {"302": 3000})
    assert figures.requests_per_second == pytest.approx(3000 / 4.405304)
    assert (latency.p50, latency.p999, latency.max) == (71.061, 742.039, 742.101)
    assert "correction" in latency.source


def test_an_incomplete_report_has_no_figures() -> None:
    """The parsers return no figures from a report that is cut off, or from another text."""
    oha, ab = recorded("oha_good.json").rstrip(), recorded("good.txt")
    cut = (oha[:length] for length in range(0, len(oha), 7))
    for text in ("", "{}", "[1]", "null", '{"summary": 3}', *cut):
        assert parse_oha(text, 1.0) == (None, None), text
    for text in (ab[:length] for length in range(len(ab))):
        assert (figures := parse_ab(text)) is None or figures.complete == 2000, text
    for text in ("", "unable to connect", "JSON {", "JSON"):
        assert parse_wrk(text) == (None, None), text


def test_command_line_of_wrk() -> None:
    words = WRK.command(Load("http://h/x", 500, 20, 3.0, keep_alive=False, form="a=b"), Path())
    assert words[:5] == ["wrk", "-t1", "-c", "20", "-d"]
    assert "Connection: close" in words
    assert words[-5:] == ["http://h/x", "--", "500", "1", "a=b"]
    kept = Load("http://h/x", 500, 20, 3.0, keep_alive=True)
    assert "Connection: close" not in WRK.command(kept, Path())


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
@pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll")
@pytest.mark.parametrize(("tool", "keep_alive"), [(WRK, False), (WRK, True), (WRK_PIPELINED, True)])
def test_wrk_sends_exactly_as_many_requests(tool: Generator, keep_alive: bool) -> None:
    """wrk sends exactly the wanted number of requests, and each gets a response."""
    with started(server_subject("epoll", ROOT / "epoll")) as running:
        load = Load(running.url + "redirect", 1240, 17, 60.0, keep_alive=keep_alive)
        done = tool.run(load, (), SignalWatch())
        ended = running.stop()
    assert done.status == 0
    assert done.figures.statuses == {"302": 1240}
    assert done.figures.closes == (0 if keep_alive else 1240)
    assert not any(done.figures.errors.values())
    assert ended.statistics.requests == 1240


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


class OneAnswer:
    """A server for one request. If not `then_close`, it closes the connection much later."""

    def __init__(self, answer: bytes, then_close: bool = True) -> None:
        self.answer, self.then_close, self.request = answer, then_close, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        client, _ = self.listener.accept()
        with client:
            self.request = client.recv(65536)
            client.sendall(self.answer)
            if not self.then_close:
                time.sleep(2 * FIRST_SECONDS)


def test_a_right_answer() -> None:
    server = OneAnswer(HEAD + b"12345")
    answer = probe(f"{server.url}?a=1/2&b", workload_for("/x"), None)
    assert (answer.status, len(answer.body), answer.size) == (200, 5, len(HEAD) + 5)
    host = server.url.removesuffix("/x").removeprefix("http://")
    assert server.request.startswith(f"GET /x?a=1/2&b HTTP/1.0\r\nHost: {host}\r\n".encode())


def test_a_connection_that_is_kept_is_not_waited_for() -> None:
    begin = time.monotonic()
    assert probe(OneAnswer(HEAD + b"12345", False).url, workload_for("/x"), 200).status == 200
    assert time.monotonic() - begin < FIRST_SECONDS


def test_a_form_is_sent() -> None:
    server = OneAnswer(b"HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n\r\n")
    assert probe(server.url, WORKLOADS["sign"], 303).status == 303
    assert server.request.startswith(b"POST /x HTTP/1.0\r\n")
    assert server.request.endswith(b"\r\n\r\nguest-name=Load+generator&guest-remarks=One+of+many")


@pytest.mark.parametrize(
    ("answer", "label", "text"),
    [
        (b"", "no answer", "the connection ended after 0 bytes"),
        (b"hello", "no answer", "the connection ended after 5 bytes"),
        (b"+PONG\r\n\r\n", "no answer", "the response is not HTTP"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "status 503", "got 503 and not 200"),
        (HEAD + b"123456", "wrong length", "Content-Length says 5, but 6 bytes were received"),
        (HEAD + b"1234", "wrong length", "Content-Length says 5, but 4 bytes were received"),
    ],
)
def test_wrong_answers(answer: bytes, label: str, text: str) -> None:
    with pytest.raises(ProbeError, match=text) as caught:
        probe(OneAnswer(answer).url, workload_for("/x"), 200)
    assert caught.value.label == label


@pytest.mark.parametrize(
    ("workload", "head", "body", "wrong"),
    [
        ("moved", b"Location: /guestbook", b"", ""),
        ("moved", b"location: http://127.0.0.1:80/guestbook", b"", ""),
        ("moved", b"Location: /guestbook/", b"", "a redirect leads to /guestbook/, not to"),
        ("moved", b"X-Location: /guestbook", b"", "a redirect leads nowhere"),
        ("hello", b"X: y", b"Hello World\n", ""),
        ("hello", b"X: y", b"Hello world\n", "12 bytes that are not public/files/hello.txt"),
        ("sorted", b"X: y", b"<li>a r b e g h j m r k</li>", "a page without '<li>a o"),
        ("link", b"X: y", b"", ""),
    ],
)
def test_the_content_of_an_answer(workload: str, head: bytes, body: bytes, wrong: str) -> None:
    answer = Response(200, b"HTTP/1.1 200 OK\r\n" + head, body)
    if not wrong:
        require_content(answer, WORKLOADS[workload])
        return
    with pytest.raises(ProbeError, match=wrong):
        require_content(answer, WORKLOADS[workload])


def test_no_server_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # no other program can listen at this address
        with pytest.raises(ProbeError, match="refused"):
            probe(f"http://127.0.0.1:{held.getsockname()[1]}/", workload_for("/"), None)
