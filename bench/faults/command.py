# SPDX-License-Identifier: MIT
"""The commands `zerohttpd fault` (a copy with a fault, or hints) and `zerohttpd student-copy`."""

import gzip
import json
import tarfile
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from bench.deploy.pack import of_root
from bench.faults.copying import (
    FOLDER,
    STEPS,
    Fault,
    Ticket,
    apply,
    copy_files,
    difference,
    fault,
    make_copy,
    number_for,
    numbers,
    ticket_of,
)
from bench.host.project import ROOT
from bench.readers.console import paragraphs
from bench.records.errors import UserError
from bench.records.values import Parser
from bench.records.words import plural

ANSWER = "answer"
COPIES = ROOT / "fault"
"""The folder of the students' copies. `make clean` removes build/, but not this folder."""
NAME = "zerohttpd"
"""The top folder in the archive for students."""
ARCHIVE = ROOT / "results" / "course" / f"{NAME}-students.tar.gz"


def run(words: Sequence[str]) -> int:
    """Make a copy with a fault, print a hint, or renew a patch. Return 0. Raises UserError."""
    parser = Parser(
        prog="zerohttpd fault",
        description="Make a copy of the project with a fault in it, for you to find.",
    )
    add = parser.add_argument
    add("number", nargs="?", help="number of the fault: 01 to 15")
    student = "choose the fault by a student's id; the same id always gets the same fault"
    add("--student", metavar="ID", help=student)
    steps = [str(step) for step in range(1, STEPS + 1)]
    hint = f"print hint {', '.join(steps)} or the answer; make no copy"
    add("--hint", choices=[*steps, ANSWER], metavar="STEP", help=hint)
    into = "make the copy in this new folder (default fault/NUMBER)"
    add("--into", type=Path, metavar="FOLDER", help=into)
    again = "for maintainers: make the patch from an edited copy"
    add("--renew", type=Path, metavar="FOLDER", help=again)
    options = parser.parse_args(words)
    if (options.number is None) == (options.student is None):
        raise UserError("give a number, 01 to 15, or --student ID, but not both")
    number = number_for(options.student) if options.student is not None else options.number
    if options.renew:
        renew(fault(number), options.renew)
    elif options.hint == ANSWER:
        print(answer(fault(number)))
    elif options.hint:
        print(paragraphs(fault(number).hints[int(options.hint) - 1]))
    else:
        chosen = ticket_of(number)
        folder = options.into or COPIES / chosen.number
        make_copy(folder)
        apply(chosen.patch, folder)
        print(ticket(chosen, folder))
    return 0


def ticket(chosen: Ticket, folder: Path) -> str:
    """Return the text for the student: the complaint and helpful commands."""
    complaint = textwrap.indent(paragraphs(chosen.complaint), "  ")
    server = chosen.server
    hints = (
        f"Hints (here): make fault N={chosen.number} HINT=1, then 2 and {STEPS}; last HINT=answer"
    )
    return f"""\
A copy of the project, with one fault in its C sources, is in {folder}
A user complains about the server `{server}`:

{complaint}

Find the fault and fix it there. Commands that help (run them there):
  make serve SERVER={server}          with its own Redis
  ./{server} --no-confinement         under strace or gdb, after make all
  make timeline SERVER={server}       SCENARIO=silent, slow-reader, redis-stopped ...
  make test TEST_TIMEOUT=20 ARGS="tests/e2e --server {server}"
  make bench ARGS="--servers {server} --levels 20,200 --requests 2000" && make report
{hints if chosen.has_answer else "For a hint ask your lecturer."}"""


def answer(chosen: Fault) -> str:
    """Return the fault's name, explanation and patch, and a public incident if one is known."""
    incident = "No public incident has been verified."
    if known := chosen.incident:
        incident = f"{paragraphs(f'A real incident: {known.what}')}\n{known.link}"
    patch = chosen.patch.read_text().rstrip("\n")
    return "\n\n".join([chosen.name, paragraphs(chosen.explanation), patch, incident])


def renew(chosen: Fault, folder: Path) -> None:
    """Write the patch from the differences in a copy. Raises UserError if nothing differs."""
    text = difference(folder)
    if not text:
        raise UserError(
            f"the C sources in {folder} do not differ from this project; edit them first"
        )
    chosen.patch.write_text(text)
    lines = len(text.splitlines())
    trial = f'make test ARGS="tests/bench/faults -k {chosen.number}"'
    print(f"{chosen.patch}: {lines} lines. Try it: {trial}")


# ---- The copy for students ----


def student_copy(words: Sequence[str]) -> int:
    """Make an archive of the project without solutions and answers. Return the exit status 0.
    Raises UserError.

    The archive has the same files as a copy with a fault, but no fault in the sources.
    course/faults/ has the tickets, without hints and explanations. Each patch is compressed:
    `make fault` can use the patch, but a search in the files does not find it.
    """
    parser = Parser(
        prog="zerohttpd student-copy",
        description="Make an archive of the project for students, without solutions and answers.",
    )
    chosen = "include only these faults for `make fault`, e.g. 01,08 (default all)"
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
