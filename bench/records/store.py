# SPDX-License-Identifier: MIT
"""Reads and writes the files of a sweep: results.json and results.csv."""

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
    """Create a folder in `parent`, named after the time. Raises UserError if it fails."""
    name = prefix + now.strftime("%Y-%m-%d_%H-%M-%S")
    for suffix in ("", *(f"_{n}" for n in range(2, 100))):
        folder = parent / (name + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"cannot create the folder for the results: {error}") from error
        return folder
    raise UserError(f"cannot create a folder for the results in {parent}")


def save(results: Results, folder: Path) -> None:
    """Write results.json and results.csv, each atomically."""
    replace(folder / "results.json", results.model_dump_json(indent=1, by_alias=True) + "\n")
    replace(folder / "results.csv", csv_text(results.runs))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder of a sweep; the kernel releases the lock even if the sweep is killed. Raises
    UserError if another process has the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"the sweep in {folder} is running in another process") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


def file_of(path: Path) -> Path:
    """Return the results.json in a folder; for a file the file itself."""
    return path / "results.json" if path.is_dir() else path


def load(path: Path) -> Results:
    """Read a results.json, or the one in a folder. Raises UserError if it is not one or has a newer
    version."""
    words = "result of a sweep"
    return json_file.record(Results, file_of(path), words, SCHEMA_VERSION, schema=SCHEMA)


def latest_unfinished(parent: Path) -> Path:
    """Return the latest folder with incomplete results. Raises UserError if there is none."""
    for file in sorted(parent.glob("*/results.json"), reverse=True):
        with contextlib.suppress(UserError):
            if load(file).state != "complete":
                return file.parent
    raise UserError(f"no unfinished sweep in {parent}/")


SLIM_WITHOUT = {
    *("ab", "ab_command", "latency", "littles_law", "checks", "hosts", "server_statistics"),
    *("load_process", "redis_process", "nginx_process", "started", "waited"),
}
"""The fields that documents do not need."""
SLIM_HEAD = {
    *("schema_version", "state", "started", "finished", "command", "machine", "versions"),
    *("placement", "servers"),
}


def slim(results: Results) -> str:
    """Return results as JSON to be stored with a document that was made of them: a run a line,
    without the fields that the document does not show."""
    head = results.model_dump(mode="json", include=SLIM_HEAD, exclude_none=True)
    runs = [
        _plain(run).model_dump(mode="json", exclude=SLIM_WITHOUT, exclude_defaults=True)
        for run in results.runs
    ]
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    kept = json.dumps({"schema": SCHEMA, **head}, indent=1)
    return f'{kept[:-2]},\n "runs": [\n{lines}\n]}}\n'


def _plain(run: Run) -> Run:
    """Return a run without the stacks inside of the kernel."""
    if run.stacks is None:
        return run
    frames = [_down_to_kernel(frame) for frame in run.stacks.frames]
    return run.model_copy(update={"stacks": run.stacks.model_copy(update={"frames": frames})})


def _down_to_kernel(frame: Frame) -> Frame:
    below = [] if frame.of == "kernel" else [_down_to_kernel(one) for one in frame.below]
    return frame.model_copy(update={"below": below})


def replace(path: Path, content: str | bytes) -> None:
    """Replace a file atomically, so that no reader sees a part of it. Symbolic links are not
    followed, because the folder may be untrusted. Raises OSError and leaves no partial file."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    try:
        with beside.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
