# SPDX-License-Identifier: MIT
"""Fixtures for several tests of the grader."""

import pytest

from ..commands import run

LOAD = pytest.mark.xdist_group("grade-load")
"""The group of the tests that build libraries with sanitizers, because two builds at once fail."""


@pytest.fixture(scope="session")
def sanitized() -> None:
    """Build lib/ with the sanitizers."""
    for flavour in ("tsan", "debug"):
        run("make", "-s", flavour, f"TARGET=build/{flavour}/objects/libzerohttpd.a")
