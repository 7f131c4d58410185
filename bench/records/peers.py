# SPDX-License-Identifier: MIT
"""Models of studies that compare the seven servers with others. They are stored with the results,
so that published and measured figures can be compared."""

from pydantic import BaseModel

from bench.records.conditions import CellKey, Conditions
from bench.records.figures import Cores


class Published(BaseModel):
    """A row of a published table: one system under one load."""

    system: str
    """Its name in the source, with its version."""
    subject: str
    """The name of today's server that is compared with it."""
    workload: str
    keep_alive: bool = False
    cores: Cores = "one"
    concurrency: int
    """The published level."""
    at: int
    """The level of today that it is compared with."""
    requests_per_second: float | None = None
    """None: not completed, or not printed."""
    note: str = ""


class Measured(BaseModel):
    """Some configurations of a study: all servers under all conditions at all levels."""

    subjects: list[str]
    conditions: list[Conditions]
    levels: list[int]


class StudyWords(BaseModel):
    """The texts of a study, in its declaration (see bench/peers/now/study.toml) and results."""

    title: str
    question: str
    source: str
    machine: str = ""
    """The machine of the published figures; empty: nothing was published."""
    reference: str
    """The server that ratios refer to."""
    references: dict[str, str] = {}
    """Other reference servers, for workloads that `reference` does not serve."""
    equal: list[str]
    """What was equal for all servers, a line each."""
    changed: list[str] = []
    """What has changed since publication, and why ratios differ today, a line each."""


class PeerStudy(StudyWords):
    """A study and its declaration at the time of the measurement."""

    name: str
    published: list[Published] = []
    measured: list[Measured] = []

    def reference_of(self, workload: str) -> str:
        """Return the server that ratios under a workload refer to."""
        return self.references.get(workload, self.reference)

    def has(self, key: CellKey) -> bool:
        """Return whether a configuration belongs to the study."""
        return any(
            key.subject in some.subjects
            and key.conditions in some.conditions
            and key.concurrency in some.levels
            for some in self.measured
        )


class Peer(BaseModel):
    """The description of a reference server, for readers of results."""

    about: str
    language: str
    origin: str
    how: str
    """How it waits for events."""
    resembles: list[str]
    """Those of the seven servers that have a similar architecture."""
    settings: list[str]
    """Settings that were changed for a fair comparison."""
    warm_up: int
    keeps: str
    closes: str
