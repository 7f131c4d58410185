# SPDX-License-Identifier: MIT
"""Grade mutants and write the findings of the grader: python -m tests.mutants.run --help

Each mutant is built in its own copy of the project and graded there by `zerohttpd grade`. The
grader's namespaces isolate the runs. Each result is appended to a file; a second call skips jobs
whose results are in the file.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from bench.grade.findings import Grade
from bench.host.project import ROOT

from .corpus import KINDS, Mutant, mutants

RESULTS = ROOT / "build" / "mutants.jsonl"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "results", "__pycache__", ".*_cache", "tests")
LIBRARIES = (
    ("make", "-s", "build/release/libzerohttpd.a"),
    ("make", "-s", "tsan", "TARGET=build/tsan/objects/libzerohttpd.a"),
    ("make", "-s", "debug", "TARGET=build/debug/objects/libzerohttpd.a"),
)
BY_NATURE = "by-nature"
UNCHANGED = "unchanged-"


class Job(NamedTuple):
    """A server to grade, with a mutant or unchanged."""

    kind: str
    server: str
    mutant: Mutant | None
    number: int = 0
    """The number of a repeated run of an unchanged server."""

    @property
    def name(self) -> str:
        """Return the mutant's name, or a name for a run without a mutant."""
        return self.mutant.name if self.mutant else f"{UNCHANGED}{self.number}"


class Result(NamedTuple):
    """The grade of one job."""

    kind: str
    server: str
    mutant: str
    points: int
    of: int
    found: bool
    named: bool
    false: list[str]
    """Findings that neither name the fault nor are marked as its consequences."""
    follow: list[str]
    """Findings marked as consequences."""
    names: list[str]
    seconds: float
    seen: list[str]
    """The evidence of each finding."""


def judge(job: Job, grade: Grade) -> Result:
    """Compare the findings with those that the mutant expects."""
    checks = [check for stage in grade.stages for check in stage.checks]
    findings = [c.finding for c in checks if c.finding and c.finding.fault != BY_NATURE]
    follow = [f.fault for f in findings if f.follows]
    names = list(dict.fromkeys(f.fault for f in findings))
    right = set(job.mutant.named if job.mutant else ())
    first = [f.fault for f in findings if not f.follows]
    return Result(
        kind=job.kind,
        server=job.server,
        mutant=job.name,
        points=grade.points,
        of=grade.of,
        found=bool(findings),
        named=bool(right & set(names)),
        false=[name for name in dict.fromkeys(first) if name not in right],
        follow=list(dict.fromkeys(follow)),
        names=names,
        seconds=grade.seconds,
        seen=[f"{f.fault}: {f.seen}" for f in findings],
    )


def grade(job: Job, seconds: float) -> Result | str:
    """Build and grade in a copy. Return the result, or an error text if there is no grade."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-mutant-") as name:
        root = Path(name) / "project"
        shutil.copytree(ROOT, root, ignore=LEFT_OUT, symlinks=True)
        if job.mutant:
            job.mutant.apply(root)
        words = [sys.executable, "-m", "bench", "grade", job.server, "--json"]
        in_library = job.mutant and job.mutant.file.startswith(("lib/", "ops/"))
        commands = [*LIBRARIES, words] if in_library else [words]
        for command in commands:
            try:
                done = subprocess.run(
                    command, cwd=root, capture_output=True, text=True, timeout=seconds
                )
            except subprocess.TimeoutExpired:
                return f"{command[-1]}: not done after {seconds:.0f} s"
            if done.returncode != 0:
                return done.stderr.strip()[-2000:]
        return judge(job, Grade.model_validate_json(done.stdout))


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of two Markdown tables: the figures of each kind, and of each mutant."""
    yield "| kind | mutants | found | named right | with false findings | median s | longest s |"
    yield "|---|---|---|---|---|---|---|"
    for kind in KINDS:
        of = [r for r in results if r.kind == kind and not r.mutant.startswith(UNCHANGED)]
        if of:
            times = sorted(r.seconds for r in of)
            found, named = sum(r.found for r in of), sum(r.named for r in of)
            yield (
                f"| {kind} | {len(of)} | {found} ({found / len(of):.0%}) "
                f"| {named} ({named / len(of):.0%}) | {sum(bool(r.false) for r in of)} "
                f"| {times[len(times) // 2]:.0f} | {times[-1]:.0f} |"
            )
    yield ""
    yield "| mutant | server | points | named right | findings | false findings | s |"
    yield "|---|---|---|---|---|---|---|"
    for r in sorted(results, key=lambda r: (list(KINDS).index(r.kind), r.mutant)):
        yield (
            f"| {r.mutant} | {r.server} | {r.points} of {r.of} | {'yes' if r.named else 'NO'} "
            f"| {', '.join(r.names) or 'NONE'} | {', '.join(r.false)} | {r.seconds:.0f} |"
        )


def _read(file: Path) -> list[Result]:
    """Return the results so far, except of mutants that were removed from the corpus."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    corpus = {(kind, mutant.name) for mutant in mutants() for kind in mutant.kinds}
    return [r for r in results if r.mutant.startswith(UNCHANGED) or (r.kind, r.mutant) in corpus]


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    for number in range(options.unchanged):
        for kind in options.kinds:
            yield Job(kind, KINDS[kind], None, number)
    for mutant in () if options.unchanged else mutants():
        for kind in options.kinds:
            if kind in mutant.kinds and (not options.names or mutant.name in options.names):
                yield Job(kind, mutant.server_of(kind), mutant)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="only these mutants (default: all)")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="only these (default: all)")
    add("--jobs", type=int, default=3, metavar="N", help="grade N at once (default 3)")
    add("--seconds", type=float, default=150, metavar="S", help="end a run after S s (default 150)")
    written = f"append the results to this file (default {RESULTS})"
    add("--results", type=Path, default=RESULTS, metavar="FILE", help=written)
    add("--unchanged", type=int, default=0, metavar="N", help="grade the real servers N times")
    add("--table", action="store_true", help="only print the table of the results so far")
    options = parser.parse_args()
    results = _read(options.results)
    done = {(r.kind, r.mutant) for r in results}
    jobs = [] if options.table else [j for j in _jobs(options) if (j.kind, j.name) not in done]
    # A fixed random order, so that the results so far are a fair sample of the corpus.
    random.Random(1).shuffle(jobs)
    with ThreadPoolExecutor(options.jobs) as pool, options.results.open("a") as out:
        running = {pool.submit(grade, job, options.seconds): job for job in jobs}
        for future in as_completed(running):
            job, came = running[future], future.result()
            if isinstance(came, str):
                print(f"{job.kind} {job.name}: no grade: {came}", file=sys.stderr)
                continue
            results.append(came)
            print(json.dumps(came._asdict()), file=out, flush=True)
            verdict = "right" if came.named else "MISNAMED" if came.found else "MISSED"
            print(
                f"{time.strftime('%H:%M:%S')} {job.kind} {job.name}: {verdict}, {came.points} of "
                f"{came.of}, {came.names}, false {came.false}, {came.seconds:.0f} s",
                flush=True,
            )
    if options.table:
        print("\n".join(table(results)))


if __name__ == "__main__":
    main()
