# SPDX-License-Identifier: MIT
"""The log of a sweep."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

LOG = "log.txt"


@contextlib.contextmanager
def log_into(folder: Path) -> Iterator[None]:
    """Whatever this package logs meanwhile is added to the folder's log.txt, each line with the
    time."""
    handler = logging.FileHandler(folder / LOG)
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    package = logging.getLogger("bench")
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    try:
        yield
    finally:
        package.removeHandler(handler)
        handler.close()
