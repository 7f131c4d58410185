# SPDX-License-Identifier: MIT
"""The curves of 2019: the published figures of the same seven architectures."""

import csv
from pathlib import Path

from bench.records.conditions import Conditions

FILE = Path(__file__).resolve().parents[2] / "figures" / "zerohttpd-2019.csv"


def curves() -> list[tuple[str, int, float]]:
    """(architecture, connections, requests per second); what has no steady figure is left out."""
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (name, int(row["concurrency"]), float(value))
        for row in rows
        for name, value in row.items()
        if name != "concurrency" and value.replace(".", "", 1).isdigit()
    ]


def comparable(scenario: Conditions) -> bool:
    """Whether it is what was measured then: a guestbook, a connection for each request."""
    return scenario == Conditions("guestbook")
