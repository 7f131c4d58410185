# SPDX-License-Identifier: MIT
"""All cells, one after another: two servers at once would disturb each other."""

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import redis

from bench.host import machine, project
from bench.host.accounting import parent_of_groups
from bench.host.machine import place_here
from bench.host.signals import Interrupted, SignalWatch
from bench.readers.console import console
from bench.records import torture as record
from bench.records.environment import Versions
from bench.records.errors import UserError
from bench.records.store import make_folder
from bench.records.torture import Cell, Record, TortureSettings
from bench.report.page.build import build_torture
from bench.report.page.torture_markdown import markdown
from bench.stations.survey import versions_of
from bench.subjects.subject import Subject
from bench.torture import cell as cells
from bench.torture import line
from bench.torture.attacks import Attack
from bench.torture.live import show_for
from bench.torture.options import Options
from bench.torture.own_redis import OwnRedis
from bench.torture.scene import Ground
from bench.torture.table import summary

FIRST_GUESS = 2.6
"""Seconds that a cell takes beyond its attack; afterwards the mean of those made."""


def torture(options: Options) -> int:
    """Exit status: 0 all promises kept, 1 one broken, 128 + n after signal n. Raises UserError."""
    folder = make_folder(options.results, datetime.now(), "torture-")
    begun, status = time.monotonic(), 0
    with SignalWatch() as watch:
        made = empty_record(options)
        try:
            with ground(watch, made) as where:
                attack_all(options, where, made, folder, begun)
        except Interrupted as interrupted:
            made.state, status = "interrupted", interrupted.exit_status
        except redis.RedisError as error:
            raise UserError(f"the private Redis is lost: {error}") from error
        finally:
            made.seconds = round(time.monotonic() - begun, 1)
            keep(made, folder, options.markdown)
    out = console()
    out.print(summary(made))
    out.print(f"Kept in {folder}", soft_wrap=True, markup=False)
    return status or int(bool(made.broken()))


def empty_record(options: Options) -> Record:
    """What is known before the first cell."""
    placement = place_here()
    return Record(
        started=datetime.now().astimezone(),
        command=list(options.words),
        machine=machine.describe_machine(),
        versions=Versions(git=project.git_state(), **versions_of(options.subjects).model_dump()),
        placement=placement,
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
def ground(watch: SignalWatch, made: Record) -> Iterator[Ground]:
    """What all cells share. May raise UserError or Interrupted."""
    assert made.placement is not None
    with contextlib.ExitStack() as stack:
        far_end, why = [], ""
        try:
            if not line.in_own_network():
                raise line.NoLine(line.why_no_network())
            line.set_up_loopback()
            far_end = stack.enter_context(line.slow_line(watch))
        except line.NoLine as reason:
            why = f"no slow line here: {reason}"
        own = stack.enter_context(OwnRedis(made.placement.load, watch))
        made.versions.redis = own.version()
        yield Ground(own, made.placement, watch, parent_of_groups(), far_end, why)


def attack_all(options: Options, where: Ground, made: Record, folder: Path, begun: float) -> None:
    """Fill the record, attack by attack. May raise Interrupted."""
    pairs = [(attack, subject) for attack in options.attacks for subject in options.subjects]
    with show_for(console(), made, len(pairs)) as show:
        while pairs:
            left = options.minutes * 60 - (time.monotonic() - begun)
            need = seconds_of_a_cell(made, options.seconds)
            if left < need:
                break
            attack, subject = pairs.pop(0)
            show.begin(subject.name, attack.name, min(left, need * (1 + len(pairs))))
            made.cells.append(cells.measure(subject, attack, where, options.seconds))
            record.save(made, folder)
            show.end(made.cells[-1])
    made.cells += [not_reached(attack, subject) for attack, subject in pairs]
    made.state = "out of time" if pairs else "complete"


def not_reached(attack: Attack, subject: Subject) -> Cell:
    """A cell for which there was no time."""
    empty = Cell(subject=subject.name, kind=subject.kind, attack=attack.name, reached=False)
    empty.reason = "the time was over before its turn"
    return empty


def seconds_of_a_cell(made: Record, attack_seconds: float) -> float:
    """What a cell takes on average, as far as that is known."""
    known = [cell.seconds for cell in made.cells if cell.before]
    return sum(known) / len(known) if known else FIRST_GUESS + attack_seconds


def keep(made: Record, folder: Path, beside: Path | None) -> None:
    """The record, the page and the table. Raises UserError."""
    record.save(made, folder)
    build_torture(folder)
    if beside:
        beside.write_text(markdown(made), encoding="utf-8")
