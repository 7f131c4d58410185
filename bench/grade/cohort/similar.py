# SPDX-License-Identifier: MIT
"""Find submissions that share code, with copydetect (winnowing, as in MOSS). copydetect ignores
layout, names of variables, and the project's code.

If this module is run as a program, it compares the files of a folder and prints JSON. Because the
files are untrusted, `compare` runs this program with a time limit and with Landlock (fence.py).
"""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from bench.grade.fence import fenced
from bench.host.process import Child, SignalWatch, last_line
from bench.host.project import ROOT

THRESHOLD = 0.5
"""A pair is reported if at least this share of one submission's own code is in the other."""
NEARLY_ALL = 0.9
"""The minimum share of common code for a group of submissions."""
LITTLE = 0.2
"""The share of own code below which a submission is listed as mostly the project's code."""
NOISE, GUARANTEED = 25, 30
"""Numbers of characters, in code whose names are replaced by a letter. Matches shorter than NOISE
are ignored; matches of GUARANTEED characters are always found (copydetect's default values)."""
SECONDS = 120.0
NAMES = "names.json"
MOST_BYTES = 200_000
"""The maximum size of a compared submission: about four times the sources of 10_coroutines."""
SKELETON = "course/own/main.c"
SOLUTION = "course/own/solution.c"


class SimilarPair(BaseModel):
    """Two submissions that share code."""

    one: str
    other: str
    share_of_one: int
    """The percentage of the first submission's own code that is also in the other."""
    share_of_other: int

    @property
    def shares(self) -> tuple[int, int]:
        """Return both shares."""
        return self.share_of_one, self.share_of_other


class Similarity(BaseModel):
    """The pairs above the threshold, and a text about the method or about its failure."""

    pairs: list[SimilarPair] = []
    little: dict[str, int] = {}
    """The percentage of own code, by student, for submissions with little own code."""
    about: str = (
        f"At least {THRESHOLD:.0%} of one submission is also in the other, without the code of the "
        "skeleton and of the project's servers. Names and layout do not count. A high share is a "
        "reason to ask both students, not a proof."
    )

    @property
    def groups(self) -> list[list[str]]:
        """Return the groups of three or more submissions, the largest group first. Each submission
        shares nearly all its code with another submission of its group."""
        groups: list[set[str]] = []
        for pair in self.pairs:
            if min(pair.shares) >= 100 * NEARLY_ALL:
                joined = {pair.one, pair.other}
                joined.update(*(group for group in groups if group & joined))
                groups = [*(group for group in groups if not group & joined), joined]
        return sorted((sorted(group) for group in groups if len(group) > 2), key=len, reverse=True)

    @property
    def others(self) -> list[SimilarPair]:
        """Return the pairs that are not within one group."""
        groups = [{*group} for group in self.groups]
        return [p for p in self.pairs if not any({p.one, p.other} <= group for group in groups)]


def compare(servers: Mapping[str, Path], folder: Path, watch: SignalWatch) -> Similarity:
    """Compare the C sources of `servers`: folders by student. `folder`: an existing folder for
    files of this comparison. Raises Interrupted."""
    left_out = _write_files(servers, folder)
    variables = [f"{name}={folder}" for name in ("HOME", "TMPDIR", "MPLCONFIGDIR")]
    words = ["env", *variables, "OPENBLAS_NUM_THREADS=1"]
    words += [sys.executable, "-m", "bench.grade.cohort.similar", str(folder)]
    child = Child(fenced(words, [ROOT, Path(sys.base_prefix)], [folder]), cwd=ROOT)
    try:
        in_time = child.wait(SECONDS, watch)
    finally:
        child.end(0)
    try:
        found = Similarity.model_validate_json(child.stdout if in_time else "")
    except ValidationError:
        late = f"the comparison did not end within {SECONDS:.0f} s"
        last = last_line(child.stderr) or "no output" if in_time else late
        return Similarity(about=f"The submissions were not compared: {last}.")
    if left_out:
        found.about += f" Not compared, because they are too long: {', '.join(left_out)}."
    return found


def _write_files(servers: Mapping[str, Path], folder: Path) -> list[str]:
    """Copy the project's sources into `folder`, join each server's sources in a numbered file, and
    write a list of the servers' names. Return the names of the servers that are too long."""
    (folder / "own").mkdir()
    (folder / "class").mkdir()
    for number, source in enumerate([ROOT / SKELETON, *ROOT.glob("[0-9][0-9]_*/main.c")]):
        shutil.copy(source, folder / "own" / f"{number}.c")
    names: list[str] = []
    left_out: list[str] = []
    sources = {name: sorted(server.rglob("*.[ch]")) for name, server in servers.items()}
    if (ROOT / SOLUTION).exists():  # a copy for students does not have this file
        sources["the solution of the course"] = [ROOT / SOLUTION]
    for name, files in sources.items():
        content = b"\n".join(file.read_bytes() for file in files if file.is_file())
        if len(content) > MOST_BYTES:
            left_out.append(name)
            continue
        text = content.decode("utf-8", errors="replace")
        (folder / "class" / f"{len(names)}.c").write_text(text)
        names.append(name)
    (folder / NAMES).write_text(json.dumps(names))
    return left_out


def main(folder: Path) -> None:
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
    names = json.loads((folder / NAMES).read_text())
    pairs = {}
    for share, other_share, one, other, *_ in detector.get_copied_code_list():
        rows = ((one, share), (other, other_share))
        (a, of_a), (b, of_b) = sorted((int(Path(f).stem), round(100 * s)) for f, s in rows)
        pairs[a, b] = SimilarPair(
            one=names[a], other=names[b], share_of_one=of_a, share_of_other=of_b
        )
    own = {
        int(Path(name).stem): file.token_coverage / max(1, len(file.filtered_code))
        for name, file in detector.file_data.items()
    }
    similar = [pair for pair in pairs.values() if max(pair.shares) >= 100 * THRESHOLD]
    few = sorted((number, share) for number, share in own.items() if share < LITTLE)
    little = {names[number]: round(100 * share) for number, share in few}
    similar.sort(key=lambda pair: -max(pair.shares))
    print(Similarity(pairs=similar, little=little).model_dump_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
