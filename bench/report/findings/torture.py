# SPDX-License-Identifier: MIT
"""Words and signs for a result of the robustness test. Pure."""

from collections import Counter

from bench.records.torture import (
    BACK_SECONDS,
    QUIET_SHARE,
    AttackFacts,
    Phase,
    Record,
    TortureCell,
    Verdict,
    disturbed,
    excused,
    lost,
    share,
    verdict,
)
from bench.records.words import connections, figure, listed, plural

SIGNS: dict[Verdict, str] = {
    "served": "●",
    "slower": "◕",
    "hard pressed": "◔",
    "held up": "○",
    "broken": "✗",
    "no figure": "?",
    "left out": "–",
    "not reached": "…",
}
"""The signs are distinct without colours."""
MEANINGS: dict[Verdict, str] = {
    "served": "during the attack visitors got 90 % or more of their rate before",
    "slower": "50 to 90 %",
    "hard pressed": "10 to 50 %",
    "held up": "less than 10 %: they waited; if all got an answer in the end, this is no fault",
    "broken": "a promise was broken: an answered request was lost, or the server did not recover",
    "no figure": "visitors got almost no answers even before the attack",
    "left out": "the server does not support this attack, or could not be measured",
    "not reached": "the time limit was reached before this attack",
}
WORTH_SAYING = 0.25
"""A recovery time up to this is not reported, in seconds."""
ABOUT_PROMISES = (
    "The promises: the server does not end by itself; it serves again within "
    f"{BACK_SECONDS:.0f} s after the attack; no answer is wrong; each remark that was answered "
    "“stored” is in Redis once; every request before and after the attack has a right answer; "
    "no connections, processes or threads remain; after SIGTERM the server answers the "
    "requests in progress and exits with status 0. Waiting during an attack breaks no "
    "promise; the percentage shows it."
)
OUTCOME_WORDS = {
    "unavailable": "answered 503",
    "refused": "refused",
    "failed": "without a whole answer",
    "wrong": "answered wrongly",
}


def signs(record: Record) -> dict[Verdict, str]:
    """Return the signs of the verdicts that the record contains."""
    there = {verdict(cell, record.facts(cell)) for cell in record.cells}
    return {name: sign for name, sign in SIGNS.items() if name in there}


def command(record: Record) -> str:
    """Return the command that repeats the test."""
    words = f' ARGS="{" ".join(record.command)}"' if record.command else ""
    return f"make torture{words}"


def per_cent(value: float | None) -> str:
    """Return a share in per cent."""
    return "–" if value is None else f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def sign(cell: TortureCell, facts: AttackFacts) -> str:
    """Return the sign of the verdict and the share of the rate during the attack."""
    word = verdict(cell, facts)
    held = share(cell)
    return SIGNS[word] if held is None else f"{SIGNS[word]} {per_cent(held)}"


def asides(cell: TortureCell, facts: AttackFacts) -> list[str]:
    """Return short notes to the figure: losses, recovery time, disturbance."""
    if cell.before is None:
        return []
    gone, turned_down = sum(lost(cell, facts).values()), excused(cell, facts)
    found = []
    if gone:
        found.append(f"lost {gone:,}")
    if turned_down and "unavailable" in facts.excused:
        found.append(f"{turned_down:,} × 503")
    if cell.back_after_s is None:
        found.append("not back")
    elif cell.back_after_s > WORTH_SAYING:
        found.append(f"back {cell.back_after_s:.1f} s")
    if disturbed(cell):
        found.append("disturbed")
    return found


def losses(cell: TortureCell, facts: AttackFacts) -> str:
    """Return the losses in words; an empty text if there are none."""
    found = lost(cell, facts)
    text = listed([f"{n:,} {OUTCOME_WORDS.get(outcome, outcome)}" for outcome, n in found.items()])
    reasons = why(cell, facts)
    return f"{text} ({reasons})" if found and reasons else text


def why(cell: TortureCell, facts: AttackFacts) -> str:
    """Return the most frequent reason for failures."""
    parts = [p.why for p in (cell.during, cell.settling, cell.after) if p]
    if cell.crowd and facts.crowd_counts:
        parts.append(cell.crowd.why)
    counted: Counter[str] = Counter()
    for part in parts:
        for outcome, reasons_of_it in part.items():
            if outcome not in (*facts.excused, "unavailable"):  # 503 says enough
                counted.update(reasons_of_it)
    return next((f"most often: {reason}" for reason, _ in counted.most_common(1)), "")


def rates(cell: TortureCell) -> str:
    """Return the rates before, during and after the attack."""
    return " · ".join(rate(phase) for phase in (cell.before, cell.during, cell.after))


def rate(phase: Phase | None) -> str:
    """Return the pages per second of a phase."""
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
    """Return how many remarks were answered "stored", and how many of these were lost."""
    told = cell.remarks
    if not told.answered:
        return "–"
    gone = f"{told.missing:,} of them" if told.missing else "none"
    return f"{told.answered:,}, {gone} lost"


def headline(record: Record) -> str:
    """Return the result of the test in a sentence."""
    made = [cell for cell in record.cells if cell.before]
    own = [cell for cell in made if cell.kind == "server"]
    bad = record.broken()
    remarks = sum(cell.remarks.answered for cell in own)
    missing = sum(cell.remarks.missing for cell in own)
    if not own:
        return "No server of the project was attacked"
    servers = len({cell.subject for cell in own})
    attacks = len({cell.attack for cell in own})
    who = f"{plural(servers, 'server')} under {plural(attacks, 'attack')}"
    kept = (
        f"{missing:,} of {remarks:,} answered remarks {'was' if missing == 1 else 'were'} lost"
        if missing
        else f"none of {remarks:,} answered remarks was lost"
        if remarks
        else "no remarks were written"
    )
    if not bad:
        return f"{who}: every promise was kept, and {kept}"
    return f"{who}: promises were broken in {plural(len(bad), 'test')}; {kept}"


def heading(record: Record) -> str:
    """Return the machine, the CPUs and the duration in a line."""
    took = f"{int(record.seconds) // 60}:{int(record.seconds) % 60:02} minutes"
    placed = "; server and visitors share all CPUs"
    if record.placement and record.placement.server:
        placed = (
            f"; server on CPU {listed([str(cpu) for cpu in record.placement.server])}, all else "
        )
        placed += f"on CPU {listed([str(cpu) for cpu in record.placement.load])}"
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
            f"{plural(loud, 'test is', 'tests are')} marked disturbed: other programs used the "
            "CPU of the server or the visitors, or the visitors got less than "
            f"{100 * QUIET_SHARE:.0f} % of their requested rate before the attack. These "
            "percentages are unreliable."
        )
    return found


def conditions(record: Record) -> str:
    """Return the method of the test in two sentences."""
    said = record.settings
    return (
        f"{said.visitors} well-behaved visitors request pages over new connections and wait "
        f"{1000 * said.think_seconds:.0f} ms after each response. Their load is far below the "
        "server's capacity, so a lower rate is the server's fault. Each server is restarted "
        f"for each attack, which lasts {said.attack_seconds} s."
    )


def promises_broken(record: Record) -> list[tuple[str, str, list[str]]]:
    """Return (server, title of the attack, broken promises) of each failed test."""
    return [(cell.subject, record.facts(cell).title, what) for cell, what in record.broken()]


def reasons(record: Record) -> dict[str, list[str]]:
    """Return the reasons for missing figures, with the tests of each reason."""
    found: dict[str, list[str]] = {}
    for cell in record.cells:
        if cell.reason and cell.reached:
            place = f"{cell.subject} / {record.facts(cell).title}"
            found.setdefault(cell.reason, []).append(place)
    return found
