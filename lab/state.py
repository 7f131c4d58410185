# SPDX-License-Identifier: MIT
"""What is known of a lab while it runs: /run/zerohttpd-lab/NAME/, for its owner only.

mark                       says whose folder this is; without it nobody touches the folder
state.json                 the plan, and the processes: written when all hosts answer
inventory.ini              for Ansible
ssh_config key known_hosts for ssh; a key for this lab only
door                       socket: hands out connections to the hosts (door.py)
HOST.log switch.log        what a host's sshd and the keeper have to say
stage                      an empty folder, where each host, unseen, mounts its files
"""

import fcntl
import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from lab.errors import LabError
from lab.plan import LabHost, LabPlan

BASE = Path("/run/zerohttpd-lab")
PROJECT = Path(__file__).resolve().parents[1]


class Owner(NamedTuple):
    """The person whose lab it is: who called sudo, or else who runs this."""

    uid: int
    gid: int
    home: str


@dataclass(frozen=True)
class Identity:
    """A process, so that it is told from a later one with the same number."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """Of one that runs; OSError if there is none."""
        return cls(pid, start_of(pid))

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        try:
            return start_of(self.pid) == self.started
        except OSError:
            return False


@dataclass(frozen=True)
class Known:
    """The content of state.json."""

    plan: LabPlan
    limited_by: str
    limited_reason: str
    """Why hosts do not have their shares; empty if they have."""
    since: float
    """When it was up, in seconds since 1970."""
    keeper: Identity
    hosts: dict[str, Identity]
    groups: dict[str, list[str]]
    """The control groups of each host; none: it is not limited."""
    roots: dict[str, int]
    """The device of each host's `/`."""
    read_only: list[str]
    unseen: list[str]
    """Folders that no host sees."""


def owner() -> Owner:
    """Whose lab is being made."""
    uid = _number("SUDO_UID", os.getuid())
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Owner(uid, _number("SUDO_GID", os.getgid()), "/root")
    return Owner(uid, entry.pw_gid, entry.pw_dir)


def _number(variable: str, otherwise: int) -> int:
    """The number of a user or a group that sudo has left in the environment."""
    text = os.environ.get(variable, str(otherwise))
    if not text.isdecimal() or int(text) >= 2**32 - 1:
        raise LabError(f"{variable}={text}: that is no number of a user or a group")
    return int(text)


def folder_of(name: str) -> Path:
    """Where the state of a lab is kept."""
    return BASE / name


def _new_folder_of(name: str) -> Path:
    return BASE / f".new-{name}"


def mark_of(name: str) -> str:
    """The mark that a lab's folder and its namespaces bear."""
    return f"zerohttpd-lab:{name}"


@contextmanager
def locked() -> Iterator[None]:
    """One `up` or `down` at a time. Waits for its turn; leaves no file behind."""
    while (descriptor := _lock()) is None:
        pass
    try:
        yield
    finally:
        if not any(BASE.iterdir()):
            BASE.rmdir()
        os.close(descriptor)


def _lock() -> int | None:
    """Lock the folder; None if whoever had it before us has removed it meanwhile."""
    descriptor = -1
    try:
        BASE.mkdir(mode=0o755, exist_ok=True)
        descriptor = os.open(BASE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(descriptor), BASE.stat()):
            return descriptor
    except (FileExistsError, FileNotFoundError):
        pass  # it has gone between two looks
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        raise
    if descriptor >= 0:
        os.close(descriptor)
    return None


def create(name: str, whose: Owner) -> Path:
    """Make the folder of a lab. It appears with its mark in it or not at all."""
    new = _new_folder_of(name)
    new.mkdir(mode=0o700)
    (new / "mark").write_text(mark_of(name) + "\n")
    (new / "stage").mkdir()
    os.chown(new, whose.uid, whose.gid)
    return new.rename(folder_of(name))


def left_over(name: str) -> list[Path]:
    """The folders of a lab that are there; LabError if one of them is not ours."""
    new = _new_folder_of(name)
    if new.is_dir() and not new.is_symlink():
        strange = {entry.name for entry in new.iterdir()} - {"mark", "stage"}
        if strange:
            raise LabError(f"{new} is not the lab's: {', '.join(sorted(strange))} in it")
    folder = folder_of(name)
    if os.path.lexists(folder) and not _is_marked(folder, name):
        raise LabError(f"{folder} does not bear the lab's mark: left alone; remove it yourself")
    return [path for path in (new, folder) if path.is_dir()]


def remove(folder: Path) -> None:
    """Remove a folder that `left_over` has found."""
    shutil.rmtree(folder)


def labs() -> list[str]:
    """The names of the labs that have a folder here."""
    if not BASE.is_dir():
        return []
    return sorted(path.name for path in BASE.iterdir() if not path.name.startswith("."))


def load(name: str) -> Known | None:
    """What the keeper has written about a lab; None if there is none, or it is not up yet."""
    try:
        found = json.loads((folder_of(name) / "state.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    except PermissionError as error:
        raise LabError(f"the lab '{name}' is somebody else's; try with sudo") from error
    try:
        found["plan"] = LabPlan.from_json(found["plan"])
        found["keeper"] = Identity(**found["keeper"])
        found["hosts"] = {host: Identity(**process) for host, process in found["hosts"].items()}
        return Known(**found)
    except (KeyError, TypeError) as error:
        raise LabError(f"the lab '{name}' was made by another version of this project") from error


def start_of(pid: int) -> int:
    """When a process was started, in ticks since the machine was; OSError if there is none."""
    # Its name, in brackets, may hold anything.
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if words[0] in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return int(words[19])


def networks_in_use() -> set[str]:
    """The networks of the labs that are there, so that no two have the same addresses."""
    return {known.plan.network for known in map(load, labs()) if known}


def write_state(folder: Path, known: Known) -> None:
    """Write state.json: whole, or not at all."""
    new = folder / ".state.json"
    new.write_text(json.dumps(asdict(known), indent=1) + "\n")
    os.chown(new, folder.stat().st_uid, folder.stat().st_gid)
    new.rename(folder / "state.json")


def write_access(plan: LabPlan, whose: Owner) -> None:
    """Write what ssh and Ansible need: keys, known_hosts, ssh_config, inventory.ini."""
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
        os.chown(folder / name, whose.uid, whose.gid)


def host_key(plan: LabPlan, host: LabHost) -> Path:
    """The key by which a host proves that it is itself."""
    return Path(plan.folder, f"{host.name}_key")


def _make_key(file: Path) -> None:
    command = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        "zerohttpd-lab",
        "-f",
        str(file),
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"ssh-keygen: {done.stderr.strip()}")


def _ssh_config(plan: LabPlan) -> str:
    door = [sys.executable, "-I", PROJECT / "lab/door.py", f"{plan.folder}/door"]
    # ssh expands %, and gives the rest to a shell.
    command = " ".join(shlex.quote(str(word)) for word in door).replace("%", "%%")
    hosts = "".join(
        f"Host {host.name} {host.address}\n    HostName {host.address}\n\n" for host in plan.hosts
    )
    return f"""\
# The hosts of the lab '{plan.name}': ssh -F {plan.folder}/ssh_config {plan.hosts[0].name}
# Their network is not to be reached from here: the command of ProxyCommand fetches a connection
# to the host from the lab, hands it to ssh (ProxyUseFdpass) and is gone.
{hosts}Host *
    User root
    IdentityFile {plan.folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {plan.folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    PasswordAuthentication no
    # When a lab ends, the last packet of a connection may get lost with the network.
    ServerAliveInterval 5
    ServerAliveCountMax 3
    ProxyCommand {command} %h
    ProxyUseFdpass yes
"""


def _inventory(plan: LabPlan) -> str:
    groups: dict[str, list[LabHost]] = {}
    for host in plan.hosts:
        groups.setdefault(host.group, []).append(host)
    lines = [f"# The hosts of the lab '{plan.name}'."]
    for group, members in groups.items():
        lines.append(f"[{group}]")
        lines += [
            f"{host.name} ansible_host={host.address} address={host.address}" for host in members
        ]
        lines.append("")
    lines += [
        "[all:vars]",
        "ansible_user=root",
        "ansible_python_interpreter=/usr/bin/python3",
        f"ansible_ssh_private_key_file={plan.folder}/key",
        f"ansible_ssh_common_args=-F {plan.folder}/ssh_config",
    ]
    return "\n".join(lines) + "\n"


def _is_marked(folder: Path, name: str) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    try:
        return (folder / "mark").read_text() == mark_of(name) + "\n"
    except OSError:
        return False
