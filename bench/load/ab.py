# SPDX-License-Identifier: MIT
"""Running Apache Bench.

What its failures mean is not what its words say (seen in the source of version 2.4.54):

- "Length" is also a connection that ab opened and never used. Near the end it opens one for each
  that ends, until all requests are written; those left over say nothing. A server closes them when
  their time is over, and each then takes the place of a request that is still under way. It takes a
  tail of many seconds: an accept queue that overflows, workers that wait for silent clients.
- "Exceptions" are connections that were reset while ab had not read everything. It forgets their
  requests, which it has counted as begun: without others that fail it waits for them in vain.
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
"""Of the time between its start and the moment at which we notice its end ab itself has no use for
so long: its start, and half of our waiting."""


@dataclass(frozen=True, kw_only=True)
class AbOutcome(Outcome):
    """What came of a load by ab."""

    figures: AbFigures | None
    completed: int | None
    """Requests completed, also when there are no figures; None if ab did not say."""


def command(load: Load, folder: Path) -> list[str]:
    """ab's command line for a load; it writes its data into `folder`.

    Without -r: ab then stops at the first connection that breaks and says which error it was. With
    -r it goes on and ends with status 0 even if there is no server at all.

    Without -l, unless lengths are known to differ: ab counts a response that is not as long as the
    first one as failed, and that is the only thing by which it notices a connection that was
    closed before the response was whole, or before it began. -l switches that off.
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
    May raise Interrupted; ab is gone then too."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-ab-") as name:
        folder = Path(name)
        if load.form is not None:
            (folder / "form").write_text(load.form)
        words = command(load, folder)
        ran = run_measured(words, cpus, load.timeout, watch, meanwhile, START_SECONDS)
        came = outcome(ran.child, load, not ran.in_time, folder)
        return replace(came, wall_seconds=ran.wall_seconds, cpu=ran.cpu, demand=ran.demand)


def outcome(child: Child, load: Load, timed_out: bool, folder: Path) -> AbOutcome:
    """Put together what an ended ab left."""
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
    """ab's own name and version, without its copyright; None if it is not installed."""
    said = first_line(["ab", "-V"])
    return said.removeprefix("This is ").split(" <")[0] if said else None


def concurrency_ceiling() -> int | None:
    """The highest concurrency this ab takes: 20,000 in many builds, more in some. None: unknown.

    It names its limit when asked for more; nothing is connected to.
    """
    absurd = "2000000000"
    said = subprocess.run(
        ["ab", "-n", absurd, "-c", absurd, "http://127.0.0.1:1/"], capture_output=True, text=True
    )
    return parse_concurrency_ceiling(said.stderr)
