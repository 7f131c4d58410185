# SPDX-License-Identifier: MIT
"""Where the microseconds go, read from results."""

from bench.readers import cost
from bench.records.conditions import Conditions
from bench.records.figures import Frame, StackFigures
from bench.records.results import Results
from bench.records.run import Held, Run

from ..report.made import made_run, results_of

REDIRECT = Conditions("redirect")
MORE = REDIRECT._replace(without="more")
OTHERS = ("switches_voluntary", "switches_involuntary", "faults")
STACKS = StackFigures(how="perf", kernel=True, frames=[Frame(name="main", count=3)])


def run(
    subject: str,
    total: float,
    conditions: Conditions = REDIRECT,
    state: Held = "held",
    number: int = 1,
) -> Run:
    made = made_run(subject, 50, number, cpu=total, state=state, under=conditions)
    if made.process:
        made.process.voluntary_switches_per_request = 0.5
        made.process.involuntary_switches_per_request = 0.25
        made.process.page_faults_per_request = 63
    return made


def results(*runs: Run) -> Results:
    return results_of(runs)


def of(conditions: Conditions, *totals: float, subject: str = "epoll") -> list[Run]:
    return [run(subject, total, conditions, number=n) for n, total in enumerate(totals, 1)]


def tricks(found: Results) -> list[cost.Difference]:
    return cost.differences(found, "without")


def test_a_server_beside_its_floor() -> None:
    (line,) = cost.lines(results(run("forking", 80), run("floor-forking", 60)))
    assert line.cost
    assert line.floor
    assert line.share
    assert (line.subject, line.cost.median) == ("forking", 80)
    assert (line.floor.median, line.share.median) == (60, 0.75)
    assert [line.get(key) for key in OTHERS] == [0.5, 0.25, 63]


def test_user_time_is_what_samples_say_and_not_the_kernels_tick() -> None:
    """User time comes from samples, not from the kernel's tick: in a run of a few ticks all may be
    in the kernel."""
    pair = [run("epoll", 10), run("floor-epoll", 9)]
    sampled = run("epoll", 12, REDIRECT._replace(mode="sampled"))
    sampled.stacks = STACKS.model_copy(update={"user_share": 0.3})
    (line,) = cost.lines(results(*pair, sampled))
    assert line.user == 3
    for told in (pair, [*pair, run("epoll", 12, sampled.conditions)]):
        (line,) = cost.lines(results(*told))
        assert line.user is None
    for update in ({"state": "failed"}, {"stacks": STACKS}, {"subject": "poll"}):
        (line,) = cost.lines(results(*pair, sampled.model_copy(update=update)))
        assert line.user is None


def test_what_does_not_hold_has_no_figure() -> None:
    (line,) = cost.lines(results(run("epoll", 20), run("floor-epoll", 15, state="failed")))
    assert (line.floor, line.share) == (None, None)
    (line,) = cost.lines(
        results(
            *of(REDIRECT, 20), run("epoll", 90, state="failed", number=2), run("floor-epoll", 15)
        )
    )
    assert [line.cost, *map(line.get, OTHERS)] == [None] * 4
    (trick,) = tricks(results(run("epoll", 20, state="failed"), run("epoll", 25, MORE)))
    assert (trick.ratio, trick.verdict) == (None, "no figure")
    assert trick.usual.words() == ("-", "", "")


def test_a_trick_brings_something_where_all_runs_say_so() -> None:
    usual = of(REDIRECT, 18, 20, 40)
    (trick,) = tricks(results(*usual, *of(MORE, 19.8, 25, 44)))
    assert trick.verdict == "+10%", "run by run: both were disturbed in the third"
    (trick,) = tricks(results(*usual, *of(MORE, 17, 25, 44)))
    assert trick.verdict == "not significant (+10%)"
    (trick,) = tricks(results(*usual, *of(MORE, 18.2, 20.2, 40.4)))
    assert trick.verdict == "not significant (+1%)"
    (trick,) = tricks(results(*usual[:2], *of(MORE, 27, 30)))
    assert trick.verdict == "too few runs (+50%)"


def test_experiments_are_no_tricks() -> None:
    edge = REDIRECT._replace(change="edge")
    found = results(*of(REDIRECT, 20, 20, 20), *of(edge, 10, 10, 10), *of(MORE, 30, 30, 30))
    assert [(d.name, d.verdict) for d in cost.differences(found, "change")] == [("edge", "-50%")]
    assert [(d.name, d.verdict) for d in tricks(found)] == [("more", "+50%")]


def test_flames_in_the_order_of_the_servers() -> None:
    sampled = [run(name, 20, REDIRECT._replace(mode="sampled")) for name in ("poll", "epoll")]
    for one in sampled:
        one.stacks = STACKS
    found = results(*sampled)
    found.servers = ["epoll", "poll"]
    assert [flame.subject for flame in cost.flames(found)] == ["epoll", "poll"]
    assert cost.flames(found)[0].conditions == REDIRECT
