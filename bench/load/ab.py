# SPDX-License-Identifier: MIT
"""Runs Apache Bench.

Its counts of failures include more than their names say (see the source of version 2.4.54):

- "Length" also counts connections that ab opened and never used. Near the end ab opens a connection
  for each that ends, until all requests are written; the rest stay idle. A server closes them after
  its timeout, and ab counts each in place of a request that is in progress. This happens if the
  last requests take many seconds: an accept queue overflows, or workers wait for silent clients.
- "Exceptions" are connections that were reset before ab had read everything. ab counts their
  requests as sent, but never as done: if no others fail, it waits until its timeout.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.host.process import Child, run_measured
from bench.host.programs import first_line, require
from bench.host.signals import SignalWatch
from bench.load.ab_output import (
    abort_message,
    completed_before_abort,
    latency_from,
    parse_concurrency_ceiling,
    parse_percentile_file,
    parse_report,
    parse_request_times,
)
from bench.load.outcome import Load, Outcome
from bench.records.figures import AbFigures
from bench.records.workloads import FORM

KEPT_PERCENTILES = ("50", "66", "75", "80", "90", "95", "98", "99", "100")


START_SECONDS = 0.03
"""The part of the measured run time in which ab cannot run: its start, and half of the interval in
which we check for its end."""


@dataclass(frozen=True, kw_only=True)
class AbOutcome(Outcome):
    """The outcome of a load by ab."""

    figures: AbFigures | None
    completed: int | None
    """Requests completed, also when there are no figures; None if ab did not say."""


def command(load: Load, folder: Path) -> list[str]:
    """Return ab's command line for a load; ab writes its data into `folder`.

    Without -r, ab stops at the first connection that breaks and prints the error. With -r it
    continues and exits with status 0 even if there is no server.

    Without -l, ab counts a response as failed if it is not as long as the first one. Only so does
    it detect a connection that was closed early, so -l is used only if lengths may differ.
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


def run(
    load: Load,
    cpus: Sequence[int],
    watch: SignalWatch,
    meanwhile: Callable[[], None] | None = None,
) -> AbOutcome:
    """Run ab to its end, or to the load's timeout, calling `meanwhile` several times a second.
    May raise Interrupted; ab has ended then, too."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-ab-") as name:
        folder = Path(name)
        if load.form is not None:
            (folder / "form").write_text(load.form)
        words = command(load, folder)
        ran = run_measured(words, cpus, load.timeout, watch, meanwhile, START_SECONDS)
        came = outcome(ran.child, load, not ran.in_time, folder)
        return replace(came, wall_seconds=ran.wall_seconds, cpu=ran.cpu, demand=ran.demand)


def outcome(child: Child, load: Load, timed_out: bool, folder: Path) -> AbOutcome:
    """Return the outcome from the output and the files of an ab that has ended."""
    report = child.stdout
    figures = parse_report(report)
    precise = parse_percentile_file(_text(folder / "percentiles.csv"))
    if figures and precise:
        figures.percentiles_ms = {p: precise[p] for p in KEPT_PERCENTILES if p in precise}
    completed = figures.complete if figures else completed_before_abort(report)
    return AbOutcome(
        command=command(load, Path()),  # without the temporary folder
        status=child.exit_status,
        timed_out=timed_out,
        figures=figures,
        completed=completed,
        message=abort_message(child.stderr),
        report=report,
        latency=latency_from(precise, parse_request_times(_text(folder / "requests.tsv"))),
    )


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def require_ab() -> None:
    """Raise UserError unless ab is installed."""
    require("ab (Apache Bench)", shutil.which("ab"), "bench")


def version() -> str | None:
    """Return ab's name and version, without its copyright; None if it is not installed."""
    said = first_line(["ab", "-V"])
    return said.removeprefix("This is ").split(" <")[0] if said else None


def concurrency_ceiling() -> int | None:
    """Return the highest concurrency of this ab: often 20,000, in some builds more. None: unknown.

    ab prints its limit if a higher one is requested; it does not connect.
    """
    absurd = "2000000000"
    said = subprocess.run(
        ["ab", "-n", absurd, "-c", absurd, "http://127.0.0.1:1/"], capture_output=True, text=True
    )
    return parse_concurrency_ceiling(said.stderr)
