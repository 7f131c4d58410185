# SPDX-License-Identifier: MIT
"""Measure one configuration: a server under an attack.

Times are seconds of CLOCK_MONOTONIC, as in `Exchange`. A rate is the median over short intervals,
so that a short delay of the machine does not change the rate.
"""

import statistics
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from bench.host import machine
from bench.host.kernel import difference
from bench.host.process import OUTPUT, last_line
from bench.load.crowd import CrowdOrder, Exchange, Late, Tally, exchanges_of
from bench.load.running import RunningCrowd
from bench.records.errors import NoFigure
from bench.records.torture import (
    BACK_SECONDS,
    SLICE,
    Phase,
    Record,
    Remarks,
    TortureCell,
    TortureSettings,
)
from bench.stations.survey import versions_of, with_tools
from bench.subjects.subject import Subject
from bench.torture.attacks import Attack, AttackScene, page
from bench.torture.ground import Ground

BACK_SLICES = 2
BACK_SHARE = 0.5
"""A server is back at the start of BACK_SLICES consecutive intervals in which no request failed,
and every page had at least BACK_SHARE of its rate before the attack."""


def per_slice(answers: Iterable[Exchange], begin: float, end: float) -> list[int]:
    """Return, for each whole interval between two times, the number of exchanges that ended."""
    found = Counter((answer.ended - begin) // SLICE for answer in answers)
    return [found[at] for at in range(int((end - begin) / SLICE + 1e-6))]


def good(answers: Iterable[Exchange], pages: Iterable[str] | None = None) -> list[Exchange]:
    """Return the good exchanges, of all pages or only of `pages`."""
    wanted = None if pages is None else set(pages)
    return [a for a in answers if a.outcome == "good" and (wanted is None or a.page in wanted)]


def rate(slices: Sequence[int]) -> float:
    """Return responses per second, the median of the intervals; 0 without an interval."""
    return statistics.median(slices) / SLICE if slices else 0.0


def phase(answers: Sequence[Exchange], begin: float, end: float, rated: Iterable[str]) -> Phase:
    """Return the results between two times; the rate counts good exchanges of `rated` pages."""
    ended = [a for a in answers if begin <= a.ended < end]
    tally = Tally()
    for answer in ended:
        tally.count(answer.outcome, f"{answer.page}: {answer.detail}")
    return Phase(
        seconds=round(end - begin, 3),
        rate=round(rate(per_slice(good(ended, rated), begin, end)), 1),
        outcomes={outcome: count for outcome, count in tally.answers.items() if count},
        why=tally.why,
        longest_ms=round(1000 * max((a.ended - a.begun for a in ended), default=0.0), 1),
    )


def back_after(
    answers: Sequence[Exchange], usual: dict[str, float], since: float, now: float
) -> float | None:
    """Return the seconds after which the server was back, or None if it is not back. `usual`: the
    rate of each page before the attack."""
    answers = [answer for answer in answers if answer.ended >= since]
    by_page = {page: per_slice(good(answers, [page]), since, now) for page in usual}
    bad = per_slice([a for a in answers if a.outcome != "good"], since, now)
    for first in range(len(bad) - BACK_SLICES + 1):
        window = slice(first, first + BACK_SLICES)
        if not any(bad[window]) and all(
            sum(by_page[page][window]) >= BACK_SHARE * usual[page] * SLICE * BACK_SLICES
            for page in usual
        ):
            return round(first * SLICE, 3)
    return None


PAGES = ("redirect", "small", "guestbook", "sign")
VISITORS = 16
THINK_SECONDS = 0.02
TIMEOUT_SECONDS = 10.0
WARM_SECONDS = 0.2
"""The time that is not measured at the start, when the server opens files and connects to Redis."""
CALM_SECONDS = 0.5
"""The measured time before the attack, and after the server is back."""
CALM_TIMEOUT, CALM_SHARE = 3.0, 0.85
"""The measurement begins when visitors get CALM_SHARE of the requested pages, at the latest after
CALM_TIMEOUT seconds."""
LOOKS = 3
AGAIN_SECONDS = 0.02
LATE_SECONDS = 0.05
"""The maximum delay between the end of a request and its line in the visitors' output."""


def empty_record(options: Namespace, command: Sequence[str], ground: Ground) -> Record:
    """Return a record without results; `command`: the command line."""
    return Record(
        started=datetime.now().astimezone(),
        command=list(command),
        machine=machine.describe_machine(),
        versions=with_tools(versions_of(options.subjects), ground.redis.version()),
        placement=ground.placement,
        settings=TortureSettings(
            attack_seconds=options.seconds,
            minutes=options.minutes,
            visitors=VISITORS,
            think_seconds=THINK_SECONDS,
        ),
        notes=options.notes,
        subjects=[subject.name for subject in options.subjects],
        attacks=options.attacks,
    )


class CellTimes(NamedTuple):
    """The times at which the parts of a measurement began."""

    before: float
    attack: float
    over: float  # The start of the attack's clean-up.
    gone: float  # The end of the attack's clean-up.
    back: float  # The start of the part "after", which takes CALM_SECONDS.
    starved: float  # The seconds for which the server waited for a CPU before the attack.


def measure(subject: Subject, attack: Attack, ground: Ground, seconds: float) -> TortureCell:
    """Attack a server for `seconds` and return the result. May raise Interrupted, and
    redis.RedisError if the private Redis is lost."""
    begun = time.monotonic()
    cell = TortureCell(subject=subject.name, kind=subject.kind, attack=attack.name)
    cell.reason = attack.why_not(subject) or (ground.why_no_line if attack.far else "") or None
    if not cell.reason:
        try:
            ground.redis.prepare()
            with AttackScene(subject, attack, ground) as scene:
                attack_it(scene, seconds, cell)
        except (NoFigure, OSError) as error:
            cell.reason = str(error)
    cell.seconds = round(time.monotonic() - begun, 2)
    return cell


def attack_it(scene: AttackScene, seconds: float, cell: TortureCell) -> None:
    """Run the attack and fill in the result. Raises NoFigure."""
    attack = scene.attack
    if attack.needs_children and not scene.has_children():
        raise NoFigure("has only one process")
    pages = [name for name in PAGES if scene.subject.serves(name)]
    rated = attack.rated_pages(pages)
    with Visitors(scene, pages, f"{cell.subject}-{cell.attack}") as visitors:
        times = course(scene, seconds, visitors)
    visitors.read()
    fill(cell, visitors, times, rated)
    cell.died = scene.died()
    cell.left_over = scene.left_over()
    scene.stop()
    cell.crowd, cell.ended, cell.killed = scene.crowd_seen, scene.ended, scene.killed
    cell.wanted = wanted(rated, pages)
    cell.remarks = remarks(visitors.answers, scene.redis.remarks())


class Visitors(RunningCrowd):
    """The running process of the well-behaved visitors, and the reports of these visitors."""

    def __init__(self, scene: AttackScene, pages: list[str], mark: str) -> None:
        self.pages = pages
        self.answers: list[Exchange] = []
        self._late: list[Late] = []
        theirs = tuple(page(name) for name in pages)
        order = CrowdOrder("visitors", scene.host, scene.port, VISITORS, theirs, THINK_SECONDS)
        order = replace(order, timeout=TIMEOUT_SECONDS, mark=mark)
        super().__init__(order, scene.ground.placement.load, scene.watch)

    def read(self) -> float:
        """Read what the visitors have reported since the last call. Return the time until which the
        reports are complete."""
        now = time.monotonic() - LATE_SECONDS
        for one in exchanges_of(self.next_lines(OUTPUT)):
            if isinstance(one, Exchange):
                self.answers.append(one)
            else:
                self._late.append(one)
        return now

    def late(self, begin: float, end: float) -> float:
        """Return the seconds between `begin` and `end` in which the visitors got no CPU time."""
        return sum(max(0.0, min(one.until, end) - max(one.since, begin)) for one in self._late)

    def usual(self, begin: float, end: float) -> dict[str, float]:
        """Return the rate of each page between `begin` and `end`."""
        since = [one for one in self.answers if one.ended >= begin]
        return {name: rate(per_slice(good(since, [name]), begin, end)) for name in self.pages}

    def check(self) -> None:
        """Raise NoFigure if the visitors' process has ended."""
        if not self.running():
            raise NoFigure(f"the visitors failed: {last_line(self.stderr)}")


def course(scene: AttackScene, seconds: float, visitors: Visitors) -> CellTimes:
    """Run the parts before, during and after the attack. Return their times. May raise
    Interrupted."""
    watch, attack = scene.watch, scene.attack
    await_calm(scene, visitors)
    visitors.check()
    before, used = time.monotonic(), scene.server.used()
    for _ in range(LOOKS):
        watch.sleep(CALM_SECONDS / LOOKS)
        scene.look()
    # Read `used` before the attack: an attack's packets delay the server, as starvation would.
    used = difference(scene.server.used(), used)
    began = time.monotonic()
    with attack.run(scene) as again:
        while time.monotonic() < began + seconds:
            again()
            watch.sleep(AGAIN_SECONDS)
        over = time.monotonic()
    gone = time.monotonic()
    visitors.read()
    usual = visitors.usual(before, began)
    starved = used.starved_us or 0.0 if used else 0.0
    back = await_back(scene, visitors, usual, gone)
    watch.sleep(max(0.0, back + CALM_SECONDS + LATE_SECONDS - time.monotonic()))
    visitors.check()
    return CellTimes(before, began, over, gone, back, max(0.0, starved / 1e6))


def await_calm(scene: AttackScene, visitors: Visitors) -> None:
    """Wait, at most CALM_TIMEOUT seconds, until visitors get CALM_SHARE of the requested pages."""

    def calm() -> bool:
        now = visitors.read()
        lately = visitors.usual(now - WARM_SECONDS, now)
        return sum(lately.values()) >= CALM_SHARE * wanted(visitors.pages, visitors.pages)

    scene.watch.sleep(WARM_SECONDS)
    scene.watch.until(calm, CALM_TIMEOUT - WARM_SECONDS, AGAIN_SECONDS)


def wanted(rated: list[str], pages: list[str]) -> float:
    """Return the rate at which visitors get the pages `rated` if responses take no time."""
    theirs = sum(pages[number % len(pages)] in rated for number in range(VISITORS))
    return theirs / THINK_SECONDS


def await_back(
    scene: AttackScene, visitors: Visitors, usual: dict[str, float], gone: float
) -> float:
    """Wait, at most BACK_SECONDS, until the server has recovered or ended. Return the time of its
    recovery, or of the end of the wait, on the monotonic clock."""
    while scene.server.running():
        now = visitors.read()
        after = back_after(visitors.answers, usual, gone, now)
        if after is not None:
            return gone + after
        if now > gone + BACK_SECONDS:
            return now
        scene.watch.sleep(AGAIN_SECONDS)
    return time.monotonic()


def fill(cell: TortureCell, visitors: Visitors, times: CellTimes, rated: list[str]) -> None:
    """Fill in the figures of a measurement."""
    answers, end = visitors.answers, times.back + CALM_SECONDS
    cell.before = phase(answers, times.before, times.attack, rated)
    cell.during = phase(answers, times.attack, times.over, rated)
    cell.settling = phase(answers, times.over, times.back, rated)
    cell.after = phase(answers, times.back, end, rated)
    usual = visitors.usual(times.before, times.attack)
    in_time = min(end, times.gone + BACK_SECONDS)
    cell.back_after_s = back_after(answers, usual, times.gone, in_time)
    cell.course = per_slice(good(answers, rated), times.before, end)
    cell.starved_s = round(times.starved + visitors.late(times.before, times.over), 3)
    cell.attack_from_s = round(times.attack - times.before, 3)
    cell.attack_to_s = round(times.over - times.before, 3)


def remarks(answers: list[Exchange], kept: list[str]) -> Remarks:
    """Compare the accepted remarks with the remarks in Redis."""
    stored = Counter(kept)
    answered = [a.detail for a in answers if a.outcome == "good" and a.page == "sign"]
    return Remarks(
        answered=len(answered),
        missing=sum(not stored[remark] for remark in answered),
        twice=sum(count > 1 for remark, count in stored.items() if remark in set(answered)),
    )
