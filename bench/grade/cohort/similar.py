# SPDX-License-Identifier: MIT
"""Find submissions that share code, with copydetect (winnowing, as in MOSS): names of variables and
layout do not count. The project's own code does not count either.

Run as a program, this module compares the files of a folder and prints JSON. Because the files are
untrusted, it then has a time limit, and Landlock limits the files that it may open.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from bench.grade.fence import fenced
from bench.host.process import Child
from bench.host.project import ROOT
from bench.host.signals import SignalWatch

THRESHOLD = 0.5
"""The share of a submission's own code that another must have, too."""
LITTLE = 0.2
"""The share below which a submission has little code of its own."""
NOISE, GUARANTEED = 25, 30
"""Characters of code with names replaced by a letter. Shorter matches are ignored; one of
GUARANTEED is always found. These are copydetect's defaults."""
SECONDS = 120.0
MOST_BYTES = 200_000
"""Longer submissions are not compared: 10 times the longest of the project's servers."""
SKELETON = "course/own/main.c"
SOLUTION = "course/own/solution.c"


class SimilarPair(BaseModel):
    """Two submissions that share code."""

    one: str
    other: str
    share_of_one: int
    """Per cent of the first that is also in the other, without the project's own code."""
    share_of_other: int


class OwnShare(BaseModel):
    """The share of a submission, in per cent, that is not the project's own code."""

    student: str
    share: int


class Similarity(BaseModel):
    """The pairs above the threshold, and a sentence on how they were found, or why not."""

    pairs: list[SimilarPair] = []
    little: list[OwnShare] = []
    """The submissions with little code of their own."""
    about: str


class Compared(BaseModel):
    """The output of this module as a program. The files have numbers."""

    pairs: list[tuple[int, int, float, float]]
    """Two files, and the share of each that is in the other."""
    own: dict[int, float]
    """The share of each file that is not the project's own code."""


def compare(servers: Mapping[str, Path], folder: Path, watch: SignalWatch) -> Similarity:
    """Compare the C sources of all servers, by student. `folder`: an existing one for files of this
    comparison. Raises Interrupted."""
    names, left_out = _write_files(servers, folder)
    variables = [f"{name}={folder}" for name in ("HOME", "TMPDIR", "MPLCONFIGDIR")]
    words = ["env", *variables, "OPENBLAS_NUM_THREADS=1"]
    words += [sys.executable, "-m", "bench.grade.cohort.similar", str(folder), str(THRESHOLD)]
    child = Child(fenced(words, [ROOT, Path(sys.base_prefix)], [folder]), cwd=ROOT)
    try:
        in_time = child.wait(SECONDS, watch)
    finally:
        child.end(0)
    try:
        found = Compared.model_validate_json(child.stdout if in_time else "")
    except ValidationError:
        late = f"the comparison did not end within {SECONDS:.0f} s"
        last = (child.stderr.strip().splitlines() or ["no output"])[-1] if in_time else late
        return Similarity(about=f"The submissions were not compared: {last}.")
    about = (
        f"At least {THRESHOLD:.0%} of one submission is also in the other, without the code of the "
        "skeleton and of the project's servers. Names and layout do not count. A high share is a "
        "reason to ask both students, not a proof."
    )
    if left_out:
        about += f" Not compared, because they are too long: {', '.join(left_out)}."
    pairs = [
        SimilarPair(
            one=names[a], other=names[b], share_of_one=round(100 * x), share_of_other=round(100 * y)
        )
        for a, b, x, y in found.pairs
    ]
    own = [(names[number], round(100 * share)) for number, share in sorted(found.own.items())]
    little = [OwnShare(student=a, share=b) for a, b in own if b < 100 * LITTLE]
    return Similarity(pairs=pairs, little=little, about=about)


def _write_files(servers: Mapping[str, Path], folder: Path) -> tuple[list[str], list[str]]:
    """Write the sources of each server as one file, and the project's. Return the names of those
    that are compared, by number, and of those that are too long."""
    (folder / "own").mkdir()
    (folder / "class").mkdir()
    for number, source in enumerate([ROOT / SKELETON, *ROOT.glob("[0-9][0-9]_*/main.c")]):
        shutil.copy(source, folder / "own" / f"{number}.c")
    names: list[str] = []
    left_out: list[str] = []
    sources = {name: sorted(server.rglob("*.[ch]")) for name, server in servers.items()}
    if (ROOT / SOLUTION).exists():  # a copy for students is without it
        sources["the solution of the course"] = [ROOT / SOLUTION]
    for name, files in sources.items():
        content = b"\n".join(file.read_bytes() for file in files if file.is_file())
        if len(content) > MOST_BYTES:
            left_out.append(name)
            continue
        text = content.decode("utf-8", errors="replace")
        (folder / "class" / f"{len(names)}.c").write_text(text)
        names.append(name)
    return names, left_out


def main(folder: Path, threshold: float) -> None:
    """Compare the files of a folder, and print the result."""
    from copydetect import CopyDetector  # noqa: PLC0415  installed for this program only

    detector = CopyDetector(
        test_dirs=[str(folder / "class")],
        ref_dirs=[str(folder / "class")],
        boilerplate_dirs=[str(folder / "own")],
        extensions=["c"],
        noise_t=NOISE,
        guarantee_t=GUARANTEED,
        display_t=0,
        force_language="c",
        silent=True,
        autoopen=False,
    )
    detector.run()
    pairs = {}
    for share, other_share, one, other, *_ in detector.get_copied_code_list():
        a, b = int(Path(one).stem), int(Path(other).stem)
        shares = (float(share), float(other_share))
        pairs[min(a, b), max(a, b)] = shares if a < b else shares[::-1]
    own = {
        int(Path(name).stem): file.token_coverage / max(1, len(file.filtered_code))
        for name, file in detector.file_data.items()
    }
    rows = [(*pair, *shares) for pair, shares in pairs.items() if max(shares) >= threshold]
    rows.sort(key=lambda row: -max(row[2:]))
    print(Compared(pairs=rows, own=own).model_dump_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
