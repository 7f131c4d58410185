# SPDX-License-Identifier: MIT
"""Limit the files that an untrusted program may open, with Landlock (landlock(7)). If this file is
run as a program, it restricts itself and then executes the command after `--`:

    python fence.py r:/usr r:/etc w:/tmp/its-own -- COMMAND ...

`r:` allows reading and executing a file, or all files in a folder; `w:` also allows writing. The
command cannot access other files, even as root, or remove this limit. Without Landlock in the
kernel, the command runs without a limit.
"""

import ctypes
import os
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38
READ = 0b1101
"""The rights to execute a file, read a file and read a folder."""
OF_FILES = 0b111 | 1 << 14
ALL_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""The file rights of each Landlock version; later versions are treated like 3."""
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/opt", "/nix", "/etc", "/proc", "/sys"),
)
PROJECT = Path(__file__).resolve().parents[2]
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")


def version() -> int:
    """Return the version of the kernel's Landlock, or 0 without Landlock."""
    return max(0, _call(CREATE_RULESET, None, 0, VERSION))


def fenced(command: Sequence[str], reads: Sequence[Path], writes: Sequence[Path]) -> list[str]:
    """Return a command line that runs `command` with Landlock. In addition to `reads` and `writes`,
    the command may use DEVICES, and read the folders of SYSTEM. The command cannot read this
    project, even below such a folder: the project has servers that the command could start."""
    system = [path for folder in SYSTEM for path in without(PROJECT, Path(folder))]
    paths = [f"r:{path}" for path in (*system, *reads)] + [f"w:{p}" for p in (*DEVICES, *writes)]
    return [sys.executable, "-I", "-S", __file__, *paths, "--", *command]


def without(project: Path, folder: Path) -> list[Path]:
    """Return paths that together contain everything in the folder except the project: the folder
    itself if the project is not in it."""
    if not project.is_relative_to(folder):
        return [folder]
    inner = folder.iterdir() if folder != project else ()
    return [path for entry in inner for path in without(project, entry)]


def raise_fence(paths: Sequence[str]) -> None:
    """Restrict this process and its children, also after exec. Raises OSError."""
    everything = ALL_OF_VERSION[min(version(), max(ALL_OF_VERSION))]
    attributes = struct.pack("=Q", everything)
    rules = _sure(CREATE_RULESET, attributes, len(attributes), 0)
    for word in paths:
        kind, _, path = word.partition(":")
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # this system does not have the file or folder
        rights = READ if kind == "r" else everything
        if not Path(path).is_dir():
            rights &= OF_FILES & everything
        _sure(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
        os.close(opened)
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _sure(RESTRICT_SELF, rules, 0)


def _call(number: int, *arguments: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def _sure(number: int, *arguments: object) -> int:
    result = _call(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return result


if __name__ == "__main__":
    border = sys.argv.index("--")
    if version():
        raise_fence(sys.argv[1:border])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # otherwise the program would ignore SIGPIPE
    os.execvp(sys.argv[border + 1], sys.argv[border + 1 :])
