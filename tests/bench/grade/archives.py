# SPDX-License-Identifier: MIT
"""Make archives for tests, also hostile ones."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def zipped(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a zip with these files, compressed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    """Write a tar.gz with these files, and with symbolic links to these targets."""
    with tarfile.open(path, "w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
