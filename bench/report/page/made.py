# SPDX-License-Identifier: MIT
"""How it was measured: the facts, how to repeat it, and which kinds of figures are missing."""

from bench.report.charts.exhibits import Catalogue
from bench.report.study import facts
from bench.report.study.study import Study


def part(study: Study, charts: Catalogue) -> dict[str, object]:
    """Return the values of the page's last section."""
    return {
        "missing": _missing(study, charts),
        "command": facts.command(study),
        "checkout": facts.checkout(study),
        "facts": facts.groups(study),
        "limits_found": _limits(study),
        "commands": facts.commands(study),
    }


def _missing(study: Study, charts: Catalogue) -> str:
    wanted = {
        "latency per request": study.has("p999"),
        "CPU per request": study.has("cpu"),
        "context switches": study.has("switches_voluntary"),
        "memory of all processes": study.whole_memory(),
        "whether the machine was quiet": study.has("foreign_share"),
        "the bottleneck": any(p.bottleneck for p in study.points),
        "the baselines": any(s.kind == "floor" for s in study.subjects),
        "the open loop": "loops" in charts.exhibits,
        "several workloads": "workloads" in charts.exhibits,
        "a slowed Redis": "delays" in charts.exhibits,
        "idle connections": "idles" in charts.exhibits,
        "several instances behind nginx": "through" in charts.exhibits,
        "separate hosts": bool(study.results.hosts),
    }
    return ", ".join(name for name, there in wanted.items() if not there)


def _limits(study: Study) -> list[dict[str, str]]:
    return [
        {
            "levels": ", ".join(f"{level:,}" for level in found.levels),
            "words": found.describe(),
            "cure": found.cure,
        }
        for found in study.results.findings
    ]
