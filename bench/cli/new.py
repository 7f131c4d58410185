# SPDX-License-Identifier: MIT
"""`zerohttpd new`: a folder for a server of your own, as a copy or as a skeleton with gaps."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.subjects.subject import discover

SKELETON = "scratch"
FILES = ("main.c", "tests.toml")
_NAME = re.compile(r"\d\d_(?P<program>[a-z][a-z0-9-]*)")


def run(words: Sequence[str]) -> int:
    """Make the folder. Exit status: 0. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd new", description="Begin a server of your own, in a folder NN_name/."
    )
    parser.add_argument("name", metavar="NN_NAME", help="such as 08_mine")
    begin = f"begin with a copy of this folder, or with a skeleton that has gaps: {SKELETON}"
    parser.add_argument("--from", dest="origin", default=SKELETON, metavar="FOLDER", help=begin)
    options = parser.parse_args(words)
    folder = make(options.name, options.origin)
    program = folder.name.partition("_")[2]
    lines = {
        f"make {program}": "build it",
        f"make serve SERVER={program}": "look at it in a browser",
        f"make grade SERVER={folder.name}": "what it can do, and what stands in the way",
        f"make timeline SERVER={program}": "see what it does, call by call",
        f'make test ARGS="--server {program}"': "all that the seven must pass",
    }
    width = max(map(len, lines))
    print(f"{folder.name}/main.c is yours.")
    for line, what in lines.items():
        print(f"  {line:<{width}}  {what}")
    return 0


def make(name: str, origin: str, root: Path = ROOT) -> Path:
    """Make the folder below `root`; returns it. Raises UserError for a name that cannot be taken,
    or an origin that is not there."""
    match = _NAME.fullmatch(name)
    if not match:
        raise UserError(f"{name!r} is no name for a server: two digits, _, a word, as in 08_mine")
    program = match["program"]
    if program in discover(root) or (root / name).exists() or (root / program).exists():
        raise UserError(f"{program} is there already; take another name")
    source = root / "course" / "own" if origin == SKELETON else root / origin.rstrip("/")
    if not (source / "main.c").is_file():
        there = ", ".join(file.parent.name for file in sorted(root.glob("[0-9][0-9]_*/main.c")))
        raise UserError(f"there is no {origin}/main.c; FROM can be: {SKELETON}, {there}")
    before = "NAME" if origin == SKELETON else source.name.partition("_")[2]
    folder = root / name
    folder.mkdir()
    for file in FILES:
        if (source / file).exists():
            (folder / file).write_text(renamed((source / file).read_text(), before, name))
    return folder


def renamed(text: str, before: str, folder: str) -> str:
    """The source with the new program's name where a server says its own: at the beginning of its
    opening comment, in its recipes, and in its `struct architecture`."""
    program = folder.partition("_")[2]
    text = text.replace(f" * {before}: ", f" * {program}: ", 1)
    text = re.sub(rf"(pgrep -x |SERVER=|\./){before}\b", rf"\g<1>{program}", text)
    text = text.replace(f'.name = "{before}"', f'.name = "{program}"', 1)
    return text.replace("SERVER=FOLDER", f"SERVER={folder}")
