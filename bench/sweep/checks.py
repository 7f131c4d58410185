# SPDX-License-Identifier: MIT
"""Check whether a run is valid: every check must pass. If a check fails, its text replaces the
figures. The checks whose failure explains most come first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.doctor.doctor import ACCEPT_QUEUE_FIX, TIME_WAIT_FIX
from bench.load.running import Outcome
from bench.records.conditions import RunSpec
from bench.records.figures import AbFigures, Check, Reason, Run, WrkFigures
from bench.records.workloads import workload_for
from bench.services.balancer import BalancerEnd
from bench.subjects.running import Ended
from bench.sweep.loading import WARM_UP_CONNECTIONS
from bench.sweep.run_figures import CLOCK_SECONDS, Evidence

LABELS = {
    "reset by peer": "reset",
    "refused": "refused",
    "timeout specified has expired": "stalled",
    "timed out": "timed out",
    "Too many open files": "descriptors",
    "Cannot assign requested address": "no ports",
}
"""Labels for the table, by words in the load generator's message."""

KEPT_SHARE = 0.95
"""The smallest valid share of responses that keep the connection open."""
HELD_SHARE = 0.98
"""The smallest valid share of idle connections that are open at the end."""
LITTLE_ABOVE = 0.15
"""The number of requests in progress may exceed the number of connections by this share, because of
clock errors."""
LITTLE_BELOW = 0.5
"""Requests in progress may be fewer than connections by this share, because ab needs time between
two requests of a connection. With fewer requests, ab did not make the planned load."""
SPOILED_BY_KERNEL = {"in time", "ab's status", "completed", "none failed"}
"""The checks that fail if the kernel loses connections."""


@dataclass(frozen=True)
class Asked:
    """The load that a generator must make, and the properties of correct responses."""

    requests: int
    timeout: float
    status: int
    """The status of the first response. All others must have it; with ab, only its class."""
    body_bytes: int  # The length of the first response's body.
    answer_bytes: int | None = None
    """The length of the whole first response; None: this length is not checked."""
    any_length: bool = False
    """Whether bodies may differ in length; then their mean length is at least `body_bytes`."""
    keep_alive: bool = False
    unread: int = 0
    """The number of requests that ab may send in addition: with keep-alive, ab may leave one
    response unread on each connection."""
    slack: int = 0
    """The number of additional requests that the server may have counted, `unread` included."""


def asked(run: Run, seen: Evidence) -> Asked:
    """Return the load that the generator of a run must make."""
    spec, conditions, tool = seen.spec, seen.spec.conditions, seen.outcome.tool
    workload = workload_for(conditions.workload)
    kept = conditions.keep_alive and not conditions.asks_once  # many requests on each connection
    unread = spec.concurrency if kept and tool == "ab" else 0
    of_warm_up = min(spec.concurrency, WARM_UP_CONNECTIONS) if kept and tool != "wrk" else 0
    # With keep-alive the head may contain the number of remaining requests.
    same_heads = run.kind != "server" and not conditions.keep_alive
    return Asked(
        requests=spec.requests,
        timeout=spec.timeout,
        status=seen.answer.status,
        body_bytes=len(seen.answer.body),
        answer_bytes=seen.answer.size if same_heads else None,
        any_length=workload.may_grow or (not seen.private and workload.visits > 0),
        # A traced or counted server is slow, and may close connections because clients wait.
        keep_alive=kept and conditions.mode not in ("traced", "counted"),
        unread=unread,
        # The last answer on an idle connection may arrive too late to be counted.
        slack=unread + of_warm_up + conditions.idle,
    )


def judge(run: Run, seen: Evidence) -> None:
    """Store all checks in the run, and set its state and reason."""
    run.checks, causes = list(_checks(run, seen)), "; ".join(_causes(seen))
    for check in run.checks:
        if causes and not check.holds and check.name in SPOILED_BY_KERNEL:
            check.detail += f" ({causes})"
    failure = first_failure(run.checks)
    run.state = "failed" if failure else "held"
    run.reason = Reason(label=failure.label, text=failure.detail) if failure else None


def first_failure(checks: Sequence[Check]) -> Check | None:
    """Return the first failed check; None if all passed."""
    return next((check for check in checks if not check.holds), None)


def _causes(seen: Evidence) -> Iterator[str]:
    """Yield the kernel's actions that may have caused a failure, and their fixes."""
    kernels = [tcp for host in seen.hosts if (tcp := host.host.tcp)]
    if forgotten := sum(tcp.time_wait_overflows for tcp in kernels):
        words = f"the kernel could not keep {forgotten:,} connections in TIME_WAIT"
        yield f"{words} and may have reset their clients; fix: {TIME_WAIT_FIX}"
    if overflows := sum(tcp.listen_overflows for tcp in kernels):
        backlogs = [use.own_backlog for use in seen.uses if use.own_backlog is not None]
        short = min((own for own in backlogs if own < seen.spec.connections), default=None)
        fix = ACCEPT_QUEUE_FIX
        if short is not None:
            fix = f"a backlog larger than the server's default of {short:,} (--backlog)"
        words = f"the accept queue was full {overflows:,} times"
        yield f"{words}, so clients tried again later; fix: {fix}"


def _checks(run: Run, seen: Evidence) -> Iterator[Check]:
    load = asked(run, seen)
    died, wrong = _ends(seen)
    detail = f"the server {died}, {_of(seen.outcome.completed, load)}"
    yield _check("server alive", not died, "died", detail)
    if seen.outcome.tool:
        yield from load_checks(load, seen.outcome)
    yield from _check_counts(seen, load)
    if run.kind == "server":  # baselines and reference servers print no statistics
        yield from _check_statistics(run, seen, load)
    yield from _check_little(run, seen)
    yield from _check_idle(seen)
    if balancer := next((of.balancer for of in seen.stopped.values() if of.balancer), None):
        yield from _check_balancer(balancer)
    bad = bool(wrong) and run.kind == "server"
    yield _check("server's end", not bad, "bad end", f"the server {wrong}")


def load_checks(asked: Asked, load: Outcome) -> Iterator[Check]:
    """Check that a load generator ended in time with status 0, and check its report."""
    tool, done, figures = load.tool, _of(load.completed, asked), load.figures
    limit = f"not done after {asked.timeout:g} s, {done}"
    yield _check("in time", not load.timed_out, "timed out", limit)
    said = load.message or f"{tool} ended with status {load.status}"
    ended = load.timed_out or load.status == 0
    label = next((label for words, label in LABELS.items() if words in said), f"{tool} failed")
    yield _check(f"{tool}'s status", ended, label, f"{said}, {done}")
    if tool == "ab":
        # With -r, ab would continue after errors and report success, even without a server.
        yield _check("ab without -r", "-r" not in load.command, "ab -r", "ab -r hides errors")
    if figures is None:
        yield _check("completed", False, "no report", f"{tool} wrote no report, {done}")
    elif isinstance(figures, AbFigures):
        yield from _check_ab(asked, figures)
    elif isinstance(figures, WrkFigures):
        yield from _check_answers(asked, figures.statuses, figures.errors)
        yield from _check_wrk(asked, figures)
    else:
        yield from _check_answers(asked, figures.status_codes, figures.errors)
    if load.body_bytes is not None:
        yield _check_bytes(asked, load.body_bytes)


def _check_kept(asked: Asked, kept: int) -> Iterator[Check]:
    if asked.keep_alive:
        detail = f"only {kept:,} of {asked.requests:,} responses kept the connection"
        yield _check("kept alive", kept >= KEPT_SHARE * asked.requests, "closes", detail)


def _times(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} x {kind}" for kind, n in counts.items() if n)


def _check_ab(asked: Asked, figures: AbFigures) -> Iterator[Check]:
    done, failed, kinds = figures.complete, figures.failed, _times(figures.failures)
    yield _check("completed", done == asked.requests, "incomplete", _of(done, asked))
    detail = f"{failed:,} of {asked.requests:,} requests failed" + (kinds and f" ({kinds})")
    yield _check("none failed", not failed, f"{failed:,} failed", detail)
    errors = f"{figures.write_errors:,} requests could not be sent completely"
    yield _check("all sent", figures.write_errors == 0, "write errors", errors)
    # With keep-alive, ab also counts bytes of responses for which ab does not wait.
    yield _check_bytes(asked, figures.html_bytes, asked.slack)
    # ab counts all responses except 2xx as "non-2xx", also redirects.
    expected = 0 if 200 <= asked.status < 300 else asked.requests
    others = abs(figures.non_2xx - expected)
    detail = f"{others:,} of {asked.requests:,} responses were not {asked.status // 100}xx"
    yield _check("status class", others == 0, f"{others:,} other", detail)
    if asked.answer_bytes is not None and not asked.any_length:
        due, came = asked.answer_bytes * asked.requests, figures.transferred_bytes
        detail = f"{came:,} bytes with all heads, not {due:,}: some responses differ"
        yield _check("same answers", came == due, "other answers", detail)
    yield from _check_kept(asked, figures.keep_alive)


def _check_bytes(asked: Asked, came: int, slack: int = 0) -> Check:
    """Check the total length of the bodies: requests x the first body's length, or more."""
    due = asked.body_bytes * asked.requests
    if asked.any_length:
        # With -l, ab accepts any length, even an empty response.
        detail = f"{came:,} bytes were received, at least {due:,} expected"
        return _check("whole pages", came >= due, "cut off", detail)
    whole = due <= came <= due + slack * asked.body_bytes
    label = "cut off" if came < due else "too long"
    return _check("whole pages", whole, label, f"{came:,} bytes were received, {due:,} expected")


def _check_answers(
    asked: Asked, statuses: Mapping[str, int], errors: Mapping[str, int]
) -> Iterator[Check]:
    """Check the counts of wrk or oha, because both continue after errors."""
    # The status is checked first: if all responses are 408 or 503, their number is unimportant.
    done, others = sum(statuses.values()), dict(statuses)
    right = others.pop(str(asked.status), 0)
    detail = f"{done - right:,} of {done:,} responses were {', '.join(others)}, not {asked.status}"
    yield _check("status", done == right, f"{done - right:,} other", detail)
    failed, detail = sum(errors.values()), f"errors: {_times(errors)}; {_of(done, asked)}"
    yield _check("none failed", not failed, f"{failed:,} failed", detail)
    yield _check("completed", done == asked.requests, "incomplete", _of(done, asked))


def _check_wrk(asked: Asked, figures: WrkFigures) -> Iterator[Check]:
    extra = f"{figures.unasked:,} more responses than requests"
    yield _check("all asked for", not figures.unasked, f"{figures.unasked:,} too many", extra)
    due = asked.body_bytes
    wrong = sum(
        number
        for length, number in figures.lengths.items()
        if int(length) < due or (int(length) > due and not asked.any_length)
    )
    detail = f"{wrong:,} of {asked.requests:,} bodies do not have the {due:,} bytes of the first"
    yield _check("whole pages", not wrong, "other length", detail)
    yield from _check_kept(asked, figures.complete - figures.closes)


def _check_counts(seen: Evidence, asked: Asked) -> Iterator[Check]:
    """Check the increase of the counts in Redis, which are independent of the load generator. If
    Redis may have other clients, the increase has no maximum."""
    workload = workload_for(seen.spec.conditions.workload)
    kinds = (("visitors", workload.visits), ("remarks", workload.remarks))
    for (what, each), got in zip(kinds, seen.counted, strict=True):
        if each:
            due, most = each * asked.requests, each * (asked.requests + asked.unread)
            holds = got >= due and (got <= most or not seen.private)
            detail = f"{due:,} {what} expected, {got:,} counted"
            yield _check(f"{what} in Redis", holds, "miscount", detail)


def _check_statistics(run: Run, seen: Evidence, asked: Asked) -> Iterator[Check]:
    """Check the server's count of requests and, if no connections are idle, its status classes."""
    own, right, due = run.server_statistics, f"{asked.status // 100}xx", seen.all_requests
    if own is None or own.requests is None:
        none = "the server printed no statistics"
        yield _check("server's statistics", False, "no statistics", none)
        return
    enough = due <= own.requests <= due + asked.slack
    detail = f"the server counted {own.requests:,} requests, but clients sent {due:,}"
    if asked.slack:
        detail += f" to {due + asked.slack:,}"
    yield _check("server's count", enough, "miscount", detail)
    if seen.idle:
        return  # idle connections send other requests
    wrong = {name: n for name, n in own.responses.items() if n and name != right}
    detail = f"the server answered {_times(wrong)}; expected: {right}"
    yield _check("server's classes", not wrong, "other status", detail)


def _check_little(run: Run, seen: Evidence) -> Iterator[Check]:
    law = run.littles_law
    if law is None:
        return
    below, above = little_tolerance(
        seen.spec,
        seen.outcome.wall_seconds,
        longest=run.latency.max / 1000 if run.latency else 0.0,
        foreign=(run.process and run.process.foreign_share) or 0.0,
    )
    detail = f"{law.rate:,.0f} requests/s of {law.mean_ms:,.1f} ms each are {law.product:,.1f}"
    detail += f" in progress, not {law.concurrency:,}"
    label = "too little load" if law.deviation < 0 else "impossible"
    yield _check("Little's law", -below <= law.deviation <= above, label, detail)


def little_tolerance(
    spec: RunSpec, wall: float, *, longest: float, foreign: float
) -> tuple[float, float]:
    """Return the limits of the deviation from Little's law, below and above 0. The lower limit
    allows for the end of a run, when fewer connections have requests. The end is long if each
    connection has few requests, or if the slowest request takes long (`longest`, in seconds).
    `foreign`: the CPU share of other processes, for which ab waits between two requests."""
    clock = CLOCK_SECONDS / max(wall, CLOCK_SECONDS)
    end = max(spec.concurrency / spec.requests, longest / max(wall, CLOCK_SECONDS))
    return min(1.0, LITTLE_BELOW + end + clock + foreign), LITTLE_ABOVE + clock


def _check_idle(seen: Evidence) -> Iterator[Check]:
    idle = seen.idle
    if idle is None:
        return
    detail = f"only {idle.held:,} of {idle.asked:,} idle connections were open at the end"
    yield _check("idle connections", idle.held >= HELD_SHARE * idle.asked, "not idle", detail)
    detail = f"the server closed the {idle.asked:,} idle connections {idle.reopened:,} times: "
    detail += "reopening them is an additional load"
    yield _check("they stay", idle.reopened <= idle.asked, "not idle", detail)


def _check_balancer(end: BalancerEnd) -> Iterator[Check]:
    """Check that nginx did not answer 502 or 504 instead of a server. Some load generators would
    count nginx' answer as a server's answer."""
    detail = f"nginx got no answer from a server for {end.errors:,} requests ({end.last_error})"
    yield _check("nginx' own answers", not end.errors, f"{end.errors:,} by nginx", detail)
    detail = f"nginx ended with status {end.status} ({end.last_error})"
    yield _check("nginx' end", end.status == 0, "nginx ended", detail)


def _ends(seen: Evidence) -> tuple[str, str]:
    """Return two parts of a sentence: the end of the first server that ended before SIGTERM, and of
    the first server that ended with an error. A text is empty if there is no such server. With
    several instances, a text has the number of the instance."""
    alive = {s.name: s.servers.alive for s in seen.hosts if s.servers}
    ends = [
        (host, *both)
        for host, of in seen.stopped.items()
        for both in zip(alive.get(host, ()), of.servers, strict=False)
    ]
    died, wrong = [], []
    for number, (host, lived, end) in enumerate(ends, 1):
        which = f", instance {number} of {len(ends)} on {host}" if len(ends) > 1 else ""
        died += [] if lived else [end.describe() + which]
        wrong += [how + which] if (how := wrong_end(end)) else []
    return "".join(died[:1]), "".join(wrong[:1])


def wrong_end(end: Ended) -> str:
    """Return how a server ended, as a part of a sentence; empty if it ended without an error."""
    if not end.obeyed:
        return "did not end after SIGTERM and had to be killed"
    return "" if end.status == 0 else end.describe()


def _check(name: str, holds: bool, label: str, detail: str) -> Check:
    return Check(name=name, holds=holds, **({} if holds else {"label": label, "detail": detail}))


def _of(done: int | None, asked: Asked) -> str:
    if done is None:
        return f"of {asked.requests:,} requests an unknown number completed"
    return f"{done:,} of {asked.requests:,} completed"
