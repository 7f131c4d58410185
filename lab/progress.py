# SPDX-License-Identifier: MIT
"""Reports from a host to the keeper, and from the keeper to `up`, while a lab is being made."""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class LabProgress:
    """A report of progress, or of an error, that is sent as a line of JSON."""

    pid: int = 0
    """The PID of a host's first process, as seen outside of the lab."""
    root: int = 0
    """The device of a host's `/`."""
    read_only: list[str] = field(default_factory=list)
    """The folders that a host can only read."""
    failed: str = ""

    def line(self) -> bytes:
        """Return the report as a line for `heard`."""
        return json.dumps(asdict(self)).encode() + b"\n"


def heard(line: bytes) -> LabProgress:
    """Return the report of a line."""
    return LabProgress(**json.loads(line))
