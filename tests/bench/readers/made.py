# SPDX-License-Identifier: MIT
"""Runs that are written as texts, for the tests of readers and records."""

from bench.records.conditions import BY_NAME, Conditions
from bench.records.figures import Held, Run

from ..report.made import made_run


def runs_of(text: str, figure: str = "rate", usual: str = "") -> list[Run]:
    """Return the runs of a text such as "epoll 100 101/load quota=20 cpu=40,41; poll 200". Each
    part has a server and a number for each of its runs, which is the value of `figure`. Then follow
    conditions as on the command line, level=, workload=, and other figures: one for all runs, or a
    list. /failed or /BOTTLENECK describes one run; the default is a valid run with the bottleneck
    "server". The words of `usual` apply to all servers."""
    found = []
    for subject, *words in (part.split() for part in text.split("; ") if part):
        said = dict(word.split("=") for word in (*usual.split(), *words) if "=" in word)
        level, workload = int(said.pop("level", 100)), said.pop("workload", "guestbook")
        changes = {name: BY_NAME[name].parse(said.pop(name)) for name in BY_NAME if name in said}
        under = Conditions(workload, **changes)  # type: ignore[arg-type]
        for number, word in enumerate(word for word in words if "=" not in word):
            value, _, how = word.partition("/")
            lists = {key: values.split(",") for key, values in said.items()}
            figures = {key: values[number % len(values)] for key, values in lists.items()}
            figures[figure] = value
            state: Held = "failed" if how == "failed" else "held"
            run = made_run(subject, level, number + 1, state=state, under=under, **figures)
            run.bottleneck = how if state == "held" and how else "server"
            run.lower_bound = how == "load"
            found.append(run)
    return found
