# SPDX-License-Identifier: MIT
"""Run Apache Bench and parse its report.

Two of ab's counts of failures include more than their names say (see the source of Apache 2.4.54):

- "Length" also counts connections that ab opened and never used. Near the end ab opens a connection
  for each connection that ends, until all requests are written. The last connections stay idle. If
  the last requests take many seconds, the server closes the idle connections after its timeout, and
  ab counts them as failed requests. Requests take so long if an accept queue overflows or workers
  wait for silent clients.
- "Exceptions" are connections that were reset before ab had read everything. ab counts their
  requests as sent, but never as done. If no other requests fail, ab waits until its timeout.
"""

import re
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from bench.host.kernel import text_of
from bench.host.programs import find_program
from bench.load.outcome import Generator, Load, Outcome
from bench.records.figures import AbFigures, Latency
from bench.records.workloads import FORM

LABELS = {
    "complete": "Complete requests",
    "requests_per_second": "Requests per second",
    "failed": "Failed requests",
    "write_errors": "Write errors",
    "non_2xx": "Non-2xx responses",
    "keep_alive": "Keep-Alive requests",
    "concurrency": "Concurrency Level",
    "transferred_bytes": "Total transferred",
    "html_bytes": "HTML transferred",
    "seconds": "Time taken for tests",
    "mean_ms": "Time per request",
}
"""The figures in ab's report, and the labels of their lines. ab always prints the first two lines;
it omits some other lines if their number is 0."""


def parse_report(text: str) -> AbFigures | None:
    """Return the figures in ab's report; None without a report. A report does not prove success: ab
    also prints a report after failed requests or a signal."""
    lines = {name: rf"^{label}:\s+([\d.]+)" for name, label in LABELS.items()}
    found = {name: _number(line, text) for name, line in lines.items()}
    if found["complete"] is None or found["requests_per_second"] is None:
        return None
    numbers = {name: number or 0 for name, number in found.items()}
    return AbFigures.model_validate({**numbers, "failures": _failures(text)})


def parse_percentile_file(text: str) -> dict[str, float]:
    """Return the percentiles from the file that `ab -e` writes. The report has them only in whole
    milliseconds, which is too coarse if requests take less than 2 ms."""
    rows = re.findall(r"^(\d+),([\d.]+)$", text, re.MULTILINE)
    return {percent: float(ms) for percent, ms in rows}


def parse_request_times(text: str) -> list[int]:
    """Return the total time of each request, in whole ms, from the file that `ab -g` writes."""
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return [int(row[4]) for row in rows if len(row) == 6 and row[4].isdigit()]


def latency_from(percentiles: dict[str, float], times: list[int]) -> Latency | None:
    """Return the latency from ab's two files; None if one of them is incomplete.

    `percentiles` (-e) is exact to 1 us, but has only whole per cents. `times` (-g) has every
    request, rounded to the nearest ms. The 99.9th percentile is taken from `times` and limited to
    the range from the exact 99th percentile to the exact maximum. The mean is computed from
    `percentiles` up to the 99th percentile and from `times` above it. This mean differs from the
    mean of `times` by at most 0.5 ms.
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
    # Percentiles are exact, but may miss slow requests between two percentiles. `ordered` has all
    # requests, each with an error of at most 0.5 ms.
    rounded = fmean(ordered)
    curve = [percentiles.get(str(percent)) for percent in range(100)]
    exact = [value for value in curve if value is not None]
    if len(exact) < len(curve):
        return rounded
    below = sum((low + high) / 2 for low, high in pairwise(exact)) / 100
    found = below + fmean(ordered[len(ordered) * 99 // 100 :]) / 100
    return min(max(found, rounded - 0.5), rounded + 0.5)


def parse_concurrency_ceiling(errors: str) -> int | None:
    """Return the highest concurrency of this ab, from its error message for a higher number."""
    ceiling = _number(r"Invalid Concurrency \[Range 0\.\.(\d+)\]", errors)
    return None if ceiling is None else int(ceiling)


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1]) if match else None


def _failures(text: str) -> dict[str, int]:
    match = re.search(r"^\s+\((Connect: .*)\)$", text, re.MULTILINE)
    pairs = re.findall(r"(\w+): (\d+)", match[1]) if match else []
    return {kind.lower(): int(number) for kind, number in pairs}


KEPT_PERCENTILES = ("50", "66", "75", "80", "90", "95", "98", "99", "100")
START_SECONDS = 0.03
"""The part of the measured time in which ab does not run: the time to start ab, and half of the
interval at which this process checks for ab's end."""


def command(load: Load, folder: Path) -> list[str]:
    """Return ab's command line for a load; ab writes its data into `folder`.

    Without -r, ab stops at the first broken connection and prints the error; with -r, the exit
    status is 0 even without a server. Without -l, ab counts a response as failed if its length
    differs from the first response. So ab detects connections that were closed early.
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
    done = _number(r"Total of (\d+) requests completed", ran.report)  # only after an error
    if figures:
        figures.percentiles_ms = {p: precise[p] for p in KEPT_PERCENTILES if p in precise}
        done = figures.complete
    return replace(
        ran,
        # The error is the first line: after a wrong option, ab also prints its usage.
        message=ran.message.strip().partition("\n")[0].rstrip(),
        figures=figures,
        completed=None if done is None else int(done),
        latency=latency_from(precise, parse_request_times(text_of(folder / "requests.tsv"))),
    )


AB = Generator("ab", "bench", "-V", command, read, START_SECONDS)


def concurrency_ceiling() -> int | None:
    """Return the highest concurrency of this ab, usually 20,000; None if unknown."""
    if find_program("ab") is None:
        return None
    absurd = "2000000000"  # ab prints its limit and does not connect
    said = subprocess.run(
        ["ab", "-n", absurd, "-c", absurd, "http://127.0.0.1:1/"], capture_output=True, text=True
    )
    return parse_concurrency_ceiling(said.stderr)
