# SPDX-License-Identifier: MIT
"""The robustness test's report in Markdown, for docs/."""

from bench.records.torture import AttackFacts, Record, verdict
from bench.records.words import markdown_table
from bench.report.findings import torture as words


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
    return markdown_table(["attack", *record.subjects], rows, 1 + len(record.subjects))


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
    head = ["server", "before", "during", "after", "", "back", "lost", "remarks", "attack"]
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
    return f"### {facts.title}{rated}\n\n{markdown_table(head, rows, len(head))}"


def _left_out(record: Record) -> str:
    lines = [f"- {reason}: {', '.join(at)}" for reason, at in words.reasons(record).items()]
    return "\n".join(["## Left out", "", *lines]) if lines else ""
