# SPDX-License-Identifier: MIT
"""The charts that compare scenarios: the effect of one changed condition, and the two loops. A
sweep for studies also has the comparison with reference servers."""

from bench.report.charts import bars, lines, peers
from bench.report.charts.exhibits import Catalogue
from bench.report.findings import findings_across
from bench.report.study import across


def add_comparisons(made: Catalogue) -> None:
    """Add the comparisons for which there are data."""
    study = made.study
    peers.add_standing(made)
    subjects = study.subjects
    names = [s.name for s in subjects if s.kind != "floor"]
    found_by = {
        "workloads": (across.workloads(study), "workload"),
        "delays": (across.delays(study), "delay of each reply of Redis"),
        "idles": (across.idles(study), "idle connections during the load"),
    }
    for key, (found, axis) in found_by.items():
        if found is None:
            continue
        title = findings_across.title(found, names, axis)
        labels = {name: found.labels.get(name, name) for name in found.order}
        spec = lines.over_conditions(subjects, key, labels, axis, found.metric)
        made.add_always(key, spec, title, found.last.quota)
        made.data[key] = found.rows
    made.add("loops", bars.loops(), findings_across.loops)
