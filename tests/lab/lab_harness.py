# SPDX-License-Identifier: MIT
"""Run the lab's commands, and find what they leave behind; the search uses no code of the lab."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BASE = Path("/run/zerohttpd-lab")
HOSTS = ("load", "nginx", "zerohttpd", "redis")
NOBODY = "65534"
COMMAND = [sys.executable, "-m", "lab"]
SECONDS = 180.0

Done = subprocess.CompletedProcess[str]


ANOTHER_LAYER = (
    "mount -t tmpfs none /mnt && mkdir /mnt/a /mnt/b /mnt/c && "
    "mount -t overlay none -o lowerdir=/,upperdir=/mnt/a,workdir=/mnt/b /mnt/c"
)
"""Mounts another overlay, as a lab does for the `/` of each host."""


@cache
def why_not() -> str:
    """Return the reason why no lab can be made here; empty if a lab can be made."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "/usr/sbin/sshd", "ssh", "ssh-keygen", "unshare"):
        if run(["sh", "-c", f"PATH=$PATH:/usr/sbin command -v {program}"]).returncode != 0:
            return f"{program} is not installed"
    if in_a_chroot():
        return "this is a chroot, and commands on a host would run outside of it"
    tried = run(["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "true"])
    if tried.returncode != 0:
        return tried.stderr.strip()
    return run(["unshare", "--mount", "sh", "-c", ANOTHER_LAYER]).stderr.strip()


def in_a_chroot() -> bool:
    """Return whether this process is in a chroot: nsenter leaves it, and sees other mounts."""
    look = ["cat", "/proc/self/mountinfo"]
    return run(["nsenter", "--mount=/proc/self/ns/mnt", *look]).stdout != run(look).stdout


def run(command: list[str], **options: Any) -> Done:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, cwd=REPOSITORY, **options
    )


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has printed `ready`; kill it after the `with` block."""
    options: dict[str, Any] = {"text": True, "cwd": REPOSITORY, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
        deadline = Timer(SECONDS, process.kill)
        deadline.start()
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            deadline.cancel()
            process.kill()


class Lab:
    """A lab of the tests, with a unique name."""

    def __init__(self, suffix: str) -> None:
        self.name = f"t{os.getpid()}-{suffix}"
        self.mark = f"zerohttpd-lab:{self.name}"
        self.folder = BASE / self.name

    def command(self, verb: str, *words: str) -> list[str]:
        return [*COMMAND, verb, "--name", self.name, *words]

    def run(self, verb: str, *words: str, **options: Any) -> Done:
        return run(self.command(verb, *words), **options)

    def up(self, *words: str, **options: Any) -> None:
        done = self.run("up", *words, **options)
        assert done.returncode == 0, done.stderr

    def down(self) -> None:
        """Remove the lab, and assert that nothing is left."""
        done = self.run("down")
        assert done.returncode == 0, done.stderr
        assert self.traces() == []

    def on(self, host: str, script: str) -> str:
        done = self.run("exec", host, "sh", "-c", script)
        assert done.returncode == 0, f"{script}: {done.stderr}"
        return done.stdout.strip()

    def python(self, host: str, program: str) -> str:
        done = self.run("exec", host, "/usr/bin/python3", "-c", program)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self) -> dict[str, Any]:
        return json.loads((self.folder / "state.json").read_text())

    def pids(self) -> list[int]:
        """Return the PIDs of the lab's keeper and of each host's first process."""
        known = self.state()
        return [known["keeper"]["pid"], *(one["pid"] for one in known["hosts"].values())]

    def traces(self) -> list[str]:
        """Return all processes, files, mounts and namespaces with the lab's name or mark."""
        folders = [self.folder, BASE / f".new-{self.name}", *self.groups()]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        names = run(["ip", "netns", "list"]).stdout.splitlines()
        return [
            *(f"process {pid}" for pid in marked_processes(self.mark)),
            *(str(folder) for folder in folders if os.path.lexists(folder)),
            *(line for line in (*mounts, *names) if self.name in line),
        ]

    def groups(self) -> list[Path]:
        """Return the folders of the lab's control groups, whether they exist or not."""
        top = Path("/sys/fs/cgroup")
        if (top / "cgroup.controllers").exists():
            return [top / "zerohttpd-lab" / self.name]
        return [entry / "zerohttpd-lab" / self.name for entry in top.iterdir() if entry.is_dir()]


def namespaces(pid: int | str) -> dict[str, str]:
    """Return the namespaces of a process, by kind. Raise OSError if it has ended."""
    kinds = ("ipc", "mnt", "net", "pid", "uts")
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in kinds}  # noqa: PTH115


def processes() -> dict[int, dict[str, str]]:
    """Return the namespaces of each process, by PID."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            found[int(folder.name)] = namespaces(folder.name)
    return found


def processes_in(wanted: set[str]) -> set[int]:
    """Return the PIDs of the processes in any of these namespaces."""
    return {pid for pid, spaces in processes().items() if not wanted.isdisjoint(spaces.values())}


def marked_processes(mark: str) -> list[int]:
    """Return the PIDs of the processes whose UTS namespace has this NIS domain."""
    by_namespace: dict[str, list[int]] = {}
    for pid, spaces in processes().items():
        by_namespace.setdefault(spaces["uts"], []).append(pid)
    found = []
    for pids in by_namespace.values():
        for pid in pids:
            look = ["nsenter", f"--uts=/proc/{pid}/ns/uts", "cat", "/proc/sys/kernel/domainname"]
            done = run(look)
            if done.returncode == 0:
                found += pids if done.stdout.strip() == mark else []
                break
    return found


# ---- A root whose changes are discarded ----

# An overlay: its lower layer is the machine's files, its upper layer is in memory and is checked
# afterwards. The kernel's settings and the project are read-only in the overlay.
LAYER, CHROOT = ((Path(__file__).parent / name).read_text() for name in ("layer.sh", "chroot.sh"))
CHANGES = """
python3 -I -c 'import json, os
found = [os.path.join(path, name) for path, _, names in os.walk("/run/layer") for name in names]
print("\\n" + json.dumps([path.removeprefix("/run/layer") for path in found]))'
"""
"""Prints the files that were written (JSON), as the last line of output."""


def skip_unless_labs_can_be_made_in(script: str) -> None:
    """Skip the test if no overlay can be made here, e.g. because `/` is an overlay, as in a
    container."""
    refused = run_in(script, ["sh", "-c", ANOTHER_LAYER])[0].stderr.partition("\n")[0]
    if refused:
        pytest.skip(f"no second overlay on this machine's `/`: {refused}")


def run_in(script: str, command: list[str]) -> tuple[Done, list[str]]:
    """Run a command in the root that a script makes. Return the result and the changed files."""
    whole = f'{script}\nset +e\n"$@"\nstatus=$?\n{CHANGES}\nexit $status'
    # Files in root's home folder and Python's bytecode must not count as changes.
    environment = {**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["unshare", "--mount", "sh", "-c", whole, str(REPOSITORY), *command]
    done = run(words, env=environment)
    said, _, changes = done.stdout.rstrip().rpartition("\n")
    done.stdout = said
    return done, [str(Path(path)) for path in json.loads(changes)]
