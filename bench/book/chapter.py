# SPDX-License-Identifier: MIT
"""A chapter: Markdown, with directives on lines of their own that begin with two colons.

    :: source FILE [since FILE]     the whole annotated file; marks what is new since the other
    :: function FILE NAME           one function of it, with its comment
    :: step FILE FILE               two files side by side, the unchanged folded
    :: beside FILE NAME FILE NAME   two functions side by side
    :: timeline SERVER [SCENARIO]   the picture of a recorded trace
    :: curve SERVER ...             the newest curve of the last of these servers, with the others'
    :: lives NN                     which real servers have this architecture, from chapter 11
    :: question TEXT                the text up to `:: end` is the folded answer
    :: try NAME      lines of shell up to `:: expect`, then the output, up to `:: end`

Pure: from text to blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

MARK = ":: "
DIRECTIVES = {
    "source": (1, 3),
    "function": (2, 2),
    "step": (2, 2),
    "beside": (4, 4),
    "timeline": (1, 2),
    "curve": (1, 9),
    "lives": (1, 1),
}
"""Those of one line: how many words they take."""


class BadChapter(ValueError):
    """A directive that is none; the message says where."""


@dataclass
class Block:
    """A piece of a chapter: "text", or what a directive asks for."""

    kind: str
    words: list[str] = field(default_factory=list)
    text: str = ""
    """Markdown; of a try the lines of shell."""
    expect: str = ""
    """Of a try: what will be seen, in Markdown."""


@dataclass
class Chapter:
    """A page of the book."""

    name: str
    """Of its file, without the ending."""
    title: str
    blocks: list[Block]


def read_chapter(name: str, text: str) -> Chapter:
    """The chapter in a file. Its first line is its title, `# ...`. Raises BadChapter."""
    first, _, rest = text.partition("\n")
    if not first.startswith("# "):
        raise BadChapter(f"{name}: the first line must be its title: # ...")
    return Chapter(name, first.removeprefix("# ").strip(), list(_blocks(name, rest)))


def _blocks(name: str, text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), 2))
    plain: list[str] = []
    for number, line in lines:
        if not line.startswith(MARK):
            plain.append(line)
            continue
        if any(plain):
            yield Block("text", text="\n".join(plain))
        plain = []
        kind, *words = line.removeprefix(MARK).split()
        if kind in ("question", "try"):
            body, expect = _until_end(name, number, lines)
            yield Block(kind, words, body, expect)
        elif kind in DIRECTIVES and DIRECTIVES[kind][0] <= len(words) <= DIRECTIVES[kind][1]:
            yield Block(kind, words)
        else:
            raise BadChapter(f"{name}:{number}: not understood: {line}")
    if any(plain):
        yield Block("text", text="\n".join(plain))


def _until_end(name: str, number: int, lines: Iterator[tuple[int, str]]) -> tuple[str, str]:
    """The lines up to `:: end`, and of these those behind `:: expect`."""
    parts: list[list[str]] = [[]]
    for _, line in lines:
        if line.strip() == ":: end":
            body, *rest = ["\n".join(part) for part in parts]
            return body.strip("\n"), "\n".join(rest).strip()
        if line.strip() == ":: expect":
            parts.append([])
        else:
            parts[-1].append(line)
    raise BadChapter(f"{name}:{number}: no `:: end` behind this")
