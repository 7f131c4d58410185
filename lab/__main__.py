# SPDX-License-Identifier: MIT
"""The commands of `scripts/lab` and `zerohttpd lab`, and the table of hosts for `status`. The code
needs no installed package."""

import argparse
import os
import shlex
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from lab import host, keeper, kernel, limits, plan, remains, state
from lab.kernel import in_words
from lab.plan import LabError, LabHost
from lab.state import Known


def run(words: Sequence[str]) -> int:
    """Run the command in the arguments. Return the exit status."""
    options, unknown = _parser().parse_known_args(words)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        plan.check_name(options.name)
        if options.needs_root and os.geteuid() != 0:
            line = shlex.join([str(state.PROJECT / "scripts/lab"), *words])
            raise LabError(f"this command needs root; type:  sudo {line}")
        if options.needs_root and remains.inside_a_lab():
            raise LabError("this is a host of a lab; run the command on the machine itself")
        if options.needs_root and kernel.in_a_chroot():
            raise LabError(
                "this is a chroot: a command on a host would leave the chroot and see the "
                "machine's own files. Use a container with its own root (pivot_root), or no chroot"
            )
        return int(options.run(options))
    except (LabError, OSError) as error:
        print(f"lab: {in_words(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _up(options: argparse.Namespace) -> int:
    os.umask(0o022)
    keeper.up(options.name, options.servers, options.delay, options.rate, options.share)
    show(options.name)
    name = plan.name_option(options.name)
    inventory = state.folder_of(options.name) / "inventory.ini"
    print(f"""
scripts/lab ssh{name} zerohttpd         open a shell on a host
make bench HOSTS={inventory if name else "lab"}
sudo scripts/lab down{name}             end the lab""")
    return 0


def _down(options: argparse.Namespace) -> int:
    with state.locked():
        killed = remains.clear(options.name)
    done = "nothing to remove" if killed is None else f"removed ({killed} processes ended)"
    print(f"lab '{options.name}': {done}")
    return 0


def _exec(options: argparse.Namespace) -> int:
    """Run a command in all namespaces and limits of a host. Return its exit status."""
    if not options.command:
        raise LabError("exec: no command given; e.g. scripts/lab exec zerohttpd ps")
    known = _find(options)
    identity = known.hosts[options.host]
    descriptor = os.pidfd_open(identity.pid) if identity.alive else -1
    if descriptor < 0 or not identity.alive:
        see = f"scripts/lab status{plan.name_option(options.name)}"
        raise LabError(f"host '{options.host}' is down; see {see}")
    folder = Path.cwd()
    cpu = next(each.cpu for each in known.plan.hosts if each.name == options.host)
    # Enter the UTS namespace first: `down` finds a lab's processes by the namespace's mark.
    kernel.enter(descriptor, kernel.NEW_HOST_NAME)
    limits.join(known.groups[options.host], cpu)
    kernel.enter(descriptor, host.NEW | kernel.NEW_PROCESSES)
    pid = os.fork()
    if pid == 0:
        _become(folder, options.command, known.roots[options.host])
    # Ctrl-C sends SIGINT to this process and to the command, but only the command must react.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def _ssh(options: argparse.Namespace) -> NoReturn:
    """Replace this process by ssh to a host, over the network."""
    _find(options)
    config = state.folder_of(options.name) / "ssh_config"
    os.execvp("ssh", ["ssh", "-F", str(config), options.host, *options.command])


def _find(options: argparse.Namespace) -> Known:
    """Return the state of a lab. Raise LabError if the lab is not up or lacks the named host."""
    known = state.load(options.name)
    if known is None or not known.keeper.alive:
        make = f"scripts/lab up{plan.name_option(options.name)}"
        raise LabError(f"no lab '{options.name}' is up; to make one: sudo {make}")
    if options.host not in known.hosts:
        raise LabError(f"no host '{options.host}' in the lab; hosts: {', '.join(known.hosts)}")
    return known


def _become(folder: Path, command: list[str], root: int) -> NoReturn:
    try:
        kernel.die_with_parent(signal.SIGKILL)
        if host.root_device() != root:
            print("lab: `/` is not the host's root; the command was not run", file=sys.stderr)
            os._exit(127)
        # Keep the working directory if it exists on the host.
        os.chdir(folder if folder.is_dir() else "/root")
        host.restore_signals()
        os.execvp(command[0], command)
    except OSError as error:
        print(f"lab: {command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(127)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Make four one-core hosts on this machine. See docs/how-to/several-hosts.md.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, needs_root: bool, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(parser=one, run=run, needs_root=needs_root)
        one.add_argument("--name", default=plan.DEFAULT_NAME, help="lab's name (default: default)")
        return one

    make = command("up", _up, True, "Make the hosts: load, nginx, zerohttpd, redis.")
    make.add_argument(
        "--servers", type=int, default=1, metavar="N", help="make N server hosts (default 1)"
    )
    make.add_argument("--delay", metavar="TIME", help="delay each sent packet, e.g. by 0.2ms")
    make.add_argument("--rate", metavar="RATE", help="limit each host's sending, e.g. to 1gbit")
    make.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="HOST=PERCENT",
        help="limit a host to PERCENT of its CPU (may be given several times)",
    )
    command("down", _down, True, "End the hosts and remove the lab, also after a failure.")
    command("status", lambda options: not show(options.name), False, "Show the hosts.")
    for name, run, needs_root, text in (
        ("exec", _exec, True, "Run a command on a host, without the network."),
        ("ssh", _ssh, False, "Open a shell or run a command on a host over ssh."),
    ):
        one = command(name, run, needs_root, text)
        one.add_argument("host", metavar="HOST")
        one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


HEAD = ("HOST", "ADDRESS", "CPU", "SHARE", "LIMITED BY", "SSHD", "UP SINCE", "PROCESSES")


def show(name: str) -> bool:
    """Print the table of a lab's hosts. Return whether the keeper and all hosts are up."""
    known = state.load(name)
    if known is None:
        others = [other for other in state.labs() if other != name]
        hint = f"; there is: {', '.join(others)}" if others else ""
        raise LabError(f"no lab '{name}' is up{hint}")
    rows = [HEAD, *(_row(known, host) for host in known.plan.hosts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    for remark in _remarks(known):
        print(remark)
    return known.keeper.alive and all(one.alive for one in known.hosts.values())


def _row(known: Known, host: LabHost) -> tuple[str, ...]:
    identity = known.hosts[host.name]
    alive = identity.alive
    share = f"{host.share} %" if host.share else "all of it"
    return (
        host.name,
        host.address,
        str(host.cpu),
        share if known.groups[host.name] else "not limited",
        known.limited_by,
        str(identity.pid) if alive else "-",
        time.strftime("%H:%M:%S", time.localtime(known.since)) if alive else "down",
        str(len(_family(identity.pid))) if alive else "0",
    )


def _remarks(known: Known) -> Iterator[str]:
    """Yield facts that the table lacks, and the reasons why hosts may get less CPU time."""
    hosts = known.plan.hosts
    if known.limited_reason and any(host.share for host in hosts):
        yield f"Each host has one CPU; the shares do not apply: {known.limited_reason}."
    asked = (("delay", known.plan.delay), ("rate", known.plan.rate))
    link = ", ".join(f"{what} {much}" for what, much in asked if much)
    if link:
        yield f"Applied to the packets that each host sends: {link}."
    if known.read_only:
        yield f"Read-only on the hosts: {', '.join(known.read_only)}"
    if known.unseen:
        yield f"Not visible on the hosts: {', '.join(known.unseen)}"
    servers = Counter[int]()
    for one in hosts:
        if one.group == "zerohttpd" and one.share and known.groups[one.name]:
            servers[one.cpu] += one.share
    for cpu, percent in servers.items():
        if percent > 100:
            yield (
                f"Warning: the shares of the servers on CPU {cpu} add up to {percent} %: under "
                "load no server gets its whole share."
            )
    for name in sorted({*state.labs()} - {known.plan.name}):
        with suppress(LabError):  # only root may read the lab of another user
            other = state.load(name)
            if other and other.keeper.alive:
                both = {host.cpu for host in hosts} & {host.cpu for host in other.plan.hosts}
                if both:
                    numbers = ", ".join(map(str, sorted(both)))
                    yield f"Warning: the lab '{name}' uses the same CPUs: {numbers}."


def _family(pid: int) -> list[int]:
    """Return the PIDs of a process and all its descendants. Root is not needed."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):  # "*/stat" would fail if a process ends meanwhile
        with suppress(OSError):  # the process has ended
            children[int(state.stat_of(folder.name)[1])].append(int(folder.name))
    family = [pid]
    for one in family:  # the loop also visits the PIDs that it adds
        family += children[one]
    return family


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
