# SPDX-License-Identifier: MIT
"""Whether a run is a figure. Pure functions.

A run holds when every check holds. Otherwise it has no figure but a reason: the first check that
failed, in words. The checks stand in the order in which a person would want to hear of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.doctor.limits import ACCEPT_QUEUE_CURE, TIME_WAIT_CURE
from bench.load.ab import AbOutcome
from bench.load.idle import IdleReport
from bench.load.open_loop import OpenOutcome
from bench.load.outcome import Outcome
from bench.load.wrk import WrkOutcome
from bench.records.figures import LittlesLaw, ServerStatistics
from bench.records.run import Check
from bench.services.balancer import BalancerEnd

LABELS = {
    "reset by peer": "reset",
    "refused": "refused",
    "timeout specified has expired": "stalled",
    "timed out": "timed out",
    "Too many open files": "descriptors",
    "Cannot assign requested address": "no ports",
}
"""Words in the load generator's message -> what the table says."""


KEPT_SHARE = 0.95
"""So many responses must keep the connection (a server may close it after many)."""
HELD_SHARE = 0.98
"""So many of the idle connections must be open at the end."""


@dataclass(frozen=True)
class Count:
    """Something that was counted independently of the load generator."""

    name: str
    what: str
    """In a sentence: "visitors"."""
    due: int
    """For the requests that the load generator made."""
    got: int
    or_more: bool = False
    """Whether others may have been counted too (a Redis that is not ours)."""
    slack: int = 0
    """How many more are right: with keep-alive ab leaves up to one request a connection unread."""


@dataclass(frozen=True)
class Evidence:
    """All that is known about a run when it is judged."""

    asked: int
    timeout: float
    probe_status: int
    """The status of a first, single request; all others must be of its class."""
    died: str
    """How the server ended before it was told to; empty if it did not."""
    stopped: str
    """What was wrong with its end after it was told to; empty if nothing."""
    statistics: ServerStatistics | None
    """What the server counted itself."""
    ab: AbOutcome | None = None
    """The closed loop's outcome, by ab."""
    wrk: WrkOutcome | None = None
    """The same, by wrk."""
    open_loop: OpenOutcome | None = None
    """The open loop's."""
    silent: bool = False
    """Whether it prints no statistics: strangers and floors."""
    least_requests: int = 0
    """All requests that the server must have served: with the first one and the warm-up."""
    slack: int = 0
    """How many more it may have served, see `Count`."""
    page_bytes: int | None = None
    """The body of the first, single response; None: not compared."""
    answer_bytes: int | None = None
    """All of that response, with its head; None: heads may differ in length, or another witness
    knows each status."""
    any_length: bool = False
    """Whether bodies may differ in length; then all have at least `page_bytes` on average."""
    keep_alive: bool = False
    counts: tuple[Count, ...] = ()
    little: LittlesLaw | None = None
    little_tolerance: tuple[float, float] = (0.0, 0.0)
    """How far below and above 0 its deviation may be."""
    idle: IdleReport | None = None
    balancer: BalancerEnd | None = None
    """How nginx ended, if there was one."""
    forgotten: int = 0
    """Ended connections that a kernel forgot too early, see `bench.host.kernel`."""
    overflows: int = 0
    """Connections that met a full accept queue."""
    own_backlog: int | None = None
    """How many a server lets wait in it, if that is less than the kernel allows, and less than
    there are connections."""


SPOILED_BY_KERNEL = {"in time", "ab's status", "completed", "none failed"}
"""The checks on a load that fail where the kernel loses connections."""


def judge(seen: Evidence) -> list[Check]:
    """All checks on a run."""
    causes = "; ".join(_causes(seen))
    return [
        check.model_copy(update={"detail": f"{check.detail} ({causes})"})
        if causes and not check.holds and check.name in SPOILED_BY_KERNEL
        else check
        for check in _checks(seen)
    ]


def _causes(seen: Evidence) -> Iterator[str]:
    """What a kernel did that may be behind a failure."""
    if seen.forgotten:
        yield (
            f"the kernel had no room for {seen.forgotten:,} connections in TIME_WAIT, whose "
            f"clients it may have reset; cure: {TIME_WAIT_CURE}"
        )
    if seen.overflows:
        cure = ACCEPT_QUEUE_CURE
        if seen.own_backlog is not None:
            cure = f"a larger backlog than the server's own of {seen.own_backlog:,} (--backlog)"
        yield (
            f"connections met a full accept queue {seen.overflows:,} times and were tried again "
            f"later; cure: {cure}"
        )


def first_failure(checks: list[Check]) -> Check | None:
    """The check that says why a run does not hold; None if it does."""
    return next((check for check in checks if not check.holds), None)


def _checks(seen: Evidence) -> Iterator[Check]:
    died = f"the server {seen.died}, {_progress(seen)}"
    yield _check("server alive", not seen.died, "died", died)
    if seen.ab:
        yield from _check_ab(seen, seen.ab)
    if seen.wrk:
        yield from _check_wrk(seen, seen.wrk)
    if seen.open_loop:
        yield from _check_open(seen, seen.open_loop)
    for count in seen.counts:
        yield _check_count(count)
    yield from _check_statistics(seen)
    yield from _check_little(seen)
    yield from _check_idle(seen)
    if seen.balancer:
        yield from _check_balancer(seen.balancer)
    yield _check("server's end", not seen.stopped, "bad end", f"the server {seen.stopped}")


def _check_end(seen: Evidence, load: Outcome, tool: str, done: str) -> Iterator[Check]:
    """A load generator comes to its end by itself, in time and well."""
    limit = f"not done after {seen.timeout:g} s, {done}"
    yield _check("in time", not load.timed_out, "timed out", limit)
    said = load.message or f"{tool} ended with status {load.status}"
    ended = load.timed_out or load.status == 0
    yield _check(f"{tool}'s status", ended, _label(said, tool), f"{said}, {done}")


def _check_ab(seen: Evidence, ab: AbOutcome) -> Iterator[Check]:
    done = _progress(seen)
    yield from _check_end(seen, ab, "ab", done)
    # With -r ab would go on when there is nobody left to answer, and call it a success.
    yield _check("ab without -r", "-r" not in ab.command, "ab -r", "ab was told to hide errors")
    figures = ab.figures
    if figures is None:
        yield _check("completed", False, "no report", f"ab wrote no report, {done}")
        return
    yield _check("completed", figures.complete == seen.asked, "incomplete", done)
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in figures.failures.items() if n)
    failed = f"{figures.failed:,} of {seen.asked:,} requests failed" + (kinds and f" ({kinds})")
    yield _check("none failed", figures.failed == 0, f"{figures.failed:,} failed", failed)
    errors = f"{figures.write_errors:,} requests could not be sent whole"
    yield _check("all sent", figures.write_errors == 0, "write errors", errors)
    # With keep-alive ab also counts what it has read of responses that it does not wait for.
    yield from _check_bytes(seen, figures.html_bytes, seen.slack)
    # ab calls all that is not 2xx "non-2xx", redirects too.
    expected = 0 if 200 <= seen.probe_status < 300 else seen.asked
    others = abs(figures.non_2xx - expected)
    detail = f"{others:,} of {seen.asked:,} responses were not {seen.probe_status // 100}xx"
    yield _check("status class", others == 0, f"{others:,} other", detail)
    if seen.answer_bytes is not None and not seen.any_length:
        due, came = seen.answer_bytes * seen.asked, figures.transferred_bytes
        detail = f"{came:,} bytes came with all heads, {due:,} were due: some answers were others"
        yield _check("same answers", came == due, "other answers", detail)
    if seen.keep_alive:
        kept = figures.keep_alive >= KEPT_SHARE * seen.asked
        detail = f"only {figures.keep_alive:,} of {seen.asked:,} responses kept the connection"
        yield _check("kept alive", kept, "closes", detail)


def _check_bytes(seen: Evidence, came: int, slack: int = 0) -> Iterator[Check]:
    """The bytes that came, against those of a single response that was read with care."""
    if seen.page_bytes is None:
        return
    due = seen.page_bytes * seen.asked
    if seen.any_length:
        # ab was told that lengths differ (-l): an empty response would pass for a whole one.
        detail = f"{came:,} bytes came, at least {due:,} were due"
        yield _check("whole pages", came >= due, "cut off", detail)
        return
    whole = due <= came <= due + slack * seen.page_bytes
    label = "cut off" if came < due else "too long"
    yield _check("whole pages", whole, label, f"{came:,} bytes came, {due:,} were due")


def _check_wrk(seen: Evidence, wrk: WrkOutcome) -> Iterator[Check]:
    """wrk goes on whatever happens, so all that it has noticed counts."""
    figures = wrk.figures
    done = _of(figures.complete if figures else None, seen.asked)
    yield from _check_end(seen, wrk, "wrk", done)
    if figures is None:
        yield _check("completed", False, "no report", f"wrk wrote no report, {done}")
        return
    # The status comes first: with 408 or 503 to all, how many came is of no interest.
    wanted = str(seen.probe_status)
    others = figures.complete - figures.statuses.get(wanted, 0)
    instead = ", ".join(code for code in figures.statuses if code != wanted)
    detail = f"{others:,} of {figures.complete:,} responses were not {wanted} but {instead}"
    yield _check("status", not others, f"{others:,} other", detail)
    yield _check("completed", figures.complete == seen.asked, "incomplete", done)
    extra = f"{figures.unasked:,} answers came that nobody had asked for"
    yield _check("all asked for", not figures.unasked, f"{figures.unasked:,} too many", extra)
    failed = sum(figures.errors.values())
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in figures.errors.items() if n)
    yield _check("none failed", not failed, f"{failed:,} failed", f"errors: {kinds}; {done}")
    if seen.page_bytes is not None:
        due = seen.page_bytes
        wrong = sum(
            number
            for length, number in figures.lengths.items()
            if int(length) < due or (int(length) > due and not seen.any_length)
        )
        detail = f"{wrong:,} of {seen.asked:,} bodies had not the {due:,} bytes of the first"
        yield _check("whole pages", not wrong, "other length", detail)
    if seen.keep_alive:
        kept = figures.complete - figures.closes
        detail = f"only {kept:,} of {seen.asked:,} responses kept the connection"
        yield _check("kept alive", kept >= KEPT_SHARE * seen.asked, "closes", detail)


def _check_open(seen: Evidence, open_loop: OpenOutcome) -> Iterator[Check]:
    """All requests that were due were sent and answered, with the right status."""
    figures = open_loop.figures
    done = _of(figures.succeeded if figures else None, seen.asked)
    yield from _check_end(seen, open_loop, "oha", done)
    if figures is None:
        yield _check("completed", False, "no report", f"oha wrote no report, {done}")
        return
    errors = ", ".join(f"{n:,} x {text}" for text, n in figures.errors.items())
    failed = sum(figures.errors.values())
    yield _check("none failed", not failed, f"{failed:,} failed", f"{errors}; {done}")
    wrong = {code: n for code, n in figures.status_codes.items() if code != str(seen.probe_status)}
    listed = ", ".join(f"{n:,} x {code}" for code, n in wrong.items())
    label = f"{sum(wrong.values()):,} other"
    yield _check("status", not wrong, label, f"{listed} and not {seen.probe_status}")
    yield _check("completed", figures.succeeded == seen.asked, "incomplete", done)
    if open_loop.body_bytes is not None:
        yield from _check_bytes(seen, open_loop.body_bytes)


def _check_count(count: Count) -> Check:
    most = count.due + count.slack
    holds = count.got >= count.due and (count.or_more or count.got <= most)
    detail = f"{count.due:,} {count.what} were due, {count.got:,} were counted"
    return _check(count.name, holds, "miscount", detail)


def _check_statistics(seen: Evidence) -> Iterator[Check]:
    """The server's own count, independent of the load generator's, must agree with it."""
    if seen.silent:
        return
    own, right = seen.statistics, f"{seen.probe_status // 100}xx"
    if own is None or own.requests is None:
        yield _check("server's statistics", False, "no statistics", "the server printed none")
        return
    due = seen.least_requests
    enough = due <= own.requests <= due + seen.slack
    detail = f"the server counted {own.requests:,} requests, it was sent {due:,}"
    if seen.slack:
        detail += f" to {due + seen.slack:,}"
    yield _check("server's count", enough, "miscount", detail)
    if seen.idle:
        return  # the idle connections ask for something else
    wrong = {name: n for name, n in own.responses.items() if n and name != right}
    listed = ", ".join(f"{n:,} x {name}" for name, n in wrong.items())
    detail = f"the server answered {listed}, and not only {right}"
    yield _check("server's classes", not wrong, "other status", detail)


def _check_little(seen: Evidence) -> Iterator[Check]:
    law = seen.little
    if law is None:
        return
    below, above = seen.little_tolerance
    detail = (
        f"{law.rate:,.0f} requests/s of {law.mean_ms:,.1f} ms each are {law.product:,.1f} at once, "
        f"and not {law.concurrency:,}"
    )
    label = "too little load" if law.deviation < 0 else "impossible"
    yield _check("Little's law", -below <= law.deviation <= above, label, detail)


def _check_idle(seen: Evidence) -> Iterator[Check]:
    idle = seen.idle
    if idle is None:
        return
    detail = f"only {idle.held:,} of {idle.asked:,} idle connections were open at the end"
    yield _check("idle connections", idle.held >= HELD_SHARE * idle.asked, "not idle", detail)
    detail = (
        f"the server closed idle connections {idle.reopened:,} times, {idle.asked:,} were asked "
        "for: opened anew again and again they are a load of their own"
    )
    yield _check("they stay", idle.reopened <= idle.asked, "not idle", detail)


def _check_balancer(end: BalancerEnd) -> Iterator[Check]:
    """nginx answers 502 or 504 by itself where a server does not answer; some loads would take
    that for an answer of the server's."""
    detail = f"nginx had no answer of a server for {end.errors:,} requests ({end.last_error})"
    yield _check("nginx' own answers", not end.errors, f"{end.errors:,} by nginx", detail)
    detail = f"nginx ended with status {end.status} ({end.last_error})"
    yield _check("nginx' end", end.status == 0, "nginx ended", detail)


def _check(name: str, holds: bool, label: str, detail: str) -> Check:
    return Check(name=name, holds=holds, **({} if holds else {"label": label, "detail": detail}))


def _progress(seen: Evidence) -> str:
    if seen.wrk and seen.wrk.figures:
        return _of(seen.wrk.figures.complete, seen.asked)
    return _of(seen.ab.completed if seen.ab else None, seen.asked)


def _of(done: int | None, asked: int) -> str:
    if done is None:
        return f"of {asked:,} requests an unknown number completed"
    return f"{done:,} of {asked:,} completed"


def _label(message: str, tool: str) -> str:
    return next((label for words, label in LABELS.items() if words in message), f"{tool} failed")
