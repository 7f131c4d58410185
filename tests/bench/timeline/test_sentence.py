# SPDX-License-Identifier: MIT
"""The sentence on each recording; no privilege is needed."""

import re

import pytest

from bench.timeline.command import kept
from bench.timeline.page import picture
from bench.timeline.recording import Bar, Kind, Lane, Recording, Request
from bench.timeline.scenarios import SCENARIOS
from bench.timeline.sentence import sentence

LATE_MS = 100.0
"""Clients that wait for client 2 are later than this; the noise of strace is smaller."""
RECEIVE, SEND, REDIS = Kind.RECEIVE, Kind.SEND, Kind.REDIS


def recorded(scenario: str) -> list[Recording]:
    return [picture(text) for text in kept(None, scenario)]


@pytest.mark.parametrize("scenario", ["eight", "slow-reader"])
def test_it_counts_the_clients_that_were_late(scenario: str) -> None:
    """The calls of the server and the clients' own times give the same number."""
    pictures = recorded(scenario)
    prompt = [one.end - one.begin for one in pictures[-1].requests]
    for one in pictures:
        took = [request.end - request.begin for request in one.requests]
        late = [ms for ms, usual in zip(took, prompt, strict=True) if ms > usual + LATE_MS]
        match = re.search(r"and (\d) other .* for (\d+).ms\.", sentence(one))
        assert int(match[1] if match else 0) == len(late), one.server
        assert (float(match[2]) if match else 0) <= max(late, default=0), one.server
        assert (one.server == "iterative") is bool(match)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_names_the_clients_that_got_no_response(scenario: str) -> None:
    """Each recorded scenario: exactly the clients without a status are named. 0.2 s each."""
    for one in recorded(scenario):
        lost = [request.number for request in one.requests if request.answer.startswith("closed")]
        match = re.search(r"was killed and client (\d) got no response", sentence(one))
        assert [int(match[1])] == lost if match else lost == []


def bar(begin: float, end: float, kind: Kind, client: int | None, returned: int | None = 9) -> Bar:
    waits = "a client" if returned is None else ""
    name = "sendto" if kind is SEND else "recvfrom"
    facts = {"request": client, "returned": returned, "waits_for": waits, "text": "", "stack": []}
    return Bar(begin=begin, end=end, name=name, kind=kind, **facts)


def ask(begin: float, end: float, client: int | None) -> list[Bar]:
    """Return a command to Redis and its reply."""
    reply = bar(begin + 1, end, REDIS, client)
    return [bar(begin, begin + 1, REDIS, client).model_copy(update={"name": "sendto"}), reply]


PARTS = [bar(0, 1, RECEIVE, 1), bar(2, 202, RECEIVE, 1)]
"""Client 1 sends one half of its request 200 ms after the other."""
OTHERS = [bar(203, 204, RECEIVE, 2), bar(205, 206, RECEIVE, 3)]
CASES = {
    "Client 1 was silent for 202 ms, and 2 other clients waited for it, the longest for 197 ms.": [
        [*PARTS, *OTHERS]
    ],
    "Client 1 was silent for 202 ms, and 1 other client waited for it (197 ms).": [
        [*PARTS, OTHERS[0]],
        [OTHERS[1]],
    ],
    "Client 1 was silent for 202 ms, and no other client waited for it.": [PARTS, OTHERS],
    "Clients 1 and 2 were silent for up to 202 ms, and no other client waited for them.": [
        PARTS,
        [bar(1, 2, RECEIVE, 2), bar(3, 152, RECEIVE, 2)],
    ],
    "Client 1 was silent for 150 ms, and no other client waited for it.": [
        [bar(0, 1, RECEIVE, 1), bar(2, 150, RECEIVE, 1, None)]  # never returned
    ],
    "Client 1 read slowly for 300 ms, and 1 other client waited for it (100 ms).": [
        [bar(0, 1, SEND, 1), bar(200, 300, SEND, 1), bar(301, 302, RECEIVE, 2)]
    ],
    "Redis took 99 ms for a reply, and 1 client waited for the reply to another client (95 ms).": [
        [*ask(0, 100, 1), *ask(100, 105, 2)]
    ],
    "Client 2 was silent for 150 ms, and 1 other client waited for it (74 ms).": [
        [bar(0, 1, RECEIVE, 1), bar(80, 81, RECEIVE, 2), bar(82, 155, RECEIVE, 2)]  # 2 is late
    ],
    "The response to client 3 took 390 ms, and no other client waited for it.": [ask(0, 20, 1)],
}
"""Lanes of calls; client N connects after 5 N - 5 ms, and client 3 is the last to end."""


@pytest.mark.parametrize("words", CASES)
def test_it_is_computed_from_the_calls(words: str) -> None:
    """A loop that blocks, too few workers, a call that never returned. 1 ms each."""
    ends = {"end": 400.0, "ended": "", "name": "", "begin": 0.0}
    requests = [
        Request(
            number=n, port=n, what="", begin=5.0 * n - 5, end=[350, 360, 400][n - 1], answer="200"
        )
        for n in (1, 2, 3)
    ]
    lanes = [Lane(task=at, bars=bars, **ends) for at, bars in enumerate(CASES[words])]
    facts = {"server": "mine", "summary": "", "scenario": "eight", "length": 400.0, "arrows": []}
    found = sentence(Recording(**facts, requests=requests, lanes=lanes))
    assert found.replace("\N{NO-BREAK SPACE}", " ") == words
