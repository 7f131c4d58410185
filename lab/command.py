# SPDX-License-Identifier: MIT
"""The command line of `scripts/lab` and `zerohttpd lab`."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from lab import enter, kernel, plan, remains, state, status, up
from lab.errors import LabError, in_words


def run(words: Sequence[str]) -> int:
    """Run the command of these arguments. Return the exit status."""
    options = _parser().parse_args(words)
    try:
        plan.check_name(options.name)
        if options.needs_root and os.geteuid() != 0:
            line = shlex.join([str(state.PROJECT / "scripts/lab"), *words])
            raise LabError(f"this command needs root; type:  sudo {line}")
        if options.needs_root and remains.inside_a_lab():
            raise LabError("this is a host of a lab; run the command on the machine itself")
        if options.needs_root and kernel.in_a_chroot():
            raise LabError(
                "this is a chroot: a command on a host would leave it and see the machine's own "
                "files. Use a container with its own root (pivot_root), or no chroot"
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
scripts/lab ssh{name} zerohttpd         open a shell on a host
make bench HOSTS={inventory if name else "lab"}
sudo scripts/lab down{name}             end the lab""")
    return 0


def _down(options: argparse.Namespace) -> int:
    with state.locked():
        removed = remains.clear(options.name)
    if any(removed):
        print(f"lab '{options.name}': removed ({removed.processes} processes ended)")
    else:
        print(f"lab '{options.name}': nothing to remove")
    return 0


def _status(options: argparse.Namespace) -> int:
    return 0 if status.show(options.name) else 1


def _exec(options: argparse.Namespace) -> int:
    if not options.command:
        raise LabError("exec: no command given; e.g. scripts/lab exec zerohttpd ps")
    return enter.run(options.name, options.host, options.command)


def _ssh(options: argparse.Namespace) -> int:
    enter.ssh(options.name, options.host, options.command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Make four one-core hosts on this machine. See docs/how-to/several-hosts.md.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, needs_root: bool, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(run=run, needs_root=needs_root)
        one.add_argument("--name", default=plan.DEFAULT_NAME, help="lab's name (default: default)")
        return one

    make = command("up", _up, True, "Make the hosts: load, nginx, zerohttpd, redis.")
    make.add_argument(
        "--servers", type=int, default=1, metavar="N", help="make N server hosts (default 1)"
    )
    make.add_argument("--delay", metavar="TIME", help="delay each sent packet, e.g. by 0.2ms")
    make.add_argument("--rate", metavar="RATE", help="limit what each host sends, e.g. to 1gbit")
    make.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="HOST=PERCENT",
        help="limit a host to PERCENT of its CPU (may be given several times)",
    )
    command("down", _down, True, "End the hosts and remove everything, also after a failure.")
    command("status", _status, False, "Show the hosts.")
    for name, run, needs_root, text in (
        ("exec", _exec, True, "Run a command on a host, without the network."),
        ("ssh", _ssh, False, "Open a shell or run a command on a host over ssh."),
    ):
        one = command(name, run, needs_root, text)
        one.add_argument("host", metavar="HOST")
        one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser
