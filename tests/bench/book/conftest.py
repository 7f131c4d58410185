# SPDX-License-Identifier: MIT
"""Build the web site once for all tests that read it."""

import os
import sys
from pathlib import Path

import pytest

from ..commands import run


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the web site. The build fails if a link leads to a missing page or
    heading, or if a page is missing in the navigation."""
    folder = tmp_path_factory.mktemp("site")
    words = ("mkdocs", "build", "--strict", "--site-dir", folder)
    run(sys.executable, "-m", *words, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder
