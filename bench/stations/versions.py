# SPDX-License-Identifier: MIT
"""Versions of everything that takes part in a sweep."""

import platform
from collections.abc import Iterable
from typing import Any

from bench.host.programs import compiler_of, first_line, stranger_version
from bench.host.project import git_state
from bench.load import ab, open_loop
from bench.subjects.subject import Subject


def versions(redis_version: str) -> dict[str, Any]:
    """Versions of the tools and of this project, as each of them states it."""
    return {
        "ab": ab.version(),
        "oha": open_loop.version(),
        "redis": redis_version,
        "python": platform.python_version(),
        "git": git_state(),
    }


def versions_of(subjects: Iterable[Subject]) -> dict[str, dict[str, str | None]]:
    """Versions of the subjects and their compilers."""
    subjects = list(subjects)
    servers = [(s.name, s.executable) for s in subjects if s.kind == "server" and s.executable]
    return {
        "servers": {name: first_line([str(path), "--version"]) for name, path in servers},
        "strangers": {s.name: stranger_version(s.name) for s in subjects if s.kind == "stranger"},
        "compilers": {name: compiler_of(path) for name, path in servers},
    }
