# SPDX-License-Identifier: MIT
"""Fixtures that several tests of grades need."""

import pytest

from ..commands import run

LOAD = pytest.mark.xdist_group("grade-load")
"""Tests that build the libraries with sanitizers, one after another: two builds at once fail."""


@pytest.fixture(scope="session")
def sanitized() -> None:
    """Return lib/, built with the sanitizers."""
    for flavour in ("tsan", "debug"):
        run("make", "-s", flavour, f"TARGET=build/{flavour}/objects/libzerohttpd.a")
