# SPDX-License-Identifier: MIT
"""Studies beside the seven: what was published, and who its subjects are; kept with the results, so
that then and now can be put side by side wherever the results are read."""

from pydantic import BaseModel

from bench.records.conditions import CellKey, Conditions
from bench.records.figures import Cores


class Published(BaseModel):
    """A row of a published table: one system under one load."""

    system: str
    """As the source names it, with its version."""
    subject: str
    """The same of today, by name."""
    workload: str
    keep_alive: bool = False
    cores: Cores = "one"
    concurrency: int
    """As published."""
    at: int
    """The level of today that it is held against."""
    requests_per_second: float | None = None
    """None: not completed, or not printed."""
    note: str = ""


class Measured(BaseModel):
    """Some of the cells that belong to a study: all subjects under all conditions at all levels."""

    subjects: list[str]
    conditions: list[Conditions]
    levels: list[int]


class StudyWords(BaseModel):
    """What a study says of itself, in its declaration and with the results; see
    bench/peers/now/study.toml."""

    title: str
    question: str
    source: str
    machine: str = ""
    """On which the published figures were measured; empty: nothing was published."""
    reference: str
    """The subject that ratios refer to."""
    references: dict[str, str] = {}
    """By workload another, where that one does not serve it."""
    equal: list[str]
    """What was held equal, a line each."""
    changed: list[str] = []
    """What has changed since, and why the ratios of today differ, a line each."""


class PeerStudy(StudyWords):
    """A study, as it was declared when it was measured."""

    name: str
    published: list[Published] = []
    measured: list[Measured] = []

    def reference_of(self, workload: str) -> str:
        """The subject that ratios under a workload refer to."""
        return self.references.get(workload, self.reference)

    def has(self, key: CellKey) -> bool:
        """Whether a cell belongs to it."""
        return any(
            key.subject in some.subjects
            and key.conditions in some.conditions
            and key.concurrency in some.levels
            for some in self.measured
        )


class Peer(BaseModel):
    """What a stranger says of itself, for readers of results."""

    about: str
    language: str
    origin: str
    how: str
    """How it waits."""
    resembles: list[str]
    """Which of the seven it is like."""
    settings: list[str]
    """What was changed for fairness."""
    warm_up: int
    keeps: str
    closes: str
