#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Find the words of scripts/words.toml in texts for readers.

    scripts/prose.py FILE...

The program checks all text of Markdown and HTML files except code. In other files and in HTML, it
checks comments, docstrings and strings with a space. The exit status is 1 after a finding.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.token import Comment, String, is_token_subtype

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORDS = Path(__file__).with_name("words.toml")
MARKDOWN_CODE = re.compile(r"^( *)(```|~~~).*?^\1\2|``.+?``|`[^`]+`|\]\([^)]*\)", re.M | re.S)
HTML_CODE = re.compile(
    r"<(style|script|code|pre|svg)\b.*?</\1>|<[^>]*>|\{([{%#]).*?[}%#]\}", re.S | re.I
)
# A sentence begins after a punctuation mark, after an empty line, or at the beginning of a piece.
BEGINNING = r"""(?:\A|[.:;!?][)"*]*\s|\n[\s*#/>|-]*\n)[\s*#/>|"'\\_frb-]*"""


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each piece of a file's prose, as the number of its first line and its text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, MARKDOWN_CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
        return
    if ".html" in path.suffixes:
        yield 1, HTML_CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
    lexer = find_lexer_class_for_filename(path.name) or type(get_lexer_by_name("bash"))
    line, first, piece = 1, 1, ""
    for kind, value in lexer(stripnl=False).get_tokens(text):
        is_comment = is_token_subtype(kind, Comment) and not is_token_subtype(kind, Comment.Preproc)
        is_prose = is_comment or is_token_subtype(kind, String)
        if is_prose or (piece and value.isspace()):
            first = first if piece else line
            piece += value
        elif piece:
            yield first, piece
            piece = ""
        line += value.count("\n")
    yield first, piece


def pattern(word: str) -> re.Pattern[str]:
    """Return the regular expression that finds a word of the list."""
    words = word.replace(" ", r"[\s*#/]+")
    if word[0].isupper():
        return re.compile(rf"{BEGINNING}(?P<word>{words})\b(?!-)")
    # A word in back-quotes or next to a dot is a name: `cell`, bench.stations.
    return re.compile(rf"(?<![\w`.-])(?P<word>{words})(?![\w`-]|\.\w)", re.IGNORECASE)


def main(names: list[str]) -> int:
    """Print each finding as FILE:LINE: WORD: WHAT TO WRITE. Return the exit status."""
    lists = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    rules = [
        (pattern(word + after), rule["instead"])
        for kind, after in (("rule", ""), ("term", "(?!/)"))
        for rule in lists[kind]
        for word in rule["words"]
    ]
    exceptions = [
        (files, re.compile(word, re.IGNORECASE))
        for exception in lists["exception"]
        for files in exception["files"]
        for word in exception["words"]
    ]
    status = 0
    for name in names:
        allowed = [word for files, word in exceptions if fnmatch(name, files)]
        for line, text in pieces(Path(name)):
            if " " not in text.strip():
                continue
            for expression, instead in rules:
                for match in expression.finditer(text):
                    if not any(word.fullmatch(match["word"]) for word in allowed):
                        at = line + text.count("\n", 0, match.start("word"))
                        print(f"{name}:{at}: {match['word']}: {instead}")
                        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
