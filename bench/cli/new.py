# SPDX-License-Identifier: MIT
"""`zerohttpd new`: create a folder for your own server, as a copy or a skeleton with gaps."""

import re
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.values import Parser
from bench.subjects.subject import discover

SKELETON = "scratch"
FILES = ("main.c", "tests.toml")
_NAME = re.compile(r"\d\d_(?P<program>[a-z][a-z0-9-]*)")


def run(words: Sequence[str]) -> int:
    """Create the folder and return the exit status 0. Raises UserError."""
    parser = Parser(
        prog="zerohttpd new", description="Create a folder NN_name/ for your own server."
    )
    parser.add_argument("name", metavar="NN_NAME", help="name of the folder, e.g. 08_mine")
    begin = "copy the server of this folder (default %(default)s: a skeleton with gaps)"
    parser.add_argument("--from", dest="origin", default=SKELETON, metavar="FOLDER", help=begin)
    options = parser.parse_args(words)
    folder = make(options.name, options.origin)
    program = folder.name.partition("_")[2]
    lines = {
        f"make {program}": "build it",
        f"make serve SERVER={program}": "open it in a browser",
        f"make grade SERVER={folder.name}": "see its points and its faults",
        f"make timeline SERVER={program}": "see its system calls in order",
        f'make test-all ARGS="--server {program}"': "run all tests with this server",
    }
    width = max(map(len, lines))
    print(f"{folder.name}/main.c is yours.")
    for line, what in lines.items():
        print(f"  {line:<{width}}  {what}")
    return 0


def make(name: str, origin: str, root: Path = ROOT) -> Path:
    """Create the folder in `root` and return it. Raises UserError for a wrong name or origin."""
    match = _NAME.fullmatch(name)
    if not match:
        raise UserError(f"{name!r} is not a valid name: two digits, _ and a word, e.g. 08_mine")
    program = match["program"]
    if program in discover(root) or (root / name).exists() or (root / program).exists():
        raise UserError(f"{program} exists already; choose another name")
    source = root / "course" / "own" if origin == SKELETON else root / origin.rstrip("/")
    if not (source / "main.c").is_file():
        there = ", ".join(file.parent.name for file in sorted(root.glob("[0-9][0-9]_*/main.c")))
        raise UserError(f"{origin}/main.c does not exist; FROM can be: {SKELETON}, {there}")
    before = "NAME" if origin == SKELETON else source.name.partition("_")[2]
    folder = root / name
    folder.mkdir()
    for file in FILES:
        if (source / file).exists():
            (folder / file).write_text(renamed((source / file).read_text(), before, name))
    return folder


def renamed(text: str, before: str, folder: str) -> str:
    """Return the source with the new name in the comment, commands and `struct architecture`."""
    program = folder.partition("_")[2]
    text = text.replace(f" * {before}: ", f" * {program}: ", 1)
    text = re.sub(rf"(pgrep -x |SERVER=|\./){before}\b", rf"\g<1>{program}", text)
    text = text.replace(f'.name = "{before}"', f'.name = "{program}"', 1)
    return text.replace("SERVER=FOLDER", f"SERVER={folder}")
