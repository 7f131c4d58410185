# SPDX-License-Identifier: MIT
"""No request can be read in two ways: ambiguous ones are refused, and the connection ends."""

from __future__ import annotations

import pytest

from ..cases import Case
from ..client import Client, split_responses
from ..harness import Server
from ..redisbox import RedisClient
from ..smuggling import SMUGGLING

pytestmark = pytest.mark.shared_code


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in SMUGGLING])
def test_refused(server: Server, store: RedisClient, case: Case) -> None:
    """The server sends one refusal and nothing after it, and stores nothing; also byte by byte."""
    for piece in (len(case.raw), 1 if len(case.raw) < 500 else 700):
        with Client(server) as client:
            for start in range(0, len(case.raw), piece):
                if not client.send_if_open(case.raw[start : start + piece]):
                    break
            responses = split_responses(client.read_to_end())
        assert [r.status for r in responses] in [[s] for s in case.statuses]
        assert responses[0].closes
    assert store.remarks() == []
