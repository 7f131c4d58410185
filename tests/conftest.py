# SPDX-License-Identifier: MIT
"""Fixtures that several folders of tests use, and the markers of all tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from bench.host.accounting import Slicing, find_slicing

TIMEOUT = 30_000
"""Milliseconds for which a browser test waits for a condition. The default of 5 s can be too short
on a machine whose cores are all busy."""
expect.set_options(timeout=TIMEOUT)

REPOSITORY = Path(__file__).resolve().parents[1]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield the system's Chromium or, if it is missing, playwright's. Each process has only one
    browser, because playwright cannot run twice at the same time in a process."""
    found = next((path for path in map(shutil.which, CHROMIUM) if path), None)
    with sync_playwright() as playwright:
        if not found and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no browser: neither the system's Chromium nor playwright's is installed")
        running = playwright.chromium.launch(
            executable_path=found, args=CHROMIUM_FLAGS, timeout=180_000
        )
        yield running
        running.close()


@pytest.fixture(scope="session")
def slicing() -> Slicing:
    found = find_slicing()
    if found is None:
        pytest.skip("no control group with a quota can be made here")
    return found


@pytest.fixture
def width() -> int:
    """Return the width of the page in pixels for tests that do not set it as a parameter."""
    return 1280


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than 8 s on all servers together")
    config.addinivalue_line("markers", "of_servers(*names): tests only these servers")
    config.addinivalue_line("markers", "of_kind('[not ]fact'): tests servers with (without) a fact")
    config.addinivalue_line("markers", "shared_code: tests code that is the same in every server")
    config.addinivalue_line("markers", "redis_code: tests code that waits for Redis")
    config.addinivalue_line("markers", "plain_build(why): is not for servers with a sanitizer")
    config.addinivalue_line("markers", "browser: drives a real headless Chromium")
