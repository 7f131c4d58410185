# SPDX-License-Identifier: MIT
"""The workloads: requests that the load generator sends, by name."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bench.records.values import each_of, tables_of


class Workload(BaseModel):
    """One kind of request, and the effect that each such request must have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    called: str = ""  # The workload's name in titles, if it differs from `name`.
    path: str
    status: int | None = None
    """The expected status. None: the status of the first response, which must not be an error."""
    form: str | None = None  # The body of a POST; None: a GET.
    waits: int = 0  # The number of Redis replies that a request waits for, one after another.
    visits: int = 0  # The number that each request adds to the visitor count in Redis.
    remarks: int = 0  # The number of remarks that each request adds to the guestbook in Redis.
    share: float = 1.0
    """The share of the usual number of requests that is sent; below 1 for expensive requests."""
    leads: str | None = None
    """The target of a redirect: a path; the response may have the whole URL."""
    file: str | None = None  # A file in public/ whose content is the body.
    contains: str = ""  # A text that the body contains.
    may_grow: bool = False
    """Whether the page may become longer between requests, because it shows a count."""

    @property
    def private_only(self) -> bool:
        """Return whether the workload needs data that must not be written to a user's Redis."""
        return self.remarks > 0 or self.name == "link"


FORM = "application/x-www-form-urlencoded"

WORKLOADS = tables_of(Workload, Path(__file__).with_name("workloads.toml"))
ALL = "all"


def workload_for(name: str) -> Workload:
    """Return the workload with this name, or a workload that requests the path `name`."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    known = next((w for w in WORKLOADS.values() if w.path == name and w.form is None), None)
    return known or Workload(name=name, title=name, path=name, may_grow=True)


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once; `all` gives all names. Raises UserError if one is unknown."""
    chosen = each_of("workload", names, (*WORKLOADS, ALL))
    words = (word for name in chosen for word in (WORKLOADS if name == ALL else (name,)))
    return tuple(dict.fromkeys(words))
