# SPDX-License-Identifier: MIT
"""What a host says to the keeper, and the keeper to `up`, while a lab is being made."""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class LabProgress:
    """How far it is, as a line of JSON; or why it goes no further."""

    pid: int = 0
    """A host's first process, as its number is outside."""
    root: int = 0
    """The device of a host's `/`."""
    read_only: list[str] = field(default_factory=list)
    """The folders that a host can only read."""
    failed: str = ""

    def line(self) -> bytes:
        """To be read by `heard`."""
        return json.dumps(asdict(self)).encode() + b"\n"


def heard(line: bytes) -> LabProgress:
    """What such a line says."""
    return LabProgress(**json.loads(line))
