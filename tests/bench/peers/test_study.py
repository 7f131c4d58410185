# SPDX-License-Identifier: MIT
"""Studies are declared completely, and become parts of a sweep."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.peers import study as studies
from bench.peers.study import STUDIES, chosen, names, study
from bench.records.conditions import Conditions
from bench.records.errors import UserError
from bench.subjects import declared
from bench.sweep.beginning import cells_of
from bench.sweep.options import chosen_options, sweep_parser
from bench.sweep.runs import conditions_of

TOML = """
title = "Two ways"
question = "Which?"
source = "a paper"
machine = "a machine"
reference = "nginx"
equal = ["all"]

[[measure]]
subjects = ["nginx", "go"]
workloads = ["moved"]
levels = [10, 20]
varied = { keep_alive = [false, true] }
short = { requests = 100, runs = 1 }
full = { requests = 1000, runs = 3 }
"""
PUBLISHED = """# figures of a paper
system,subject,workload,keep_alive,concurrency,at,requests_per_second,note
nginx 0.1,nginx,moved,true,500,20,1000,
Go 1.0,go,moved,true,500,20,,did not end
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "study.toml").write_text(TOML)
    (folder / "published.csv").write_text(PUBLISHED)
    return tmp_path


def test_the_studies_there_are() -> None:
    published = {"fasthttp", "go-nginx-2013", "redirect-2020", "web-2009"}
    assert set(names()) == {"after-epoll", "now", *published}
    assert [one.name for one in chosen([])] == names()
    assert [one.name for one in chosen(["now"])] == ["now"]


@pytest.mark.parametrize("name", names())
def test_each_is_declared_completely(name: str) -> None:
    """Each study measures only what can be measured. Each server under test has each workload that
    it is named for, and each published figure is compared with a measured one."""
    found = study(name)
    for measure in found.said.measure:
        for subject in set(measure.subjects) & set(declared.names()):
            assert set(measure.workloads) <= set(declared.stranger(subject).said.workloads), subject
    record = found.record(cells_of)
    assert record.reference in found.subjects
    for row in record.published:
        if row.subject in found.subjects:
            measured = [
                m for m in record.measured if row.at in m.levels and row.subject in m.subjects
            ]
            loads = {(c.workload, c.keep_alive) for m in measured for c in m.conditions}
            assert (row.workload, row.keep_alive) in loads, row
    assert bool(record.published) == bool(record.machine)
    assert bool(record.published) <= bool(record.changed), "why ratios differ"


@pytest.mark.parametrize("name", names())
def test_no_published_row_is_lost(name: str) -> None:
    file = STUDIES / name / "published.csv"
    if file.exists():
        with file.open(newline="") as lines:
            assert len(list(csv.reader(lines))) - 1 == len(study(name).published) > 0


def test_a_study_is_parts_of_a_sweep(parent: Path) -> None:
    found = study("two", parent)
    (short,), (full,) = found.parts(full=False), found.parts(full=True)
    assert short.subjects == ("nginx", "go")
    assert (short.plan.requests, short.plan.runs) == (100, 1)
    assert (full.plan.requests, full.plan.runs) == (1000, 3)
    both = [Conditions("moved"), Conditions("moved", keep_alive=True)]
    assert conditions_of(short.plan) == both
    record = found.record(cells_of)
    assert (record.measured[0].conditions, record.measured[0].levels) == (both, [10, 20])


def test_without_perf_the_instructions_of_the_seven_are_counted() -> None:
    """Without perf, the instructions of the seven servers are counted, and the others are sampled.
    The report shows both."""
    usual, other = study("fasthttp"), replace(study("fasthttp"), counted=True)
    assert usual.parts(False)[-1].subjects == ("go", "fasthttp", "epoll")
    *_, sampled, counted = other.parts(False)
    assert (sampled.subjects, sampled.plan) == (("go", "fasthttp"), usual.parts(False)[-1].plan)
    assert counted.subjects == ("epoll",)
    assert counted.plan.values("mode") == ("counted",)
    assert "counted" in {c.mode for m in other.record(cells_of).measured for c in m.conditions}


def test_what_was_published(parent: Path) -> None:
    then = study("two", parent).published
    assert [(row.system, row.requests_per_second) for row in then] == [
        ("nginx 0.1", 1000.0),
        ("Go 1.0", None),
    ]
    assert then[1].note == "did not end"
    assert (then[0].concurrency, then[0].at, then[0].keep_alive) == (500, 20, True)


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('"nginx", "go"', '"nginx", "nobody"', "unknown server: nobody"),
        ('["moved"]', '["dance"]', "unknown workload: dance"),
        ("keep_alive =", "keep_awake =", "keep_awake = False is not a condition"),
        ("[false, true]", '["perhaps"]', "keep_alive = 'perhaps' is not a condition"),
        ('equal = ["all"]\n', "", "equal: Field required"),
        ("runs = 1", "runs = 0", "runs: Input should be greater than 0"),
        ("runs = 3", "rounds = 3", "Extra inputs|Field required"),
        ('"nginx"\nequal', '"nobody"\nequal', "unknown server: nobody"),
    ],
)
def test_a_study_that_cannot_be_measured(
    parent: Path, before: str, after: str, complaint: str
) -> None:
    assert before in TOML
    (parent / "two" / "study.toml").write_text(TOML.replace(before, after, 1))
    with pytest.raises(UserError, match=complaint):
        study("two", parent)


def test_a_published_row_that_is_none(parent: Path) -> None:
    (parent / "two" / "published.csv").write_text(PUBLISHED.replace("1000,", "fast,"))
    with pytest.raises(UserError, match="requests_per_second"):
        study("two", parent)


def test_a_study_that_nobody_knows() -> None:
    with pytest.raises(UserError, match=r"unknown study: then\. Known: after-epoll"):
        study("then")


def test_several_studies_are_one_sweep() -> None:
    words = ["--studies", "now,redirect-2020"]
    options = chosen_options(sweep_parser().parse_args(words))
    assert [one.name for one in options.studies] == ["now", "redirect-2020"]
    expected = [*study("now").parts(False), *study("redirect-2020").parts(False)]
    assert list(options.parts) == expected
    assert not options.answers
    for more in ("--levels 5", "--servers epoll", "--floors", "--workloads small", "--path /x"):
        with pytest.raises(UserError, match="leave out the other options"):
            chosen_options(sweep_parser().parse_args([*words, *more.split()]))


def test_what_is_declared_of_a_peer_is_kept() -> None:
    peer = studies.peer("nginx")
    assert peer.language == "C"
    assert peer.resembles == ["epoll"]
    assert peer.settings
    assert (ROOT / "bench" / "strangers" / "nginx").is_dir()
