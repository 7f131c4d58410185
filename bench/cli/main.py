# SPDX-License-Identifier: MIT
"""The command line: `zerohttpd COMMAND ...`, and `python -m bench COMMAND ...` where it is not
installed.

A command is a module with a function `run`, named here and loaded when it is asked for: a host that
runs servers only has no library for charts, and `--help` need not wait for one.
"""

import argparse
import codecs
import errno
import importlib
import locale
import os
import select
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NamedTuple

from bench.records.errors import Interrupted, UserError
from bench.records.inherited import forget_foreign_variables

USAGE_ERROR = 2
INTERRUPTED = 128 + signal.SIGINT
NOBODY_READS = 128 + signal.SIGPIPE
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MADE_AS = {"sweep": "bench", "hosts": "bench"}
"""The target of make that runs a command, where it has another name."""
DISTRIBUTION = "zerohttpd-seven"


class Command(NamedTuple):
    """A command: the module whose `run` takes the words behind its name, and what it does."""

    module: str
    what: str


COMMANDS = {
    "sweep": Command("bench.sweep.sweep", "every server at every concurrency"),
    "doctor": Command("bench.cli.doctor", "what stands in the way, and its cure"),
    "report": Command("bench.cli.report", "one HTML page of a sweep's results"),
    "compare": Command("bench.cli.compare", "two sweeps side by side"),
    "capacity": Command("bench.cli.capacity", "what 4, 40, 400 such hosts carry"),
    "measure": Command("bench.cli.measure", "what a request costs, against nginx, Go, floors"),
    "targets": Command("bench.cli.targets", "whether stored results meet the targets"),
    "peers": Command("bench.cli.peers", "what people would use instead, then and now"),
    "cost": Command("bench.cli.cost", "where the microseconds of a request go"),
    "experiment": Command(
        "bench.cli.experiment", "a server as it is, and with one thing otherwise"
    ),
    "torture": Command("bench.torture.command", "what visitors get while a server is attacked"),
    "timeline": Command("bench.timeline.command", "what each server does, call by call"),
    "book": Command("bench.book.command", "the annotated source as pages"),
    "slides": Command("bench.book.course", "slides and sheets of the course"),
    "expected": Command("bench.cli.expected", "the figures of the course's sheets, here"),
    "fault": Command("bench.faults.give", "a copy with a fault in it, to be found"),
    "hint": Command("bench.faults.hint", "a hint to such a fault, or the answer"),
    "new": Command("bench.cli.new", "a folder for a server of your own"),
    "grade": Command("bench.grade.command", "what a server can do, and what stands in the way"),
    "serve": Command("bench.cli.serve", "one server, to look at in a browser"),
    "hosts": Command("bench.deploy.command", "a sweep over several hosts, prepared by Ansible"),
    "lab": Command("lab.command", "four one-core hosts on this machine"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. 2: something stands in the way that the user can mend; 130:
    Ctrl-C, 128 + n: signal n; 141: nobody reads any more what it prints."""
    if sys.stdout is None:  # whoever started us has closed it: nobody wants to read
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if arguments is None:
        forget_foreign_variables()
        _begin_in_utf8()
    words = sys.argv[1:] if arguments is None else list(arguments)
    name: str = parser().parse_args(words[:1]).command
    try:
        run = importlib.import_module(COMMANDS[name].module).run
        status = int(run(words[1:]))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:  # where nobody watches for it there is nothing to put away
        return INTERRUPTED
    except Interrupted as interrupted:  # where somebody does, it has been put away
        return interrupted.exit_status
    except UserError as error:
        print(f"{MADE_AS.get(name, name)}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.stdout.fileno()):
            status = NOBODY_READS
        elif error.errno in NO_ROOM:
            print(f"zerohttpd: cannot write: {error}", file=sys.stderr)
            status = USAGE_ERROR
        else:
            raise
        # Python shall not try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status


def _begin_in_utf8() -> None:
    """All texts here are UTF-8, and all that is made of them. Python reads and writes as the locale
    says, but for a word at its start (PEP 540; with the locale C it does so itself)."""
    utf8 = codecs.lookup(locale.getpreferredencoding(False)).name == "utf-8"
    if sys.flags.utf8_mode or not utf8:
        os.environ["PYTHONUTF8"] = "1"  # for the processes that are started from here
    if not utf8:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _is_unread(pipe: int) -> bool:
    """Whether whoever read from it has gone: `| head` has seen enough."""
    watched = select.poll()
    watched.register(pipe, 0)
    return any(events & select.POLLERR for _, events in watched.poll(0))


def parser() -> argparse.ArgumentParser:
    """The first word of the command line."""
    listed = "\n".join(f"  {name:<10} {command.what}" for name, command in COMMANDS.items())
    top = argparse.ArgumentParser(
        prog="zerohttpd",
        usage="zerohttpd COMMAND ...",
        description="Measure the servers. Commands (each takes --help):\n" + listed,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=version())
    top.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    return top


def version() -> str:
    """The project's, from pyproject.toml."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "not installed"
