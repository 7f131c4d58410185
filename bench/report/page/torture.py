# SPDX-License-Identifier: MIT
"""The report of a robustness test: one self-contained HTML file without a script, and a Markdown
document for docs/."""

from dataclasses import dataclass

from bench.readers.console import Table
from bench.records.torture import SLICE, AttackFacts, Record, TortureCell, Verdict, share, verdict
from bench.report.findings import torture as words
from bench.report.page.look import look, template_of


def markdown(record: Record) -> str:
    """Return the report of a robustness test."""
    blocks = [
        "# The torture",
        f"{words.headline(record)}.",
        words.ABOUT_PROMISES,
        f"Made by `{words.command(record)}` on {record.started:%Y-%m-%d}, on "
        f"{words.heading(record)}. {words.conditions(record)} Each percentage compares what the "
        "visitors got during the attack with what they got before it. The text below it says "
        "what they did not get.",
        "\n".join(f"- {text}" for text in words.cautions(record)),
        _signs(record),
        _overview(record),
        _promises(record),
        "## The attacks",
        "\n".join(
            f"- **{facts.title}** (`{facts.name}`): {facts.what}." for facts in record.attacks
        ),
        "## All figures",
        "Before, during, after: good responses per second, the median of short intervals. Back: "
        "when every page again had at least half of its rate, without a failure. Lost: what "
        "well-behaved clients did not get from the attack on. Remarks: those that were answered "
        "with 303, and how many of them were missing in Redis at the end. Attack: its actions, "
        "if they can be counted.",
        *(_details(record, facts) for facts in record.attacks),
        _left_out(record),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _signs(record: Record) -> str:
    return "The signs:\n\n" + "\n".join(
        f"- {sign} {name}: {words.MEANINGS[name]}" for name, sign in words.signs(record).items()
    )


def _overview(record: Record) -> str:
    rows = []
    for facts in record.attacks:
        row = [facts.title]
        for subject in record.subjects:
            cell = record.cell(subject, facts.name)
            lines = [words.sign(cell, facts), *words.asides(cell, facts)] if cell else [""]
            row.append("<br>".join(lines))
        rows.append(row)
    heads = (f"<{head}" for head in ("attack", *record.subjects))
    return Table(*heads, rows=rows).markdown()


def _promises(record: Record) -> str:
    lines = [
        f"- ✗ {subject}, {title}: {'; '.join(what)}"
        for subject, title, what in words.promises_broken(record)
    ]
    return "\n".join(["## Promises broken", "", *lines]) if lines else ""


def _details(record: Record, facts: AttackFacts) -> str:
    cells = [cell for cell in record.cells if cell.attack == facts.name and cell.before]
    if not cells:
        return ""
    names = ("server", "before", "during", "after", "", "back", "lost", "remarks", "attack")
    head = [f"<{name}" for name in names]
    rows = [
        [
            cell.subject,
            *(words.rate(phase) for phase in (cell.before, cell.during, cell.after)),
            verdict(cell, facts),
            words.back(cell),
            words.losses(cell, facts) or "–",
            words.remarks(cell),
            words.done(cell),
        ]
        for cell in cells
    ]
    rated = "" if facts.rated == "all visitors" else f" (rates: {facts.rated})"
    return f"### {facts.title}{rated}\n\n{Table(*head, rows=rows).markdown()}"


def _left_out(record: Record) -> str:
    lines = [f"- {reason}: {', '.join(at)}" for reason, at in words.reasons(record).items()]
    return "\n".join(["## Left out", "", *lines]) if lines else ""


COLOURS: dict[Verdict, tuple[str, str]] = {
    "served": ("#00694D", "#35CFA0"),
    "slower": ("#1C6A9E", "#8FDDF7"),
    "hard pressed": ("#8A5A00", "#F2B632"),
    "held up": ("#A04400", "#FF9F60"),
    "broken": ("#B00040", "#FF8FB0"),
    "no figure": ("#5B6675", "#A3ADBA"),
    "left out": ("#5B6675", "#A3ADBA"),
    "not reached": ("#5B6675", "#A3ADBA"),
}
"""Light and dark; each verdict also has a sign and a word."""
WIDTH, HEIGHT = 132, 30
"""Size of the small charts, in SVG units."""


def render(record: Record) -> str:
    """Return the page as HTML."""
    return template_of(__file__, "torture.html.j2").render(**_context(record)).lstrip()


def _context(record: Record) -> dict[str, object]:
    return {
        "when": f"{record.started:%Y-%m-%d %H:%M}",
        "headline": words.headline(record),
        "heading": words.heading(record),
        "conditions": words.conditions(record),
        "cautions": words.cautions(record),
        "broken": words.promises_broken(record),
        "legend": [
            {"sign": sign, "name": name, "key": _key(name), "words": words.MEANINGS[name]}
            for name, sign in words.signs(record).items()
        ],
        "subjects": record.subjects,
        "rows": [
            (facts, [record.cell(subject, facts.name) for subject in record.subjects])
            for facts in record.attacks
        ],
        "words": words,
        "verdict": verdict,
        "share": share,
        "key": _key,
        "course": _course,
        "reasons": words.reasons(record),
        "command": words.command(record),
        **look([], {_key(name): pair for name, pair in COLOURS.items()}),
    }


def _key(name: str) -> str:
    return "v-" + name.replace(" ", "-")


@dataclass(frozen=True)
class Course:
    """The rate of a test over time, and the time of the attack, in SVG units."""

    path: str
    begin: float
    long: float
    words: str
    width: int = WIDTH
    height: int = HEIGHT


def _course(cell: TortureCell) -> Course:
    most = max(cell.wanted * SLICE, *cell.course, 1)
    step = WIDTH / max(1, len(cell.course))
    steps = [
        (round(i * step, 1), round(HEIGHT - 1 - (HEIGHT - 2) * count / most, 1))
        for i, count in enumerate(cell.course)
    ]
    path = "".join(f"{'L' if i else 'M'}{x} {y}h{step:.1f}" for i, (x, y) in enumerate(steps))
    scale = step / SLICE
    return Course(
        path,
        round(cell.attack_from_s * scale, 1),
        round((cell.attack_to_s - cell.attack_from_s) * scale, 1),
        f"{cell.subject}: pages per second before, during and after the attack: "
        f"{words.rates(cell)}",
    )
