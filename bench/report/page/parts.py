# SPDX-License-Identifier: MIT
"""The first texts of the page, a function for each part: the top, and the controls with the
findings. Each function gets the study and its charts, and returns the values
of its part of the template `page.html.j2`."""

from collections.abc import Iterator

from bench.records.environment import HostInfo
from bench.records.figures import QUIET
from bench.records.points import Point
from bench.records.words import connections, listed, number_word, percent, plural, upper_first
from bench.report.charts import style
from bench.report.charts.base import Catalogue
from bench.report.findings import findings
from bench.report.limits import holdings, in_order
from bench.report.study import Study, describe

# ---- The top: the most important findings, and cautions ----

SHORT = (
    *("rates", "hosts", "instances-keep", "cpu", "latency", "holding", "baselines"),
    *("delays", "idles", "memory"),
)
"""Charts whose titles follow the first finding, the most important first. If the first finding is
the ranking at one level, the list omits the chart of rates: it has the best rate of any level."""
MOST_SHORT = 6


def opening(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return the title, the findings and the cautions."""
    first = study.scenarios[0]
    titles = charts.titles()
    where = hosts_in_a_line(study) or study.results.machine.describe()
    ranking = findings.ranking_title(study, first)
    best = findings.in_its_slice(first.quota, ranking or findings.headline(study, first))
    others = [key for key in SHORT if titles.get(key) and not (ranking and key == "rates")]
    short = [("order" if ranking else "rates", best)]
    short += [(f"figure-{key}", titles[key]) for key in others[:MOST_SHORT]]
    return {
        "title": f"ZeroHTTPd Seven: benchmark of {study.results.started:%Y-%m-%d}",
        "when": f"{study.results.started:%Y-%m-%d %H:%M}",
        "machine_line": f"{where}; {describe(first)}",
        "short": [{"anchor": anchor, "text": text} for anchor, text in short],
        "cautions": list(_cautions(study)),
    }


def _cautions(study: Study) -> Iterator[str]:
    points = study.points
    if study.results.state != "complete":
        yield "The sweep was not completed: the results are partial."
    if study.single_run:
        yield "Each data point is a single run: differences below 10 % may be noise."
    if bad := sum(p.state != "held" for p in points):
        yield f"{bad:,} of {len(points):,} data points are invalid; the reasons are below."
    if bounds := sum(p.lower_bound for p in points):
        yield (
            f"In {plural(bounds, 'data point')} the load generator was the limit: those rates are "
            "lower bounds, marked ≥."
        )
    if loud := [p for p in points if p.held and p.disturbed]:
        yield _disturbed(loud, len(points))
    if outliers := sum(p.outliers for p in points):
        yield f"{plural(outliers, 'run')} differed much from the others of the data point."


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


def controls(study: Study, _: Catalogue) -> dict[str, object]:
    """Return the scenarios and servers that the page's controls offer, with the texts about
    them."""
    shapes = style.subject_shapes(study.subjects)
    return {
        "scenarios": [
            {
                "key": study.keys[scenario],
                "name": describe(scenario),
                "advice": findings.recommended(study, scenario, study.reference(scenario)),
                "holdings": holdings(study, scenario),
            }
            for scenario in study.scenarios
        ],
        "subjects": [
            {"name": s.name, "kind": s.kind, "path": style.STYLE.shapes[shape]}
            for s, shape in zip(study.subjects, shapes, strict=True)
        ],
    }


def hosts_in_a_line(study: Study) -> str:
    """Return one line: "Two hosts, each with one CPU: load and redis"; empty without hosts."""
    hosts = study.results.hosts
    if not hosts:
        return ""
    sizes = {_size(host) for host in hosts}
    each = f", each with {sizes.pop()}" if len(sizes) == 1 else ""
    many = f"{number_word(len(hosts))} hosts" if len(hosts) > 1 else "one host"
    return upper_first(f"{many}{each}: {listed([host.name for host in in_order(hosts)])}")


def _size(host: HostInfo) -> str:
    limit = host.cpu_limit
    if limit is not None and limit != 1:
        return f"{limit:g} of a CPU" if limit < 1 else f"{limit:g} CPUs"
    return "one CPU" if limit == 1 or host.cpus == 1 else plural(host.cpus, "CPU")
