# SPDX-License-Identifier: MIT
"""Report the hardware, the limits, the servers and the versions of a host."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel

from bench.host import machine
from bench.host.machine import Host, read_limits
from bench.host.project import compiler_of, first_line, git_state, source_digest
from bench.load.generators import AB, OHA, WRK
from bench.records.environment import HostInfo, SubjectVersions, SystemLimits, Versions
from bench.records.results import Peer
from bench.subjects.subject import OUR_BUILD, Subject, fill, reference, select


def require_tools(by_oha: bool, by_wrk: bool) -> None:
    """Raise UserError if a needed load generator is not installed."""
    for tool, needed in ((AB, True), (WRK, by_wrk), (OHA, by_oha)):
        if needed:
            tool.require()


class Surveyed(BaseModel):
    """The report on a host."""

    host: HostInfo
    limits: SystemLimits
    subjects: list[Subject] = []
    left_out: dict[str, str] = {}  # Servers that cannot run on this host, and the reasons.
    peers: dict[str, Peer] = {}
    versions: SubjectVersions = SubjectVersions()
    nginx: str | None = None
    slicing: str = ""  # The method of CPU quotas for servers, in words; empty if no method works.


def survey(subjects: Sequence[str], some: bool, programs_at: Path) -> Surveyed:
    """Return the report on this host. For the arguments, see `LocalStation.survey`."""
    left_out: dict[str, str] = {}
    found = select(subjects, programs_at, left_out if some else None) if subjects else []
    references = [reference(s.name) for s in found if s.kind == "reference"]
    return Surveyed(
        host=machine.describe_host(Host()),
        limits=read_limits(),
        subjects=found,
        left_out=left_out,
        peers={s.name: Peer.model_validate(s, from_attributes=True) for s in references},
        versions=versions_of(found),
        nginx=first_line(["nginx", "-v"]),
    )


def with_tools(known: SubjectVersions, redis_version: str) -> Versions:
    """Return `known` with the versions of the tools and of this project."""
    tools = {
        **{tool.name: tool.version() for tool in (AB, OHA, WRK)},
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
    references = [reference(s.name) for s in subjects if s.kind == "reference"]
    return SubjectVersions(
        servers={name: first_line([str(path), "--version"]) for name, path in servers},
        references={one.name: first_line(fill(one.version, OUR_BUILD)) for one in references},
        compilers={name: compiler_of(path) for name, path in servers},
    )
