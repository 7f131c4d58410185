# SPDX-License-Identifier: MIT
"""The state of a running lab: the folder /run/zerohttpd-lab/NAME/, for its owner only.

mark                       the lab's mark; a folder without it is never changed
state.json                 the plan and the processes; written when all hosts answer
inventory.ini              for Ansible
ssh_config known_hosts     for ssh
key HOST_key               the login key and the hosts' keys (also *.pub), for this lab only
relay                      the socket that passes connections to the hosts (relay.py)
HOST.log switch.log        the logs of a host's sshd and of the keeper
stage                      an empty folder, where each host mounts its files, invisibly for others
"""

import fcntl
import json
import os
import pwd
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import kernel
from lab.plan import LabError, LabHost, LabPlan

BASE = Path("/run/zerohttpd-lab")
PROJECT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Identity:
    """A process, identified by PID and start time, because PIDs are reused."""

    pid: int
    started: int  # Ticks since the boot.

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """Return the identity of a running process. Raises OSError if the process has ended."""
        words = stat_of(pid)
        if words[0] in "ZX":
            raise ProcessLookupError(f"process {pid} has ended")
        return cls(pid, int(words[19]))

    @property
    def alive(self) -> bool:
        """Return whether the process still runs."""
        with suppress(OSError):
            return self.of(self.pid) == self
        return False


@dataclass(frozen=True)
class Known:
    """The content of state.json."""

    plan: LabPlan
    limited_by: str
    limited_reason: str  # The reason why the shares are not applied, or an empty string.
    since: float  # When the lab was ready, in seconds since 1970.
    keeper: Identity
    hosts: dict[str, Identity]
    groups: dict[str, list[str]]
    """The control groups of each host; empty lists if no control group can limit hosts."""
    roots: dict[str, int]  # The device of each host's `/`.
    read_only: list[str]
    unseen: list[str]  # Folders that are not visible on hosts.


def owner() -> tuple[int, int, str]:
    """Return the user ID, group ID and home folder of the owner of the lab that is being made: the
    user who called sudo, or the user of this process."""
    uid = _number("SUDO_UID", os.getuid())
    with suppress(KeyError):
        entry = pwd.getpwuid(uid)
        return uid, entry.pw_gid, entry.pw_dir
    return uid, _number("SUDO_GID", os.getgid()), "/root"


def _number(variable: str, otherwise: int) -> int:
    """Return the user or group ID that sudo has written into an environment variable, or the
    default `otherwise`."""
    text = os.environ.get(variable, str(otherwise))
    if not text.isdecimal() or int(text) >= 2**32 - 1:
        raise LabError(f"{variable}={text}: this is not a user or group ID")
    return int(text)


def folder_of(name: str) -> Path:
    """Return the folder of a lab's state."""
    return BASE / name


def _new_folder_of(name: str) -> Path:
    return BASE / f".new-{name}"


def mark_of(name: str) -> str:
    """Return the mark of a lab's folder and its UTS namespaces."""
    return f"zerohttpd-lab:{name}"


@contextmanager
def locked() -> Iterator[None]:
    """Wait until no other `up` or `down` runs, and exclude others during the `with` block."""
    descriptor = os.open(BASE.parent, os.O_RDONLY)  # the folder BASE itself may be removed
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        BASE.mkdir(mode=0o755, exist_ok=True)
        try:
            yield
        finally:
            if BASE.is_dir() and not any(BASE.iterdir()):
                BASE.rmdir()
    finally:
        os.close(descriptor)


def create(name: str, uid: int, gid: int) -> Path:
    """Make the folder of a lab, for its owner. The folder gets its final name at the end, so that
    no folder has this name but not the mark."""
    new = _new_folder_of(name)
    new.mkdir(mode=0o700)
    (new / "mark").write_text(mark_of(name) + "\n")
    (new / "stage").mkdir()
    os.chown(new, uid, gid)
    return new.rename(folder_of(name))


def left_over(name: str) -> list[Path]:
    """Return the existing folders of a lab. Raises LabError if a folder is not from the lab."""
    new = _new_folder_of(name)
    if new.is_dir() and not new.is_symlink():
        strange = {entry.name for entry in new.iterdir()} - {"mark", "stage"}
        if strange:
            raise LabError(f"{new} is not of the lab: it contains {', '.join(sorted(strange))}")
    folder = folder_of(name)
    if os.path.lexists(folder) and not _is_marked(folder, name):
        raise LabError(f"{folder} does not have the lab's mark: not changed; remove it yourself")
    return [path for path in (new, folder) if path.is_dir()]


def labs() -> list[str]:
    """Return the names of the labs that have a folder here."""
    return sorted(path.name for path in BASE.glob("[!.]*"))


def load(name: str) -> Known | None:
    """Return the state that the keeper has written; the keeper may have ended. None: no state."""
    try:
        found = json.loads((folder_of(name) / "state.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    except PermissionError as error:
        raise LabError(f"the lab '{name}' belongs to another user; try with sudo") from error
    try:
        hosts = [LabHost(**host) for host in found["plan"]["hosts"]]
        found["plan"] = LabPlan(**{**found["plan"], "hosts": hosts})
        found["keeper"] = Identity(**found["keeper"])
        found["hosts"] = {host: Identity(**process) for host, process in found["hosts"].items()}
        return Known(**found)
    except (KeyError, TypeError) as error:
        raise LabError(f"the lab '{name}' was made by another version of this project") from error


def stat_of(pid: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name, which may contain any
    character. Raises OSError if there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def write_state(folder: Path, known: Known) -> None:
    """Write state.json atomically."""
    new = folder / ".state.json"
    new.write_text(json.dumps(asdict(known), indent=1) + "\n")
    os.chown(new, folder.stat().st_uid, folder.stat().st_gid)
    new.rename(folder / "state.json")


def write_access(plan: LabPlan, uid: int, gid: int) -> None:
    """Write the owner's files for ssh and Ansible: keys, known_hosts, ssh_config, inventory.ini."""
    folder = Path(plan.folder)
    _make_key(folder / "key")
    known = []
    for host in plan.hosts:
        _make_key(host_key(plan, host))
        kind, key = host_key(plan, host).with_suffix(".pub").read_text().split()[:2]
        known.append(f"{host.name},{host.address} {kind} {key}\n")
    (folder / "known_hosts").write_text("".join(known))
    (folder / "ssh_config").write_text(_ssh_config(plan))
    (folder / "inventory.ini").write_text(_inventory(plan))
    for name in ("key", "key.pub", "known_hosts", "ssh_config", "inventory.ini"):
        os.chown(folder / name, uid, gid)


def host_key(plan: LabPlan, host: LabHost) -> Path:
    """Return the file of a host's private ssh key (its HostKey)."""
    return Path(plan.folder, f"{host.name}_key")


def _make_key(file: Path) -> None:
    kernel.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "zerohttpd-lab", "-f", file])


def _ssh_config(plan: LabPlan) -> str:
    relay = [sys.executable, "-I", PROJECT / "lab/relay.py", f"{plan.folder}/relay"]
    # ssh expands %, then a shell executes the command.
    command = " ".join(shlex.quote(str(word)) for word in relay).replace("%", "%%")
    hosts = "".join(
        f"Host {host.name} {host.address}\n    HostName {host.address}\n\n" for host in plan.hosts
    )
    return f"""\
# The hosts of the lab '{plan.name}': ssh -F {plan.folder}/ssh_config {plan.hosts[0].name}
# Their network cannot be reached from here. The ProxyCommand gets an open connection to the host
# from the lab, passes it to ssh (ProxyUseFdpass) and ends.
{hosts}Host *
    User root
    IdentityFile {plan.folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {plan.folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    PasswordAuthentication no
    # When a lab ends, the last packet of a connection may be lost with the network.
    ServerAliveInterval 5
    ServerAliveCountMax 3
    ProxyCommand {command} %h
    ProxyUseFdpass yes
"""


def _inventory(plan: LabPlan) -> str:
    lines = {host.group: [f"[{host.group}]"] for host in plan.hosts}
    for one in plan.hosts:
        lines[one.group].append(f"{one.name} ansible_host={one.address} address={one.address}")
    groups = "".join("\n".join(group) + "\n\n" for group in lines.values())
    return f"""\
# The hosts of the lab '{plan.name}'.
{groups}[all:vars]
ansible_user=root
ansible_python_interpreter=/usr/bin/python3
ansible_ssh_private_key_file={plan.folder}/key
ansible_ssh_common_args=-F {plan.folder}/ssh_config
"""


def _is_marked(folder: Path, name: str) -> bool:
    with suppress(OSError):
        return not folder.is_symlink() and (folder / "mark").read_text() == mark_of(name) + "\n"
    return False
