# SPDX-License-Identifier: MIT
"""The workloads: requests that the load generator sends, by name."""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.records.values import each_of


@dataclass(frozen=True)
class Workload:
    """One kind of request, and the effect that each of them must have."""

    name: str
    title: str
    path: str
    status: int | None = None
    """The expected status; None: that of the first request, unless it is an error."""
    form: str | None = None
    """The body of a POST; None: a GET."""
    waits: int = 0
    """The number of Redis replies that a request waits for, one after another."""
    visits: int = 0
    """The number that each request adds to the visitor count in Redis."""
    remarks: int = 0
    """The number of remarks that each request adds to the guestbook in Redis."""
    share: float = 1.0
    """The share of the usual number of requests, less for expensive requests."""
    leads: str | None = None
    """The target of a redirect: a path; the response may have the whole URL."""
    file: str | None = None
    """A file in public/ whose content is the body."""
    contains: str = ""
    """A text that the body contains."""
    may_grow: bool = False
    """Whether its page may become longer between requests, because it shows a count."""

    @property
    def private_only(self) -> bool:
        """Return whether it writes data, or needs data, that must not be written to a user's
        Redis."""
        return self.remarks > 0 or self.name == "link"


FORM = "application/x-www-form-urlencoded"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("redirect", "a redirect: no file, no wait", "/redirect", 302, leads="/guestbook"),
        Workload("moved", "moved permanently: no file, no wait", "/old", 301, leads="/guestbook"),
        Workload("hello", "12 bytes", "/files/hello.txt", 200, file="files/hello.txt"),
        Workload("small", "a file of 600 bytes", "/files/small.txt", 200, file="files/small.txt"),
        Workload(
            "large",
            "a file of 80 KB",
            "/files/characters.html",
            200,
            share=0.5,
            file="files/characters.html",
        ),
        Workload(
            "sorted",
            "1,001 strings sorted: CPU only",
            "/sorted",
            200,
            share=0.2,
            contains="<li>a o w r t h o z l r</li>\n<li>a r b e g h j m r k</li>\n",
        ),
        Workload("link", "a short link: one wait for Redis", "/go/guestbook", 302, waits=1),
        Workload(
            "guestbook",
            "the guestbook: three waits for Redis",
            "/guestbook",
            200,
            waits=3,
            visits=1,
            contains='<li class="remark',
        ),
        Workload(
            "sign",
            "signing the guestbook: a POST, one wait for Redis",
            "/guestbook",
            303,
            "guest-name=Load+generator&guest-remarks=One+of+many",
            1,
            remarks=1,
        ),
    )
}

ALL = "all"


def workload_for(name: str) -> Workload:
    """Return the workload of a name, or a workload that requests the path `name`."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    known = next((w for w in WORKLOADS.values() if w.path == name and w.form is None), None)
    return known or Workload(name, name, name, may_grow=True)


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once and `all` expanded. Raises UserError if one is unknown."""
    chosen = each_of("workload", names, (*WORKLOADS, ALL))
    words = (word for name in chosen for word in (WORKLOADS if name == ALL else (name,)))
    return tuple(dict.fromkeys(words))
