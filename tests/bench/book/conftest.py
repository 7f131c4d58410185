# SPDX-License-Identifier: MIT
"""The web site, built once for all tests that look at it."""

import os
import sys
from pathlib import Path

import pytest

from ..commands import run


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the web site. A link in a document to a page or a heading that does not
    exist is an error, and so is a page that is missing in the navigation."""
    folder = tmp_path_factory.mktemp("site")
    words = ("mkdocs", "build", "--strict", "--site-dir", folder)
    run(sys.executable, "-m", *words, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder
