# SPDX-License-Identifier: MIT
"""The top of the page: what was found, in a minute, and what to know before believing it."""

from bench.records.figures import QUIET
from bench.records.words import connections, percent, plural
from bench.report.charts.exhibits import Catalogue
from bench.report.findings import findings, ordering
from bench.report.page import figures_table, topology
from bench.report.study.study import Point, Study, describe

SHORT = (
    *("rates", "hosts", "instances-keep", "cpu", "latency", "holding", "floors"),
    *("delays", "idles", "memory"),
)
"""Charts whose titles are findings for who has a minute, the most telling first. If the
headline gives the rates of one level, the chart of the rates is not among them: its title gives the
best rate of any level."""
MOST_SHORT = 6


def part(study: Study, charts: Catalogue) -> dict[str, object]:
    """Headline, findings and cautions."""
    first = study.scenarios[0]
    titles = charts.titles()
    where = topology.title(study) or study.results.machine.describe()
    in_order = ordering.finding(study, first)
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
    """What a reader must know before believing anything."""
    words = []
    if study.results.state != "complete":
        words.append("The sweep was not completed: this is what was measured until then.")
    if study.single_run:
        words.append("Each cell was measured once: differences below a tenth may be noise.")
    bad = list(study.without_figure())
    if bad:
        words.append(
            f"{len(bad):,} of {len(study.points):,} cells did not hold; the reasons are below."
        )
    bounds = sum(p.lower_bound for p in study.points)
    if bounds:
        words.append(
            f"In {plural(bounds, 'cell')} the load generator was the limit: those rates are "
            "lower bounds, marked ≥."
        )
    loud = [p for p in study.points if figures_table.disturbed(p)]
    if loud:
        words.append(_disturbed(loud, len(study.points)))
    outliers = sum(p.outliers for p in study.points)
    if outliers:
        words.append(f"{plural(outliers, 'run')} lay far from the others of the same cell.")
    return words


def _disturbed(loud: list[Point], cells: int) -> str:
    worst = max(loud, key=lambda p: p.get("foreign_share") or 0)
    most = percent(worst.get("foreign_share") or 0)
    where = f"{worst.subject.name} at {connections(worst.level)} ({describe(worst.scenario)})"
    sliced = any(p.scenario.quota for p in loud)
    slices = ", and it could not use up its slice" if sliced else ""
    return (
        f"In {len(loud):,} of {plural(cells, 'cell')} others used more than {percent(QUIET)} of "
        f"the server's CPU in the median run{slices}; the worst is {where}, with {most}. Rates "
        "there are too low, and CPU per request is not free of it either; the table calls them "
        "disturbed. See what else runs (make doctor), and measure again on a quiet machine."
    )
