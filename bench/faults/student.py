# SPDX-License-Identifier: MIT
"""`zerohttpd student-copy`: an archive of the project without solutions and answers.

It has the files of a copy with a fault (bench/faults/copying.py), but no fault in its sources.
course/faults/ has the tickets, without hints and explanations, and each patch compressed, so that
`make fault` works there and a search in the files finds no patch.
"""

import argparse
import gzip
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.deploy.pack import of_root
from bench.faults.copying import FOLDER, Fault, copy_files, fault, numbers
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.words import plural

NAME = "zerohttpd"
"""The folder that the archive unpacks to."""
ARCHIVE = ROOT / "results" / "course" / f"{NAME}-students.tar.gz"


def run(words: Sequence[str]) -> int:
    """Make the archive. Exit status: 0. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd student-copy",
        description="Make an archive of the project for students, without solutions and answers.",
    )
    chosen = "give `make fault` only these faults there, e.g. 01,08 (default all)"
    parser.add_argument("--faults", metavar="NUMBERS", help=chosen)
    where = "write the archive to FILE (default %(default)s)"
    parser.add_argument("--output", type=Path, default=ARCHIVE, metavar="FILE", help=where)
    options = parser.parse_args(words)
    given = options.faults.split(",") if options.faults else numbers()
    faults = [fault(number) for number in given]
    pack(options.output, faults)
    print(f"{options.output}: unpacks to {NAME}/, with {plural(len(faults), 'fault')}")
    return 0


def pack(archive: Path, faults: Sequence[Fault]) -> None:
    """Write the archive. Raises UserError."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-students-") as place:
        folder = Path(place) / NAME
        try:
            copy_files(folder)
            _add(faults, folder / FOLDER.relative_to(ROOT))
            archive.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
                tar.add(folder, NAME, filter=of_root)
        except OSError as error:
            raise UserError(f"cannot make {archive}: {error}") from error


def _add(faults: Sequence[Fault], folder: Path) -> None:
    """Write the ticket and the compressed patch of each fault. Raises OSError."""
    folder.mkdir(parents=True)
    for one in faults:
        lines = [
            "# SPDX-License-Identifier: MIT",
            *(f"{key} = {json.dumps(getattr(one, key))}" for key in ("server", "complaint")),
        ]
        (folder / f"{one.number}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        packed = gzip.compress(one.patch.read_bytes(), mtime=0)
        (folder / f"{one.number}.patch.gz").write_bytes(packed)
