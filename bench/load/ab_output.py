# SPDX-License-Identifier: MIT
"""Reading what Apache Bench prints. Pure functions; the tests feed them recorded real output."""

import re
from itertools import pairwise

from bench.records.figures import AbFigures, Latency


def parse_report(text: str) -> AbFigures | None:
    """The figures in ab's report; None if it ended without one.

    A report is no proof of success: ab writes one for requests that failed, too, and for those
    done so far when it is interrupted.
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
        percentiles_ms=_percentiles(text),
    )


def parse_percentile_file(text: str) -> dict[str, float]:
    """Percentiles from the file that `ab -e` writes: the same as in the report, but not rounded
    to whole milliseconds, which matters where requests take less than two."""
    rows = re.findall(r"^(\d+),([\d.]+)$", text, re.MULTILINE)
    return {percent: float(ms) for percent, ms in rows}


def parse_request_times(text: str) -> list[int]:
    """The total time of each request from the file that `ab -g` writes: whole milliseconds."""
    times = []
    for line in text.splitlines()[1:]:
        fields = line.split("\t")
        if len(fields) == 6 and fields[4].isdigit():
            times.append(int(fields[4]))
    return times


def latency_from(percentiles: dict[str, float], times: list[int]) -> Latency | None:
    """Put together what ab says in two files, each of which lacks something.

    `percentiles` (-e) is exact to a microsecond, but knows whole per cents only. `times` (-g) has
    every request, in whole milliseconds, ab rounds to the nearest. So the 99.9th percentile is of
    the latter, kept between the exact 99th and the exact longest; the mean is of the former up to
    the 99th (each per cent stands for a hundredth of the requests) and of the latter above it, and
    never further from the mean of the latter than their rounding explains.
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
    # The curve of percentiles is exact in its points but not between them, where a few slow
    # requests make a cliff; the times of the requests are all there, each off by half at most.
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
    """How many requests ab had done when it gave up, if it says so."""
    match = re.search(r"Total of (\d+) requests completed", text)
    return int(match[1]) if match else None


def abort_message(errors: str) -> str:
    """Why ab gave up, from its standard error: `apr_socket_recv: Connection reset by peer (104)`.

    Empty if it said nothing. ab's usage text, which follows a wrong option, is left out.
    """
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[0] if lines else ""


def parse_concurrency_ceiling(errors: str) -> int | None:
    """The highest concurrency this ab takes, from its refusal of a higher one."""
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


def _percentiles(text: str) -> dict[str, float]:
    rows = re.findall(r"^\s+(\d+)%\s+(\d+)(?: \(longest request\))?$", text, re.MULTILINE)
    return {percent: float(ms) for percent, ms in rows}
