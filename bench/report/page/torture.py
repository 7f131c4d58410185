# SPDX-License-Identifier: MIT
"""The page of the report: the record as one HTML file that needs nothing else, and no script."""

from typing import Any

from bench.records.torture import SLICE, AttackFacts, Record, TortureCell, Verdict, share, verdict
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
"""Light and dark; beside each stand a sign and a word."""
WIDTH, HEIGHT = 132, 30
"""Of the little drawings, in their own units."""


def render(record: Record) -> str:
    """The whole page."""
    return template_of(__file__, "torture.html.j2").render(**_context(record)).lstrip()


def _context(record: Record) -> dict[str, Any]:
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
        "rows": [_row(record, facts) for facts in record.attacks],
        "reasons": words.reasons(record),
        "command": words.command(record),
        **look([], {_key(name): pair for name, pair in COLOURS.items()}),
    }


def _key(name: str) -> str:
    return "v-" + name.replace(" ", "-")


def _row(record: Record, facts: AttackFacts) -> dict[str, Any]:
    cells = [record.cell(subject, facts.name) for subject in record.subjects]
    return {
        "facts": facts,
        "cells": [_cell(record, cell) if cell else None for cell in cells],
        "details": [_detail(record, cell) for cell in cells if cell and cell.before],
    }


def _cell(record: Record, cell: TortureCell) -> dict[str, Any]:
    facts = record.facts(cell)
    word = verdict(cell, facts)
    held = share(cell)
    return {
        "key": _key(word),
        "sign": words.SIGNS[word],
        "share": "" if held is None else words.per_cent(held),
        "word": word,
        "asides": words.asides(cell, facts),
    }


def _detail(record: Record, cell: TortureCell) -> dict[str, Any]:
    facts = record.facts(cell)
    return {
        **_cell(record, cell),
        "subject": cell.subject,
        "rates": [words.rate(phase) for phase in (cell.before, cell.during, cell.after)],
        "back": words.back(cell),
        "losses": words.losses(cell, facts) or "–",
        "remarks": words.remarks(cell),
        "done": words.done(cell),
        "drawing": _drawing(cell),
    }


def _drawing(cell: TortureCell) -> dict[str, Any]:
    """The rate over the time of the cell, and when the attack was."""
    most = max(cell.wanted * SLICE, *cell.course, 1)
    step = WIDTH / max(1, len(cell.course))
    steps = [
        (round(i * step, 1), round(HEIGHT - 1 - (HEIGHT - 2) * count / most, 1))
        for i, count in enumerate(cell.course)
    ]
    path = "".join(f"{'L' if i else 'M'}{x} {y}h{step:.1f}" for i, (x, y) in enumerate(steps))
    scale = step / SLICE
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "path": path,
        "from": round(cell.attack_from_s * scale, 1),
        "long": round((cell.attack_to_s - cell.attack_from_s) * scale, 1),
        "words": f"{cell.subject}: pages per second before, during and after the attack: "
        f"{words.rates(cell)}",
    }
