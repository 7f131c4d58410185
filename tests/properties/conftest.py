# SPDX-License-Identifier: MIT
"""Properties: our parsers and other programs must interpret the same bytes in the same way. `make
test` always tries the same examples; `make fuzz` looks for new examples. Each failure that was
found is an @example of a test.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from typing_extensions import Self

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "build/release/tests/properties/parsers"


class Parsers:
    """The C parsers of lib/proto, in another process; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )

    def call(self, name: str, data: bytes) -> Any:
        """Return the result of a parser from its JSON. Raise AssertionError if the process ends."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"%s %d\n" % (name.encode(), len(data)) + data)
        stdin.flush()
        size = stdout.readline()
        assert size, f"the process ended at {name} {data!r}: {self._process.wait()}"
        return json.loads(stdout.read(int(size)))

    def text(self, name: str, data: bytes) -> bytes:
        """Return the result of a parser whose result is a single string."""
        return bytes.fromhex(self.call(name, data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


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
