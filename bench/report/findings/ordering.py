# SPDX-License-Identifier: MIT
"""The ranking on the page: its title, and a row for each server."""

from bench.readers.order import STALLS, Order, Ranked, order, sharing
from bench.records.conditions import Conditions
from bench.records.words import connections, figure, listed, times
from bench.report.findings.answer import stalled
from bench.report.study.study import Row, Study


def finding(study: Study, scenario: Conditions) -> str:
    """Return the first and the last of the ranking; empty if there is no ranking."""
    found = order(study.results, scenario)
    if found is None:
        return ""
    ties = sharing(found.ranked)
    first, last = ties[0], ties[-1]
    best = first[0].spread.median
    who = f"{listed([one.subject for one in first])} {'comes' if len(first) == 1 else 'come'} first"
    rate = f"{figure(best)} requests per second"
    if len(ties) == 1:
        who = f"{listed([one.subject for one in first])} have no significant difference"
        words = f"{who}, at up to {rate}"
    elif first[0].subject in last[-1].close_to:
        words = f"{who}: {rate}"
    else:
        least = last[-1].spread.median
        words = f"{who}: {rate}, {times(best / least)} as many as {last[-1].subject}"
    where = f"At {connections(found.level)}"
    if found.by == "cpu":
        where += ", by the capacity of a full core (1 / CPU per request)"
    return f"{where}, {words}"


def order_rows(study: Study) -> list[Row]:
    """Return a row for each server of each scenario that has a ranking."""
    return [
        _row(study, found, one, study.keys[scenario])
        for scenario in study.scenarios
        if (found := order(study.results, scenario))
        for one in found.ranked
    ]


def _row(study: Study, found: Order, one: Ranked, key: str) -> Row:
    out = f"   {STALLS['one']}" if one.subject in stalled(study) else ""
    return {
        "s": key,
        "subject": one.subject,
        "by": found.by,
        "value": float(f"{one.spread.median:.5g}"),
        "low": float(f"{one.spread.low:.5g}"),
        "high": float(f"{one.spread.high:.5g}"),
        "said": f"{one.place}.  {figure(one.spread.median)}{out}",
        "why": f"{_close(one)}{found.why}",
    }


def _close(one: Ranked) -> str:
    if not one.close_to:
        return ""
    return f"{one.subject} has no significant difference to {listed(one.close_to)}, either. "
