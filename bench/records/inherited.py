# SPDX-License-Identifier: MIT
"""Clean the environment that all programs of the project inherit."""

import contextlib
import fnmatch
import os
import pwd
from pathlib import Path

FOREIGN = Path(__file__).resolve().parents[2] / "scripts" / "foreign-variables"
"""Names and patterns of variables, one a line. The Makefile and the scripts also read this file."""


def forget_foreign_variables() -> None:
    """Remove the variables of `scripts/foreign-variables` from this process' environment, and set
    HOME if it is missing."""
    lines = FOREIGN.read_text(encoding="utf-8").splitlines()
    for pattern in (line for line in lines if line[:1].isupper()):
        for name in fnmatch.filter(list(os.environ), pattern):
            del os.environ[name]
    if not os.environ.get("HOME"):
        os.environ["HOME"] = "/"
        with contextlib.suppress(KeyError):  # a container's user ID may be missing in /etc/passwd
            os.environ["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
