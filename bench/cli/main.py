# SPDX-License-Identifier: MIT
"""The command line: `zerohttpd COMMAND ...`, or `python -m bench COMMAND ...` without installation.

A command is a function in a module that is imported only when the command is called. So a host that
only runs servers needs no library for charts, and `--help` starts faster.
"""

import argparse
import codecs
import errno
import importlib
import locale
import os
import re
import select
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NamedTuple

from bench.records.errors import Interrupted, NoFigure, UserError
from bench.records.inherited import forget_foreign_variables

USAGE_ERROR = 2
INTERRUPTED = 128 + signal.SIGINT
READER_LEFT = 128 + signal.SIGPIPE
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MADE_AS = {"sweep": "bench", "hosts": "bench"}
"""The make target of each command, if the names differ."""


class Command(NamedTuple):
    """A command: its module, its line in the help, and the function that receives its arguments."""

    module: str
    what: str
    function: str = "run"


COMMANDS = {
    "sweep": Command("bench.sweep.sweep", "measure every server at every concurrency"),
    "doctor": Command("bench.cli.doctor", "check this machine and print fixes"),
    "report": Command("bench.cli.report", "make an HTML page of results; check targets"),
    "compare": Command("bench.cli.report", "show what changed between two sweeps", "compared"),
    "run": Command("bench.cli.study", "measure your own study, a TOML file"),
    "measure": Command(
        "bench.cli.study", "compare with nginx, Go and baselines; check targets", "measure"
    ),
    "peers": Command("bench.cli.study", "repeat published comparisons with other servers", "peers"),
    "cost": Command("bench.cli.cost", "measure the CPU cost of a request, by part"),
    "experiment": Command(
        "bench.cli.cost", "measure a server with and without one change", "experiment"
    ),
    "torture": Command("bench.torture.command", "test the robustness of servers under attack"),
    "timeline": Command("bench.timeline.command", "show the system calls of each server in order"),
    "slides": Command("bench.book.course", "make slides and sheets; measure their figures"),
    "fault": Command("bench.faults.command", "make a copy with a fault to find, or print hints"),
    "student-copy": Command(
        "bench.faults.command", "make an archive without the answers", "student_copy"
    ),
    "new": Command("bench.cli.new", "create a folder for your own server"),
    "grade": Command("bench.grade.command", "grade a server and name its faults"),
    "grade-all": Command("bench.grade.cohort.command", "grade the submissions of a class"),
    "serve": Command(
        "bench.cli.serve", "run servers, and a live page that shows what they wait for"
    ),
    "hosts": Command("bench.deploy.command", "run a sweep over several hosts with Ansible"),
    "lab": Command("lab.__main__", "run four one-core hosts on this machine"),
}


class Renamed(NamedTuple):
    """A command of version 1.0 that is now an option. The command works until the next version."""

    command: str
    option: str
    former: str = ""  # The former option; its value becomes the value of the new option.
    default: str = ""


RENAMED = {
    "capacity": Renamed("report", "--capacity", "--fleets", "4,40,400"),
    "expected": Renamed("slides", "--expected"),
    "hint": Renamed("fault", "--hint", "--step", "1"),
    "targets": Renamed("report", "--targets"),
}
OLD_BASELINES = re.compile(r"(^|,|^--|^1-)floor(?=s$|-|$)")
"""Words of version 1.0 for baselines, which work until the next version: --floors, floor-epoll,
1-floor."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. 2: an error that the user can fix; 128 + n: signal
    n, e.g. 130 after Ctrl-C, or 141 if the reader of standard output has closed it."""
    if sys.stdout is None:  # the parent process has closed standard output
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if arguments is None:
        forget_foreign_variables()
        _begin_in_utf8()
    words = sys.argv[1:] if arguments is None else list(arguments)
    if (todays := _todays(*words)) != words:
        print(f"zerohttpd: {words[0]} is now: zerohttpd {' '.join(todays)}", file=sys.stderr)
        words = todays
    name: str = parser().parse_args(words[:1]).command
    try:
        command = COMMANDS[name]
        run = getattr(importlib.import_module(command.module), command.function)
        status = int(run(words[1:]))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:  # from a command without SignalWatch, which needs no clean-up
        return INTERRUPTED
    except Interrupted as interrupted:  # from a SignalWatch, after the command's clean-up
        return interrupted.exit_status
    except (UserError, NoFigure) as error:
        print(f"{MADE_AS.get(name, name)}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.stdout.fileno()):
            status = READER_LEFT
        elif error.errno in NO_ROOM:
            print(f"zerohttpd: cannot write: {error}", file=sys.stderr)
            status = USAGE_ERROR
        else:
            raise
        # Without this line, Python would try to write the rest of the output when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status


def _todays(*words: str) -> list[str]:
    """Return a command line with today's words in place of words of version 1.0."""
    todays = [OLD_BASELINES.sub(r"\1baseline", word) for word in words]
    if not words or words[0] not in RENAMED:
        return todays
    command, option, former, default = RENAMED[words[0]]
    todays = [re.sub(f"^{former}(?==|$)", option, word) if former else word for word in todays[1:]]
    if not any(word.startswith(option) for word in todays):
        todays.insert(0, f"{option}={default}" if default else option)
    return [command, *todays]


def _begin_in_utf8() -> None:
    """Restart Python in UTF-8 mode (PEP 540) if the locale has another encoding, because all texts
    here are UTF-8. In the C locale, Python uses UTF-8 by default."""
    utf8 = codecs.lookup(locale.getpreferredencoding(False)).name == "utf-8"
    if sys.flags.utf8_mode or not utf8:
        os.environ["PYTHONUTF8"] = "1"  # for child processes
    if not utf8:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _is_unread(pipe: int) -> bool:
    """Return whether the reader of the pipe has closed it, e.g. `| head`."""
    watched = select.poll()
    watched.register(pipe, 0)
    return any(events & select.POLLERR for _, events in watched.poll(0))


def parser() -> argparse.ArgumentParser:
    """Return the parser for the name of the command."""
    listed = "\n".join(f"  {name:<12} {command.what}" for name, command in COMMANDS.items())
    top = argparse.ArgumentParser(
        prog="zerohttpd",
        usage="zerohttpd COMMAND ...   (zerohttpd --help lists the commands)",
        description="Measure the servers. Commands (each accepts --help):\n" + listed,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=version())
    top.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    return top


def version() -> str:
    """Return the version of the installed project, or "not installed"."""
    try:
        return metadata.version("zerohttpd-seven")
    except metadata.PackageNotFoundError:
        return "not installed"
