# SPDX-License-Identifier: MIT
"""Find the versions of all programs of a sweep."""

import platform
from collections.abc import Iterable

from bench.host.programs import compiler_of, first_line, said_version
from bench.host.project import git_state, source_digest
from bench.load import ab, open_loop, wrk
from bench.records.environment import SubjectVersions, Versions
from bench.subjects.declared import stranger
from bench.subjects.subject import Subject


def with_tools(known: SubjectVersions, redis_version: str) -> Versions:
    """Return the versions with those of the tools and of this project."""
    tools = {
        "ab": ab.version(),
        "oha": open_loop.version(),
        "wrk": wrk.version(),
        "redis": redis_version,
        "python": platform.python_version(),
        "sources": source_digest(),
        "git": git_state(),
    }
    return Versions(**{**known.model_dump(), **tools})


def versions_of(subjects: Iterable[Subject]) -> SubjectVersions:
    """Return the versions of the servers under test and their compilers."""
    subjects = list(subjects)
    servers = [(s.name, s.executable) for s in subjects if s.kind == "server" and s.executable]
    strangers = [s.name for s in subjects if s.kind == "stranger"]
    return SubjectVersions(
        servers={name: first_line([str(path), "--version"]) for name, path in servers},
        strangers={name: said_version(stranger(name).version) for name in strangers},
        compilers={name: compiler_of(path) for name, path in servers},
    )
