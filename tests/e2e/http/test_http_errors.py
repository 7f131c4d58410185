# SPDX-License-Identifier: MIT
"""Each request of a table, valid or not, gets its status code."""

from __future__ import annotations

import pytest

from ..cases import SYNTAX, Case
from ..client import Client, Response, fetch
from ..harness import Server
from ..markup import assert_well_formed

pytestmark = pytest.mark.shared_code


def assert_error_page(response: Response) -> None:
    """Assert that an error comes as a small, well-formed page with all its fields."""
    assert response.field("Content-Type") == "text/html; charset=utf-8"
    assert response.field("Server") == "ZeroHTTPd-Seven"
    assert response.field("Date") is not None
    assert len(response.body) < 4096
    assert str(response.status) in response.text
    assert "Unknown" not in response.status_line
    assert_well_formed(response.text)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in SYNTAX])
def test_request(server: Server, case: Case) -> None:
    """Each request of the table gets one of its status codes."""
    with Client(server) as client:
        response = client.exchange(case.raw)
        assert response.status in case.statuses, response.text
        if case.allow is not None:
            assert response.field("Allow") == case.allow
        if response.status >= 400:
            assert_error_page(response)
        if case.closes:
            assert response.closes, response.head
        if response.closes:
            assert client.read_to_end() == b""


GETS = [case for case in SYNTAX if case.raw.lstrip(b"\r\n").startswith(b"GET ")]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in GETS])
def test_head_has_no_body(server: Server, case: Case) -> None:
    """The response to HEAD has the head of GET and no body, for each status (RFC 9110, section
    9.3.2)."""
    with Client(server) as client:
        response = client.exchange(case.raw.replace(b"GET ", b"HEAD ", 1), "HEAD")
        assert response.status in case.statuses, response.head
        assert int(response.field("Content-Length") or 0) > 0
        client.half_close()
        assert client.read_to_end() == b""


def test_not_found(server: Server) -> None:
    """An unknown path is 404, and the connection stays open."""
    response = fetch(server, "/t/nothing-here.html")
    assert response.status == 404
    assert_error_page(response)
    assert response.closes != server.kind.keeps_alive


def test_name_too_long_for_a_file(server: Server) -> None:
    """A path longer than the system allows for file names is 404."""
    for size in (256, 1023, 1024, 4096, 7900):
        assert fetch(server, "/" + "n" * size).status in (404, 414)
    assert fetch(server, "/" + "d/" * 3000).status in (404, 414)


def test_error_pages_do_not_repeat_the_request(server: Server) -> None:
    """Error pages contain no unescaped text of the request."""
    for target in ("/<script>alert(1)</script>", "/%3Cscript%3Ealert(1)%3C/script%3E"):
        response = fetch(server, target)
        assert response.status in (400, 404)
        assert "<script>" not in response.text
