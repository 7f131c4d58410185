# SPDX-License-Identifier: MIT
"""Turn a process into a host: set up namespaces, limits, files and a name, then execute sshd. The
host has no default route, so no packet leaves the lab.

sshd is the first process of the host's PID namespace, so all processes of the host end with sshd.
sshd also reaps orphans.
"""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lab import kernel, limits, state
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


def become(
    plan: LabPlan, host: LabHost, groups: list[str], carried: list[str], keeper: Connection
) -> NoReturn:
    """Turn this process, the first of a new PID namespace, into the host. `carried`: the mounts
    that the host gets.

    Just before the start of sshd, send `keeper` the PID that the process has outside of the lab,
    the device of the root, and the read-only folders.
    """
    os.setsid()
    limits.join(groups, host.cpu)
    outside, switch = kernel.number_outside(), os.open("/proc/self/ns/net", os.O_RDONLY)
    kernel.unshare(NEW)
    socket.sethostname(host.name)
    kernel.set_domain(state.mark_of(plan.name))
    # Different versions of ip interpret a PID differently, so `netns` gets a path.
    _ip(
        "link set lo up",
        f"link add eth0 type veth peer name {host.name} netns /proc/{outside}/fd/{switch}",
        f"address add {host.address}/24 dev eth0",
        "link set eth0 up",
    )
    shape(plan.delay, plan.rate)

    key = state.host_key(plan, host).read_text()
    public = Path(plan.folder, "key.pub").read_text()
    log = os.open(Path(plan.folder, f"{host.name}.log"), os.O_WRONLY | os.O_CREAT, 0o644)
    read_only = _change_files(f"{plan.folder}/stage", groups, carried)
    _settle(plan, host, key, public)
    keeper.send((outside, root_device(), read_only))
    _start_sshd(log)


def root_device() -> int:
    """Return the device of `/` (stat(2)), which is different for each host's overlay."""
    return Path("/").stat().st_dev


def _settle(plan: LabPlan, host: LabHost, key: str, public: str) -> None:
    """Write the host's files that must differ from the machine's files."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{each.address} {each.name}" for each in plan.hosts]
    for file, text in (("/etc/hosts", "\n".join(lines)), ("/etc/hostname", host.name)):
        Path(file).unlink(missing_ok=True)
        Path(file).write_text(f"{text}\n")
    shadow = Path("/etc/shadow")
    if shadow.exists():
        # sshd without PAM rejects a locked account ("!"), so root's password becomes "*".
        unlocked = "root:*:19000:0:99999:7:::"
        shadow.write_text(re.sub(r"^root:.*", unlocked, shadow.read_text(), flags=re.MULTILINE))
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


def connect(hosts: Sequence[LabHost]) -> None:
    """Connect the hosts' interfaces, in the keeper's network namespace, to the bridge."""
    _ip(*(f"link set {host.name} master br0 up" for host in hosts))


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


# ---- Files: a read-only view of the machine's files with a private layer for changes ----
#
# The view and the layer are an overlay: a host reads the machine's files, and its first write to a
# file makes a copy in memory that only this host sees. An overlay covers one file system without
# its submounts, so each file system that hosts need has its own overlay.

LAYER_SIZE = "2g"
"""The limit of a host's changes to the machine's files. Only written data use memory."""
TEMPORARY_SIZE = "1g"

MACHINE = Path("/run/machine")
"""The mount point of the machine's root while a host is being set up."""

SYSTEM_FOLDERS = (
    *("/etc", "/home", "/opt", "/root", "/srv", "/usr", "/usr/local"),
    *("/var", "/var/cache", "/var/lib", "/var/log"),
)

OWN = ("/dev", "/proc", "/run", "/sys", "/tmp")
"""Each host has its own instance of these folders."""

FILE_SYSTEMS = ("btrfs", "exfat", "ext", "f2fs", "fuseblk", "nfs", "ntfs", "vfat", "xfs", "zfs")
"""The types of file systems that store files on a disk or a server begin with these words. `status`
lists mounts of these types that are missing on hosts."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def mounts_of(plan: LabPlan) -> tuple[list[str], list[str]]:
    """Return this machine's mounts that a host gets in addition to `/`, and those that are not
    visible there."""
    python = (os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix))
    needed = (*SYSTEM_FOLDERS, plan.project, plan.home, *python)
    found = ((str(path), kind) for path, kind, _ in kernel.mounts())
    mounts = {path: kind for path, kind in found if path != "/" and _is_plain(path)}
    carried = {path for path in mounts if any(Path(one).is_relative_to(path) for one in needed)}
    if not _is_plain(plan.project):
        # A host has its own folders OWN, so a project in one of them, e.g. /tmp, must be added.
        carried.add(plan.project)
    stored = {path for path, kind in mounts.items() if kind.startswith(FILE_SYSTEMS)}
    return sorted(carried), sorted(filter(os.path.isdir, stored - carried))


def _is_plain(path: str) -> bool:
    return not any(Path(path).is_relative_to(own) for own in OWN)


def _change_files(stage: str, groups: list[str], carried: list[str]) -> list[str]:
    """Change this mount namespace to the host's files. Return the read-only folders."""
    kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("tmpfs", stage, "tmpfs", options=f"size={LAYER_SIZE},mode=755")
    root = Path(stage, "root")
    root.mkdir()
    _overlay("/", root, Path(stage))
    _tmpfs(root / "run", "size=64m,mode=755")
    old = root / MACHINE.relative_to("/")
    old.mkdir()
    kernel.run(["pivot_root", root, old])
    os.chdir("/")
    kernel.mount("proc", "/proc", "proc", kernel.NO_SET_UID | kernel.NO_DEVICES | kernel.NO_EXEC)
    kernel.bind("/proc/sys", "/proc/sys", kernel.READ_ONLY)
    kernel.bind("/proc/sys/net", "/proc/sys/net")  # writable: the host has its own network
    kernel.mount("sysfs", "/sys", "sysfs", kernel.READ_ONLY | kernel.NO_SET_UID | kernel.NO_EXEC)
    _show_groups(groups)
    _make_devices()
    _tmpfs("/tmp", f"size={TEMPORARY_SIZE},mode=1777")
    read_only = []
    for folder in carried:
        Path(folder).mkdir(parents=True, exist_ok=True)
        lower = MACHINE / folder.lstrip("/")
        try:
            _overlay(str(lower), folder, MACHINE / stage.lstrip("/"))
        except OSError:
            # Some file systems, such as vfat, cannot be the lower layer.
            kernel.bind(lower, folder, kernel.READ_ONLY)
            read_only.append(folder)
    kernel.run(["umount", "--lazy", MACHINE])
    MACHINE.rmdir()
    return read_only


def _overlay(lower: str, target: str | Path, stage: Path) -> None:
    """Mount an overlay of the folder `lower` on `target`. Changes are stored in `stage`."""
    number = len(list(stage.glob("changes*")))
    changes, work = stage / f"changes{number}", stage / f"work{number}"
    changes.mkdir()
    work.mkdir()
    escaped = re.sub(r"([\\:,])", r"\\\1", lower)
    options = f"lowerdir={escaped},upperdir={changes},workdir={work}"
    kernel.mount("overlay", target, "overlay", options=options)


def _tmpfs(target: str | Path, options: str) -> None:
    kernel.mount("tmpfs", target, "tmpfs", kernel.NO_SET_UID | kernel.NO_DEVICES, options)


def _show_groups(groups: list[str]) -> None:
    """Mount the machine's control groups read-only, and the host's groups writable."""
    top = Path("/sys/fs/cgroup")
    if not (MACHINE / "sys/fs/cgroup").is_dir():
        return
    kernel.mount(f"{MACHINE}/sys/fs/cgroup", top, flags=kernel.BIND | kernel.RECURSIVE)
    visible = [one.mounted_on for one in limits.hierarchies() if one.mounted_on.is_relative_to(top)]
    for folder in visible:
        kernel.bind(folder, folder, kernel.READ_ONLY)
    for group in groups:
        if Path(group).is_relative_to(top):
            kernel.bind(group, group)


def _make_devices() -> None:
    _tmpfs("/dev", "size=1m,mode=755")
    for name in DEVICES:
        Path("/dev", name).touch()
        kernel.bind(MACHINE / "dev" / name, Path("/dev", name))
    for folder in ("/dev/pts", "/dev/shm"):
        Path(folder).mkdir()
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.NO_SET_UID | kernel.NO_EXEC, options)
    _tmpfs("/dev/shm", "size=256m,mode=1777")
    streams = {"stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for link, target in {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", **streams}.items():
        Path("/dev", link).symlink_to(target)
