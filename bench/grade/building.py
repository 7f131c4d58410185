# SPDX-License-Identifier: MIT
"""Prepare an examination. Compile a copy of the server, and link it with the built library. Make
the files to serve: the project's, and files whose names and contents depend on the seed."""

import os
import random
import re
import shutil
import string
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench.grade.findings import (
    HAS_ASSEMBLER,
    CheckOutcome,
    StageOutcome,
    build_failure,
    finding,
    shortened,
)
from bench.grade.sandbox import Limits, confined, give
from bench.host.project import ROOT, ended_well
from bench.load.client import Response, request
from bench.records.errors import UserError
from bench.subjects.subject import Subject, discover, said_of, server_subject

COMPILER_LIMITS = Limits(address_space=4 << 30, file_bytes=256 << 20)
COMPILE_SECONDS = 30.0
BUILD_POINTS = 3
PARTS = ("Makefile", "pyproject.toml")
HUGE = 3 << 30
"""A length that an int cannot hold."""
LETTERS = " %+&=;'\"<>#?\u00e9\u20ac!$*()[]{},^|`\\:@~\t\n\x01\x7f"
ENDINGS = """
html . .HTML .tar.gz .JPeG .html. .htm .css .js .mjs .md .csv .xml .json .map .webmanifest .png .jpg
.jpeg .gif .svg .webp .avif .ico .woff .woff2 .ttf .otf .mp3 .ogg .wav .mp4 .webm .pdf .zip .gz
.wasm .exe
"""
REDIRECTS = (
    "http://a/b#c", "HTTPS://a 301", "/a?b 303", "/a 307 # a comment", "/a%20b\t308", "/#a 302",
)  # fmt: skip
"""Targets of redirects, some with a status or a comment."""
SIZES = (0, 1, (16 << 10) - 1, 16 << 10, (16 << 10) + 1, 64 << 10)
"""Sizes of files, some near 16 KB: servers keep files up to this size in memory (SMALL_FILE)."""
HAS_INDEX = 0.5
MOST_BYTES = 1 << 20
"""The size limit of a graded folder, which should have only source files."""
LINKER_OPTION = re.compile(r"-pthread|-l[A-Za-z0-9_+.-]+|-Wl(,--wrap=[A-Za-z0-9_]+)+")
"""The allowed options in a file `ldflags`; others could add prebuilt code or start programs."""
PREBUILT = (b"\x7fELF", b"!<arch>", b"!<thin>", b"gpch")
"""First bytes of programs and objects, of archives of objects, and of gcc's precompiled headers."""
ASSEMBLER = re.compile(r"\b_*asm_*\b(?!/)|\b_*section_*\s*\(\s*\"")
"""Finds assembler code, and attributes that can put data into the section of the code."""


class NotBuilt(Exception):
    """The server was not built. The text is the compiler's message, or says why there is none."""


def folder_of(name: str) -> Path:
    """Return a server's folder. `name`: a path, NN_name or the name alone. Raises UserError."""
    for folder in (Path(name), ROOT / name, *ROOT.glob(f"[0-9][0-9]_{name}")):
        if (folder / "main.c").is_file():
            _require_sources(folder)
            return folder.resolve()
    there = ", ".join(file.parent.name for file in sorted(ROOT.glob("[0-9][0-9]_*/main.c")))
    raise UserError(f"{name}/main.c does not exist; the servers here are: {there}")


def _require_sources(folder: Path) -> None:
    """Raise UserError if the folder or one of its named files is a link or a special file, if a
    file cannot be read, or if `refusal` gives a reason."""
    for path in (folder, *(folder / name for name in ("main.c", "tests.toml", "ldflags"))):
        if path.is_symlink() or not (path.is_file() or path.is_dir() or not path.exists()):
            raise UserError(f"{path} is a link or not a regular file; put the file itself there")
    try:
        reason = refusal(folder)
    except OSError as error:
        reason = f"it cannot be read: {error}"
    if reason:
        raise UserError(f"{folder}: {reason}")


def refusal(folder: Path) -> str:
    """Return the reason why the server in a folder is not graded, or an empty string. No file and
    no linker option may add prebuilt code."""
    paths = sorted(folder.rglob("*"))
    if sum(path.lstat().st_size for path in paths) > MOST_BYTES:
        return f"it has more than {MOST_BYTES >> 20} MB; leave only source files"
    for path in paths:
        if path.is_file() and not path.is_symlink() and path.read_bytes().startswith(PREBUILT):
            return f"{str(path.relative_to(folder))!r} is prebuilt code; leave only source files"
    options = folder / "ldflags"
    for word in options.read_text(errors="replace").split() if options.is_file() else ():
        if not LINKER_OPTION.fullmatch(word):
            return f"ldflags has {word[:80]!r}; use only -lNAME, -pthread and -Wl,--wrap=NAME"
    return ""


def require_limits() -> None:
    """Raise UserError if this machine's limits are too low for a grading. Low limits would look
    like faults of the program."""
    done = subprocess.run(confined(["true"], COMPILER_LIMITS), capture_output=True, text=True)
    if done.returncode != 0:
        raise UserError(
            f"no program can be graded here: {done.stderr.strip()}. If your limits "
            "(ulimit -Ha) are too low for a grading, raise them or grade as root"
        )


def can_build(flag: str, folder: Path) -> bool:
    """Return whether an empty program, compiled in `folder` with this flag of gcc, runs."""
    source, program = folder / "empty.c", folder / "empty"
    source.write_text("int main(void) { return 0; }\n")
    built = ended_well(["gcc", flag, str(source), "-o", str(program)])
    runs = confined([str(program)], Limits(address_space=None), [program])
    return built is not None and ended_well(runs) is not None


class Built:
    """A copy of the parts of the project that a build needs, with the graded server only."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Copy PARTS, lib/, ops/ and the server. Raise UserError if the server cannot be copied, or
        if its name is wrong."""
        self.stalled_by = said_of(source).stalled_by
        self._root = folder
        self._folder = source.name if source.name[:2].isdigit() else f"99_{source.name}"
        for name in PARTS:
            shutil.copy(ROOT / name, folder / name)
        for name in ("lib", "ops"):
            shutil.copytree(ROOT / name, folder / name)
        # Links are copied as links: their targets must not be read with the grader's rights.
        try:
            shutil.copytree(source, folder / self._folder, symlinks=True)
        except (OSError, shutil.Error) as error:
            raise UserError(f"{source} cannot be copied: {error}") from error
        give(folder)
        found = discover(folder)
        if len(found) != 1:
            raise UserError(f"{source.name} is not a server's name; use e.g. 08_mine or mine")
        self.name = found[0]

    def mentions(self, words: re.Pattern[str]) -> bool:
        """Return whether the expression matches a part of the server's files, comments included."""
        files = (self._root / self._folder).rglob("*")
        sources = (file for file in files if file.is_file() and not file.is_symlink())
        return any(words.search(source.read_text(errors="replace")) for source in sources)

    def make(
        self, flavour: str, flags: tuple[str, ...] = (), seconds: float = COMPILE_SECONDS
    ) -> tuple[Subject, str]:
        """Compile the server and link it with the library that `make` has built in build/FLAVOUR.
        Return the server and the compiler's warnings. Raises NotBuilt, UserError."""
        archive = self._root / f"{flavour}.a"
        where = "release" if flavour == "release" else f"{flavour}/objects"
        built = ROOT / "build" / where / "libzerohttpd.a"
        if not built.exists():
            raise UserError(f"{built} is missing; use `make grade`, which builds it first")
        shutil.copy(built, archive)
        give(archive)
        command = [
            *("make", "--no-print-directory", "-s", "-o", str(archive), f"ARCHIVE={archive}"),
            *(f"BUILD={flavour}", f"BIN={flavour}/bin", *flags, f"{flavour}/bin/{self.name}"),
        ]
        try:
            done = subprocess.run(
                confined(command, COMPILER_LIMITS, writes=[self._root]),
                cwd=self._root,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"the compiler did not finish within {seconds:.0f} s") from None
        program = self._root / flavour / "bin" / self.name
        if done.returncode != 0 or not program.is_file():
            raise NotBuilt(done.stderr.strip() or "the compiler printed no message")
        return server_subject(self.name, program), done.stderr.strip()


def compiled(built: Built) -> tuple[Subject | None, StageOutcome]:
    """Compile a server. Return it, or None after an error, and this stage's outcome."""
    server = None
    check = CheckOutcome(check="it compiles", points=BUILD_POINTS, of=BUILD_POINTS, came="right")
    try:
        server, remarks = built.make("release")
        notes = [HAS_ASSEMBLER] if built.mentions(ASSEMBLER) else []
        if remarks:
            check.points -= 2
            warned = [line for line in remarks.splitlines() if "warning:" in line]
            notes.append("with warnings: " + shortened(warned or remarks.splitlines())[0])
        check.note = "; ".join(notes)
    except NotBuilt as error:
        check.points, check.came = 0, "failed"
        check.finding = finding(build_failure("does-not-compile", str(error)), ())
    return server, StageOutcome(stage="builds", title="It compiles", checks=[check])


@dataclass
class Expected:
    """A request and the correct response."""

    name: str  # The name of the request in the report.
    data: bytes
    status: int | range
    body: bytes | None = None  # None: any body is correct.
    field: tuple[str, str] | None = None  # A field that the response must have: name and value.
    remark: str = ""  # The text that must be in Redis exactly once after the correct response.
    path: str = ""
    also: int = 0  # Another correct status; its response may have any body.

    @property
    def method(self) -> str:
        """Return the method; a response to HEAD has no body."""
        return self.data.split(b" ", 1)[0].decode("latin-1")

    def wrong(self, answer: Response) -> str:
        """Return how a response differs from the expected one; empty for a correct response."""
        right = [self.status] if isinstance(self.status, int) else self.status
        name, value = self.field or ("", None)
        if answer.status == self.also:
            return ""
        if answer.status not in right:
            return f"{answer.status}, not {right[0]}" + (" or more" if len(right) > 1 else "")
        if self.body is not None and answer.body != self.body:
            return f"{answer.status} with {len(answer.body)} bytes, not {len(self.body)}"
        found = answer.field(name)
        return f"{name}: {found}, not {value}" if found != value else ""

    def wrong_length(self, answer: Response) -> str:
        """Return the Content-Length ("none": missing) if only this field is wrong, or ""."""
        content, told = self.body or b"", answer.field("Content-Length") or "none"
        alone = answer.status == self.status and content.startswith(answer.body)
        is_wrong = alone and self.method != "HEAD" and told != str(len(content))
        return told if is_wrong and content else ""


@dataclass
class SeededSite:
    """The project's public files and templates, and files that depend on the seed."""

    root: Path
    small: dict[str, bytes]  # Contents by path.
    big: tuple[str, bytes]
    moved: dict[str, str]  # Redirects: target by path.
    others: dict[str, str]
    """Paths by their names in requests.txt. `{huge}` is a sparse file of more than 2 GB. `{odd}`
    has characters with a special meaning in URLs and forms."""
    unusual: list[str]
    """The paths of redirects, files, links and folders whose name, size or kind is unusual."""

    @property
    def first(self) -> str:
        """Return the path of a small file."""
        return next(iter(self.small))

    def file(self, path: str, *fields: str, method: str = "GET") -> Expected:
        """Return the request for a small file or the big file, and the correct response. `fields`:
        additional lines of the request's head."""
        content = self.big[1] if path == self.big[0] else self.small[path]
        length = ("Content-Length", str(len(content))) if method == "HEAD" else None
        body = b"" if method == "HEAD" else content
        data = request(method, path, *fields)
        return Expected(f"{method} {path}", data, 200, body, length, path=path)

    def put(self, name: str, content: bytes) -> Path:
        """Create or replace a file in public/ in one step; return its path."""
        file = self.root / "public" / name
        new = file.with_suffix(".new")
        new.write_bytes(content)
        return new.replace(file)


def word(dice: random.Random, length: int = 8) -> str:
    """Return a random word of letters and digits."""
    return "".join(dice.choices(string.ascii_lowercase + string.digits, k=length))


def make_unusual(folder: Path, dice: random.Random) -> list[str]:
    """Make files, links and folders with unusual names, sizes and kinds; return their paths."""
    names = [f"{word(dice)}{letter}{word(dice)}.txt" for letter in LETTERS]
    names += [f"{word(dice)}{ending}" for ending in ENDINGS.split()]
    names += [f".{word(dice)}.txt", "x" * 251 + ".txt"]
    for name in names:
        (folder / name).write_text(word(dice))
    for size in SIZES:
        names.append(f"{word(dice)}.txt")
        (folder / names[-1]).write_bytes(dice.randbytes(size))
    for target in (names[-1], names[0], ".", "..", "../../../redirects", "/etc/passwd", "nowhere"):
        names.append(f"{word(dice)}.txt")
        (folder / names[-1]).symlink_to(target)
    names += [f"{word(dice)}.txt", f"{word(dice)}.fifo"]
    (folder / names[-2]).touch(mode=0o000)
    os.mkfifo(folder / names[-1])
    for letter in LETTERS:
        inner = folder / f"{word(dice)}{letter}"
        inner.mkdir()
        if dice.random() < HAS_INDEX:
            (inner / "index.html").write_text(word(dice))
        names += [inner.name, f"{inner.name}/"]
    return [quote(f"/{folder.name}/{name}") for name in names]


def make_site(root: Path, dice: random.Random) -> SeededSite:
    """Make all files of a site in the folder `root`; return the site."""
    for name in ("public", "templates"):
        shutil.copytree(ROOT / name, root / name)
    folder = root / "public" / word(dice)
    folder.mkdir()
    small = {}
    for _ in range(3):
        name, content = f"{word(dice)}.txt", dice.randbytes(dice.randint(20, 6000))
        (folder / name).write_bytes(content)
        small[f"/{folder.name}/{name}"] = content
    big = dice.randbytes(dice.randint(6_000_000, 8_000_000))
    name = f"{word(dice)}.bin"
    (folder / name).write_bytes(big)
    others = {"{huge}": f"{word(dice)}.bin", "{odd}": f"{word(dice)}+é &=%41;~.txt"}
    for file in others.values():
        (folder / file).write_text(word(dice))
    os.truncate(folder / others["{huge}"], HUGE)
    others = {key: quote(f"/{folder.name}/{file}", safe="/+&=;~") for key, file in others.items()}
    unusual = make_unusual(folder, dice)
    moved = {f"/{word(dice)}/{word(dice)}": f"/{word(dice)}" for _ in range(4)}
    more = {f"/{word(dice)}+%41{a}": b for a, b in zip("a;/&=~", REDIRECTS, strict=True)}
    table = "".join(f"{a} {b}\n" for a, b in {**moved, **more}.items())
    (root / "redirects").write_text(f"\n# a comment\n  {table}")
    big_file = (f"/{folder.name}/{name}", big)
    return SeededSite(root, small, big_file, moved, others, [*unusual, *more])
