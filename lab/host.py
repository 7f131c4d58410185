# SPDX-License-Identifier: MIT
"""Turn a process into a host: set up namespaces, limits, files and a name, then execute sshd. The
host has no default route, so no packet leaves the lab.

sshd is the first process of the host's PID namespace, so all processes of the host end with sshd.
sshd also reaps orphans.
"""

import os
import resource
import signal
import socket
import subprocess
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lab import files, kernel, limits, state
from lab.plan import LabError, LabHost, LabPlan, bits_per_second

NEW = kernel.NEW_MOUNTS | kernel.NEW_HOST_NAME | kernel.NEW_IPC | kernel.NEW_NETWORK
DESCRIPTORS = 65_536
SHELL_START = (".bashrc", ".bash_profile", ".bash_login", ".profile")
"""Start-up files of root's shell. A host does not have these files, because shells that ssh starts
would run them. With 20 % of a CPU that can take a second, e.g. for version managers."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SETTINGS = Path("/run/zerohttpd-lab")
"""The folder on a host for the files of the host's sshd."""

SSHD_CONFIG = f"""\
# The host has the machine's accounts. sshd accepts keys only, no passwords and no PAM.
Port 22
HostKey {SETTINGS}/host_key
AuthorizedKeysFile {SETTINGS}/authorized_keys .ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxSessions 200
MaxStartups 200
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
PidFile none
"""


def become(plan: LabPlan, host: LabHost, groups: list[str], keeper: Connection) -> NoReturn:
    """Turn this process, the first of a new PID namespace, into the host.

    Send `keeper` the PID that the process has outside of the lab, and wait for the answer; then
    eth0 exists. Just before the start of sshd, send the root's device and the read-only folders.
    """
    os.setsid()
    limits.join(groups, host.cpu)
    kernel.unshare(NEW)
    socket.sethostname(host.name)
    kernel.set_domain(state.mark_of(plan.name))
    keeper.send(kernel.number_outside())
    keeper.recv()
    _ip("link set lo up", f"address add {host.address}/24 dev eth0", "link set eth0 up")
    shape(plan.delay, plan.rate)

    key = state.host_key(plan, host).read_text()
    public = Path(plan.folder, "key.pub").read_text()
    log = os.open(Path(plan.folder, f"{host.name}.log"), os.O_WRONLY | os.O_CREAT, 0o644)
    carried = files.view(plan).carried
    stage = f"{plan.folder}/stage"
    root = files.make_root(stage)
    _change_root(root)
    read_only = files.fill_root(stage, groups, carried)
    kernel.detach(files.MACHINE)
    files.MACHINE.rmdir()
    _settle(plan, host, key, public)
    keeper.send((root_device(), read_only))
    _start_sshd(log)


def root_device() -> int:
    """Return the device of `/` (stat(2)), which is different for each host's overlay."""
    return Path("/").stat().st_dev


def _change_root(root: Path) -> None:
    """Make the folder the root of this mount namespace, and move the old root into /run."""
    old = root / files.MACHINE.relative_to("/")
    kernel.run(["pivot_root", root, old])
    os.chdir("/")


def _settle(plan: LabPlan, host: LabHost, key: str, public: str) -> None:
    """Write the host's files that must differ from the machine's files."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{each.address} {each.name}" for each in plan.hosts]
    _replace(Path("/etc/hosts"), "\n".join(lines) + "\n")
    _replace(Path("/etc/hostname"), host.name + "\n")
    _unlock_root(Path("/etc/shadow"))
    for name in SHELL_START:
        with suppress(OSError):
            Path("/root", name).unlink()
    Path("/run/lock").mkdir()
    Path("/run/lock").chmod(0o1777)
    Path("/run/sshd").mkdir(mode=0o755)
    SETTINGS.mkdir(mode=0o755)
    (SETTINGS / "host_key").touch(mode=0o600)
    (SETTINGS / "host_key").write_text(key)
    (SETTINGS / "authorized_keys").write_text(public)
    (SETTINGS / "sshd_config").write_text(SSHD_CONFIG)


def _replace(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    file.write_text(text)


def _unlock_root(shadow: Path) -> None:
    """Make root's password "*", because sshd without PAM rejects a locked account ("!")."""
    if not shadow.exists():
        return
    lines = shadow.read_text().splitlines()
    kept = ["root:*:19000:0:99999:7:::" if line.startswith("root:") else line for line in lines]
    shadow.write_text("\n".join(kept) + "\n")


def _start_sshd(log: int) -> NoReturn:
    # Set the limits here: without PAM, each login inherits them from sshd.
    hard = max(resource.getrlimit(resource.RLIMIT_NOFILE)[1], DESCRIPTORS)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    except (OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    restore_signals()
    write_to(log)
    command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(SETTINGS / "sshd_config")]
    os.execve(command[0], command, {"PATH": PATH})


def write_to(log: int) -> None:
    """Redirect the standard output and error of this process to `log`; make its input empty."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    for number, descriptor in enumerate((nothing, log, log)):
        os.dup2(descriptor, number)


def restore_signals() -> None:
    """Restore the default actions of signals, because programs inherit ignored signals."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


# ---- The network: a bridge and a pair of virtual interfaces for each host (ip(8), tc(8)) ----

SWITCH_NUMBER = 254


def make_switch(plan: LabPlan) -> None:
    """Make the bridge, with the keeper's address, in the keeper's network namespace."""
    _ip(
        "link set lo up",
        "link add br0 type bridge",
        f"address add {plan.network}.{SWITCH_NUMBER}/24 dev br0",
        "link set br0 up",
    )


def connect(host: str, pid: int) -> None:
    """Connect the bridge to the network namespace of a process, and make eth0 there.

    `pid`: the PID that the process has in the PID namespace of /proc.
    """
    # Use the path, because versions of ip interpret a PID differently: old versions in their own
    # PID namespace, versions since 2025 in the PID namespace of /proc.
    _ip(
        f"link add {host} type veth peer name eth0 netns /proc/{pid}/ns/net",
        f"link set {host} master br0 up",
    )


def shape(delay: str | None, rate: str | None) -> None:
    """Delay the packets that eth0 sends in a host's network namespace, and limit their rate."""
    parent = "root"
    if delay:
        # A shorter queue could not hold all delayed packets, and would drop some.
        _tc("--delay", "netem", f"root handle 1: netem delay {delay} limit 100000")
        parent = "parent 1:1"
    if rate:
        # A burst must allow at least two of the kernel's largest packets (64 KB).
        burst = max(131_072, bits_per_second(rate) // 8 // 250)
        _tc("--rate", "tbf", f"{parent} handle 2: tbf rate {rate} burst {burst} latency 50ms")


def _ip(*commands: str) -> None:
    kernel.run(["ip", "-batch", "-"], "\n".join(commands) + "\n", f"ip {commands[0]} ...")


def _tc(option: str, kind: str, rest: str) -> None:
    words = ["tc", "qdisc", "add", "dev", "eth0", *rest.split()]
    done = subprocess.run(words, capture_output=True, text=True)
    if "kind is unknown" in done.stderr or "qdisc not found" in done.stderr:
        raise LabError(
            f"{option}: {kind} is not available in this kernel (module sch_{kind}); omit {option}"
        )
    if done.returncode != 0:
        raise LabError(f"{option}: tc: {kernel.first_line(done.stderr)}")
