# SPDX-License-Identifier: MIT
"""The command line: `scripts/lab`, `zerohttpd lab`."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from lab import enter, kernel, plan, remains, state, status, up
from lab.errors import LabError, in_words


def run(words: Sequence[str]) -> int:
    """Do what the command line says; returns the exit status."""
    options = _parser().parse_args(words)
    try:
        plan.check_name(options.name)
        if options.needs_root and os.geteuid() != 0:
            line = shlex.join([str(state.PROJECT / "scripts/lab"), *words])
            raise LabError(f"this needs root; type:  sudo {line}")
        if options.needs_root and remains.inside_a_lab():
            raise LabError("this is a host of a lab; labs are made and ended from outside")
        if options.needs_root and kernel.in_a_chroot():
            raise LabError(
                "this is a chroot: whatever enters a host from here would land outside, among the "
                "machine's own files. Use a container with a root of its own (pivot_root), or no "
                "chroot"
            )
        return int(options.run(options))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
    except OSError as error:
        print(f"lab: {in_words(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _up(options: argparse.Namespace) -> int:
    os.umask(0o022)
    up.up(up.Wishes(options.name, options.servers, options.delay, options.rate, options.share))
    status.show(options.name)
    name = plan.name_option(options.name)
    inventory = state.folder_of(options.name) / "inventory.ini"
    print(f"""
scripts/lab ssh{name} zerohttpd         a shell on a host
make bench HOSTS={inventory if name else "lab"}
sudo scripts/lab down{name}             the end of it""")
    return 0


def _down(options: argparse.Namespace) -> int:
    with state.locked():
        removed = remains.clear(options.name)
    if any(removed):
        print(f"lab '{options.name}': gone ({removed.processes} processes ended)")
    else:
        print(f"lab '{options.name}': there is nothing of it")
    return 0


def _status(options: argparse.Namespace) -> int:
    return 0 if status.show(options.name) else 1


def _exec(options: argparse.Namespace) -> int:
    if not options.command:
        raise LabError("exec: which command?")
    return enter.run(options.name, options.host, options.command)


def _ssh(options: argparse.Namespace) -> int:
    enter.ssh(options.name, options.host, options.command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab", description="Four one-core hosts on this machine. docs/lab.md tells more."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, needs_root: bool, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(run=run, needs_root=needs_root)
        one.add_argument("--name", default=plan.DEFAULT_NAME, help="which lab (default: default)")
        return one

    make = command("up", _up, True, "Make the hosts: load, nginx, zerohttpd, redis.")
    make.add_argument("--servers", type=int, default=1, metavar="N", help="hosts for the server")
    make.add_argument("--delay", metavar="TIME", help="of every packet that a host sends: 0.2ms")
    make.add_argument("--rate", metavar="RATE", help="at which a host sends at most: 1gbit")
    make.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="HOST=PERCENT",
        help="of its CPU that a host may use (may be given several times)",
    )
    command("down", _down, True, "End the hosts and leave nothing, whatever state they are in.")
    command("status", _status, False, "Show the hosts.")
    for name, run, needs_root, text in (
        ("exec", _exec, True, "Run a command on a host, as if one sat at it."),
        ("ssh", _ssh, False, "A shell on a host, or a command, over ssh."),
    ):
        one = command(name, run, needs_root, text)
        one.add_argument("host", metavar="HOST")
        one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser
