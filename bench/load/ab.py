# SPDX-License-Identifier: MIT
"""Run Apache Bench and parse its report.

Two of ab's counts of failures include more than their names say (see the source of version 2.4.54):

- "Length" also counts connections that ab opened and never used. Near the end ab opens a connection
  for each connection that ends, until all requests are written. The last connections stay idle. A
  server closes them after its timeout. ab counts each closed connection as a failed request. This
  happens if the last requests take many seconds, because an accept queue overflows or workers wait
  for silent clients.
- "Exceptions" are connections that were reset before ab had read everything. ab counts their
  requests as sent, but never as done. If no other requests fail, ab waits until its timeout.
"""

import re
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from bench.host.kernel import text_of
from bench.host.programs import find_program
from bench.load.outcome import Generator, Load, Outcome
from bench.records.figures import AbFigures, Latency
from bench.records.workloads import FORM


def parse_report(text: str) -> AbFigures | None:
    """Return the figures in ab's report; None if there is no report.

    A report does not prove success: ab also prints it if requests failed or a signal ended ab.
    """
    complete = _count("Complete requests", text)
    rate = _number("Requests per second", text)
    if complete is None or rate is None:
        return None
    return AbFigures(
        complete=complete,
        failed=_count("Failed requests", text) or 0,
        failures=_failures(text),
        write_errors=_count("Write errors", text) or 0,
        non_2xx=_count("Non-2xx responses", text) or 0,
        keep_alive=_count("Keep-Alive requests", text) or 0,
        concurrency=_count("Concurrency Level", text) or 0,
        transferred_bytes=_count("Total transferred", text) or 0,
        html_bytes=_count("HTML transferred", text) or 0,
        seconds=_number("Time taken for tests", text) or 0.0,
        requests_per_second=rate,
        mean_ms=_number("Time per request", text) or 0.0,
    )


def parse_percentile_file(text: str) -> dict[str, float]:
    """Return the percentiles from the file that `ab -e` writes. The report has them only in whole
    milliseconds, which is too coarse if requests take less than 2 ms."""
    rows = re.findall(r"^(\d+),([\d.]+)$", text, re.MULTILINE)
    return {percent: float(ms) for percent, ms in rows}


def parse_request_times(text: str) -> list[int]:
    """Return the total time of each request, in whole ms, from the file that `ab -g` writes."""
    times = []
    for line in text.splitlines()[1:]:
        fields = line.split("\t")
        if len(fields) == 6 and fields[4].isdigit():
            times.append(int(fields[4]))
    return times


def latency_from(percentiles: dict[str, float], times: list[int]) -> Latency | None:
    """Return the latency from ab's two files; None if one of them is incomplete.

    `percentiles` (-e) is exact to 1 us, but has only whole per cents. `times` (-g) has every
    request, rounded to the nearest ms. The 99.9th percentile is taken from `times` and limited to
    the range from the exact 99th percentile to the exact maximum. The mean is computed from
    `percentiles` up to the 99th percentile and from `times` above it. It differs from the mean of
    `times` by at most 0.5 ms.
    """
    if not times or not {"50", "90", "99", "100"} <= percentiles.keys():
        return None
    ordered = sorted(times)
    count = len(ordered)
    p99, longest = percentiles["99"], percentiles["100"]
    p999 = min(max(float(ordered[min(count - 1, count * 999 // 1000)]), p99), longest)
    return Latency(
        p50=percentiles["50"],
        p90=percentiles["90"],
        p99=p99,
        p999=p999,
        max=longest,
        mean=round(_mean(percentiles, ordered), 4),
        count=count,
        source="ab -e (microseconds) and ab -g (each request, whole milliseconds)",
    )


def _mean(percentiles: dict[str, float], ordered: list[int]) -> float:
    # Percentiles are exact, but slow requests between two percentiles can be missed. `ordered` has
    # all requests, each with an error of at most 0.5 ms.
    rounded = sum(ordered) / len(ordered)
    curve = [percentiles.get(str(percent)) for percent in range(100)]
    exact = [value for value in curve if value is not None]
    if len(exact) < len(curve):
        return rounded
    below = sum((low + high) / 2 for low, high in pairwise(exact)) / 100
    tail = ordered[len(ordered) * 99 // 100 :]
    found = below + sum(tail) / len(tail) / 100
    return min(max(found, rounded - 0.5), rounded + 0.5)


def completed_before_abort(text: str) -> int | None:
    """Return the number of requests that ab had completed before an error; None: unknown."""
    match = re.search(r"Total of (\d+) requests completed", text)
    return int(match[1]) if match else None


def abort_message(errors: str) -> str:
    """Return ab's error from its standard error: `apr_socket_recv: Connection reset by peer (104)`.

    Return "" if there is no error. Leave out the usage text that ab prints after a wrong option.
    """
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[0] if lines else ""


def parse_concurrency_ceiling(errors: str) -> int | None:
    """Return the highest concurrency of this ab, from its error message for a higher number."""
    match = re.search(r"Invalid Concurrency \[Range 0\.\.(\d+)\]", errors)
    return int(match[1]) if match else None


def _number(label: str, text: str) -> float | None:
    match = re.search(rf"^{label}:\s+([\d.]+)", text, re.MULTILINE)
    return float(match[1]) if match else None


def _count(label: str, text: str) -> int | None:
    value = _number(label, text)
    return None if value is None else int(value)


def _failures(text: str) -> dict[str, int]:
    match = re.search(r"^\s+\((Connect: .*)\)$", text, re.MULTILINE)
    pairs = re.findall(r"(\w+): (\d+)", match[1]) if match else []
    return {kind.lower(): int(number) for kind, number in pairs}


KEPT_PERCENTILES = ("50", "66", "75", "80", "90", "95", "98", "99", "100")


START_SECONDS = 0.03
"""The part of the measured run time in which ab does not run: the time of its start, and half of
the interval at which this process checks for ab's end."""


def command(load: Load, folder: Path) -> list[str]:
    """Return ab's command line for a load; ab writes its data into `folder`.

    Without -r, ab stops at the first connection that breaks and prints the error. With -r, ab
    continues and exits with status 0 even if there is no server.

    Without -l, ab counts a response as failed if its length differs from the first response. This
    detects connections that were closed early, so -l is used only if lengths may differ.
    """
    return [
        "ab",
        "-q",
        *(["-l"] if load.any_length else []),
        *(["-k"] if load.keep_alive else []),
        *(["-p", str(folder / "form"), "-T", FORM] if load.form is not None else []),
        *("-s", str(max(1, round(load.timeout)))),
        *("-e", str(folder / "percentiles.csv")),
        *("-g", str(folder / "requests.tsv")),
        *("-n", str(load.requests)),
        *("-c", str(load.connections)),
        load.url,
    ]


def read(ran: Outcome, load: Load, folder: Path) -> Outcome:
    """Return the outcome with the figures from the output and the files of an ended ab."""
    figures = parse_report(ran.report)
    precise = parse_percentile_file(text_of(folder / "percentiles.csv"))
    if figures:
        figures.percentiles_ms = {p: precise[p] for p in KEPT_PERCENTILES if p in precise}
    return replace(
        ran,
        message=abort_message(ran.message),
        figures=figures,
        completed=figures.complete if figures else completed_before_abort(ran.report),
        latency=latency_from(precise, parse_request_times(text_of(folder / "requests.tsv"))),
    )


AB = Generator("ab", "bench", "-V", command, read, START_SECONDS)


def concurrency_ceiling() -> int | None:
    """Return the highest concurrency of this ab: usually 20,000, in some builds more. None if
    unknown.

    If the requested concurrency is too high, ab prints its limit and does not connect.
    """
    if find_program("ab") is None:
        return None
    absurd = "2000000000"
    said = subprocess.run(
        ["ab", "-n", absurd, "-c", absurd, "http://127.0.0.1:1/"], capture_output=True, text=True
    )
    return parse_concurrency_ceiling(said.stderr)
