# SPDX-License-Identifier: MIT
"""The files of a sweep: results.json and results.csv, written and read."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bench.records import json_file
from bench.records.csv_rows import csv_text
from bench.records.errors import UserError
from bench.records.figures import Frame
from bench.records.results import SCHEMA, SCHEMA_VERSION, Results
from bench.records.run import Run


def make_folder(parent: Path, now: datetime, prefix: str = "") -> Path:
    """A new folder below `parent`, named after the time. Raises UserError if it cannot be made."""
    name = prefix + now.strftime("%Y-%m-%d_%H-%M-%S")
    for suffix in ("", *(f"_{n}" for n in range(2, 100))):
        folder = parent / (name + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"cannot make the folder for the results: {error}") from error
        return folder
    raise UserError(f"cannot make a folder for the results in {parent}")


def save(results: Results, folder: Path) -> None:
    """Write results.json and results.csv, each at once."""
    replace(folder / "results.json", results.model_dump_json(indent=1, by_alias=True) + "\n")
    replace(folder / "results.csv", csv_text(results.runs))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else goes on with the sweep in this folder meanwhile; the kernel sees to it that a
    sweep which was killed does not stand in the way. Raises UserError if somebody does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"the sweep in {folder} is under way already") from None
        except OSError:
            pass  # a file system that knows no locks
        yield
    finally:
        os.close(descriptor)


def file_of(path: Path) -> Path:
    """The results.json in a folder; of a file, itself."""
    return path / "results.json" if path.is_dir() else path


def load(path: Path) -> Results:
    """Read a results.json, or the one in a folder. Raises UserError if it is none, or of a newer
    form."""
    words = "result of a sweep"
    return json_file.record(Results, file_of(path), words, SCHEMA_VERSION, schema=SCHEMA)


def latest_unfinished(parent: Path) -> Path:
    """The latest folder of results that is not complete. Raises UserError if there is none."""
    for file in sorted(parent.glob("*/results.json"), reverse=True):
        with contextlib.suppress(UserError):
            if load(file).state != "complete":
                return file.parent
    raise UserError(f"no unfinished sweep in {parent}/")


SLIM_WITHOUT = {
    *("ab", "ab_command", "latency", "littles_law", "checks", "hosts", "server_statistics"),
    *("load_process", "redis_process", "nginx_process", "started", "waited"),
}
"""What documents are not made of."""
SLIM_HEAD = {
    *("schema_version", "state", "started", "finished", "command", "machine", "versions"),
    *("placement", "servers"),
}


def slim(results: Results) -> str:
    """The same results, to be kept beside a document that was made of them: without what it does
    not show, a run a line."""
    head = results.model_dump(mode="json", include=SLIM_HEAD, exclude_none=True)
    runs = [
        _plain(run).model_dump(mode="json", exclude=SLIM_WITHOUT, exclude_defaults=True)
        for run in results.runs
    ]
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    kept = json.dumps({"schema": SCHEMA, **head}, indent=1)
    return f'{kept[:-2]},\n "runs": [\n{lines}\n]}}\n'


def _plain(run: Run) -> Run:
    """With the stacks down to the kernel only."""
    if run.stacks is None:
        return run
    frames = [_down_to_kernel(frame) for frame in run.stacks.frames]
    return run.model_copy(update={"stacks": run.stacks.model_copy(update={"frames": frames})})


def _down_to_kernel(frame: Frame) -> Frame:
    below = [] if frame.of == "kernel" else [_down_to_kernel(one) for one in frame.below]
    return frame.model_copy(update={"below": below})


def replace(path: Path, content: str | bytes) -> None:
    """Put a file in place at once, so that no reader ever sees half of it. Nothing is written
    through a link: the folder may be a stranger's. Raises OSError, and leaves no half then."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    try:
        with beside.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
