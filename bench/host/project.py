# SPDX-License-Identifier: MIT
"""The project's folder, the version of its sources, and the installed programs."""

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bench.records.environment import Checkout
from bench.records.errors import UserError, in_words
from bench.records.values import toml_of

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build" / "tools" / "bin"
"""The folder of the programs that scripts/setup.sh compiles."""
Model = TypeVar("Model", bound=BaseModel)


def declaration(model: type[Model], file: Path, **more: object) -> Model:
    """Return a `model` made from a TOML file and `more`. Raises UserError if a value is invalid."""
    try:
        return model.model_validate({**toml_of(file), **more})
    except (OSError, ValueError, RecursionError) as error:  # invalid TOML, or invalid for the model
        words = in_words(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{file}: {words}") from error


SOURCES = (
    "Makefile",
    "bench/**/*.py",
    "bench/doctor/*.toml",
    "bench/grade/*.toml",
    "bench/records/*.csv",
    "bench/records/*.toml",
    "bench/services/*.j2",
    "bench/load/*.lua",
    "bench/studies/*",
    "bench/torture/*.toml",
    "bench/references/**/*",
    "course/experiments/*",
    "baselines/*",
    "lib/**/*.[ch]",
    "ops/*.[ch]",
    "*/main.c",
    "*/tests.toml",
    "public/**/*",
    "redirects",
    "templates/**/*",
)
"""The files on which results depend: the benchmark, the servers, and the pages."""


def source_digest(root: Path = ROOT) -> str:
    """Return a short hash of a checkout's files that match SOURCES."""
    digest = hashlib.sha256()
    for file in sorted({file for pattern in SOURCES for file in root.glob(pattern)}):
        # Compiled files contain the time of their source, which differs between hosts.
        if file.is_file() and file.parent.name != "__pycache__":
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def git_state() -> Checkout | None:
    """Return the commit and the number of changed files; None without git or a repository."""
    commit = first_line(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "HEAD"])
    if not commit:
        return None
    changed = output_of(["git", "-C", str(ROOT), "status", "--porcelain"])
    return Checkout(commit=commit, changed_files=len(changed.splitlines()))


# ---- Installed programs ----


def compiler_of(executable: Path) -> str | None:
    """Return the compiler in the .comment section of a program's file; None: unknown."""
    said = output_of(["readelf", "--string-dump=.comment", str(executable)])
    names = re.findall(r"^\s+\[\s*[0-9a-f]+\]\s+(.+)$", said, re.MULTILINE)
    # A program built by clang also names the gcc that built the C library's start-up files.
    return next((name for name in names if "clang" in name), names[0] if names else None)


def call_name(number: int) -> str:
    """Return the name of a system call, or "number N" if the C library does not know it."""
    return _call_names().get(number, f"number {number}")


@functools.cache
def _call_names() -> dict[int, str]:
    """Return the names of all system calls, from the headers of the C library."""
    said = output_of(["cc", "-dM", "-E", "-include", "sys/syscall.h", "-x", "c", "/dev/null"])
    found = re.findall(r"^#define __NR(?:3264)?_(\w+) (\d+)$", said, re.MULTILINE)
    return {int(number): name for name, number in found}


def first_line(command: Sequence[str]) -> str | None:
    """Return the first line of a command's standard output, or of its standard error if it prints
    no output (nginx). Return None if the command fails or prints nothing."""
    done = ended_well(command)
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines() if done else []
    return lines[0] if lines else None


def output_of(command: Sequence[str]) -> str:
    """Return a command's output; empty if `ended_well` returns None."""
    done = ended_well(command)
    return done.stdout if done else ""


def ended_well(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a command. Return None if the program is missing, takes over 10 s, or fails."""
    try:
        done = completed(command, 10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done if done.returncode == 0 else None


def completed(
    command: Sequence[str], seconds: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder `cwd`. Raises OSError, or TimeoutExpired after `seconds`."""
    return subprocess.run(
        [find_program(command[0]) or command[0], *command[1:]],
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, "PATH": search_path()},
    )


def find_program(name: str) -> str | None:
    """Return a program's path; None if the program is not installed."""
    return shutil.which(name, path=search_path())


def require(name: str, group: str) -> str:
    """Return a program's path. Raises UserError if the program is missing; the message names the
    `group` of scripts/setup.sh that installs it."""
    if found := find_program(name):
        return found
    raise UserError(f"{name} is not installed. Run: scripts/setup.sh {group}")


def search_path() -> str:
    """Return PATH with additional folders of programs."""
    # The folders of nginx (Debian), Go (installer) and oha (scripts/setup.sh, cargo).
    others = ("/usr/sbin", "/usr/local/go/bin", str(TOOLS), str(Path.home() / ".cargo" / "bin"))
    return os.pathsep.join([os.environ.get("PATH", ""), *others])
