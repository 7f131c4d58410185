# SPDX-License-Identifier: MIT
"""Where the microseconds go, read from results."""

from datetime import datetime, timezone

from bench.readers import cost
from bench.records.conditions import Conditions
from bench.records.figures import CallFigures, Frame, Kind, ProcessFigures, StackFigures
from bench.records.results import Results
from bench.records.run import Run

REDIRECT = Conditions("redirect")
MORE = REDIRECT._replace(without="more")
STACKS = StackFigures(how="perf", kernel=True, frames=[Frame(name="main", count=3)])


def run(
    subject: str,
    total: float,
    conditions: Conditions = REDIRECT,
    state: str = "held",
    number: int = 1,
    user: float = 0.25,
) -> Run:
    kind: Kind = "floor" if subject.startswith("floor-") else "server"
    return Run.model_validate(
        {
            "subject": subject,
            "kind": kind,
            "conditions": conditions,
            "concurrency": 50,
            "run": number,
            "state": state,
            "requests": 1000,
            "process": ProcessFigures(
                cpu_user_s=user * total / 1000,
                cpu_system_s=(1 - user) * total / 1000,
                cpu_us_per_request=total,
                cpu_user_us_per_request=user * total,
                cpu_system_us_per_request=(1 - user) * total,
                voluntary_switches_per_request=0.5,
                involuntary_switches_per_request=0.25,
                page_faults_per_request=63,
            ),
        }
    )


def results(*runs: Run) -> Results:
    now = datetime(2030, 1, 2, tzinfo=timezone.utc)
    names = list(dict.fromkeys(run.subject for run in runs))
    return Results(started=now, state="complete", servers=names, runs=list(runs))


def of(conditions: Conditions, *totals: float, subject: str = "epoll") -> list[Run]:
    return [run(subject, total, conditions, number=n) for n, total in enumerate(totals, 1)]


def test_a_server_beside_its_floor() -> None:
    (line,) = cost.lines(results(run("forking", 80), run("floor-forking", 60)))
    assert line.cost
    assert line.floor
    assert line.share
    assert (line.subject, line.cost.median) == ("forking", 80)
    assert (line.floor.median, line.share.median) == (60, 0.75)
    assert (line.voluntary, line.involuntary, line.faults) == (0.5, 0.25, 63)


def test_user_time_is_what_samples_say_and_not_the_kernels_tick() -> None:
    """User time comes from samples, not from the kernel's tick: in a run of a few ticks all may be
    in the kernel."""
    pair = [run("epoll", 10, user=0.0), run("floor-epoll", 9)]
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
    assert (line.cost, line.voluntary, line.involuntary, line.faults) == (None,) * 4
    (trick,) = cost.tricks(results(run("epoll", 20, state="failed"), run("epoll", 25, MORE)))
    assert (trick.ratio, trick.verdict) == (None, "no figure")
    assert trick.usual.words() == ("-", "", "")


def test_a_trick_brings_something_where_all_runs_say_so() -> None:
    usual = of(REDIRECT, 18, 20, 40)
    (trick,) = cost.tricks(results(*usual, *of(MORE, 19.8, 25, 44)))
    assert trick.verdict == "+10%", "run by run: both were disturbed in the third"
    (trick,) = cost.tricks(results(*usual, *of(MORE, 17, 25, 44)))
    assert trick.verdict == "not significant (+10%)"
    (trick,) = cost.tricks(results(*usual, *of(MORE, 18.2, 20.2, 40.4)))
    assert trick.verdict == "not significant (+1%)"
    (trick,) = cost.tricks(results(*usual[:2], *of(MORE, 27, 30)))
    assert trick.verdict == "too few runs (+50%)"


def test_experiments_are_no_tricks() -> None:
    edge = REDIRECT._replace(change="edge")
    found = results(*of(REDIRECT, 20, 20, 20), *of(edge, 10, 10, 10), *of(MORE, 30, 30, 30))
    assert [(d.name, d.verdict) for d in cost.experiments(found)] == [("edge", "-50%")]
    assert [(d.name, d.verdict) for d in cost.tricks(found)] == [("more", "+50%")]


def test_calls_of_a_request() -> None:
    traced = run("epoll", 20, REDIRECT._replace(mode="traced"))
    traced.calls = CallFigures(per_request={"sendmsg": 1.0, "rare": 0.001}, writes=1.0)
    (line,) = cost.lines(results(run("epoll", 20), run("floor-epoll", 10), traced))
    assert line.often == [("sendmsg", 1.0)]


def test_flames_in_the_order_of_the_servers() -> None:
    sampled = [run(name, 20, REDIRECT._replace(mode="sampled")) for name in ("poll", "epoll")]
    for one in sampled:
        one.stacks = STACKS
    found = results(*sampled)
    found.servers = ["epoll", "poll"]
    assert [flame.subject for flame in cost.flames(found)] == ["epoll", "poll"]
    assert cost.flames(found)[0].conditions == REDIRECT
