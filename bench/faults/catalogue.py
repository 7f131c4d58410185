# SPDX-License-Identifier: MIT
"""The faults of course/faults/: NN.patch is what is wrong, NN.toml what there is to say of it."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from bench.host.project import ROOT, declaration
from bench.records.errors import UserError

FOLDER = ROOT / "course" / "faults"
STEPS = 3
"""Hints before the explanation."""
ORIGINAL = ".original"
"""In a copy the file that says which folder it was copied from."""


class Incident(BaseModel):
    """Where it has happened, and who says so."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    what: str
    link: str = Field(pattern="^https://")


class Proof(BaseModel):
    """The tests below tests/e2e/ that show it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    breaks: str
    """FILE::TEST, which fails with it and with nothing else of this server."""
    says: str
    """A pattern in that failure: it must fail for this reason and for no other."""
    still: tuple[str, ...] = Field(min_length=1)
    """Tests near by that pass all the same."""


class Fault(BaseModel):
    """What NN.toml says."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    number: str = Field(pattern="^[0-9]{2}$")
    name: str
    """Its plain name. Students see it only with the explanation."""
    server: str
    """The one in which it is to be looked for."""
    complaint: str
    """What a user noticed, in the words of a user."""
    hints: tuple[str, ...] = Field(min_length=STEPS, max_length=STEPS)
    explanation: str
    incident: Incident | None = None
    check: Proof

    @property
    def patch(self) -> Path:
        """The file with what is wrong: a unified diff against this project."""
        return FOLDER / f"{self.number}.patch"


def numbers() -> list[str]:
    """Those that there are: "01", "02" ..."""
    return sorted(path.stem for path in FOLDER.glob("[0-9][0-9].toml"))


def fault(number: str) -> Fault:
    """The fault of that number, "7" or "07". Raises UserError."""
    known = numbers()
    if not known:
        raise UserError(_nothing_here())
    wanted = number.zfill(2)
    if wanted not in known:
        raise UserError(f"there is no fault {number}: there are {known[0]} to {known[-1]}")
    return declaration(Fault, FOLDER / f"{wanted}.toml", number=wanted)


def _nothing_here() -> str:
    """Why there are no faults at all."""
    try:
        original = (ROOT / ORIGINAL).read_text(encoding="utf-8").strip()
    except OSError:
        return f"there are no faults in {FOLDER}"
    return f"this is a copy with a fault in it; run it in the original folder: {original}"
