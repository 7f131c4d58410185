# SPDX-License-Identifier: MIT
"""What the limits of several hosts allow: each is judged by what it is there for. Pure."""

from collections.abc import Mapping, Sequence

from bench.doctor.limits import assess
from bench.records.environment import UNLIMITED, Finding, SystemLimits
from bench.records.figures import Role
from bench.records.plan import RunSpec

REUSE_ALWAYS = 1

NO_CLIENT = {"ports": UNLIMITED, "time_wait_reuse": REUSE_ALWAYS, "ab_ceiling": None}
"""Who opens no connections to others for its clients needs no ports."""
NO_SERVER = {
    "somaxconn": UNLIMITED,
    "syn_backlog": UNLIMITED,
    "tasks": UNLIMITED,
    "time_wait_memory": UNLIMITED,
}
"""Who accepts none needs no queues, and is not the first to close a connection."""


def assess_hosts(
    runs: Sequence[RunSpec], limits: Mapping[str, SystemLimits], roles: Mapping[str, Role]
) -> list[Finding]:
    """The limits of all hosts that are in the way of the planned runs, each with the host's name;
    the impossible ones first."""
    found = []
    for name, role in roles.items():
        of_role = runs_of(role, runs)
        if of_role and role != "redis":
            for finding in assess(of_role, limits_for(role, limits[name]), role):
                found.append(finding.model_copy(update={"limit": f"{name}: {finding.limit}"}))
    return sorted(found, key=lambda finding: not finding.impossible)


def runs_of(role: Role, runs: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs in which a host takes part."""
    return [run for run in runs if role != "nginx" or run.conditions.balancer != "none"]


def limits_for(role: Role, limits: SystemLimits) -> SystemLimits:
    """A host's limits, without those that do not matter to what it is there for."""
    if role == "load":
        return limits.model_copy(update=NO_SERVER)
    if role == "server":
        return limits.model_copy(update=NO_CLIENT)
    # nginx has as many workers as its connections need, each with descriptors of its own.
    return limits.model_copy(
        update={"descriptors": UNLIMITED, "tasks": UNLIMITED, "ab_ceiling": None}
    )
