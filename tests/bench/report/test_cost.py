# SPDX-License-Identifier: MIT
"""`zerohttpd cost` reads from results what a request costs, and makes a page and a document.
docs/explanation/figures/cost.md agrees with the recorded results."""

import json
import re
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.readers import cost as words
from bench.readers.cost import Difference, ServerCost, lines
from bench.records import store
from bench.records.conditions import CHANGES, OPTIMISATIONS, CellKey, Conditions
from bench.records.figures import Frame, Held, Reason, Run, StackFigures
from bench.records.points import Spread
from bench.records.results import Results
from bench.report.page import cost as page
from bench.report.page.cost import document
from bench.stations.sampling import ENTRY
from bench.studies.study import SIZES, study

from .made import made_run, results_of

DOCUMENT = ROOT / "docs" / "explanation" / "figures" / "cost.md"
RECORD = ROOT / "docs" / "explanation" / "figures" / "cost.json"

SEND = Frame(name="tcp_sendmsg", of="kernel", count=45)
BELOW = [
    Frame(name="__x64_sys_sendto", of="kernel", count=50, below=[SEND]),
    Frame(name="asm_exc_page_fault", of="kernel", count=6),
]
CALLED = [Frame(name="send", of="library", count=60, below=BELOW), Frame(name="drive", count=30)]
MAIN = Frame(name="main", count=100, below=CALLED)
STACKS = StackFigures(how="perf", kernel=True, frames=[MAIN])


REDIRECT = Conditions("redirect")
MORE = REDIRECT._replace(without="more")
FAULTS, INTERRUPTS, BORDER = words.TEXTS["kernel"]
OTHERS = ("switches_voluntary", "switches_involuntary", "faults")


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


@pytest.fixture(scope="module")
def kept() -> Results:
    return store.load(RECORD)


NEWER = {"dear-calls"}
"""Experiments that were added after the recorded results were measured."""


def test_the_record_has_all_that_was_promised(kept: Results) -> None:
    seven = ["iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll"]
    changes = {*CHANGES} - NEWER
    changed = {name for change in changes for name in study(change).subjects}
    assert {name for name in kept.servers if not name.startswith("baseline-")} == {*seven, *changed}
    for field, values in (("without", {*OPTIMISATIONS}), ("change", changes)):
        assert {getattr(run.conditions, field) for run in kept.runs} == {"", *values}
    for mode, figure in (("traced", "calls"), ("sampled", "stacks")):
        those = [run for run in kept.runs if run.conditions.mode == mode and run.state == "held"]
        assert {run.subject for run in those} == set(seven)
        assert all(getattr(run, figure) for run in those)
    sampled = [run for run in kept.runs if run.stacks]
    assert {run.conditions.keep_alive for run in sampled} == {False, True}
    assert all(run.stacks.user_share for run in sampled if run.stacks)
    counted = [run.calls.per_request for run in kept.runs if run.calls]
    # Only a worker that the warm-up did not reach connects to Redis during the load.
    (connections,), requests = SIZES["traced"].levels, SIZES["traced"].requests
    most = round(connections / requests, 4)
    assert all(calls.get("connect", 0) <= most for calls in counted), "too many calls of connect()"


def test_a_slim_record_gives_the_same_document(kept: Results, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    again.write_text(store.slim(kept))
    assert document(store.load(again)).markdown() == document(kept).markdown()


def test_the_headline_and_what_to_know_before_believing_it() -> None:
    """The report prints a headline and cautions. epoll needs 20 and 22 µs, its baseline 15."""
    dear = of(REDIRECT, 80, 84, subject="forking")
    dear += of(REDIRECT, 60, 61, subject="baseline-forking")
    lean, baseline = of(REDIRECT, 20, 22), of(REDIRECT, 15, 15.2, subject="baseline-epoll")
    found = results(*dear, *lean, *baseline)
    assert words.headline(found) == (
        "A redirect costs epoll 21.0 µs of CPU time, and the baseline of its architecture 15.1 µs"
    )
    assert words.measured(found).endswith("ab with 50 connections, 2 runs of each configuration.")
    assert words.cautions(found) == []
    for run, share in zip(lean, (0.10, 0.11), strict=True):
        assert run.process
        run.process.foreign_share = share
    for run, cost in zip(baseline, (20.6, 22.0), strict=True):  # the median ratio is 1.015
        assert run.process
        run.process.cpu_us_per_request = cost
    (loud,) = words.cautions(found)
    assert loud.startswith("In 1 of 8 runs other programs used more than 10% of the server's CPU.")
    assert baseline[1].process
    baseline[1].process.cpu_us_per_request = 22.5  # ratio 1.023; median 1.026
    assert words.cautions(found)[1:] == [
        "The baseline costs more than the server itself: epoll (redirect). This only means "
        "that the two costs are nearly equal."
    ]
    baseline[0].state, baseline[0].reason = "failed", Reason(label="reset", text="it was reset")
    found.state = "interrupted"
    state, _, bad = words.cautions(found)
    assert state.startswith("The sweep was not completed")
    assert bad == "1 run has no figure: it was reset"
    assert words.headline(found) == "A redirect costs epoll 21.0 µs of CPU time"
    assert words.headline(results()) == "The CPU cost of a request"


def test_an_optimisation_that_costs_time_is_reported() -> None:
    def optimisation(name: str, *ratios: float) -> Difference:
        side = ServerCost(CellKey("epoll", REDIRECT, 50), {})
        return Difference(name, side, side, Spread.of(ratios))

    found = [optimisation("more", 1.2, 1.3, 1.4), optimisation("gather", 0.7, 0.8, 0.9)]
    assert words.brought([*found, optimisation("defer", 1, 1, 1)]) == (
        "`more` saves most: without it a request costs 30% more (redirect). "
        "A request is cheaper without: `gather` (redirect: -20%). "
        "No significant difference: `defer`."
    )
    (row,) = words.difference_table([optimisation("more", 1.2, 1.3, 0.95)]).rows
    assert row[-2:] == ("not significant (+20%)", "-5% to +30%")


def test_user_and_kernel_time_are_shown_if_they_were_measured() -> None:
    """The report takes user time from samples, because a short run has too few kernel ticks."""
    pair = [*of(REDIRECT, 20), *of(REDIRECT, 15, subject="baseline-epoll")]
    sampled = run("epoll", 25, REDIRECT._replace(mode="sampled"))
    unsampled = sampled.model_copy()
    sampled.stacks = STACKS.model_copy(update={"user_share": 0.25})
    other = ({"state": "failed"}, {"stacks": STACKS}, {"subject": "poll"})
    useless = [[unsampled], *([sampled.model_copy(update=update)] for update in other)]
    plain = of(REDIRECT, 18, subject="plain-epoll")
    undivided, divided = ("20.0", "-", "-", "15.0"), ("20.0", "5.0", "15.0", "15.0")
    cases = [([], undivided), *((runs, undivided) for runs in useless), ([sampled], divided)]
    for more, costs in [*cases, (plain, ("20.0", "18.0", "-", "-"))]:
        (row,) = words.cost_table(lines(results(*pair, *more))).rows
        assert row[1:5] == costs
    assert 'class="both"' in document(results(*pair)).html()
    page = document(results(*pair, sampled)).html()
    assert 'class="both"' not in page
    assert '<rect class="user" x="75.0" width="25.0"' in page


def test_places_of_another_processor_have_the_same_names() -> None:
    """The report recognizes page faults, interrupts and kernel entries by their ARM names, too."""
    arm = {
        "__arm64_sys_sendto": "sendto",
        **dict.fromkeys(("el0_da", "el0_ia"), FAULTS),
        "el0t_64_irq": INTERRUPTS,
        **dict.fromkeys(("do_notify_resume", "syscall_trace_exit"), BORDER),
        **dict.fromkeys(ENTRY, BORDER),
    }
    for name, place in arm.items():
        frames = [Frame(name="main", count=1, below=[Frame(name=name, of="kernel", count=1)])]
        assert words.places(StackFigures(how="perf", kernel=True, frames=frames)) == {place: 1.0}


def test_a_flame_graph_has_its_boxes_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LISTED", 0.3)
    drawing = page.drawing(STACKS)
    boxes = {re.split("[:,]", box["title"])[0]: box for box in drawing["boxes"]}
    places = {name: (box["x"], box["y"] // page.ROW, box["width"]) for name, box in boxes.items()}
    assert places == {
        "main": (0, 0, page.WIDTH),
        "send": (0, 1, 600),
        "__x64_sys_sendto": (0, 2, 500),
        "tcp_sendmsg": (0, 3, 450),
        "asm_exc_page_fault": (500, 2, 60),
        "drive": (600, 1, 300),
    }
    assert drawing["height"] == 4 * page.ROW
    assert boxes["send"]["title"] == "send, C library: 60.0%"
    listed = [box["depth"] for box in drawing["boxes"] if box["listed"]]
    assert listed == [0, 1, 2, 3, 1], "small frames are left out"


def test_the_page_needs_nothing_else(kept: Results) -> None:
    page = document(kept).html()
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["']?https?:""", page)
    assert page.count("<svg") == page.count("</svg>")
    assert "Flame graph of epoll, redirect" in page
    assert all(f">{name}<" in page for name in ("more", "edge", "accept4"))


def test_made_of_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "results.json").write_bytes(RECORD.read_bytes())
    assert main(["cost", "--read", str(folder), "--markdown", str(tmp_path / "cost.md")]) == 0
    assert (tmp_path / "cost.md").read_text() == DOCUMENT.read_text()
    assert (folder / "cost.html").exists()
    assert DOCUMENT.read_text() in capsys.readouterr().out
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_text() == (folder / "cost.html").read_text()
    assert main(["cost", "--read", str(folder), "--markdown", "/nowhere/cost.md"]) == 2
    other = json.loads(RECORD.read_text()) | {"command": ["sweep"]}
    (folder / "results.json").write_text(json.dumps(other))
    assert main(["cost", "--read", str(folder)]) == 2
    assert "is not from `make cost`" in capsys.readouterr().err


def test_a_failed_run_has_no_cost() -> None:
    (line,) = words.lines(results(run("epoll", 20), run("baseline-epoll", 15, state="failed")))
    assert (line.baseline, line.share) == (None, None)
    (line,) = words.lines(
        results(
            *of(REDIRECT, 20), run("epoll", 90, state="failed", number=2), run("baseline-epoll", 15)
        )
    )
    assert [line.cost, *map(line.get, OTHERS)] == [None] * 4
    failed = results(run("epoll", 20, state="failed"), run("epoll", 25, MORE))
    (optimisation,) = words.differences(failed, "without")
    assert (optimisation.ratio, optimisation.verdict) == (None, "no figure")
    assert optimisation.usual.words() == ("-", "", "")


@pytest.mark.parametrize(
    ("costs", "verdict"),
    [
        ((19.8, 25, 44), "+10%"),  # compared run by run: both third runs were disturbed
        ((17, 25, 44), "not significant (+10%)"),
        ((18.2, 20.2, 40.4), "not significant (+1%)"),
        ((27, 30), "too few runs (+50%)"),
    ],
)
def test_an_optimisation_counts_if_all_runs_agree(costs: tuple[float, ...], verdict: str) -> None:
    usual = of(REDIRECT, *(18, 20, 40)[: len(costs)])
    (optimisation,) = words.differences(results(*usual, *of(MORE, *costs)), "without")
    assert optimisation.verdict == verdict


def test_flames_in_the_order_of_the_servers() -> None:
    sampled = [run(name, 20, REDIRECT._replace(mode="sampled")) for name in ("poll", "epoll")]
    for one in sampled:
        one.stacks = STACKS
    found = results(*sampled)
    found.servers = ["epoll", "poll"]
    assert [flame.subject for flame in words.flames(found)] == ["epoll", "poll"]
    assert words.flames(found)[0].conditions == REDIRECT
