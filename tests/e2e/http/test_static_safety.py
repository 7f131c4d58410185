# SPDX-License-Identifier: MIT
"""Nothing outside public/ is served, whatever the path contains or links to."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ..client import fetch, send
from ..conftest import Start
from ..harness import Server
from ..site import SECRET

pytestmark = pytest.mark.shared_code

CLIMBING = [
    "/../secret.txt",
    "/..",
    "/../",
    "/t/../../secret.txt",
    "/t/sub/../../../secret.txt",
    "/%2e%2e/secret.txt",
    "/%2E%2e/secret.txt",
    "/.%2e/secret.txt",
    "/..%2fsecret.txt",
    "/..%2Fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/t/..%2f..%2fsecret.txt",
    "/t/%2e%2e/%2e%2e/secret.txt",
    "/../../../../../../../../etc/passwd",
    "/t/../../public-secret/secret.txt",
    "/../public-secret/secret.txt",
    "/../templates/guestbook/index.html",
    "/../redirects",
    "http://test/../secret.txt",
]
STRANGE = [
    "//secret.txt",
    "/./../secret.txt",
    "//../secret.txt",
    "/t//../../secret.txt",
    "/%252e%252e/secret.txt",
    "/%252e%252e%252fsecret.txt",
    "/..%255csecret.txt",
    "/..\\secret.txt",
    "/..%5csecret.txt",
    "/..%5c..%5csecret.txt",
    "/..;/secret.txt",
    "/....//secret.txt",
    "/...//secret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "/%c0%ae%c0%ae%c0%afsecret.txt",
    "/%e0%80%ae%e0%80%ae/secret.txt",
    "/%uff0e%uff0e/secret.txt",
    "/..%c0%afsecret.txt",
    "/%2fetc/passwd",
    "//etc/passwd",
    "/etc/passwd",
    "/t/links/../../../secret.txt",
    "/t/links/outside-folder/secret.txt",
    "/secret.txt%00.html",
    "/..%00/secret.txt",
    "/%00/../secret.txt",
    "/-secret/secret.txt",
    "/~root/.profile",
    "/proc/self/environ",
    "/index.html/../../secret.txt",
]


@pytest.mark.parametrize("target", CLIMBING)
def test_climbing_is_refused(server: Server, target: str) -> None:
    """A path that climbs above the root is 400."""
    response = fetch(server, target)
    assert response.status == 400
    assert SECRET not in response.body


@pytest.mark.parametrize("target", STRANGE)
def test_strange_paths_lead_nowhere(server: Server, target: str) -> None:
    """Other encodings of a path above the root reach nothing outside either."""
    response = fetch(server, target)
    assert response.status in (400, 404), response.head
    assert SECRET not in response.body
    assert b"root:" not in response.body


@pytest.mark.parametrize(
    "target",
    ["/%", "/%2", "/%zz", "/%2g", "/%g2", "/t/%", "/t/digits.txt%", "/%%32e", "/% 41", "/%-1"],
)
def test_bad_escapes(server: Server, target: str) -> None:
    """A percent sign without two hexadecimal digits is an error."""
    assert fetch(server, target).status == 400


@pytest.mark.parametrize(
    "target", ["/%00", "/t/digits.txt%00", "/%00index.html", "/t%00/digits.txt"]
)
def test_nul_in_path(server: Server, target: str) -> None:
    """A path with a NUL is an error."""
    assert fetch(server, target).status == 400


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("inside.txt", 200),
        ("inside-folder/page.html", 200),
        ("inside-folder/", 200),
        ("outside.txt", 404),
        ("outside-absolute.txt", 404),
        ("outside-folder/secret.txt", 404),
        ("outside-folder/public/index.html", 404),
        ("outside-folder", 404),
        ("outside-folder/", 404),
        ("outside-slash/etc/passwd", 404),
        ("beside/secret.txt", 404),
        ("dangling.txt", 404),
        ("loop", 404),
    ],
)
def test_symbolic_links(server: Server, name: str, status: int) -> None:
    """Links to targets inside public/ are followed, links that lead outside are 404."""
    response = fetch(server, f"/t/links/{name}")
    assert response.status == status
    assert SECRET not in response.body


@pytest.mark.parametrize("name", ["fifo", "fifo.html", "fifo-index/", "folder-index/", "socket"])
def test_not_files(server: Server, name: str) -> None:
    """Only regular files are served, and the server waits for no other kind."""
    assert fetch(server, f"/t/odd/{name}").status == 404
    assert fetch(server, "/t/digits.txt").status == 200


def test_one_byte_targets(server: Server) -> None:
    """Each byte as a path gets a response, and none of them is one of our files."""
    for byte in range(256):
        if byte in b"\r\n":
            continue
        raw = b"GET /" + bytes([byte]) + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        # "/." is "/", "?" begins a query, "//" may be treated as "/" or not, "/t" is a folder
        expected = {b".": (200,), b"?": (200,), b"/": (200, 301, 404), b"t": (301,)}.get(
            bytes([byte]), (400, 404)
        )
        assert send(server, raw).status in expected, bytes([byte])
        if byte != ord("?"):
            assert fetch(server, f"/%{byte:02x}").status in expected, f"%{byte:02x}"
    assert fetch(server, "/%3f").status == 404


@pytest.mark.of_servers("preforking", "epoll")
def test_public_is_replaced(start: Start, site: Path, tmp_path: Path) -> None:
    """A switched link takes effect after a restart; a replaced file takes effect at once (0.3
    s)."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name.txt").write_text(name)
    for name in ("templates", "redirects"):
        (tmp_path / name).symlink_to(site / name)
    (tmp_path / "public").symlink_to("old")
    server = start(root=tmp_path)
    (tmp_path / "switched").symlink_to("new")
    (tmp_path / "switched").rename(tmp_path / "public")
    assert fetch(server, "/name.txt").body == b"old"
    (tmp_path / "old/replaced.txt").write_text("replaced")
    (tmp_path / "old/replaced.txt").rename(tmp_path / "old/name.txt")
    assert fetch(server, "/name.txt").body == b"replaced"
    assert server.stop(signal.SIGHUP) == 0
    assert fetch(start(root=tmp_path), "/name.txt").body == b"new"
