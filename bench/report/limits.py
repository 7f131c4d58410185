# SPDX-License-Identifier: MIT
"""The limits of the servers, in words: the hosts that were bottlenecks, the levels that each server
passes, and the reasons for failures."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bench.records.conditions import Conditions, Role
from bench.records.environment import HostInfo
from bench.records.figures import HostFigures, grouped
from bench.records.points import Point
from bench.records.words import connections, listed, number_word, percent, plural, upper_first
from bench.report.study import Row, Study

ROLES: tuple[Role, ...] = ("load", "nginx", "server", "redis")
"""The roles in the order in which a request passes them."""
THROTTLED = 0.05
"""Titles and tables mention throttling of a host in at least this share of its periods."""
NAMES = {"load": "load generator", "nginx": "nginx", "server": "server", "redis": "Redis"}
WHO = NAMES | {name: f"the {NAMES[name]}" for name in ("load", "server")}
QUEUES = (
    ("listen_overflows", "overflow"),
    ("listen_drops", "dropped SYN"),
    ("retransmits", "resent segment"),
    ("time_wait_overflows", "TIME_WAIT overflow"),
)
"""Counters of a host's TCP problems, with their names in texts."""


def label(role: str, name: str) -> str:
    """Return a host's name, with its role unless the name contains it."""
    said = ("server", "zerohttpd") if role == "server" else (role,)
    return name if any(word in name.lower() for word in said) else f"{name} ({role})"


def in_order(hosts: Sequence[HostInfo]) -> list[HostInfo]:
    """Return the hosts in the order in which a request passes them."""
    return sorted(hosts, key=lambda host: ROLES.index(host.role))


def hosts_in_a_line(study: Study) -> str:
    """Return one line: "Two hosts, each with one CPU: load and redis"; empty without hosts."""
    hosts = study.results.hosts
    if not hosts:
        return ""
    sizes = {_size(host) for host in hosts}
    each = f", each with {sizes.pop()}" if len(sizes) == 1 else ""
    many = f"{number_word(len(hosts))} hosts" if len(hosts) > 1 else "one host"
    return upper_first(f"{many}{each}: {listed([host.name for host in in_order(hosts)])}")


def _size(host: HostInfo) -> str:
    limit = host.cpu_limit
    if limit is not None and limit != 1:
        return f"{limit:g} of a CPU" if limit < 1 else f"{limit:g} CPUs"
    return "one CPU" if limit == 1 or host.cpus == 1 else plural(host.cpus, "CPU")


def limit_of(point: Point) -> HostFigures | None:
    """Return the host that was the limit of a data point; None if it is unknown or not a host."""
    found = (host for host in point.hosts if host.role == point.bottleneck)
    return next((host for host in found if point.bottleneck_host in (None, host.name)), None)


def why(host: HostFigures, at_most: str = "") -> str:
    """Return the evidence that a host was at its limit: "throttled in 92 % of its periods"."""
    if (host.throttled_share or 0) >= THROTTLED:
        return f"throttled in {at_most}{percent(host.throttled_share or 0)} of its periods"
    return f"{at_most}{percent(host.cpu_share)} of its CPU used"


def limits_of(points: Iterable[Point]) -> dict[str, list[Point]]:
    """Return each host (or program) that was the limit, with its data points. The host with the
    most data points comes first."""
    found = grouped((name, point) for point in points if (name := _limit_name(point)))
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _limit_name(point: Point) -> str | None:
    host = limit_of(point)
    return label(host.role, host.name) if host else WHO.get(point.bottleneck or "")


def limit_words(point: Point) -> str:
    """Return the limit of a data point with its evidence; empty if the limit is unknown."""
    if point.bottleneck is None:
        return ""
    host = limit_of(point)
    if host:
        return f"{label(host.role, host.name)} was the limit: {why(host)}"
    if point.bottleneck != "none":
        return f"{WHO[point.bottleneck]} was at its limit"
    if not point.hosts:
        return "no process was at its limit"
    return f"no host was at its limit; {_busiest(point.hosts)}"


def _busiest(hosts: Iterable[HostFigures]) -> str:
    most = max(hosts, key=lambda host: host.cpu_share)
    name = label(most.role, most.name)
    return f"the busiest was {name}, with {percent(most.cpu_share)} of its CPU"


def problems(host: HostFigures) -> list[str]:
    """Return a host's TCP problems: "12 overflows", "3 resent segments"."""
    return [plural(count, word) for name, word in QUEUES if (count := getattr(host, name))]


def host_words(host: HostFigures) -> str:
    """Return all figures of a host in one configuration, in words."""
    words = [f"{percent(host.cpu_share)} of its CPU"]
    if host.throttled_share is not None:
        words.append(f"throttled in {percent(host.throttled_share)} of its periods")
    looked = any(getattr(host, name) is not None for name, _ in QUEUES)
    return ", ".join([*words, *(problems(host) or ["no queue problems"] * looked)])


def names(study: Study) -> list[str]:
    """Return the labels of all hosts with figures, in the order in which a request passes them."""
    found = {(host.role, host.name) for point in study.points for host in point.hosts}
    known = [(host.role, host.name) for host in in_order(study.results.hosts)]
    rest = sorted(found - set(known), key=lambda key: (ROLES.index(key[0]), key[1]))
    return [label(*key) for key in [*known, *rest] if key in found]


def host_rows(study: Study) -> Iterator[Row]:
    """Yield a row for each host and data point of the scenarios in the page's menu."""
    place = {name: index for index, name in enumerate(names(study))}
    for number, point in enumerate(study.points):
        for host in point.hosts if point.conditions in study.scenarios else ():
            yield {
                "id": number,
                "s": study.keys[point.conditions],
                "subject": point.subject,
                "level": point.level,
                "place": place[label(host.role, host.name)],
                "share": round(host.cpu_share, 3),
                "throttled": round(host.throttled_share or 0, 3),
                "sign": "!" if problems(host) else "",
                "limit": host == limit_of(point),
            }


def finding(study: Study, scenario: Conditions, level: int) -> str:
    """Return the title: the host that was the limit, for how many servers, and the evidence."""
    points = [p for p in study.contenders(scenario, level) if p.hosts]
    if not points:
        return ""
    limits = limits_of(p for p in points if limit_of(p))
    if not limits:
        none = "no host was at its limit: " if all(p.bottleneck for p in points) else ""
        busiest = _busiest(host for point in points for host in point.hosts)
        return f"At {connections(level)} {none}{busiest}"
    who, cells = next(iter(limits.items()))
    hosts = [host for point in cells if (host := limit_of(point))]
    worst = max(hosts, key=lambda h: (h.throttled_share or 0, h.cpu_share))
    many = f" for {len(cells)} of {len(points)} servers" if len(points) > 1 else ""
    if 1 < len(cells) == len(points):
        many = " for both" if len(cells) == 2 else f" for all {number_word(len(cells))}"
    words = f"At {connections(level)} the host {who} was the limit{many}"
    return f"{words}: {why(worst, 'up to ' if len(cells) > 1 else '')}"


# ---- The levels that each server passes ----


class Holding(NamedTuple):
    """The levels that one server under test passes in one scenario."""

    subject: str
    kind: str
    highest: int | None
    """The highest level up to which every level is passed; None if even the lowest is not."""
    broken_at: int | None
    """The lowest level at which the server failed. A skipped level is no failure."""
    words: str


def holdings(study: Study, scenario: Conditions) -> list[Holding]:
    """Return the levels that each server of a scenario passes."""
    found = [(s, study.series(s.name, scenario)) for s in study.subjects]
    return [_holding(s.name, s.kind, points, study) for s, points in found if points]


def _holding(name: str, kind: str, points: list[Point], study: Study) -> Holding:
    bad = next((p for p in points if p.state != "held"), None)
    good = [p.level for p in points if p.held and (bad is None or p.level < bad.level)]
    highest = max(good, default=None)
    words = [_held_words(points, highest, bad, study.results.state == "complete")]
    if bad is not None:
        words.append(_why(bad, study))
        again = [f"{p.level:,}" for p in points if p.held and p.level > bad.level]
        if again:
            words.append(f"It passes again at {listed(again)}.")
    broken_at = next((p.level for p in points if p.state == "failed"), None)
    return Holding(name, kind, highest, broken_at, " ".join(words))


def _held_words(points: list[Point], highest: int | None, bad: Point | None, complete: bool) -> str:
    if highest is None:
        what = "Was not tried" if points[0].state == "skipped" else "Failed"
        return f"{what} at {points[0].level:,}, the lowest level."
    if bad is None and not complete:
        return f"Passed all measured levels, up to {connections(highest)}."
    if bad is None or bad.state == "skipped":
        which = "tried" if bad else "requested"
        return f"Passed every level up to {connections(highest)}, the highest {which}."
    return f"Passed up to {connections(highest)}."


def _why(bad: Point, study: Study) -> str:
    label = bad.reason.label if bad.reason else bad.state
    text = bad.reason.text if bad.reason else "no reason was recorded"
    verb = "not tried" if bad.state == "skipped" else label
    words = f"At {bad.level:,}: {verb}: {text.rstrip('.')}."
    limits = study.results.limits
    queue = limits.somaxconn if limits else None
    if bad.state == "failed" and queue and bad.level > queue:
        words += f" The accept queue is limited to {queue:,} (somaxconn)."
    return words
