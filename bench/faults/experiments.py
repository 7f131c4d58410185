# SPDX-License-Identifier: MIT
"""The experiments of course/experiments/: NAME.patch changes a server, NAME.toml has
the question and the answer. The changed servers are built next to the usual ones, so that a sweep
can measure both in turns."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from bench.faults.copying import SOURCES, apply
from bench.host.project import ROOT, declaration
from bench.records.conditions import CHANGES
from bench.records.errors import UserError
from bench.records.values import one_of
from bench.subjects.running import CHANGED

FOLDER = ROOT / "course" / "experiments"
NEEDED = (*SOURCES, "lib/*.h", "Makefile", "pyproject.toml")
"""What a server is built from."""
STAMP = "built-from"


class Experiment(BaseModel):
    """What NAME.toml says."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    servers: tuple[str, ...] = Field(min_length=1)
    """Those that it changes."""
    workloads: tuple[str, ...] = Field(min_length=1)
    kept: tuple[bool, ...] = (False, True)
    """With a connection for each request, with connections that are kept."""
    question: str
    answer: str
    """What is to be expected, and why."""
    still: tuple[str, ...] = Field(min_length=1)
    """Tests below tests/e2e/ that the changed servers pass: they are right, only other."""

    @property
    def title(self) -> str:
        """What is done otherwise."""
        return CHANGES[self.name]

    @property
    def patch(self) -> Path:
        """The change: a unified diff against this project."""
        return FOLDER / f"{self.name}.patch"


def experiment(name: str) -> Experiment:
    """The one of that name. Raises UserError."""
    file = FOLDER / f"{one_of('experiment', name, CHANGES)}.toml"
    return declaration(Experiment, file, name=name)


def built(chosen: Experiment) -> Path:
    """The folder of the changed servers, built if they are not, or of other sources. Raises
    UserError."""
    folder = CHANGED / chosen.name
    stamp, digest = folder / STAMP, _digest(chosen)
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(folder, ignore_errors=True)
        _copy_sources(folder)
        apply(chosen.patch, folder)
        _make(chosen, folder)
        stamp.write_text(digest)
    return folder


def _sources() -> list[Path]:
    return sorted({path for pattern in NEEDED for path in ROOT.glob(pattern)})


def _digest(chosen: Experiment) -> str:
    found = hashlib.sha256()
    for path in (chosen.patch, FOLDER / f"{chosen.name}.toml", *_sources()):
        found.update(path.read_bytes())
    return found.hexdigest()


def _copy_sources(folder: Path) -> None:
    """With what was built here before: it serves for all that the patch leaves as it is."""
    for path in _sources():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    objects = ROOT / "build" / "release"
    if objects.exists():
        shutil.copytree(objects, folder / "build" / "release")


def _make(chosen: Experiment, folder: Path) -> None:
    done = subprocess.run(
        ["make", "--silent", *chosen.servers], cwd=folder, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise UserError(f"experiment {chosen.name} does not build: {done.stderr.strip()}")
