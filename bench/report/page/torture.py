# SPDX-License-Identifier: MIT
"""The page of a robustness test: one self-contained HTML file without a script."""

from dataclasses import dataclass

from bench.records.torture import SLICE, Record, TortureCell, Verdict, share, verdict
from bench.report.findings import torture as words
from bench.report.page.look import look
from bench.report.page.templates import template_of

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
