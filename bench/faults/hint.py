# SPDX-License-Identifier: MIT
"""`zerohttpd hint`, and `make hint N=07 STEP=1`."""

import argparse
from collections.abc import Sequence

from bench.faults.catalogue import STEPS, Fault, fault
from bench.readers.console import paragraphs

ANSWER = "answer"


def run(words: Sequence[str]) -> int:
    """Print a hint, or the answer. Exit status: 0. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd hint", description="A hint to a fault that `zerohttpd fault` has made."
    )
    steps = [str(step) for step in range(1, STEPS + 1)]
    parser.add_argument("number", help="of the fault: 01 to 15")
    parser.add_argument("--step", choices=[*steps, ANSWER], default="1", help="which hint (1)")
    options = parser.parse_args(words)
    chosen = fault(options.number)
    print(
        answer(chosen)
        if options.step == ANSWER
        else paragraphs(chosen.hints[int(options.step) - 1])
    )
    return 0


def answer(chosen: Fault) -> str:
    """What it is, where, why, and who has had it."""
    parts = [chosen.name, paragraphs(chosen.explanation), chosen.patch.read_text().rstrip("\n")]
    if chosen.incident is None:
        parts.append("No public incident has been verified.")
    else:
        parts.append(
            paragraphs(f"It has happened: {chosen.incident.what}") + f"\n{chosen.incident.link}"
        )
    return "\n\n".join(parts)
