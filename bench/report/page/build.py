# SPDX-License-Identifier: MIT
"""Write all files of a report: the page, the charts, the exports."""

from collections.abc import Callable
from pathlib import Path

from bench.records import torture
from bench.records.errors import UserError
from bench.records.store import file_of, load, replace
from bench.report.charts.catalogue import catalogue, write_charts
from bench.report.page import cost
from bench.report.page import torture as tortured
from bench.report.page.export import EXPORTS
from bench.report.page.look import Document
from bench.report.page.page import render
from bench.report.study import Study

OF_A_SWEEP = ("results.json", "results.csv")
"""The measured results; a report never overwrites them."""


def build(source: Path, output: Path | None = None) -> list[Path]:
    """Write the report of a sweep or a robustness test, given as its folder or file, and return the
    paths, the page first.

    Raises UserError if the results cannot be read or have no rates, or if a file cannot be written
    or would overwrite a sweep's results.
    """
    if torture.is_record(source):
        page = output or file_of(source, torture.FILE).with_suffix(".html")
        _check_name(page)
        return _both(tortured.document(torture.load(source)), page)
    stored = file_of(source)
    results = load(stored)
    if not results.runs:
        raise UserError(f"{stored} has no runs: nothing to report")
    page = output or stored.with_name("report.html")
    _check(page, stored)
    if results.command[:1] == ["cost"]:
        return _both(cost.document(results), page)
    study = Study(results)
    if not study.points:
        shown = f"zerohttpd report --targets {stored.parent}"
        raise UserError(f"{stored} has only probes, which have no rates; run {shown}")
    made = catalogue(study)
    texts = {page: render(study, made)}
    texts |= {page.with_suffix(end): text(study) for end, (_, _, text) in EXPORTS.items()}
    return _write(texts, lambda: write_charts(made, page.parent / "charts"))


def _both(document: Document, page: Path) -> list[Path]:
    return _write({page: document.html(), page.with_suffix(".md"): document.markdown()})


def _write(texts: dict[Path, str], draw: Callable[[], list[Path]] = list) -> list[Path]:
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text)
        return [*texts, *draw()]
    except OSError as error:
        raise UserError(f"cannot write the report: {error}") from error


def _check(page: Path, stored: Path) -> None:
    """Raise UserError if the page's name is not valid, or if results would be overwritten."""
    _check_name(page)
    for path in (page, *map(page.with_suffix, EXPORTS)):
        is_source = path.exists() and path.samefile(stored)
        if is_source or path.resolve().name in OF_A_SWEEP:
            raise UserError(
                f"{path} has the name of a sweep's results: give the page another name, e.g. "
                "--output report.html"
            )


def _check_name(page: Path) -> None:
    if page.suffix != ".html":
        raise UserError(f"--output {page}: the name of the page must end in .html: report.html")
