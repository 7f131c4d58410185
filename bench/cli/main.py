"""The command line: `python -m bench SUBCOMMAND`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.sweep.arguments import add_plan, chosen_options, positive, words

if TYPE_CHECKING:
    pass

USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit status. 2: something stands in the way that the user can mend."""
    try:
        options = parser().parse_args(arguments)
        return int(options.function(options))
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return USAGE_ERROR


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="python -m bench", description="Measure the servers.")
    subcommands = top.add_subparsers(required=True, metavar="SUBCOMMAND")

    def subcommand(name: str, what: str) -> argparse.ArgumentParser:
        # Whole words only: `--redi=URL` would be kept in the results with its password.
        return subcommands.add_parser(name, help=what, allow_abbrev=False)

    _add_sweep(subcommand("sweep", "every server at every concurrency"))
    _add_doctor(subcommand("doctor", "what stands in the way, and its cure"))
    _add_compare(subcommand("compare", "two sweeps side by side"))
    _add_capacity(subcommand("capacity", "what 4, 40, 400 such hosts carry"))
    _add_serve(subcommand("serve", "one server, to look at in a browser"))
    return top


def _add_sweep(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Start each server fresh for each concurrency of a ladder, run ab against it, check that "
        "every request completed, and keep the figures, a table and a chart in results/. "
        "Exit status: 0 all cells hold, 1 some do not, 2 could not begin, 130 after Ctrl-C."
    )
    add_plan(sub)
    file = "run on the hosts that this file names; see bench/stations/hosts.py (default: here)"
    sub.add_argument("--hosts", type=Path, metavar="FILE", help=file)
    where = "a folder for each sweep is made in it (results/)"
    sub.add_argument("--results", type=Path, default=ROOT / "results", metavar="DIR", help=where)
    sub.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="make the runs that are missing in an unfinished sweep (the latest); "
        "all other options are those of that sweep",
    )
    sub.set_defaults(function=_sweep)


def _add_doctor(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Say of this machine what is, what the chosen runs need, and the command that cures it; "
        "change nothing. Takes the options of `sweep`. "
        "Exit status: 0 all is well, 1 something is not."
    )
    add_plan(sub)
    sub.set_defaults(function=_doctor)


def _add_compare(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Show two sweeps side by side, and what changed beyond the noise of both. "
        "Exit status: 0 nothing did, 1 something did."
    )
    for name in ("before", "after"):
        sub.add_argument(name, type=Path, help="a results.json, or the folder that holds it")
    sub.set_defaults(function=_compare)


def _add_capacity(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Work out from a sweep through nginx what one-core hosts carry, and who ends it; hold it "
        "against what the sweep measured with several instances. docs/scaling.md explains it."
    )
    sub.add_argument("results", type=Path, help="a results.json, or the folder that holds it")
    sub.add_argument("--fleets", metavar="N,N", default="4,40,400", help="hosts (%(default)s)")
    sub.set_defaults(function=_capacity)


def _add_serve(sub: argparse.ArgumentParser) -> None:
    sub.description = "Serve with a private Redis until Ctrl-C."
    add = sub.add_argument
    add("server", metavar="ARCH", help="iterative, ..., epoll")
    add("--port", type=port, default=8000, help="(%(default)s; 0: any free one)")
    add("--redis", metavar="URL", help="use this Redis; default: a private one, thrown away")
    sub.set_defaults(function=_serve)


def _sweep(options: argparse.Namespace) -> int:
    from bench.sweep import sweep  # noqa: PLC0415

    if options.resume is not None:
        folder = Path(options.resume or sweep.latest_unfinished(options.results))
        return sweep.resume(folder, options.redis)
    return sweep.sweep(chosen_options(options))


def _doctor(options: argparse.Namespace) -> int:
    from bench.doctor import doctor  # noqa: PLC0415
    from bench.sweep import display, sweep  # noqa: PLC0415

    chosen = chosen_options(options)
    _, runs = sweep.plan_runs(chosen)
    lines = sweep.examine(chosen, runs)
    doctor.show(lines, display.console())
    return int(any(line.state in ("warning", "impossible") for line in lines))


def _compare(options: argparse.Namespace) -> int:
    from bench.readers import compare  # noqa: PLC0415
    from bench.sweep import display  # noqa: PLC0415

    return compare.compare(options.before, options.after, display.console())


def _capacity(options: argparse.Namespace) -> int:
    from bench.readers import capacity  # noqa: PLC0415
    from bench.sweep import display  # noqa: PLC0415

    fleets = [positive(word) for word in words([options.fleets])]
    return capacity.show(options.results, fleets, display.console())


def _serve(options: argparse.Namespace) -> int:
    from bench.cli.serve import ServeOptions, serve  # noqa: PLC0415

    return serve(ServeOptions(options.server, options.port, options.redis))


def port(text: str) -> int:
    """A port number. Raises UserError."""
    if not text.isdecimal() or int(text) > 65535:
        raise UserError(f"{text!r} is not a port: 0 to 65535")
    return int(text)
