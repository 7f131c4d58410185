# SPDX-License-Identifier: MIT
"""Where the microseconds of a request go, in words and tables, for the page and the document."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from bench.readers.console import Table
from bench.readers.cost import ENOUGH, NOTHING, Difference, Flame, ServerCost, lines, percent
from bench.records.conditions import CHANGES, TRICKS, Conditions
from bench.records.figures import QUIET, Frame, StackFigures
from bench.records.results import Results
from bench.records.words import connections, plural

UNTRUE = 1.02
"""Above this ratio of baseline to server the page shows a caution."""
OFTEN = 0.05
"""A system call has a row if a server makes it at least this often per request."""
OWN, LIBRARY, OTHER = "its own code", "C library", "other"
FAULTS, INTERRUPTS, BORDER = "page faults", "interrupts", "calls' way in and out"
_PLACES = (
    ("asm_exc_page_fault", FAULTS),
    ("exc_page_fault", FAULTS),
    ("el0_da", FAULTS),  # ARM: of data, and of instructions
    ("el0_ia", FAULTS),
    ("asm_sysvec", INTERRUPTS),
    ("asm_common_interrupt", INTERRUPTS),
    ("el0t_64_irq", INTERRUPTS),
    ("el0t_64_sync", BORDER),
    ("el0_svc", BORDER),
    ("do_el0_svc", BORDER),
    ("invoke_syscall", BORDER),
    ("do_syscall_64", BORDER),
    ("x64_sys_call", BORDER),
    ("syscall_", BORDER),
    ("do_notify_resume", BORDER),
    ("exit_to_user_mode", BORDER),
    ("entry_SYSCALL", BORDER),
    ("__x64_sys_", ""),
    ("__arm64_sys_", ""),
    ("__do_sys_", ""),
    ("__sys_", ""),
    ("ksys_", ""),
)
"""Prefixes of the first function in the kernel, and their meaning. If the meaning is empty, the
rest of the function is the name of a system call."""
WHAT = TRICKS | CHANGES
"""A line about each optimisation and each experiment."""
SHOWN = 0.03
"""A place has a row if it takes at least this share of a server's time."""

ABOUT_COST = (
    "CPU microseconds of the server per request, with all its threads and children: the median "
    "of its runs. The baseline is a minimal server of the same architecture that parses nothing. "
    "The two are measured alternately. The baseline is no lower bound: a server with fewer or "
    "cheaper system calls can cost less. The baseline's share is the median of the ratios of each "
    "round. User and kernel time divide these microseconds in the proportion of perf's samples "
    "under the same load (see the last section; a function with too few samples counts with its "
    "caller). With some hundred samples the user part is uncertain by 10 %. The kernel's own "
    "user and system times are not used, because they depend on a few timer ticks in a run. "
    "Without perf there is no division. Each column is its own median: if runs differ much, as "
    "with persistent connections, a quotient of two columns can differ from the ratio, which "
    "compares runs of the same round."
)
ABOUT_CALLS = (
    "Per request, counted by strace with ten connections. strace slows a server down, so the "
    "server sometimes waits when it would not without strace."
)
ABOUT_TRICKS = (
    "Optimisations that save kernel work, switched off one at a time (ablation) by a preloaded "
    "library (floors/without.c), so nothing else differs. Runs with and without alternate, and "
    "the figure is the median of the ratios: +10 % means that a request costs 10 % more without "
    "the optimisation. If the runs disagree, or the difference is less than 3 %, it is not "
    "significant: it shows neither an effect nor the absence of one. `control` is the library "
    "alone; its figure shows the error of the method."
)
ABOUT_EXPERIMENTS = (
    "This table compares alternative code: a patch of a server's source in course/experiments/, "
    "measured alone by `make experiment N=NAME`. A positive figure means that the original "
    "server costs less."
)


def headline(results: Results) -> str:
    """Return the cost of the cheapest server under the first conditions, and its baseline's."""
    found = [line for line in lines(results) if line.cost]
    first = [line for line in found if line.conditions == found[0].conditions]
    if not first:
        return "Where the microseconds of a request go"
    best = min(first, key=lambda line: line.cost.median if line.cost else 0.0)
    assert best.cost
    words = (
        f"A {best.conditions.workload} costs {best.subject} {best.cost.median:.1f} µs of CPU time"
    )
    if best.share is None or best.floor is None:
        return words
    return f"{words}, and the baseline of its architecture {best.floor.median:.1f} µs"


def cautions(results: Results) -> list[str]:
    """Return the cautions at the top of the page."""
    found = []
    if results.state != "complete":
        found.append("The sweep was not completed: the results are partial.")
    loud = [r for r in results.runs if r.conditions.rated and (r.disturbed_by or 0) > QUIET]
    rated = sum(run.conditions.rated for run in results.runs)
    if loud:
        found.append(
            f"In {len(loud):,} of {rated:,} runs other programs used more than {QUIET:.0%} of the "
            "server's CPU. This affects ratios less, because both sides are measured alternately."
        )
    dear = [
        f"{line.subject} ({line.conditions.describe()})"
        for line in lines(results)
        if line.share and line.share.median > UNTRUE
    ]
    if dear:
        found.append(
            f"The baseline costs more than the server itself: {', '.join(dear)}. It shows only "
            "that the two are close."
        )
    bad = [run for run in results.runs if run.state != "held"]
    if bad:
        reasons = sorted({run.reason.text for run in bad if run.reason})
        have = plural(len(bad), "run has", "runs have")
        found.append(f"{have} no figure: {'; '.join(reasons)}")
    return found


def measured(results: Results) -> str:
    """Return the method of the measurement in a sentence or two."""
    rated = [run for run in results.runs if run.conditions.rated]
    most = max((run.run for run in rated), default=0)
    level = max((run.concurrency for run in rated), default=0)
    where = f"; {results.placement.note}" if results.placement else ""
    runs = "one run" if most == 1 else f"{most} runs"
    how = f"ab with {connections(level)}, {runs} of each configuration"
    return f"{results.machine.describe()}{where}. {how}."


Shown = TypeVar("Shown", ServerCost, Flame)


def by_conditions(found: Sequence[Shown]) -> Iterator[tuple[Conditions, list[Shown]]]:
    """Yield each set of conditions with its results."""
    for conditions in dict.fromkeys(one.conditions for one in found):
        yield conditions, [one for one in found if one.conditions == conditions]


COST_HEAD = (
    *("<server", "µs", "user", "kernel", "baseline", "baseline's share", "waits", "preempted"),
    *("page faults", "system calls"),
)


def _cost_row(line: ServerCost) -> tuple[str, ...]:
    cost, calls = line.cost, line.calls
    return (
        line.subject,
        _figure(cost.median if cost else None),
        _figure(line.user),
        _figure(None if cost is None or line.user is None else cost.median - line.user),
        _figure(line.floor.median if line.floor else None),
        f"{line.share.median:.0%}" if line.share else NOTHING,
        _figure(line.voluntary, 2),
        _figure(line.involuntary, 2),
        _figure(line.faults, 2),
        _figure(calls.total if calls else None, 2),
    )


def cost_table(found: Sequence[ServerCost]) -> Table:
    """Return the table of the servers under the same conditions."""
    return Table(*COST_HEAD, rows=map(_cost_row, found))


def calls_table(found: Sequence[ServerCost]) -> Table:
    """Return a table: a row for each frequent system call, a column for each server."""
    counted = [line for line in found if line.calls]
    if not counted:
        return Table()
    most: dict[str, float] = {}
    for line in counted:
        for name, number in line.often:
            most[name] = max(most.get(name, 0.0), number)
    names = sorted((n for n in most if most[n] >= OFTEN), key=lambda name: (-most[name], name))
    rows = [(name, *(_number(dict(line.often).get(name)) for line in counted)) for name in names]
    rest = [sum(number for name, number in line.often if name not in names) for line in counted]
    totals = [line.calls.total if line.calls else 0.0 for line in counted]
    last = [("others", *map(_number, rest)), ("all", *map(_number, totals))]
    return Table("<system call", *(line.subject for line in counted), rows=[*rows, *last])


TRICK_HEAD = ("<optimisation", "<where", "with", "without", "without it", "all runs")
EXPERIMENT_HEAD = (
    "<experiment",
    "<where",
    "as it is",
    "otherwise",
    "otherwise it costs",
    "all runs",
)


def difference_table(head: tuple[str, ...], found: Sequence[Difference]) -> Table:
    """Return a row for each optimisation or experiment under each of its conditions."""
    return Table(*head, rows=map(_sides, _in_order(found)))


def explained(found: Sequence[Difference]) -> list[tuple[str, str]]:
    """Return each optimisation or experiment once, with its description."""
    return [(name, WHAT.get(name, "")) for name in dict.fromkeys(d.name for d in _in_order(found))]


def _in_order(found: Sequence[Difference]) -> list[Difference]:
    """Sort by the order of the descriptions; unknown names are last."""
    places = {name: place for place, name in enumerate(WHAT)}
    return sorted(found, key=lambda d: (places.get(d.name, len(WHAT)), d.name))


def _sides(found: Difference) -> tuple[str, ...]:
    usual, other = (_figure(s.cost.median if s.cost else None) for s in (found.usual, found.other))
    where = f"{found.subject}: {found.conditions.describe()}"
    low_high = found.ratio and f"{found.ratio.low - 1:+.0%} to {found.ratio.high - 1:+.0%}"
    return (found.name, where, usual, other, found.verdict, low_high or "")


def brought(found: Sequence[Difference]) -> str:
    """Return the optimisations with the largest gain, with a loss, and without significance."""
    seen = [d for d in found if d.ratio and d.ratio.runs >= ENOUGH]
    if not seen:
        return ""
    clear = [d for d in seen if d.ratio and d.apart and d.ratio.median > 1]
    dear = [d for d in seen if d.ratio and d.apart and d.ratio.median < 1]
    none = sorted({d.name for d in seen} - {d.name for d in (*clear, *dear)})
    words = []
    if clear:
        best = max(clear, key=lambda d: d.ratio.median if d.ratio else 0.0)
        assert best.ratio
        words.append(
            f"`{best.name}` saves most: without it {best.conditions.describe()} costs "
            f"{percent(best.ratio)}."
        )
    if dear:
        cases = [f"`{d.name}` ({d.conditions.describe()}: {d.verdict})" for d in dear]
        words.append(f"Cheaper without: {', '.join(cases)}.")
    if none:
        words.append(f"No significant difference: {', '.join(f'`{name}`' for name in none)}.")
    return " ".join(words)


def sampled_how(found: Sequence[Flame]) -> str:
    """Return how the flame graphs were sampled."""
    return " ".join(dict.fromkeys(_how(flame.stacks) for flame in found))


def _how(stacks: StackFigures) -> str:
    if stacks.how == "pprof":
        return (
            "Go's pprof replaced perf, which is not available. It sampled the program after each "
            "10 ms of its CPU time, from start to end, so the figures are shares of CPU time. It "
            "shows kernel time only as the function that makes a system call."
        )
    if stacks.how == "callgrind":
        return (
            "valgrind's callgrind replaced perf, which is not allowed. It counted instructions in "
            "user space exactly, but no time. Kernel work, the largest part, is not included."
        )
    kernel = "" if stacks.kernel else " It was permitted to sample user space only."
    return (
        "perf sampled the server's CPU with its call stacks 4,999 times a second, so the figures "
        f"are shares of CPU time.{kernel}"
    )


# ---- Where the time is ----


def places(stacks: StackFigures) -> dict[str, float]:
    """Return the shares of the server's own code, the C library, and of the kernel by system call
    or other reason of entry."""
    found: dict[str, int] = {}

    def add(frame: Frame, where: str) -> None:
        inside = where
        if frame.of == "kernel" and where in (OWN, LIBRARY):
            inside = _place_of(frame.name)
        elif frame.of != "kernel":
            inside = LIBRARY if frame.of == "library" else OWN
        found[inside] = found.get(inside, 0) + frame.own
        for below in frame.below:
            add(below, inside)

    for frame in stacks.frames:
        add(frame, OWN)
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return {name: count / stacks.count for name, count in ordered if count}


def _place_of(function: str) -> str:
    for start, what in _PLACES:
        if function.startswith(start):
            return what or function.removeprefix(start)
    return OTHER


def place_table(found: Sequence[Flame]) -> Table:
    """Return a row for each place with a large share, a column for each server."""
    shares = [places(flame.stacks) for flame in found]
    most: dict[str, float] = {}
    for own in shares:
        for name, share in own.items():
            most[name] = max(most.get(name, 0.0), share)
    names = sorted(
        (n for n in most if n != OTHER and most[n] >= SHOWN), key=lambda n: (-most[n], n)
    )
    rows = [(name, *(_share(own.get(name, 0.0)) for own in shares)) for name in names]
    rest = (sum(share for name, share in own.items() if name not in names) for own in shares)
    rows.append((OTHER, *map(_share, rest)))
    return Table("<for", *(flame.subject for flame in found), rows=rows)


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.005 else ""


def _figure(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _number(value: float | None) -> str:
    return f"{value:.2f}" if value else ""
