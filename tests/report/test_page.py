"""The page as a text: one file, and nothing in it that a result could smuggle in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.report.charts.catalogue import catalogue
from bench.report.page import render
from bench.report.study import Study
from bench.results import Reason

from .conftest import SOURCES, recorded


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_fetched(source: str, pages: Callable[[str], Path]) -> None:
    text = pages(source).read_text()
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "<link" not in markup
    assert "@import" not in markup
    assert not re.search(r"""(?:src|href|srcset)\s*=\s*["']?(?:https?:)?//""", markup)
    assert not re.search(r"url\((?!#)", markup)
    assert "default-src &#39;none&#39;" in markup or "default-src 'none'" in markup


def test_every_anchor_leads_somewhere(pages: Callable[[str], Path]) -> None:
    for source in SOURCES:
        text = pages(source).read_text()
        ids = set(re.findall(r'\bid="([^"]+)"', text))
        assert set(re.findall(r'href="#([^"]+)"', text)) <= ids


def test_a_hostile_reason_is_text() -> None:
    results = recorded("version1_failed")
    attack = '</script><script>document.title="taken"</script><b onclick=x>&"'
    for run in results.runs:
        if run.reason:
            run.reason = Reason(label="<i>bad</i>", text=attack)
    study = Study(results)
    page = render(study, catalogue(study))
    assert "<script>document" not in page
    assert "<i>bad" not in page
    assert page.count("</script>") == 3


def test_cautions_are_said(pages: Callable[[str], Path]) -> None:
    once = pages("version1").read_text()
    assert "Each cell was measured once" in once
    assert "Not measured in this file: latency per request" in once
    failed = pages("version1_failed").read_text()
    assert "8 of 12 cells did not hold" in failed
    assert "sudo" in failed  # the cure of a limit
    full = pages("everything").read_text()
    assert "lower bounds, marked ≥" in full
    assert "lay far from the others" in full


def test_everything_to_repeat_it(pages: Callable[[str], Path]) -> None:
    text = pages("version1").read_text()
    assert "git checkout 0b0de33891494a5a45b50c49a9d82f0f89dff841" in text
    assert "python -m bench sweep --servers epoll,prethreading" in text
    assert "6.18.44" in text
    assert "ab -q -s 120" in text
