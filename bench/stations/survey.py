# SPDX-License-Identifier: MIT
"""What is on a host: itself, the subjects, their versions."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.host import machine, programs
from bench.host.kernel import read_limits
from bench.host.programs import compiler_of, first_line, said_version
from bench.host.project import ROOT, git_state
from bench.host.quota import Host
from bench.load import ab, open_loop, wrk
from bench.peers.study import peer
from bench.records.environment import SubjectVersions, Versions
from bench.stations.orders import SubjectFacts, Survey, Surveyed
from bench.subjects.declared import LeftOut, stranger
from bench.subjects.subject import Subject, select


def survey(order: Survey, host: Host) -> tuple[Surveyed, list[Subject]]:
    """Look; with the subjects themselves. Raises UserError for subjects that are not here."""
    found: list[Subject] = []
    left_out: dict[str, str] = {}
    if order.subjects is not None:
        where = Path(order.programs) if order.programs else ROOT
        if order.some:
            found, left_out = available(order.subjects, order.floors, where)
        else:
            found = select(order.subjects or None, order.floors, where)
    surveyed = Surveyed(
        host=machine.describe_host(host),
        limits=read_limits(),
        subjects=[SubjectFacts.of(subject) for subject in found],
        left_out=left_out,
        peers={s.name: peer(s.name) for s in found if s.kind == "stranger"},
        versions=versions_of(found),
        nginx=programs.said_version(["nginx", "-v"]),
    )
    return surveyed, found


def available(
    names: Sequence[str], floors: bool, programs: Path
) -> tuple[list[Subject], dict[str, str]]:
    """Those of the subjects that can be had here; and why the others cannot."""
    here, left_out = [], {}
    for name in names:
        try:
            here += select([name], floors, programs)
        except LeftOut as missing:
            left_out[name] = str(missing)
    return here, left_out


# ---- Versions of everything that takes part in a sweep ----


def with_tools(known: Versions, redis_version: str) -> Versions:
    """With those of the tools and of this project, as each of them states it."""
    tools = {
        "ab": ab.version(),
        "oha": open_loop.version(),
        "wrk": wrk.version(),
        "redis": redis_version,
        "python": platform.python_version(),
        "git": git_state(),
    }
    return known.model_copy(update=tools)


def versions_of(subjects: Iterable[Subject]) -> SubjectVersions:
    """Versions of the subjects and their compilers."""
    subjects = list(subjects)
    servers = [(s.name, s.executable) for s in subjects if s.kind == "server" and s.executable]
    strangers = [s.name for s in subjects if s.kind == "stranger"]
    return SubjectVersions(
        servers={name: first_line([str(path), "--version"]) for name, path in servers},
        strangers={name: said_version(stranger(name).said.version) for name in strangers},
        compilers={name: compiler_of(path) for name, path in servers},
    )
