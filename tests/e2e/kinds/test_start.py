# SPDX-License-Identifier: MIT
"""The command line: options, the banner, and error messages that say what to do."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from ..claims import CLOSE
from ..client import fetch, request, send, send_to_end, sign
from ..conftest import SECOND_STOREY, Start
from ..harness import REPOSITORY, Server, run_to_end
from ..redisbox import PrivateRedis
from ..sockets import can_listen, free_port
from ..timing import PATIENCE


def _fails(binary: Path, *arguments: str) -> str:
    """Run it with wrong arguments; return the one line it prints."""
    status, out, err = run_to_end(binary, *arguments)
    assert status == 1, err
    assert out == ""
    assert err.startswith(f"{binary.name}: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    assert len(err) > len(binary.name) + 15, f"the message is too short: {err}"
    return err


def test_banner(server: Server) -> None:
    """The banner shows the server and its URL, in aligned lines."""
    lines = server.stdout.splitlines()
    names = ["architecture", "pid", "workers", "url", "redis", "confined"]
    assert [line.split()[0] for line in lines] == names
    assert all(line[13] == " " and line[14] != " " for line in lines)
    assert server.banner["architecture"].startswith(f"{server.name}: ")
    assert server.banner["pid"] == str(server.pid)
    assert re.match(r"16\b" if server.kind.has_workers else r"\S", server.banner["workers"])
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.url)
    assert server.banner["redis"] == server.redis
    assert server.stderr == ""


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(binary: Path, option: str) -> None:
    """Help names all options and goes to standard output."""
    status, out, err = run_to_end(binary, option)
    if option == "-h" and status == 1:
        assert "--help" in err
        return
    assert (status, err) == (0, "")
    names = "port address redis workers root backlog log user no-confinement print-syscalls version"
    for name in names.split():
        assert f"--{name}" in out


def test_version(binary: Path) -> None:
    """The version is one line, and the project's."""
    version = re.search(
        r'^version = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert version
    status, out, err = run_to_end(binary, "--version")
    assert (status, out, err) == (0, f"{binary.name} (ZeroHTTPd Seven) {version[1]}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--unknown",),
        ("--port",),
        ("--port", "http"),
        ("--port", "-1"),
        ("--port", "65536"),
        ("--port", "80a"),
        ("--port", ""),
        ("--port", "99999999999999999999"),
        ("--workers", "0"),
        ("--workers", "-5"),
        ("--workers", "many"),
        ("--backlog", "0"),
        ("--backlog", "x"),
        ("--redis", "http://127.0.0.1:6379"),
        ("--redis", "redis://127.0.0.1:port"),
        ("--redis", "redis://127.0.0.1:6379/db"),
        ("--redis", "redis://127.0.0.1:70000"),
        ("--redis", "redis://127.0.0.1:0"),
        ("--redis", "redis://word@127.0.0.1:6379"),
        ("--redis", ""),
        ("--redis", "redis://no-such-host.invalid"),
        ("--address", "no such host"),
        ("--address", "999.1.1.1"),
        ("--help=yes",),
        ("eighty",),
        ("0", "127.0.0.1", "too many"),
    ],
)
def test_wrong_options(binary: Path, site: Path, arguments: tuple[str, ...]) -> None:
    """A wrong option ends the start with one line that names it."""
    port = () if "--port" in arguments or arguments[0][0] != "-" else ("--port", "0")
    line = _fails(binary, "--root", str(site), *port, *arguments)
    about = next(a for a in arguments if a.startswith("--") or a in ("eighty", "too many"))
    assert about.lstrip("-").split("=")[0] in line


@pytest.mark.parametrize("word", ["-x", "-xl", "-lx", "-version"])
def test_wrong_letter(binary: Path, word: str) -> None:
    """An unknown letter is named, not the word before it."""
    assert f"'-{word.strip('-l')[0]}' is not understood" in _fails(binary, "--port", "0", word)


def test_occupied_port(binary: Path, site: Path) -> None:
    """The message about an occupied port names the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in _fails(binary, "--port", port, "--root", str(site))


def test_missing_parts(binary: Path, site: Path, tmp_path: Path) -> None:
    """The message about a missing folder or template names it."""
    nowhere = str(tmp_path / "nowhere")
    assert nowhere in _fails(binary, "--port", "0", "--root", nowhere)
    assert "public" in _fails(binary, "--port", "0", "--root", str(tmp_path))
    shutil.copytree(site / "public" / "t" / "sub", tmp_path / "public")
    line = _fails(binary, "--port", "0", "--root", str(tmp_path))
    assert "templates" in line
    (tmp_path / "templates" / "guestbook").mkdir(parents=True)
    assert "index.html" in _fails(binary, "--port", "0", "--root", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("/only-a-path\n", 1),
        ("# comment\n\n/a /b 200\n", 3),
        ("/a /b\n/c /d 302 more\n", 2),
        ("/a /b 30x\n", 1),
        ("/a /b 304\n", 1),
        ("/a /b 300\n", 1),
        ("no-slash /b\n", 1),
        ("/a /b\n\n\n   # indented comment\n/c\n", 5),
        ("/a /b\n/a /c\n", 2),
        ("/a /b\0c 302\n", 1),
        ("/a /b\0\n", 1),
    ],
)
def test_bad_redirects(binary: Path, site: Path, tmp_path: Path, text: str, line: int) -> None:
    """An error in the table of redirects names its line."""
    for name in ("public/t/sub", "templates"):
        shutil.copytree(site / name, tmp_path / name.split("/")[0])
    (tmp_path / "redirects").write_text(text, encoding="utf-8")
    assert f"redirects:{line}: " in _fails(binary, "--port", "0", "--root", str(tmp_path))


@pytest.mark.parametrize(("text", "why"), [("/a?b=1 /c", "query"), ("/a /grüße", "%XX")])
def test_bad_redirects_say_why(
    binary: Path, site: Path, tmp_path: Path, text: str, why: str
) -> None:
    """A path that nothing matches, and a target that only looks right, each have their own
    message."""
    for name in ("public/t/sub", "templates"):
        shutil.copytree(site / name, tmp_path / name.split("/")[0])
    (tmp_path / "redirects").write_text(text, encoding="utf-8")
    assert why in _fails(binary, "--port", "0", "--root", str(tmp_path))


def test_redirects_are_optional(start: Start, site: Path, tmp_path: Path) -> None:
    """The table of redirects is optional, and its last line needs no line end."""
    for name in ("public/t/sub", "templates"):
        shutil.copytree(site / name, tmp_path / name.split("/")[0])
    server = start(root=tmp_path)
    assert fetch(server, "/old").status == 404
    (tmp_path / "redirects").write_text("/new /\t# comment\n/old /page.html", encoding="utf-8")
    server = start(root=tmp_path)
    assert fetch(server, "/old").field("Location") == "/page.html"


class _Short(Server):
    """A server started by the short form: PORT [REDIS_HOST]."""

    def command(self) -> list[str]:
        return [str(self.binary), *self.options, "--root", str(self.root)]


def test_short_form(binary: Path, site: Path) -> None:
    """The short form works: ./epoll [PORT [REDIS_HOST]]."""
    port = str(free_port())
    for words, redis in (((port,), "127.0.0.1"), ((port, "localhost"), "localhost")):
        with _Short(binary, site, "", words) as server:
            assert server.url == f"http://127.0.0.1:{port}/"
            assert server.banner["redis"] == f"redis://{redis}:6379/0"
            assert fetch(server, "/t/digits.txt").status == 200


def test_addresses(start: Start) -> None:
    """IPv4 and IPv6 addresses and host names are accepted."""
    hosts = {"127.0.0.1": "127.0.0.1", "127.0.0.2": "127.0.0.2", "::1": "[::1]"}
    for address, host in hosts.items():
        if not can_listen(address):
            continue
        server = start("--address", address)
        assert server.url == f"http://{host}:{server.port}/"
        assert fetch(server, "/t/digits.txt").status == 200
    server = start("--address", "localhost")
    with socket.create_connection(("localhost", server.port), PATIENCE) as connection:
        connection.sendall(request("GET", "/t/digits.txt", (("Connection", "close"),)))
        assert connection.recv(15) == b"HTTP/1.1 200 OK"


NAMESAKE = r"""
set -e
ip link set lo up
ip -6 addr add fd00::1/64 dev lo
printf '127.0.0.1 namesake\nfd00::2 namesake\n' > "$0"
mount --bind "$0" /etc/hosts
exec "$@"
"""


@pytest.mark.of_servers("epoll")
def test_second_address_of_a_name(binary: Path, site: Path, tmp_path: Path) -> None:
    """If the first address of a name is not of this machine, the next one is tried."""
    prefix = ("unshare", "-m", "-n", "sh", "-c", NAMESAKE, str(tmp_path / "hosts"))
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("no new namespace, or no IPv6 in it")
    with Server(binary, site, "redis://127.0.0.1:1", ("--address", "namesake"), prefix) as server:
        assert server.host == "127.0.0.1"


def test_all_addresses(start: Start) -> None:
    """The wildcard addresses listen everywhere, and the printed URL can be opened."""
    for address, locals_ in {"0.0.0.0": ("127.0.0.1", "127.0.0.3"), "::": ("::1",)}.items():
        if not can_listen(locals_[0]):
            continue
        server = start("--address", address)
        for local in locals_:
            with socket.create_connection((local, server.port), PATIENCE) as connection:
                connection.sendall(request("GET", "/t/digits.txt", (("Connection", "close"),)))
                assert connection.recv(15) == b"HTTP/1.1 200 OK"


def test_port_can_be_taken_again_at_once(start: Start) -> None:
    """A server can use the port of another server that has just stopped."""
    port = free_port()  # an ephemeral one might be used by another program meanwhile
    server = start("--port", str(port))
    # The server closes first, so the kernel keeps its port in TIME_WAIT.
    assert [r.status for r in send_to_end(server, request("GET", "/t/digits.txt", CLOSE))] == [200]
    server.finish()
    again = start("--port", str(port))
    assert again.port == port
    assert send(again, request("GET", "/t/digits.txt")).status == 200


def test_redis_by_unix_socket(start: Start, redis: PrivateRedis) -> None:
    """Redis is reached by a Unix socket; such a URL names no database, so it is number 0."""
    server = start(redis=f"unix:{redis.socket_path}")
    client = redis.client()
    client.do("FLUSHDB")
    assert sign(server, "Ann", "by socket").status == 303
    assert client.remarks() == [b"by socket - Ann"]
    client.close()


def test_redis_with_password_and_database(start: Start) -> None:
    """AUTH with a user and a password works, and SELECT from the path; the password is never
    shown."""
    rights = ("on", "~*", "+@all")
    acl = ("--user", "ann", ">s3cr:t/@", *rights, "--user", "default", "nopass", *rights)
    with PrivateRedis(*acl) as own:
        escaped = "s3cr%3At%2F%40"
        server = start(redis=f"redis://ann:{escaped}@127.0.0.1:{own.port}/7")
        assert sign(server, "Ann", "number seven").status == 303
        assert own.client(7).remarks() == [b"number seven - Ann"]
        for output in (server.stdout, server.stderr, server.banner["redis"]):
            assert "s3cr" not in output
        wrong = start(redis=f"redis://ann:wrong-word@127.0.0.1:{own.port}/7")
        assert fetch(wrong, "/guestbook").status == 503
        assert fetch(wrong, "/t/digits.txt").status == 200
        assert "wrong-word" not in wrong.stderr
        beyond = start(redis=f"redis://ann:{escaped}@127.0.0.1:{own.port}/5000")
        assert fetch(beyond, "/guestbook").status == 503


def test_redis_by_password_only(start: Start) -> None:
    """AUTH with a password and no user (the old form) works."""
    with PrivateRedis("--requirepass", "word") as own:
        server = start(redis=f"redis://:word@127.0.0.1:{own.port}/")
        assert fetch(server, "/guestbook").status == 200
        without = start(redis=own.url())
        assert fetch(without, "/guestbook").status == 502


def test_redis_by_host_name(start: Start, redis: PrivateRedis) -> None:
    """Redis is reached by a host name."""
    server = start(redis=f"redis://localhost:{redis.port}/200")
    assert fetch(server, "/guestbook").status == 200


@pytest.mark.of_servers("epoll")
def test_without_dev_null(start: Start) -> None:
    """A server works without /dev, as in some containers (0.2 s)."""
    without = 'mount -t tmpfs none /dev && exec "$0" "$@" <&- >&-'
    inside = ("unshare", "--mount", "sh", "-c")
    if subprocess.run([*inside, without, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    assert fetch(start("--log", prefix=(*inside, without)), "/t/digits.txt").status == 200


def test_each_promise_of_the_second_storey_has_a_test() -> None:
    """second_storey.toml names files and tests that exist."""
    for place in SECOND_STOREY:
        file, _, name = place.partition("::")
        text = (REPOSITORY / "tests/e2e" / file).read_text()
        assert not name or f"def {name}(" in text, place
