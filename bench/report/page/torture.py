# SPDX-License-Identifier: MIT
"""The report of a robustness test. The console also shows its signs and tables."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from bench.readers.console import Field, Table
from bench.records.figures import grouped
from bench.records.torture import (
    BACK_SECONDS,
    QUIET_SHARE,
    SLICE,
    AttackFacts,
    Phase,
    Record,
    TortureCell,
    Verdict,
    disturbed,
    excused,
    lost,
    share,
    since,
    verdict,
)
from bench.records.values import toml_of
from bench.records.words import connections, figure, listed, plural
from bench.report.page.look import Document, Section, Terms, drawn, key, make_command


class VerdictLook(NamedTuple):
    """The sign of a verdict, its style in a terminal, its colours on a page, and its meaning."""

    sign: str
    terminal: str
    light: str
    dark: str
    meaning: str


class TortureTexts(BaseModel):
    """The content of torture.toml: the texts that explain the report of a robustness test."""

    promises: str
    made: str
    figures: str
    outcomes: dict[str, str]
    verdicts: dict[Verdict, VerdictLook]


TEXTS = TortureTexts.model_validate(toml_of(Path(__file__).with_name("torture.toml")))
LOOKS = TEXTS.verdicts
WORTH_SAYING = 0.25
"""Recovery times up to this number of seconds are shown as "at once"."""


def sign(cell: TortureCell, facts: AttackFacts) -> str:
    """Return the verdict's sign, and the rate during the attack in per cent of the rate before."""
    held, shown = share(cell), LOOKS[verdict(cell, facts)].sign
    space = "\N{NO-BREAK SPACE}"
    return shown if held is None else f"{shown}{space}{100 * held:.0f}{space}%"


def asides(cell: TortureCell, facts: AttackFacts) -> list[str]:
    """Return short notes about the test: losses, recovery time, disturbance."""
    if cell.before is None:
        return []
    gone, turned_down = sum(lost(cell, facts).values()), excused(cell, facts)
    late = cell.back_after_s is None or cell.back_after_s > WORTH_SAYING
    notes = {
        f"lost {gone:,}": gone,
        f"{turned_down:,} × 503": turned_down and "unavailable" in facts.excused,
        back(cell).replace("in ", "back "): late,
        "disturbed": disturbed(cell),
    }
    return [note for note, shown in notes.items() if shown]


def losses(cell: TortureCell, facts: AttackFacts) -> str:
    """Return the losses in words, with the most frequent reason for failures; an empty text if
    there are none. Excused outcomes do not count; the status 502 or 503 needs no reason."""
    found = lost(cell, facts)
    text = listed([f"{n:,} {TEXTS.outcomes.get(outcome, outcome)}" for outcome, n in found.items()])
    parts = [phase.why for phase in since(cell)]
    if cell.crowd and facts.crowd_counts:
        parts.append(cell.crowd.why)
    counted: Counter[str] = Counter()
    for outcome, its in (pair for part in parts for pair in part.items()):
        if outcome not in (*facts.excused, "unavailable"):
            counted.update(its)
    reasons = counted.most_common(1) if found else []
    return text + "".join(f" (most often: {reason})" for reason, _ in reasons)


def rates(cell: TortureCell) -> str:
    """Return the rates before, during and after the attack as a text."""
    return " · ".join(rate(phase) for phase in (cell.before, cell.during, cell.after))


def rate(phase: Phase | None) -> str:
    """Return a phase's good responses per second."""
    return figure(round(phase.rate)) if phase else "–"


def back(cell: TortureCell) -> str:
    """Return the recovery time in words."""
    if cell.before is None:
        return "–"
    if cell.back_after_s is None:
        return "not back"
    return "at once" if cell.back_after_s <= WORTH_SAYING else f"in {cell.back_after_s:.1f} s"


def done(cell: TortureCell) -> str:
    """Return the number of killed children or of attacking connections."""
    if cell.killed:
        return f"{plural(cell.killed, 'child', 'children')} killed"
    return connections(cell.crowd.opened) if cell.crowd else "–"


def remarks(cell: TortureCell) -> str:
    """Return how many remarks the server confirmed, and how many of them were lost."""
    found = cell.remarks
    if not found.answered:
        return "–"
    gone = f"{found.missing:,} of them" if found.missing else "none"
    return f"{found.answered:,}, {gone} lost"


def headline(record: Record) -> str:
    """Return the result of the test in a sentence."""
    own = [cell for cell in record.cells if cell.before and cell.kind == "server"]
    if not own:
        return "No server of the project was attacked"
    servers, attacks = ({getattr(cell, of) for cell in own} for of in ("subject", "attack"))
    who = f"{plural(len(servers), 'server')} under {plural(len(attacks), 'attack')}"
    remarks = sum(cell.remarks.answered for cell in own)
    missing = sum(cell.remarks.missing for cell in own)
    gone = f"{missing:,}" if missing else "none"
    kept = f"{gone} of {remarks:,} confirmed remarks {'were' if missing > 1 else 'was'} lost"
    kept = kept if remarks else "no remarks were written"
    if bad := len(record.broken()):
        return f"{who}: promises were broken in {plural(bad, 'test')}; {kept}"
    return f"{who}: every promise was kept, and {kept}"


def heading(record: Record) -> str:
    """Return the machine, the CPUs and the duration in a line."""
    took = f"{int(record.seconds) // 60}:{int(record.seconds) % 60:02} minutes"
    placed = "; server and visitors share all CPUs"
    if (found := record.placement) and found.server:
        server, load = (listed([*map(str, cpus)]) for cpus in (found.server, found.load))
        placed = f"; server on CPU {server}, other programs on CPU {load}"
    return f"{record.machine.describe()}{placed}; {took}"


def cautions(record: Record) -> list[str]:
    """Return the cautions at the top of the page."""
    found = list(record.notes)
    if record.state == "interrupted":
        found.append("The robustness test was interrupted: the results are incomplete.")
    if record.state == "out of time":
        late = sum(not cell.reached for cell in record.cells)
        found.append(f"The time limit was reached before {plural(late, 'test')} could run.")
    loud = sum(disturbed(cell) for cell in record.cells)
    if loud:
        found.append(
            f"{plural(loud, 'test is', 'tests are')} marked disturbed; the percentages there are "
            "unreliable. The server (before the attack) or the visitors had to wait for a CPU, or "
            f"the visitors got less than {100 * QUIET_SHARE:.0f} % of their requested rate before "
            "the attack."
        )
    return found


def promises_broken(record: Record) -> list[tuple[str, str, list[str]]]:
    """Return (server, title of the attack, broken promises) of each failed test."""
    return [(cell.subject, record.facts(cell).title, what) for cell, what in record.broken()]


def reasons(record: Record) -> dict[str, list[str]]:
    """Return the reasons for missing figures, with the tests of each reason."""
    return grouped(
        (cell.reason, f"{cell.subject} / {record.facts(cell).title}")
        for cell in record.cells
        if cell.reason and cell.reached
    )


# ---- Tables, and the document ----

DETAILS = ("server", "before", "during", "after", "verdict", "back", "lost", "remarks", "attack")
WIDTH, HEIGHT = 132, 30
"""Size of the small drawings, in SVG units."""


def overview(
    record: Record, current: tuple[str, str] | None = None, *, titles: bool = False
) -> Table:
    """Return a table: a row for each attack, a column for each server. `current`: the server and
    the attack that are being measured; `titles`: show the attacks' titles instead of their
    names."""
    table = Table("<attack", *(f"<{subject}" for subject in record.subjects))
    for facts in record.attacks:
        pairs = [(subject, facts.name) for subject in record.subjects]
        fields = [_field(record, *pair, running=pair == current) for pair in pairs]
        name = facts.title if titles else facts.name
        table.add_row(Field(name, style="bold", link=facts.name), *fields)
    return table


def _field(record: Record, subject: str, attack: str, running: bool) -> str | Field:
    cell = record.cell(subject, attack)
    if running or cell is None:
        return Field("...", style="bold cyan") if running else ""
    facts = record.facts(cell)
    word = verdict(cell, facts)
    return Field(sign(cell, facts), asides(cell, facts), LOOKS[word].terminal, word)


def legend(record: Record) -> Table:
    """Return the meanings of the signs in the overview."""
    there = {verdict(cell, record.facts(cell)) for cell in record.cells}
    looks = ((name, look) for name, look in LOOKS.items() if name in there)
    rows = ((Field(f"{x.sign} {name}", (), x.terminal, name), x.meaning) for name, x in looks)
    return Table("<sign", "<meaning", rows=rows)


def document(record: Record) -> Document:
    """Return the report."""
    said = record.settings
    made = TEXTS.made.format(
        command=make_command("torture", record.command),
        date=record.started,
        heading=heading(record),
        visitors=said.visitors,
        pause=1000 * said.think_seconds,
        seconds=said.attack_seconds,
    )
    broken = [(f"✗ {who}, {what}", "; ".join(how)) for who, what, how in promises_broken(record)]
    left_out = [(why, ", ".join(places)) for why, places in reasons(record).items()]
    signs = Section("The signs", [legend(record)])
    details = [_details(record, facts) for facts in record.attacks]
    sections = (
        Section("Promises broken", [Terms(broken)], "promises"),
        Section("Results", [overview(record, titles=True), signs], "overview"),
        Section("The attacks", [TEXTS.figures if details else "", *details], "attacks"),
        Section("Left out", [Terms(left_out)], "left-out"),
    )
    colours = {key(name): (look.light, look.dark) for name, look in LOOKS.items()}
    lead = (TEXTS.promises.format(seconds=BACK_SECONDS), made)
    return Document(
        "Robustness test",
        record.started,
        headline(record),
        lead,
        cautions(record),
        sections,
        colours,
    )


def _details(record: Record, facts: AttackFacts) -> Section:
    rows: list[list[str | Field]] = [
        [
            cell.subject,
            *(rate(phase) for phase in (cell.before, cell.during, cell.after)),
            Field(word := verdict(cell, facts), kind=word, drawing=_course(cell)),
            back(cell),
            losses(cell, facts) or "–",
            remarks(cell),
            done(cell),
        ]
        for cell in record.cells
        if cell.attack == facts.name and cell.before
    ]
    table = Table(*(f"<{name}" for name in DETAILS), rows=rows)
    about = f"`{facts.name}`: {facts.what}. The rates count only {facts.rated}."
    return Section(facts.title, [about, table], facts.name)


def _course(cell: TortureCell) -> str:
    """Return the drawing of a test's rate over time."""
    most = max(cell.wanted * SLICE, *cell.course, 1)
    step = WIDTH / max(1, len(cell.course))
    heights = (HEIGHT - 1 - (HEIGHT - 2) * count / most for count in cell.course)
    scale = step / SLICE
    return drawn(
        "course",
        path="".join(
            f"{'L' if i else 'M'}{round(i * step, 1)} {round(y, 1)}h{step:.1f}"
            for i, y in enumerate(heights)
        ),
        begin=round(cell.attack_from_s * scale, 1),
        long=round((cell.attack_to_s - cell.attack_from_s) * scale, 1),
        width=WIDTH,
        height=HEIGHT,
        words=f"{cell.subject}: pages per second before, during and after the attack: "
        f"{rates(cell)}",
    )
