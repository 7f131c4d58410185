# SPDX-License-Identifier: MIT
"""Call the C parsers of lib/proto from Python, through a program that runs next to the tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from typing_extensions import Self

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "build/release/tests/properties/parsers"


class Parsers:
    """The running program. Use it as a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )

    def call(self, name: str, data: bytes) -> Any:
        """Return the answer of the parser of that name; raise AssertionError if the program
        dies."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"%s %d\n" % (name.encode(), len(data)) + data)
        stdin.flush()
        size = stdout.readline()
        assert size, f"the parsers died of {name} {data!r}: {self._process.wait()}"
        return json.loads(stdout.read(int(size)))

    def text(self, name: str, data: bytes) -> bytes:
        """Return the bytes that a parser answers; its answer must have nothing else."""
        return bytes.fromhex(self.call(name, data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        assert self._process.returncode == 0
