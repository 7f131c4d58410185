# SPDX-License-Identifier: MIT
"""Labs for the tests. The labs are real, so most tests need root and namespaces."""

from collections.abc import Callable, Iterator

import pytest
from lab_harness import Lab, why_not


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the lab tests of each file in one process; skip lab tests if no lab can be made."""
    reason = why_not()
    for item in items:
        if "tests/lab/" in item.path.as_posix() and "make_lab" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"no lab can be made here: {reason}"))


@pytest.fixture(scope="session")
def make_lab() -> Iterator[Callable[[], Lab]]:
    """Yield a function that returns a new Lab. At the end of the tests, labs that are left are
    removed."""
    made: list[Lab] = []

    def make() -> Lab:
        made.append(Lab(f"{len(made):02}"))
        return made[-1]

    yield make
    for lab in made:
        if lab.traces():
            lab.run("down")


@pytest.fixture
def lab(make_lab: Callable[[], Lab]) -> Iterator[Lab]:
    """Yield a Lab that is not up. After the test, remove the lab and assert that nothing is
    left."""
    made = make_lab()
    yield made
    made.down()
