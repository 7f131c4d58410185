# SPDX-License-Identifier: MIT
"""The project's folder and the version of its sources."""

import hashlib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bench.host.programs import first_line, output_of
from bench.records.environment import Checkout
from bench.records.errors import UserError, in_words
from bench.records.values import toml_of

ROOT = Path(__file__).resolve().parents[2]
Model = TypeVar("Model", bound=BaseModel)


def declaration(model: type[Model], file: Path, **more: object) -> Model:
    """Return a `model` made from a TOML file and `more`. Raises UserError if a value is invalid."""
    try:
        return model.model_validate({**toml_of(file), **more})
    except (OSError, ValueError, RecursionError) as error:  # invalid TOML, or invalid for the model
        words = in_words(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{file}: {words}") from error


SOURCES = (
    "Makefile",
    "bench/**/*.py",
    "bench/doctor/*.toml",
    "bench/grade/*.toml",
    "bench/records/*.csv",
    "bench/records/*.toml",
    "bench/services/*.j2",
    "bench/load/*.lua",
    "bench/studies/*",
    "bench/torture/*.toml",
    "bench/references/**/*",
    "course/experiments/*",
    "baselines/*",
    "lib/**/*.[ch]",
    "ops/*.[ch]",
    "*/main.c",
    "*/tests.toml",
    "public/**/*",
    "redirects",
    "templates/**/*",
)
"""The files on which results depend: the benchmark, the servers, and the pages."""


def source_digest(root: Path = ROOT) -> str:
    """Return a short hash of a checkout's files that match SOURCES."""
    digest = hashlib.sha256()
    for file in sorted({file for pattern in SOURCES for file in root.glob(pattern)}):
        # Compiled files contain the time of their source, which differs between hosts.
        if file.is_file() and file.parent.name != "__pycache__":
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def git_state() -> Checkout | None:
    """Return the commit and the number of changed files; None without git or a repository."""
    commit = first_line(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "HEAD"])
    if not commit:
        return None
    changed = output_of(["git", "-C", str(ROOT), "status", "--porcelain"])
    return Checkout(commit=commit, changed_files=len(changed.splitlines()))
