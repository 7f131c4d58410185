# SPDX-License-Identifier: MIT
"""Where this project lies, and which version of it this is."""

import hashlib
import sys
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bench.host.programs import first_line, output_of
from bench.records.environment import Checkout
from bench.records.errors import UserError, in_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
"""The project's top folder."""


def toml_of(file: Path) -> dict[str, object]:
    """What a TOML file says; nothing if it is not there."""
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


Model = TypeVar("Model", bound=BaseModel)


def declaration(model: type[Model], file: Path, **more: object) -> Model:
    """What a TOML file says, and `more`, as a model. Raises UserError where it cannot be read, or
    lacks something."""
    try:
        return model.model_validate({**toml_of(file), **more})
    except (OSError, ValueError, RecursionError) as error:  # no TOML, or not the model's
        words = in_words(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{file}: {words}") from error


def source_digest() -> str:
    """A short number that differs where the sources of the sweep or of the servers do."""
    return digest_of(ROOT)


SOURCES = (
    "Makefile",
    "bench/**/*.py",
    "bench/services/*.j2",
    "bench/load/*.lua",
    "bench/peers/**/*",
    "bench/strangers/**/*",
    "course/experiments/*",
    "floors/*",
    "lib/**/*.[ch]",
    "*/main.c",
    "*/tests.toml",
    "public/**/*",
    "redirects",
    "templates/**/*",
)
"""What a figure depends on: who measures, who serves, and what is served."""


def digest_of(root: Path) -> str:
    """The same of any checkout."""
    digest = hashlib.sha256()
    for file in sorted({file for pattern in SOURCES for file in root.glob(pattern)}):
        # What Python compiled holds the time of its source: another one on each host.
        if file.is_file() and file.parent.name != "__pycache__":
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def git_state() -> Checkout | None:
    """The commit that is checked out, and whether files differ from it; None outside of git."""
    commit = first_line(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "HEAD"])
    if not commit:
        return None
    changed = output_of(["git", "-C", str(ROOT), "status", "--porcelain"])
    return Checkout(commit=commit, changed_files=len(changed.splitlines()))
