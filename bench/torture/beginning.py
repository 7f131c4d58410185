# SPDX-License-Identifier: MIT
"""The empty record and the shared resources, made before the first configuration."""

import contextlib
from collections.abc import Iterator
from datetime import datetime

from bench.host import machine
from bench.host.accounting import parent_of_groups
from bench.host.signals import SignalWatch
from bench.records.torture import Record, TortureSettings
from bench.services.private_redis import PrivateRedis
from bench.stations.versions import versions_of, with_tools
from bench.torture import cell as cells
from bench.torture import line
from bench.torture.options import TortureOptions
from bench.torture.scene import Ground

KEPT = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": "0"}
"""Redis writes each command to its append-only file before it replies, without waiting for the
disk. So a remark that is missing after `kill -9` was never stored."""


def empty_record(options: TortureOptions, where: Ground) -> Record:
    """Return a record without results."""
    return Record(
        started=datetime.now().astimezone(),
        command=list(options.words),
        machine=machine.describe_machine(),
        versions=with_tools(versions_of(options.subjects), where.redis.version()),
        placement=where.placement,
        settings=TortureSettings(
            attack_seconds=options.seconds,
            minutes=options.minutes,
            visitors=cells.VISITORS,
            think_seconds=cells.THINK_SECONDS,
        ),
        notes=list(options.notes),
        subjects=[subject.name for subject in options.subjects],
        attacks=[attack.facts() for attack in options.attacks],
    )


@contextlib.contextmanager
def ground(watch: SignalWatch) -> Iterator[Ground]:
    """Yield what all configurations share. May raise UserError or Interrupted."""
    placement = machine.place_here()
    with contextlib.ExitStack() as stack:
        far_end, why = [], ""
        try:
            if not line.in_own_network():
                raise line.NoLine(line.why_no_network())
            far_end = stack.enter_context(line.slow_line(watch))
        except line.NoLine as reason:
            why = f"no slow line here: {reason}"
        own = stack.enter_context(PrivateRedis(placement.load, watch, KEPT))
        yield Ground(own, placement, watch, parent_of_groups(), far_end, why)
