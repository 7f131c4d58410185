"""What is shown (Markdown) and kept (JSON)."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bench.measure import memory
from bench.measure.agreement import Agreement
from bench.measure.comparisons import Comparison, Part
from bench.measure.cost import Cell
from bench.measure.many import Many
from bench.measure.memory import Memory
from bench.measure.syscalls import Calls
from bench.records.environment import Placement

SCHEMA = "zerohttpd-seven/measure"
SCHEMA_VERSION = 1


class Report(BaseModel):
    """All that was measured. An empty part was not asked for, or not reached."""

    schema_name: str = SCHEMA
    schema_version: int = SCHEMA_VERSION
    started: datetime
    machine: dict[str, Any]
    versions: dict[str, Any]
    placement: Placement
    accounting: str
    runs: int
    requests: int
    concurrency: int
    comparisons: dict[str, Part] = {}
    memory: list[Memory] = []
    connections: list[Many] = []
    syscalls: list[Calls] = []
    agreement: list[Agreement] = []
    left_out: list[str] = []
    interrupted: bool = False

    @property
    def holds(self) -> bool:
        """Whether all targets are met and nothing failed or was left out."""
        return (
            not self.left_out
            and not self.interrupted
            and all(part.holds for part in self.comparisons.values())
            and all(figure.met for figure in self.memory)
            and all(figure.holds for figure in self.agreement)
            and not any(figure.problem for figure in [*self.connections, *self.syscalls])
        )


def save(report: Report, folder: Path) -> None:
    """Write measure.json and measure.md into the folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "measure.json").write_text(report.model_dump_json(indent=1) + "\n")
    (folder / "measure.md").write_text(markdown(report))


def markdown(report: Report) -> str:
    """The whole report."""
    blocks = [_heading(report)]
    blocks += [_part(part) for part in report.comparisons.values()]
    if report.memory:
        blocks.append(_memory(report.memory))
    if report.connections:
        blocks.append(_connections(report.connections))
    if report.syscalls:
        blocks.append(_syscalls(report.syscalls))
    if report.agreement:
        blocks.append(_agreement(report.agreement))
    if report.left_out:
        blocks.append("\n".join(f"- {reason}" for reason in report.left_out))
    if report.interrupted:
        blocks.append("**Interrupted:** what follows was not measured.")
    return "\n\n".join(blocks) + "\n"


def _heading(report: Report) -> str:
    return (
        f"# Speed and memory, {report.started:%Y-%m-%d %H:%M}\n\n"
        f"{report.machine['cpu_model']}, {report.machine['cpus']} CPUs, "
        f"Linux {report.machine['kernel']}; {report.placement.note}.\n"
        f"CPU time: {report.accounting}.\n"
        f"{report.runs} interleaved runs of {report.requests:,} requests "
        f"({2 * report.requests:,} with keep-alive), {report.concurrency} at a time; medians, in "
        "brackets the lowest and the highest run."
    )


def _part(part: Part) -> str:
    head = ("connection", "server", "us/request", "", "user", "system", "bytes", "ratio", "target")
    rows = [row for comparison in part.comparisons for row in _rows(comparison)]
    problems = [
        f"- {cell.subject}: {problem}"
        for comparison in part.comparisons
        for cell in (comparison.what, comparison.against)
        for problem in cell.problems
    ]
    left_out = [f"- {reason}" for reason in part.left_out]
    table = _table(head, rows) if rows else ""
    blocks = [f"## {part.title}", table, "\n".join(problems + left_out)]
    return "\n\n".join(block for block in blocks if block)


def _rows(comparison: Comparison) -> list[list[str]]:
    ratio = comparison.ratio
    first = [*_row(comparison.what), f"{ratio:.2f}" if ratio else "-", _verdict(comparison)]
    return [first, [*_row(comparison.against), "", ""]]


def _verdict(comparison: Comparison) -> str:
    if comparison.target is None:
        return "" if comparison.met else "**no figure**"
    verdict = "met" if comparison.met else "**missed**"
    return f"{verdict} (at most {comparison.target:.2f})"


def _row(cell: Cell) -> list[str]:
    start = ["kept" if cell.keep_alive else "each request", cell.subject]
    if not cell.holds:
        return [*start, "no figure", "", "", "", ""]
    low, high = cell.range()
    return [
        *start,
        f"{cell.median():.1f}",
        f"[{low:.1f} - {high:.1f}]",
        f"{cell.median('user'):.1f}",
        f"{cell.median('system'):.1f}",
        f"{cell.median('bytes_per_response'):.0f}",
    ]


def _memory(figures: Iterable[Memory]) -> str:
    head = ("server", "connections", "state", "PSS before", "PSS with them", "each", "target")
    rows = []
    for figure in figures:
        start = [figure.server, f"{figure.connections:,}", figure.state]
        if figure.problem:
            rows.append([*start, "no figure", figure.problem, "", "**missed**"])
            continue
        verdict = "met" if figure.met else "**missed**"
        rows.append(
            [
                *start,
                f"{figure.before / 1e6:.1f} MB",
                f"{figure.pss / 1e6:.1f} MB",
                f"{figure.per_connection:,.0f} bytes",
                f"{verdict} (at most {memory.TARGET:,})",
            ]
        )
    return f"## User memory per connection\n\n{_table(head, rows)}"


def _connections(figures: Iterable[Many]) -> str:
    head = ("server", "at once", "requests/s", "longest", "us/request", "failed")
    rows = []
    for figure in figures:
        start = [figure.server, f"{figure.connections:,}"]
        if figure.problem:
            rows.append([*start, "", "", "", f"**{figure.problem}**"])
            continue
        cost = "-" if figure.cpu_us is None else f"{figure.cpu_us:.1f}"
        rate, longest = f"{figure.requests_per_second:,.0f}", f"{figure.longest_ms / 1000:.1f} s"
        rows.append([*start, rate, longest, cost, "none"])
    return f"## Many connections: guestbook\n\n{_table(head, rows)}"


def _syscalls(figures: Iterable[Calls]) -> str:
    head = ("server", "path", "connection", "calls", "writes to the client", "which")
    rows = []
    for figure in figures:
        start = [figure.server, figure.path, "kept" if figure.keep_alive else "each request"]
        if figure.problem:
            rows.append([*start, "", "", figure.problem])
            continue
        often = [f"{name} {n:.2f}" for name, n in figure.per_request.items() if n >= 0.005]
        rows.append([*start, f"{figure.total:.2f}", f"{figure.writes:.2f}", ", ".join(often)])
    return f"## System calls per request\n\n{_table(head, rows)}"


def _agreement(figures: Iterable[Agreement]) -> str:
    head = (
        "server",
        "workload",
        "sweep",
        "server's own",
        "measured here",
        "own/sweep",
        "here/sweep",
    )
    rows = []
    for figure in figures:
        values = (figure.sweep, figure.own, figure.measured)
        ratios = (figure.ratio(figure.own), figure.ratio(figure.measured))
        rows.append(
            [
                figure.server,
                figure.workload,
                *("-" if value is None else f"{value:.1f}" for value in values),
                *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                figure.problem or f"{figure.counted:,} of {figure.due:,}",
            ]
        )
    title = "## Three counts of CPU microseconds per request, a connection for each"
    return f"{title}\n\n{_table((*head, 'requests counted'), rows)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
