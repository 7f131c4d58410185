# SPDX-License-Identifier: MIT
"""Studies are declared completely, and become parts of a sweep. The chapter about reference servers
agrees with their files; tests/bench/subjects/test_references.py checks the running servers."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.records.conditions import CHANGES, OPTIMISATIONS, Conditions
from bench.records.errors import UserError
from bench.studies.runs import conditions_of
from bench.studies.study import STUDIES, names, published, study
from bench.subjects.subject import reference, reference_names
from bench.sweep.options import chosen_options, sweep_parser

HERE = Path(__file__).parent
TOML = (HERE / "two.toml").read_text().partition("test_study.py.\n")[2]
PUBLISHED = """# figures of a paper
system,subject,workload,keep_alive,concurrency,at,requests_per_second,note
nginx 0.1,nginx,moved,true,500,20,1000,
Go 1.0,go,moved,true,500,20,,did not end
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "two.published.csv").write_text(PUBLISHED)
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    return path


def test_the_studies_there_are() -> None:
    of_others = {"fasthttp", "go-nginx-2013", "redirect-2020", "web-2009"}
    assert set(published()) == {"after-epoll", "now", *of_others}
    assert {*names()} - {*published()} == {"cost", "measure", "storeys"}


@pytest.mark.parametrize("name", names())
def test_each_is_declared_completely(name: str) -> None:
    """Each reference server of a study supports its workloads. Each published figure of a measured
    server is compared with a measured figure."""
    found = study(name)
    for measure in found.measure:
        for subject in set(measure.servers) & set(reference_names()):
            assert set(measure.workloads) <= set(reference(subject).workloads), subject
    record = found.record()
    assert not record.reference or record.reference in found.subjects
    for row in record.published:
        if row.subject in found.subjects:
            measured = [
                m for m in record.measured if row.at in m.levels and row.subject in m.subjects
            ]
            loads = {(c.workload, c.keep_alive) for m in measured for c in m.conditions}
            assert (row.workload, row.keep_alive) in loads, row
    assert bool(record.published) == bool(record.machine)
    assert bool(record.published) <= bool(record.changed), "why ratios differ"
    if (file := STUDIES / f"{name}.published.csv").exists():
        with file.open(newline="") as lines:
            assert len(list(csv.reader(lines))) - 1 == len(record.published) > 0, "a row is lost"


def test_a_study_is_parts_of_a_sweep(file: Path) -> None:
    found = study(str(file))
    (short,), (full,) = found.parts(full=False), found.parts(full=True)
    assert short.subjects == ("nginx", "go")
    assert (short.requests, short.runs) == (100, 1)
    assert (full.requests, full.runs) == (1000, 3)
    both = [Conditions("moved"), Conditions("moved", keep_alive=True)]
    assert conditions_of(short) == both
    record = found.record()
    assert (record.measured[0].conditions, record.measured[0].levels) == (both, [10, 20])


def test_the_numbers_of_the_command_line(file: Path) -> None:
    """The numbers of the command line replace the study's numbers. An entry with its own number of
    runs has no more runs than the command line allows."""
    more = TOML.replace("levels", "runs = 2\nlevels") + TOML[TOML.index("[[measure]]") :]
    file.write_text(
        more.replace("levels = [10, 20]\nkeep_alive = [false, true]\n\n[[expect", "[[expect", 2)
    )
    found, _ = study(str(file)).narrowed(requests=50, runs=1, level=70)
    own, usual = found.parts(full=False)
    assert (own.runs, own.requests, own.levels) == (1, 50, (50,))
    assert (usual.runs, usual.requests, usual.levels) == (1, 50, (50,))


def test_a_probe_has_numbers_of_its_own() -> None:
    (load, calls) = study("edge").parts(full=False)
    assert (load.levels, load.requests, load.runs) == ((50,), 4000, 7)
    assert (calls.levels, calls.requests, calls.runs) == ((10,), 300, 1)
    assert calls.values("change") == load.values("change") == ("", "edge")


def test_each_optimisation_is_disabled_alone_where_it_has_an_effect() -> None:
    found = {x for one in study("cost").measure for x in one.varied.get("without", ())}
    assert found == {"", *OPTIMISATIONS}
    for name in CHANGES:
        (entry,) = study(name).measure
        assert entry.varied["change"] == ("", name)


def test_without_perf_the_instructions_of_the_seven_are_counted() -> None:
    """Without perf, a study counts the instructions of the seven servers and samples the other
    servers. The report shows both."""
    usual = study("fasthttp")
    other = usual.model_copy(update={"stacks": "counted"})
    assert usual.parts(False)[-1].subjects == ("go", "fasthttp", "epoll")
    *_, sampled, counted = other.parts(False)
    assert sampled == replace(usual.parts(False)[-1], subjects=("go", "fasthttp"))
    assert counted.subjects == ("epoll",)
    assert counted.values("mode") == ("counted",)
    assert "counted" in {c.mode for m in other.record().measured for c in m.conditions}


def test_published_figures_are_read(file: Path) -> None:
    then = study(str(file)).published
    assert [(row.system, row.requests_per_second) for row in then] == [
        ("nginx 0.1", 1000.0),
        ("Go 1.0", None),
    ]
    assert then[1].note == "did not end"
    assert (then[0].concurrency, then[0].at, then[0].keep_alive) == (500, 20, True)


_, *WRONG = (HERE / "wrong.txt").read_text().splitlines()
"""Lines `text of two.toml => other text => complaint`."""


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_is_reported_with_its_line(
    file: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after, complaint = line.replace("\\n", "\n").split(" => ")
    assert before in TOML
    file.write_text(TOML.replace(before, after, 1))
    assert main(["run", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"run: {file}: {complaint}")


def test_a_published_row_that_is_none(file: Path) -> None:
    file.with_suffix(".published.csv").write_text(PUBLISHED.replace("1000,", "fast,"))
    with pytest.raises(UserError, match="requests_per_second"):
        study(str(file))


def test_several_studies_are_one_sweep() -> None:
    words = ["--studies", "now,redirect-2020"]
    options = chosen_options(sweep_parser().parse_args(words))
    assert [one.name for one in options.studies] == ["now", "redirect-2020"]
    expected = [*study("now").parts(False), *study("redirect-2020").parts(False)]
    assert list(options.parts) == expected
    assert not options.answers


CHAPTER = (ROOT / "docs" / "reference" / "reference-servers.md").read_text()
NUMBERS = {folder.name[3:]: folder.name[:2] for folder in ROOT.glob("0[1-7]_*")}


def span(at_least: int, at_most: int) -> str:
    return str(at_least) if at_least == at_most else f"{at_least} to {at_most}"


@pytest.mark.parametrize("name", reference_names())
def test_the_table_has_each_peer_as_it_is_declared(name: str) -> None:
    said = reference(name)
    cells = (
        name,
        ", ".join(f"{NUMBERS[like]} {like}" for like in said.resembles),
        said.how,
        span(*said.serving.processes),
        span(*said.serving.threads),
        ", ".join(f"`{call}`" for call in said.serving.calls),
    )
    assert f"| {' | '.join(cells)} |\n" in CHAPTER


def test_the_table_has_no_other_peer() -> None:
    table = CHAPTER.split("| reference server |", 1)[1].split("\n\n", 1)[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert rows == reference_names()


@pytest.mark.parametrize("name", published())
def test_each_study_is_documented(name: str) -> None:
    assert f"| `{name}` |" in CHAPTER
    assert study(name).title
