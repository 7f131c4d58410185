# SPDX-License-Identifier: MIT
"""Make archives for tests, also hostile ones."""

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


def sparse_tar(path: Path, size: int) -> Path:
    """Write a tar with a main.c of this size that consists of one hole."""
    member = tarfile.TarInfo("main.c")
    member.type = tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[483:494] = b"%011o" % size  # the size with holes
    head[148:156] = b"        "  # the checksum counts itself as blanks
    head[148:154] = b"%06o" % sum(head)
    path.write_bytes(head + bytes(2 * tarfile.BLOCKSIZE))
    return path
