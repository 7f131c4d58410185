# SPDX-License-Identifier: MIT
"""Report what is on a host: its hardware, limits, servers and versions."""

from pathlib import Path

from bench.host import machine, programs
from bench.host.project import ROOT
from bench.host.quota import Host, read_limits
from bench.peers.study import peer
from bench.stations.orders import Survey, Surveyed
from bench.stations.versions import versions_of
from bench.subjects.subject import Subject, available, select


def survey(order: Survey, host: Host, slicing: str) -> Surveyed:
    """Return the report. `slicing`: as in `Surveyed`. Raise UserError if a server is missing."""
    found: list[Subject] = []
    left_out: dict[str, str] = {}
    if order.subjects is not None:
        where = Path(order.programs) if order.programs else ROOT
        if order.some:
            found, left_out = available(order.subjects, order.floors, where)
        else:
            found = select(order.subjects or None, order.floors, where)
    return Surveyed(
        host=machine.describe_host(host),
        limits=read_limits(),
        subjects=found,
        left_out=left_out,
        peers={s.name: peer(s.name) for s in found if s.kind == "stranger"},
        versions=versions_of(found),
        nginx=programs.said_version(["nginx", "-v"]),
        slicing=slicing,
    )
