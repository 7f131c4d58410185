"""All files of a report: the page, the pictures, the exports."""

from pathlib import Path

from bench.errors import UserError
from bench.report import export
from bench.report.charts.catalogue import catalogue
from bench.report.charts.export import write_charts
from bench.report.page import render, topology_picture
from bench.report.study import Study
from bench.results import file_of, load


def build(source: Path, output: Path | None = None) -> list[Path]:
    """Make the report of a sweep's folder (or results.json). Returns the page and what lies beside.

    Raises UserError if the results cannot be read, have no runs, or a file cannot be written.
    """
    stored = file_of(source)
    results = load(stored)
    if not results.runs:
        raise UserError(f"{stored} has no runs: nothing to report")
    study = Study(results)
    made = catalogue(study)
    page = output or stored.with_name("report.html")
    texts = {
        page: render(study, made),
        page.with_suffix(".json"): export.as_json(study),
        page.with_suffix(".csv"): export.as_csv(study),
        page.with_suffix(".md"): export.as_markdown(study),
    }
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        pictures = write_charts(study, made, page.parent / "charts", topology_picture(study))
    except OSError as error:
        raise UserError(f"cannot write the report: {error}") from error
    return [*texts, *pictures]
