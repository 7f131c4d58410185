# SPDX-License-Identifier: MIT
"""Properties: what must be true for a parser and another program that read the same bytes.

`make test` tries the same examples each time; `make fuzz` looks for new ones. Each failure that was
found is an @example of its test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from .parsers import PROGRAM, REPOSITORY, Parsers

ALWAYS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
FOUND = DirectoryBasedExampleDatabase(REPOSITORY / "build/fuzz/found/properties")
settings.register_profile("repeat", derandomize=True, database=None, max_examples=200, **ALWAYS)
settings.register_profile("search", database=FOUND, max_examples=300, **ALWAYS)
settings.load_profile("repeat")


@pytest.fixture(scope="session")
def parsers() -> Iterator[Parsers]:
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: build it first (make unit-programs)", pytrace=False)
    with Parsers() as running:
        yield running
