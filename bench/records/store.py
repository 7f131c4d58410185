# SPDX-License-Identifier: MIT
"""Read and write the results.json of a sweep, write its results.csv, and read JSON files from
untrusted sources."""

import contextlib
import csv
import fcntl
import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from bench.records.conditions import Conditions
from bench.records.errors import UserError, in_words
from bench.records.figures import Run
from bench.records.points import BY_KEY, METRICS, Point
from bench.records.results import SCHEMA, SCHEMA_VERSION, Results

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value."""
NOT_FOR_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters (e.g. of a terminal), surrogates, and others that XML does not allow."""
LARGEST = 1e30
"""All numbers must be smaller than this number, so their sums and ratios are finite."""
OLD_NAMES = {
    re.compile(r'"floor(s?|-\w+)"'): r'"baseline\1"',
    re.compile(r'"stranger(s?)"'): r'"reference\1"',
    re.compile(r'"(tasks_)?cure"'): r'"\1fix"',
}
"""Names in records of version 3 and older, and today's names."""


def read(path: Path) -> Json:
    """Return a file's content with today's names, and U+FFFD for characters of NOT_FOR_TEXT. Raises
    UserError if the file cannot be read, is not JSON, or has invalid numbers."""
    try:
        text = path.read_text()
        for old, todays in OLD_NAMES.items():
            text = old.sub(todays, text)
        whole = partial(_number, kind=int)
        content = json.loads(text, parse_constant=_number, parse_float=_number, parse_int=whole)
        return _printable(content)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    except RecursionError:
        raise UserError(f"cannot read {path}: it is nested too deeply") from None


Model = TypeVar("Model", bound=BaseModel)


def record(model: type[Model], path: Path, what: str, newest: int, **head: str) -> Model:
    """Return a record of this program from a file. `what` names the record in errors; `head` has
    fields that the record must have. Raises UserError if the file is not such a record, or is newer
    than version `newest`."""
    content = read(path)
    if not isinstance(content, dict) or any(content.get(key) != head[key] for key in head):
        raise UserError(f"{path} is not a {what}")
    version = content.get("schema_version", 1)
    if isinstance(version, int) and version > newest:
        raise UserError(f"{path} was written by a newer version of this program")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path} is not a {what}: {in_words(error)}") from error


def _number(text: str, kind: Callable[[str], float] = float) -> float:
    if abs(float(text)) < LARGEST:
        return kind(text)
    raise ValueError(f"{text} is not a number")  # also NaN and Infinity


def _printable(value: Json) -> Json:
    if isinstance(value, str):
        return NOT_FOR_TEXT.sub("\ufffd", value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {NOT_FOR_TEXT.sub("\ufffd", name): _printable(one) for name, one in value.items()}
    return value


CALLED = {"rate": "rate_asked"}
"""The columns of conditions that have the same name as a figure."""
NAMED = (
    *("subject", "kind", "architecture"),
    *(CALLED.get(name, name) for name in Conditions._fields),
    *("connections", "state", "label", "reason"),
)
"""The first columns in the tables of the runs and of the data points."""
LIMITED = ("bottleneck", "bottleneck_host", "lower_bound")
_COUNTS = ("run", "outlier", "requests", "idle_reopened", "complete", "failed", "non_2xx")
_FIGURES = (*METRICS, BY_KEY["probed"])
CSV_COLUMNS = (*NAMED, *_COUNTS, *LIMITED, *(metric.key for metric in _FIGURES), "command")


def named(of: Run | Point) -> dict[str, Json]:
    """Return the values of the columns in NAMED for a run or a data point."""
    label, text = (of.reason.label, of.reason.text) if of.reason else (None, None)
    configuration = (of.subject, of.kind, of.architecture, *of.conditions, of.key.concurrency)
    return dict(zip(NAMED, (*configuration, of.state, label, text), strict=True))


def csv_row(run: Run) -> dict[str, Json]:
    """Return a run as a row. A run that is not valid has its counts, but no other figures."""
    row = named(run) | run.model_dump(include={"run", "outlier", "requests", "idle_reopened"})
    row["command"] = " ".join(run.ab_command)
    if run.ab:
        row |= run.ab.model_dump(include={"complete", "failed", "non_2xx"})
    if run.wrk:
        row |= {"complete": run.wrk.complete, "failed": sum(run.wrk.errors.values())}
    if run.state != "held":
        return row
    row |= {name: getattr(run, name) for name in LIMITED}
    return row | {metric.key: metric.read(run) for metric in _FIGURES}


def csv_of(columns: Collection[str], rows: Iterable[Mapping[str, Json]]) -> str:
    """Return rows as CSV with a header line; missing values are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


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
    replace(folder / "results.csv", csv_of(CSV_COLUMNS, map(csv_row, results.runs)))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder of results; the kernel releases the lock even if this process is killed. Raises
    UserError if another process has the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process writes into {folder}; wait until it ends") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


def file_of(path: Path, name: str = "results.json") -> Path:
    """Return the file `name` of the folder `path`; if `path` is a file, return `path`."""
    return path / name if path.is_dir() else path


def load(path: Path) -> Results:
    """Read a results.json, or the results.json of a folder. Raises UserError if the file is not a
    result of a sweep, or has a newer version."""
    return record(Results, file_of(path), "result of a sweep", SCHEMA_VERSION, schema=SCHEMA)


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
"""The fields of a run that documents do not need."""
SLIM_HEAD = {
    *("schema_version", "state", "started", "finished", "command", "machine", "versions"),
    *("placement", "servers"),
}


def slim(results: Results) -> str:
    """Return results as JSON, with one line for each run. The JSON is stored with a document, so it
    lacks the fields that the document does not show."""
    head = results.model_dump(mode="json", include=SLIM_HEAD, exclude_none=True)
    runs = [
        run.model_dump(mode="json", exclude=SLIM_WITHOUT, exclude_defaults=True)
        for run in results.runs
    ]
    for run in runs:
        _cut_at_kernel(run.get("stacks", {}).get("frames", []))
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    kept = json.dumps({"schema": SCHEMA, **head}, indent=1)
    return f'{kept[:-2]},\n "runs": [\n{lines}\n]}}\n'


def _cut_at_kernel(frames: list[dict[str, Any]]) -> None:
    """Remove the functions that a stack's first kernel function calls."""
    for frame in frames:
        if frame.get("of") == "kernel":
            frame.pop("below", None)
        _cut_at_kernel(frame.get("below", []))


def replace(path: Path, content: str | bytes) -> None:
    """Replace a file atomically, so no process reads a partial file. Symbolic links are not
    followed, because the folder may be untrusted. Raises OSError and leaves no partial file."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    try:
        with new.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
