# SPDX-License-Identifier: MIT
"""Hooks of MkDocs that make the parts of the web site that plain Markdown cannot express.

- Directives (bench/book/directive.py) become annotated source, timelines and curves.
- The words of the book are linked to the glossary. Its entries begin with `**word, other word**:`.
- A link to a file outside of docs/ leads to a page with that file, so the site needs no repository.
"""

import posixpath
import re
from collections.abc import Mapping
from functools import cache

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.lexers import find_lexer_class_for_filename

from bench.book import directive
from bench.book.listing import styles
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.results import Results
from bench.timeline.page import picture_style

GLOSSARY = "reference/glossary.md"
BOOK = "tutorial/book/"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)(?=[#)])")
FENCE = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
"""The beginning of a block of code that names its file."""
PLACE = re.compile(r'<div class="directive">(\d+)</div>')
HEAD = "---\nsearch:\n  exclude: true\n---\n"

_made: list[str] = []
"""The HTML of all directives; MkDocs does not parse it."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the style of timelines and code, and a page for each linked file outside of docs/."""
    _made.clear()
    light, dark = styles()
    style = f"{picture_style()}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    files.append(File.generated(config, "code.css", content=style))
    pages = [file for file in files if file.is_documentation_page()]
    for page in pages:  # this loop appends to `pages`
        for link in LINK.findall(page.content_string):
            name = _name_of(page.src_uri, link)
            uri = _address(name)
            if (ROOT / name).is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, content=_page_of(name)))
                if name.endswith(".md"):
                    pages.append(files.src_uris[uri])
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Redirect links to files outside of docs/, and replace each directive by a placeholder."""
    here = page.file.src_uri
    if here.startswith(BOOK):
        page.meta["hide"] = ["toc"]  # the code needs the whole width

    def relative(match: re.Match[str]) -> str:
        address = _address(_name_of(here, match[1]))
        return posixpath.relpath(address, posixpath.dirname(here) or ".")

    def place(match: re.Match[str]) -> str:
        _made.append(directive.html(match[1], _sweeps()))
        return f'<div class="directive">{len(_made) - 1}</div>'

    try:
        markdown = directive.LINE.sub(place, markdown)
    except UserError as error:
        raise PluginError(f"{here}: {error}") from error
    return FENCE.sub(r'```\1 title="\2"', LINK.sub(relative, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the HTML of the directives, and link words of the book to the glossary."""
    # The empty corner of a table is not a heading.
    html = PLACE.sub(lambda match: _made[int(match[1])], html).replace("<th></th>", "<td></td>")
    here = page.file
    if here.src_uri == GLOSSARY:
        return anchored(html)
    if not here.src_uri.startswith(BOOK):
        return html
    there = files.src_uris[GLOSSARY]
    return linked(html, words(there.content_string), there.url_relative_to(here))


def _name_of(uri: str, link: str) -> str:
    """Return the path, within the project, to which `link` leads on the page `uri` of the site."""
    folder, _, rest = uri.partition("/")
    origin = rest if folder in ("project", "source") else f"docs/{uri}"
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _address(name: str) -> str:
    """Return the address, within the site, of the page for a file of the project."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    # MkDocs ignores names that begin with a dot.
    return f"project/{name}" if name.endswith(".md") else f"source/{name.lstrip('.')}.md"


def _page_of(name: str) -> str:
    """Return the Markdown page of a file outside of docs/."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".md"):
        return text
    lexer = find_lexer_class_for_filename(name)
    language = lexer.aliases[0] if lexer else "text"
    return f'{HEAD}# {name}\n\n~~~~{language} linenums="1"\n{text}\n~~~~\n'


@cache
def _sweeps() -> list[Results]:
    return directive.sweeps(ROOT / "results")


# ---- Links to the glossary ----

EVERYDAY = (
    *("agent", "condition", "configuration", "factor", "layer", "package", "ranking", "run"),
    *("slot", "trial", "connection", "need", "poll", "request", "response"),
)
"""Words without links: frequent words, and words with a different meaning in most sentences."""
UNTOUCHED = (
    r"<(code|pre|a|h\d|svg|summary|figcaption)\b.*?</\1>|<table class=.pairs.*?</table>|<[^>]*>"
)
"""Elements whose text gets no links, and all tags."""


def words(text: str) -> dict[str, str]:
    """Return the anchor of each word (in lower case) that the glossary explains, except EVERYDAY
    words."""
    found = {}
    for entry in re.findall(r"^\*\*(.+?)\*\*:", text, re.MULTILINE):
        for word in entry.split(","):
            found[word.strip().lower()] = _anchor(entry)
    return {word: anchor for word, anchor in found.items() if word not in EVERYDAY}


def _anchor(entry: str) -> str:
    return re.sub(r"\W+", "-", entry.lower()).strip("-")


def anchored(html: str) -> str:
    """Return the page of the glossary with an anchor at each entry."""

    def mark(match: re.Match[str]) -> str:
        return f'<p id="{_anchor(match[1])}"><strong>{match[1]}</strong>:'

    return re.sub(r"<p><strong>(.+?)</strong>:", mark, html)


def linked(html: str, known: Mapping[str, str], page: str) -> str:
    """Return the HTML with a link from the first use of each word to its entry. `known`: the anchor
    of each word; `page`: the address of the glossary."""
    alternatives = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    pattern = re.compile(rf"{UNTOUCHED}|\b({alternatives})(s?)\b", re.IGNORECASE | re.DOTALL)
    seen: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        word, plural = match[2], match[3]
        if word is None or word.lower() in seen:
            return match[0]
        seen.add(word.lower())
        return f'<a class="word" href="{page}#{known[word.lower()]}">{word}{plural}</a>'

    return pattern.sub(replace, html)
