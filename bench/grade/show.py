# SPDX-License-Identifier: MIT
"""A grade in words."""

import textwrap

from bench.grade.stage import OVER, CheckOutcome, Grade, StageOutcome

SIGNS = {"right": "ok", "failed": "NO", "by nature": "--", "not tried": ".."}
WIDTH = 92


def stage_text(outcome: StageOutcome, explained: set[str]) -> str:
    """A stage, as soon as it is over. `explained`: the names of faults that have been explained
    already; those of this stage are added."""
    lines = ["", f"{outcome.points:>3} of {outcome.of:<3} {outcome.title}"]
    notes = {check.note for check in outcome.checks if check.came == "not tried"}
    if len(notes) == 1 and all(check.came == "not tried" for check in outcome.checks):
        return f"\n{lines[1]}: not tried, {notes.pop()}"
    for check in outcome.checks:
        note = f"   {check.note}" if check.note else ""
        lines.append(f"     {SIGNS[check.came]}  {check.check} ({check.points}/{check.of}){note}")
        lines += _finding(check, explained)
    # What a stranger's program or source says must not move the cursor, or hide what stands here.
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def end_text(grade: Grade) -> str:
    """What is said last."""
    isolated = textwrap.fill(
        "It ran with " + "; ".join(grade.isolation) + ".", WIDTH, break_on_hyphens=False
    )
    skipped = [c for s in grade.stages for c in s.checks if c.note == OVER]
    hint = (
        f"\n{sum(c.of for c in skipped)} points were not tried, for the minute was over: what "
        "failed took it. Mend that, and grade again."
        if skipped
        else ""
    )
    return (
        f"{hint}\n{grade.points} of {grade.of} points for {grade.server}, in "
        f"{grade.seconds:.0f} s. The same again: ARGS='--seed {grade.seed}'\n{isolated}"
    )


def _finding(check: CheckOutcome, explained: set[str]) -> list[str]:
    found = check.finding
    if found is None:
        return []
    lines = ["", f"         >>> {found.title}  [{found.fault}]"]
    told = [f"Seen: {found.seen}.", found.meaning, f"Read: {found.read}"]
    if found.fault in explained:
        told[1:] = ["(Explained above.)"]
    explained.add(found.fault)
    for text in told:
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 13,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    if found.proof:
        lines.append(" " * 13 + "The proof (of a trace: process, seconds since it served, call):")
        lines += [" " * 15 + line for line in found.proof]
    return [*lines, ""]
