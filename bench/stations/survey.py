# SPDX-License-Identifier: MIT
"""What is on a host: itself, the subjects, their versions."""

from pathlib import Path

from bench.host import machine, programs
from bench.host.project import ROOT
from bench.host.quota import Host
from bench.host.system_limits import read_limits
from bench.stations.orders import SubjectFacts, Survey, Surveyed
from bench.stations.versions import versions_of
from bench.subjects.subject import Subject, select


def survey(order: Survey, host: Host) -> tuple[Surveyed, list[Subject]]:
    """Look; with the subjects themselves. Raises UserError for subjects that are not here."""
    found = []
    if order.subjects is not None:
        where = Path(order.programs) if order.programs else ROOT
        found = select(order.subjects or None, order.floors, where)
    surveyed = Surveyed(
        host=machine.describe_host(host),
        limits=read_limits(),
        subjects=[SubjectFacts.of(subject) for subject in found],
        versions=versions_of(found),
        nginx=programs.stranger_version("nginx"),
    )
    return surveyed, found
