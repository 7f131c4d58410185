# SPDX-License-Identifier: MIT
"""Fixtures that several tests of grades need."""

from __future__ import annotations

import subprocess

import pytest

from bench.host.project import ROOT


@pytest.fixture(scope="session")
def sanitized() -> None:
    """Return lib/, built with the sanitizers."""
    for flavour in ("tsan", "debug"):
        words = ["make", "-s", flavour, f"TARGET=build/{flavour}/objects/libzerohttpd.a"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
