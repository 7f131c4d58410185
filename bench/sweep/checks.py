# SPDX-License-Identifier: MIT
"""Checks whether a run is valid.

A run is valid if every check passes. Otherwise it has no figure but a reason: the text of the first
check that failed. The checks are sorted by how much their failure explains.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.doctor.limits import ACCEPT_QUEUE_FIX, TIME_WAIT_FIX
from bench.load.outcome import Outcome
from bench.load.running import IdleReport
from bench.records.figures import (
    AbFigures,
    LittlesLaw,
    OpenLoopFigures,
    ServerStatistics,
    WrkFigures,
)
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
"""Labels in the table by words in the load generator's message."""


KEPT_SHARE = 0.95
"""The least share of responses that keep the connection (a server may close it after many)."""
HELD_SHARE = 0.98
"""The least share of the idle connections that are open at the end."""


@dataclass(frozen=True)
class Evidence:
    """The data on which the checks of a run are based."""

    asked: int
    timeout: float
    probe_status: int
    """The status of the first request; all others must be of its class."""
    died: str
    """The server's end before SIGTERM; empty if it still ran."""
    stopped: str
    """The error at the server's end after SIGTERM; empty if there was none."""
    statistics: ServerStatistics | None
    """The server's own counts."""
    load: Outcome | None = None
    """The report of the load generator."""
    silent: bool = False
    """Whether it prints no statistics: reference servers and baselines."""
    least_requests: int = 0
    """All requests that the server must have served: with the first one and the warm-up."""
    slack: int = 0
    """The number of additional requests that it may have served: with keep-alive ab leaves up to
    one request on a connection unread."""
    page_bytes: int | None = None
    """The length of the first response's body; None: not compared."""
    answer_bytes: int | None = None
    """The length of the whole first response; None: heads may differ in length, or another check
    covers each status."""
    any_length: bool = False
    """Whether bodies may differ in length; then all have at least `page_bytes` on average."""
    keep_alive: bool = False
    counts: tuple[Check, ...] = ()
    """Checks of counts that are independent of the load generator."""
    little: LittlesLaw | None = None
    little_tolerance: tuple[float, float] = (0.0, 0.0)
    """The limits of its deviation below and above 0."""
    idle: IdleReport | None = None
    balancer: BalancerEnd | None = None
    """The end of nginx, if there was one."""
    forgotten: int = 0
    """Ended connections that a kernel did not keep in TIME_WAIT, see `bench.host.kernel`."""
    overflows: int = 0
    """Connections that met a full accept queue."""
    own_backlog: int | None = None
    """The backlog that a server passes to listen(), if it is below the kernel's limit and below the
    number of connections."""


SPOILED_BY_KERNEL = {"in time", "ab's status", "completed", "none failed"}
"""The checks that fail if the kernel loses connections."""


def judge(seen: Evidence) -> list[Check]:
    """Return all checks of a run."""
    causes = "; ".join(_causes(seen))
    return [
        check.model_copy(update={"detail": f"{check.detail} ({causes})"})
        if causes and not check.holds and check.name in SPOILED_BY_KERNEL
        else check
        for check in _checks(seen)
    ]


def _causes(seen: Evidence) -> Iterator[str]:
    """Yield the kernel's actions that may have caused a failure, and their fixes."""
    if seen.forgotten:
        yield (
            f"the kernel had no room for {seen.forgotten:,} connections in TIME_WAIT and may have "
            f"reset their clients; fix: {TIME_WAIT_FIX}"
        )
    if seen.overflows:
        fix = ACCEPT_QUEUE_FIX
        if seen.own_backlog is not None:
            fix = f"a larger backlog than the server's own of {seen.own_backlog:,} (--backlog)"
        yield (
            f"connections met a full accept queue {seen.overflows:,} times and clients tried again "
            f"later; fix: {fix}"
        )


def first_failure(checks: list[Check]) -> Check | None:
    """Return the first failed check; None if all passed."""
    return next((check for check in checks if not check.holds), None)


def _checks(seen: Evidence) -> Iterator[Check]:
    died = f"the server {seen.died}, {_progress(seen)}"
    yield _check("server alive", not seen.died, "died", died)
    if seen.load and seen.load.tool:
        yield from _check_load(seen, seen.load)
    yield from seen.counts
    yield from _check_statistics(seen)
    yield from _check_little(seen)
    yield from _check_idle(seen)
    if seen.balancer:
        yield from _check_balancer(seen.balancer)
    yield _check("server's end", not seen.stopped, "bad end", f"the server {seen.stopped}")


def _check_load(seen: Evidence, load: Outcome) -> Iterator[Check]:
    """Check that the load generator ended by itself, in time, with status 0 and with a report;
    then its figures."""
    tool, done, figures = load.tool, _progress(seen), load.figures
    limit = f"not done after {seen.timeout:g} s, {done}"
    yield _check("in time", not load.timed_out, "timed out", limit)
    said = load.message or f"{tool} ended with status {load.status}"
    ended = load.timed_out or load.status == 0
    yield _check(f"{tool}'s status", ended, _label(said, tool), f"{said}, {done}")
    if tool == "ab":
        # With -r ab would continue after errors, even without a server, and report success.
        yield _check("ab without -r", "-r" not in load.command, "ab -r", "ab -r hides errors")
    if figures is None:
        yield _check("completed", False, "no report", f"{tool} wrote no report, {done}")
    elif isinstance(figures, AbFigures):
        yield from _check_ab(seen, figures)
    elif isinstance(figures, WrkFigures):
        yield from _check_wrk(seen, figures)
    else:
        yield from _check_open(seen, figures)
    if load.body_bytes is not None:
        yield from _check_bytes(seen, load.body_bytes)


def _check_completed(seen: Evidence, done: int) -> Check:
    return _check("completed", done == seen.asked, "incomplete", _of(done, seen.asked))


def _check_failures(count: int, detail: str) -> Check:
    return _check("none failed", not count, f"{count:,} failed", detail)


def _check_kept(seen: Evidence, kept: int) -> Iterator[Check]:
    if seen.keep_alive:
        detail = f"only {kept:,} of {seen.asked:,} responses kept the connection"
        yield _check("kept alive", kept >= KEPT_SHARE * seen.asked, "closes", detail)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {n:,}" for kind, n in counts.items() if n)


def _check_ab(seen: Evidence, figures: AbFigures) -> Iterator[Check]:
    yield _check_completed(seen, figures.complete)
    kinds = _listed(figures.failures)
    failed = f"{figures.failed:,} of {seen.asked:,} requests failed" + (kinds and f" ({kinds})")
    yield _check_failures(figures.failed, failed)
    errors = f"{figures.write_errors:,} requests could not be sent completely"
    yield _check("all sent", figures.write_errors == 0, "write errors", errors)
    # With keep-alive ab also counts bytes of responses that it does not wait for.
    yield from _check_bytes(seen, figures.html_bytes, seen.slack)
    # ab counts all other responses as "non-2xx", redirects too.
    expected = 0 if 200 <= seen.probe_status < 300 else seen.asked
    others = abs(figures.non_2xx - expected)
    detail = f"{others:,} of {seen.asked:,} responses were not {seen.probe_status // 100}xx"
    yield _check("status class", others == 0, f"{others:,} other", detail)
    if seen.answer_bytes is not None and not seen.any_length:
        due, came = seen.answer_bytes * seen.asked, figures.transferred_bytes
        detail = f"{came:,} bytes with all heads, not {due:,}: some responses differ"
        yield _check("same answers", came == due, "other answers", detail)
    yield from _check_kept(seen, figures.keep_alive)


def _check_bytes(seen: Evidence, came: int, slack: int = 0) -> Iterator[Check]:
    """Check the number of body bytes against that of the first response."""
    if seen.page_bytes is None:
        return
    due = seen.page_bytes * seen.asked
    if seen.any_length:
        # With -l ab accepts any length, an empty response too.
        detail = f"{came:,} bytes were received, at least {due:,} expected"
        yield _check("whole pages", came >= due, "cut off", detail)
        return
    whole = due <= came <= due + slack * seen.page_bytes
    label = "cut off" if came < due else "too long"
    yield _check("whole pages", whole, label, f"{came:,} bytes were received, {due:,} expected")


def _check_wrk(seen: Evidence, figures: WrkFigures) -> Iterator[Check]:
    """Check the figures of wrk, which continues after errors: all that it has counted."""
    # The status is checked first: if all are 408 or 503, their number is not relevant.
    wanted = str(seen.probe_status)
    others = figures.complete - figures.statuses.get(wanted, 0)
    instead = ", ".join(code for code in figures.statuses if code != wanted)
    detail = f"{others:,} of {figures.complete:,} responses were not {wanted} but {instead}"
    yield _check("status", not others, f"{others:,} other", detail)
    yield _check_completed(seen, figures.complete)
    extra = f"{figures.unasked:,} more responses than requests"
    yield _check("all asked for", not figures.unasked, f"{figures.unasked:,} too many", extra)
    errors = f"errors: {_listed(figures.errors)}; {_progress(seen)}"
    yield _check_failures(sum(figures.errors.values()), errors)
    if seen.page_bytes is not None:
        due = seen.page_bytes
        wrong = sum(
            number
            for length, number in figures.lengths.items()
            if int(length) < due or (int(length) > due and not seen.any_length)
        )
        detail = f"{wrong:,} of {seen.asked:,} bodies do not have the {due:,} bytes of the first"
        yield _check("whole pages", not wrong, "other length", detail)
    yield from _check_kept(seen, figures.complete - figures.closes)


def _check_open(seen: Evidence, figures: OpenLoopFigures) -> Iterator[Check]:
    """Check that all requests were sent and answered, with the right status."""
    errors = ", ".join(f"{n:,} x {text}" for text, n in figures.errors.items())
    yield _check_failures(sum(figures.errors.values()), f"{errors}; {_progress(seen)}")
    wrong = {code: n for code, n in figures.status_codes.items() if code != str(seen.probe_status)}
    listed = ", ".join(f"{n:,} x {code}" for code, n in wrong.items())
    label = f"{sum(wrong.values()):,} other"
    yield _check("status", not wrong, label, f"{listed} and not {seen.probe_status}")
    yield _check_completed(seen, figures.succeeded)


def check_count(what: str, got: int, due: int, most: int | None) -> Check:
    """Return the check of a number in Redis. `most`: None if other clients may be counted, too."""
    holds = got >= due and (most is None or got <= most)
    detail = f"{due:,} {what} expected, {got:,} counted"
    return _check(f"{what} in Redis", holds, "miscount", detail)


def _check_statistics(seen: Evidence) -> Iterator[Check]:
    """Check that the server's own count agrees with the load generator's."""
    if seen.silent:
        return
    own, right = seen.statistics, f"{seen.probe_status // 100}xx"
    if own is None or own.requests is None:
        none = "the server printed no statistics"
        yield _check("server's statistics", False, "no statistics", none)
        return
    due = seen.least_requests
    enough = due <= own.requests <= due + seen.slack
    detail = f"the server counted {own.requests:,} requests, it was sent {due:,}"
    if seen.slack:
        detail += f" to {due + seen.slack:,}"
    yield _check("server's count", enough, "miscount", detail)
    if seen.idle:
        return  # idle connections send other requests
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
        f"not {law.concurrency:,}"
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
        f"the server closed idle connections {idle.reopened:,} times, with {idle.asked:,} planned: "
        "opening them again is an additional load"
    )
    yield _check("they stay", idle.reopened <= idle.asked, "not idle", detail)


def _check_balancer(end: BalancerEnd) -> Iterator[Check]:
    """Check that nginx did not answer 502 or 504 itself because a server did not answer; some load
    generators would count that as the server's answer."""
    detail = f"nginx got no answer from a server for {end.errors:,} requests ({end.last_error})"
    yield _check("nginx' own answers", not end.errors, f"{end.errors:,} by nginx", detail)
    detail = f"nginx ended with status {end.status} ({end.last_error})"
    yield _check("nginx' end", end.status == 0, "nginx ended", detail)


def _check(name: str, holds: bool, label: str, detail: str) -> Check:
    return Check(name=name, holds=holds, **({} if holds else {"label": label, "detail": detail}))


def _progress(seen: Evidence) -> str:
    return _of(seen.load.completed if seen.load else None, seen.asked)


def _of(done: int | None, asked: int) -> str:
    if done is None:
        return f"of {asked:,} requests an unknown number completed"
    return f"{done:,} of {asked:,} completed"


def _label(message: str, tool: str) -> str:
    return next((label for words, label in LABELS.items() if words in message), f"{tool} failed")
