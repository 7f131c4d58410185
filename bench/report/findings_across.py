"""The titles of the charts that compare scenarios. Pure functions; see `findings`."""

from collections.abc import Sequence

from bench.report.across import Comparison
from bench.report.charts.loops import WAYS
from bench.report.findings import NEAR
from bench.report.study import WAITS
from bench.report.words import duration, percent, times


def comparison(found: Comparison, names: Sequence[str]) -> str:
    """What the change from the first condition to the last did: the least and the most hurt."""
    first, last = found.order[0], found.order[-1]
    if found.key == "workloads":
        waiting = [w for w in found.order if w != "sorted"]
        first, last = min(waiting, key=_wait), max(waiting, key=_wait)
    known = {n: v for n, v in found.values.items() if n in names and {first, last} <= set(v)}
    kept = sorted((v[last] / v[first], name) for name, v in known.items() if v[first])
    if not kept or first == last:
        return ""
    what = {
        "workloads": "Waiting for Redis",
        "delays": f"{last} ms of delay in each reply of Redis",
        "idles": f"{int(last):,} idle connections" if last.isdigit() else last,
    }[found.key]
    if found.metric == "cpu":
        (less, least), (more, most) = kept[0], kept[-1]
        if len(kept) > 1 and more < NEAR * less:
            return f"With {what} a request costs each of them {times(more)} as much CPU"
        return (
            f"With {what} a request costs {most} {times(more)} as much CPU, {least} {times(less)}"
        )
    (less, most), (more, least) = kept[0], kept[-1]
    if len(kept) > 1 and more < NEAR * less:
        return f"{what} left each of them {percent(less)} of its rate"
    share = percent(more) if more < 1 / NEAR else "all"
    words = f"{what} left {least} {share} of its rate"
    return words + (f", {most} {percent(less)}" if len(kept) > 1 else "")


def _wait(workload: str) -> int:
    return WAITS.get(workload, 0)


def loops(rows: Sequence[dict[str, object]]) -> str:
    """The largest difference between what was sent and what was due."""
    ways: dict[str, dict[str, float]] = {}
    for row in rows:
        ways.setdefault(str(row["who"]), {})[str(row["way"])] = float(str(row["p99"]))
    closed_loop, _, from_due = WAYS
    found = [
        (by[from_due] / by[closed_loop], who, by)
        for who, by in ways.items()
        if by.get(closed_loop) and from_due in by
    ]
    if not found:
        return "Latency at a constant rate, whatever the server does"
    ratio, name, by = max(found, key=lambda f: f[0])
    who, rate = name.split("|")
    closed, due = by[closed_loop], by[from_due]
    if ratio < NEAR:
        return (
            f"At {rate} 99 % of {who}'s answers came within {duration(due)} of when they were due; "
            f"in the closed loop, at full load, within {duration(closed)}"
        )
    return (
        f"The closed loop says {duration(closed)} for {who} (p99), the open loop at {rate} "
        f"{duration(due)}: {times(ratio)} as long"
    )
