# SPDX-License-Identifier: MIT
"""The top of the page: the most important findings, and cautions."""

from bench.records.figures import QUIET
from bench.records.points import Point
from bench.records.words import connections, percent, plural
from bench.report.charts.base import Catalogue
from bench.report.findings import findings, recommendation
from bench.report.page import topology
from bench.report.study.study import Study, describe

SHORT = (
    *("rates", "hosts", "instances-keep", "cpu", "latency", "holding", "floors"),
    *("delays", "idles", "memory"),
)
"""Charts whose titles are the short list of findings, the most important first. If the headline is
the ranking at one level, the list omits the chart of rates: it has the best rate of any level."""
MOST_SHORT = 6


def part(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return the headline, the findings and the cautions."""
    first = study.scenarios[0]
    titles = charts.titles()
    where = topology.title(study) or study.results.machine.describe()
    in_order = recommendation.ranking_title(study, first)
    short = [key for key in SHORT if titles.get(key) and not (in_order and key == "rates")]
    return {
        "title": f"ZeroHTTPd Seven: benchmark of {study.results.started:%Y-%m-%d}",
        "when": f"{study.results.started:%Y-%m-%d %H:%M}",
        "headline": findings.in_its_slice(first.quota, in_order or findings.headline(study, first)),
        "machine_line": f"{where}; {describe(first)}",
        "short": [{"anchor": f"figure-{key}", "text": titles[key]} for key in short[:MOST_SHORT]],
        "cautions": _cautions(study),
    }


def _cautions(study: Study) -> list[str]:
    """Return the cautions at the top of the page."""
    words = []
    if study.results.state != "complete":
        words.append("The sweep was not completed: the results are partial.")
    if study.single_run:
        words.append("Each data point is a single run: differences below 10 % may be noise.")
    bad = list(study.without_figure())
    if bad:
        words.append(
            f"{len(bad):,} of {len(study.points):,} data points are invalid; the reasons are below."
        )
    bounds = sum(p.lower_bound for p in study.points)
    if bounds:
        words.append(
            f"In {plural(bounds, 'data point')} the load generator was the limit: those rates are "
            "lower bounds, marked ≥."
        )
    loud = [p for p in study.points if p.held and p.disturbed]
    if loud:
        words.append(_disturbed(loud, len(study.points)))
    outliers = sum(p.outliers for p in study.points)
    if outliers:
        words.append(f"{plural(outliers, 'run')} differed much from the others of the data point.")
    return words


def _disturbed(loud: list[Point], cells: int) -> str:
    worst = max(loud, key=lambda p: p.get("foreign_share") or 0)
    most = percent(worst.get("foreign_share") or 0)
    where = f"{worst.subject} at {connections(worst.level)} ({describe(worst.conditions)})"
    sliced = any(p.conditions.quota for p in loud)
    slices = ", and it could not use up its CPU quota" if sliced else ""
    return (
        f"In {len(loud):,} of {plural(cells, 'data point')} other programs used more than "
        f"{percent(QUIET)} of the server's CPU in the median run{slices}; the worst is {where}, "
        f"with {most}. Their rates are too low, and their CPU per request is affected, too; the "
        "table marks them disturbed. Run make doctor, and measure again on a quiet machine."
    )
