# SPDX-License-Identifier: MIT
"""Installed programs: where they are, and what they say about themselves."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.records.errors import UserError


def compiler_of(executable: Path) -> str | None:
    """The compiler that a program was built with, from its own .comment section."""
    said = output_of(["readelf", "--string-dump=.comment", str(executable)])
    names = re.findall(r"^\s+\[\s*[0-9a-f]+\]\s+(.+)$", said, re.MULTILINE)
    # A program built by clang also carries the gcc of the C library's start-up files.
    return next((name for name in names if "clang" in name), names[0] if names else None)


def said_version(command: Sequence[str]) -> str | None:
    """The first line that a command says of its version, on either of its outputs (nginx uses
    standard error); None where it says nothing."""
    done = ended_well(command)
    lines = (done.stderr or done.stdout).strip().splitlines() if done else []
    return lines[0] if lines else None


def output_of(command: Sequence[str]) -> str:
    """What a command prints; empty where it is not installed, takes too long, or fails."""
    done = ended_well(command)
    return done.stdout if done else ""


def first_line(command: Sequence[str]) -> str | None:
    lines = output_of(command).splitlines()
    return lines[0].strip() if lines else None


def ended_well(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """A command that was run; None if it is not installed, takes too long, or fails."""
    try:
        done = subprocess.run(
            [find_program(command[0]) or command[0], *command[1:]],
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": search_path()},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done if done.returncode == 0 else None


def find_program(name: str) -> str | None:
    """Where a program is; None if it is not installed."""
    return shutil.which(name, path=search_path())


def require(name: str, found: str | None, group: str) -> str:
    """Where a program is, if it was found. Raises UserError if not, and says which group of
    scripts/setup.sh installs it."""
    if found is None:
        raise UserError(f"{name} is not installed. Run: scripts/setup.sh {group}")
    return found


def search_path() -> str:
    """PATH, and where else programs are."""
    # Debian puts nginx where an ordinary user's shell does not look; Go's own installer, too.
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/go/bin"])
