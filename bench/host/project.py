"""Where this project lies, and which version of it this is."""

import hashlib
from pathlib import Path
from typing import Any

from bench.host.programs import first_line, output_of

ROOT = Path(__file__).resolve().parents[2]
"""The project's top folder."""


def source_digest() -> str:
    """A short number that differs where the sources of the sweep or of the servers do."""
    digest = hashlib.sha256()
    for pattern in (
        "bench/*.py",
        "floors/*",
        "lib/*/*.[ch]",
        "lib/*.h",
        "[0-9][0-9]_*/main.c",
    ):
        for file in sorted(ROOT.glob(pattern)):
            digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def git_state() -> dict[str, Any] | None:
    """The commit that is checked out, and whether files differ from it; None outside of git."""
    commit = first_line(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "HEAD"])
    if not commit:
        return None
    changed = output_of(["git", "-C", str(ROOT), "status", "--porcelain"])
    return {"commit": commit, "changed_files": len(changed.splitlines())}
