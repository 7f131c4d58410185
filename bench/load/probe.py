# SPDX-License-Identifier: MIT
"""Sends a first request, whose answer is the reference for all later answers."""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from bench.host.project import ROOT
from bench.load.client import Client, NoAnswer, Response, request
from bench.records.errors import NoFigure
from bench.records.workloads import FORM, Workload

SECONDS = 10.0
SURPLUS_SECONDS = 0.2
"""The time to wait for surplus bytes after a body of the announced length."""


class ProbeError(NoFigure):
    """The first request got no correct answer."""


def probe(url: str, workload: Workload, status: int | None, keep_alive: bool = False) -> Response:
    """Send one request like ab, and read until the server closes or no more bytes arrive.

    Raises ProbeError if there is no answer, if the status is wrong, or if the body's length is not
    Content-Length, which ab does not check. `status`: the right status; None: any below 400.
    """
    kept = ["Connection: Keep-Alive"] if keep_alive else []
    fields = [*kept, "User-Agent: probe", "Accept: */*"]
    to = urlsplit(url)
    try:
        with Client((to.hostname or "", to.port or 80), SECONDS) as client:
            client.send(request_for(url, workload, "HTTP/1.0", fields))
            answer = client.answer()
            seconds = SECONDS if answer.announced is None else SURPLUS_SECONDS
            answer = replace(answer, body=answer.body + client.rest(seconds)[0])
    except (OSError, NoAnswer) as error:
        cut = Response.of(error.head + error.received) if isinstance(error, NoAnswer) else None
        if cut is None:
            raise ProbeError(f"a first request got no answer: {error}", "no answer") from error
        answer = cut
    wrong = answer.status >= 400 if status is None else answer.status != status
    if wrong:
        wanted = f" and not {status}" if status else ""
        raise ProbeError(f"a first request got {answer.status}{wanted}", f"status {answer.status}")
    announced, came = answer.announced, len(answer.body)
    if announced is not None and announced != came:
        words = f"Content-Length says {announced:,}, but {came:,} bytes were received"
        raise ProbeError(words, "wrong length")
    return answer


def require_content(answer: Response, workload: Workload) -> None:
    """Raise ProbeError if a redirect has the wrong target or a page has the wrong content. Do not
    call this for baselines: their fixed answer has neither a target nor this content."""
    if workload.leads:
        to = answer.field("Location") or ""
        if urlsplit(to).path != workload.leads:
            words = f"to {to}" if to else "nowhere"
            raise ProbeError(f"a redirect leads {words}, not to {workload.leads}", "wrong place")
    if workload.file and answer.body != (ROOT / "public" / workload.file).read_bytes():
        words = f"{len(answer.body):,} bytes that are not public/{workload.file}"
        raise ProbeError(f"a first request got {words}", "wrong page")
    if workload.contains.encode() not in answer.body:
        raise ProbeError(f"a first request got a page without {workload.contains!r}", "wrong page")


def request_for(url: str, workload: Workload, version: str, fields: Sequence[str]) -> bytes:
    """Return the request that a generator sends for a URL. The field Host has the port, because
    some servers copy Host into the target of a redirect."""
    to = urlsplit(url)
    target = to._replace(scheme="", netloc="").geturl()
    if workload.form is None:
        return request("GET", target, *fields, host=to.netloc, version=version)
    posted = (*fields, f"Content-Type: {FORM}")
    body = workload.form.encode()
    return request("POST", target, *posted, body=body, host=to.netloc, version=version)
