# SPDX-License-Identifier: MIT
"""Where the microseconds of a request go, as a document: a reader of the results of `make cost`.

What was not measured, or does not hold, has no figure.
"""

from collections.abc import Iterable, Iterator

from bench.readers.targets import Cost, cost_of
from bench.records.conditions import FLOOR_PREFIX, CellKey
from bench.records.results import Results
from bench.records.run import Run

NOTHING = "-"
COSTS = (
    *("server", "conditions", "total", "user", "kernel", "floor", "share of the floor"),
    *("switches", "page faults"),
)
Runs = dict[CellKey, list[Run]]


def document(results: Results) -> str:
    """The whole of it, as Markdown."""
    runs: Runs = {}
    for run in results.runs:
        runs.setdefault(run.key, []).append(run)
    lines = [
        "# Where the microseconds of a request go",
        "",
        "CPU microseconds of the server, its children too, per request: medians, measured in turns"
        " in one sweep. The floor is the barest program of the same architecture: it parses"
        " nothing, so what it takes no program of this way to wait can avoid.",
        "",
        *_table(
            COSTS,
            _costs(runs),
        ),
        "",
        "## System calls of a request",
        "",
        "As strace sees them, which now and then makes a server wait where it otherwise would not.",
        "",
        *_table(("server", "conditions", "calls", "which"), _calls(runs)),
        "",
        "## Each trick switched off alone",
        "",
        "What it costs to do without (floors/without.c): of the CPU time, positive where the trick"
        " brings something. Where the runs with it and without it overlap, they cannot be told"
        " apart.",
        "",
        *_table(("server", "conditions", "trick", "with", "without", "brings"), _tricks(runs)),
    ]
    return "\n".join(lines) + "\n"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _costs(runs: Runs) -> Iterator[tuple[str, ...]]:
    for key, its in runs.items():
        conditions = key.conditions
        if not conditions.rated or conditions.without or key.subject.startswith(FLOOR_PREFIX):
            continue
        beside = runs.get(key._replace(subject=FLOOR_PREFIX + key.subject), [])
        if not beside:
            continue
        cost, floor = cost_of(its), cost_of(beside)
        faults = [r.process.page_faults_per_request for r in its if r.process]
        switches = [
            (r.process.voluntary_switches_per_request or 0)
            + (r.process.involuntary_switches_per_request or 0)
            for r in its
            if r.process
        ]
        yield (
            key.subject,
            conditions.describe(),
            *_three(cost),
            NOTHING if floor is None else f"{floor.total:.1f}",
            f"{floor.total / cost.total:.0%}" if floor and cost else NOTHING,
            _middle(switches),
            _middle([fault for fault in faults if fault is not None]),
        )


def _three(cost: Cost | None) -> tuple[str, ...]:
    if cost is None:
        return (NOTHING,) * 3
    return tuple(f"{value:.1f}" for value in (cost.total, cost.user, cost.system))


def _middle(values: list[float]) -> str:
    return f"{sorted(values)[len(values) // 2]:.2f}" if values else NOTHING


def _calls(runs: Runs) -> Iterator[tuple[str, ...]]:
    for key, its in runs.items():
        calls = its[0].calls if key.conditions.mode == "traced" else None
        if calls is None:
            continue
        often = [f"{name} {n:.2f}" for name, n in calls.per_request.items() if n >= 0.005]
        yield key.subject, key.conditions.describe(), f"{calls.total:.2f}", ", ".join(often)


def _tricks(runs: Runs) -> Iterator[tuple[str, ...]]:
    for key, its in runs.items():
        trick = key.conditions.without
        if not trick:
            continue
        usual = key._replace(conditions=key.conditions._replace(without=""))
        off, on = cost_of(its), cost_of(runs.get(usual, []))
        if off is None or on is None:
            yield key.subject, usual.conditions.describe(), trick, NOTHING, NOTHING, NOTHING
            continue
        share = off.total / on.total - 1
        apart = off.low > on.high or off.high < on.low
        brings = f"{share:+.0%}" if apart else f"nothing to be told ({share:+.0%})"
        figures = (f"{on.total:.1f}", f"{off.total:.1f}", brings)
        yield key.subject, usual.conditions.describe(), trick, *figures
