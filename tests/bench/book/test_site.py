# SPDX-License-Identifier: MIT
"""All links of the web site work, it loads nothing from other hosts, and it shows sources."""

import re
import shutil
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from bench.cli.main import COMMANDS, RENAMED
from bench.host.project import ROOT

from ..commands import run

pytestmark = pytest.mark.xdist_group("site")
LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
DOCUMENTS = sorted(
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if path.is_file()
)


def test_links_lead_somewhere_and_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    """Links from hooks and the theme work, too; the build checks only the links in documents."""
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r"\bid=\"?([^\s\">]+)", text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in re.findall(r"<a\b[^>]*?\bhref=\"?([^\s\">]+)", text):
            if re.match(r"[a-z]+:", link) or path.name == "404.html":
                continue
            name, _, anchor = unquote(unescape(link)).partition("#")
            there = (path.parent / name).resolve() if name else path
            there = there / "index.html" if there.is_dir() else there
            assert there.exists(), (path, link)
            if anchor not in ("", "__skip", "__comments"):
                assert anchor in anchors[there], (path, link)
        found = [tag for tag in LOADED.findall(text) if 'rel="canonical"' not in tag]
        assert found == [], path


@pytest.mark.parametrize("folder", sorted(ROOT.glob("0[1-7]_*")), ids=lambda folder: folder.name)
def test_each_architecture_has_its_chapter(site: Path, folder: Path) -> None:
    page = (site / "tutorial" / "book" / f"{folder.name.replace('_', '-')}.html").read_text()
    for part in (
        *('class="timeline"', f'aria-label="{folder.name}/main.c"', '<details class="question">'),
        *("Try it", "In <code>bash</code>,"),  # only bash has /dev/tcp
    ):
        assert part in page
    assert ("+ new since 0" in page) == (folder.name != "01_iterative")
    assert "SPDX-License" not in page, "the code shows its licence line"
    assert not re.search(r"^(<p>)?:: ", page, re.MULTILINE), "a directive was not replaced"


@pytest.mark.slow
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The build of a site of two pages with a broken link fails, and warns only about this link."""
    shutil.copy2(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    (tmp_path / "small.yml").write_text("INHERIT: mkdocs.yml\nnav: [README.md, other.md]\n")
    words = ("mkdocs", "build", "--strict", "--config-file", "small.yml", "--site-dir", "site")
    (tmp_path / "docs" / "README.md").write_text("# One\n\n[a](other.md) [b](how-to/gone.md)\n")
    said = run(sys.executable, "-m", *words, cwd=tmp_path, status=1).stderr
    (warning,) = re.findall("WARNING.*", said)
    assert "'how-to/gone.md'" in warning


def test_the_list_of_commands_is_current() -> None:
    """docs/reference/commands.md is the output of `.venv/bin/python scripts/commands.py`."""
    made = run(sys.executable, "scripts/commands.py").stdout
    assert made == (ROOT / "docs" / "reference" / "commands.md").read_text()
    rows = re.findall(r"^\| `\S+` \| (?:learn|teach|benchmark|contribute) \| (.*) \|$", made, re.M)
    untimed = [
        row for row in rows if not re.search(r"\((?:up to )?\d+ (?:s|min)\b|\((?:some|until)", row)
    ]
    assert len(rows) > 30, "targets of the Makefile are missing"
    assert untimed == [], "targets without a duration"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_the_documents_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```.*?^```$|`[^`\n]+`", text, re.MULTILINE | re.DOTALL))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = set(re.findall(r"(?:^|[`;&] ?|sudo )make (?:-s )?([a-z][a-z-]*)", code, re.MULTILINE))
    assert made <= targets | {"all"}
    ours = set(re.findall(r"(?:^`?|bin/)zerohttpd ([a-z]+)\b", code, re.MULTILINE))
    if path.name != "CHANGELOG.md":
        assert ours <= set(COMMANDS) - set(RENAMED)
