# SPDX-License-Identifier: MIT
"""The command line: options, the banner, and error messages."""

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from bench.host.project import toml_of

from ..client import CLOSE, request
from ..conftest import SECOND_STOREY
from ..harness import REPOSITORY, Server, Start, architecture, run_to_end
from ..markup import remarks
from ..redisbox import PrivateRedis
from ..sockets import can_listen, free_port
from ..timing import TIMEOUT


def _fails(binary: Path, *arguments: str) -> str:
    """Run a server with wrong arguments; return the line that it prints."""
    status, out, err = run_to_end(binary, *arguments)
    assert status == 1, err
    assert out == ""
    assert err.startswith(f"{binary.name}: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    assert len(err) > len(binary.name) + 15, f"the message is too short: {err}"
    return err


def test_banner(server: Server) -> None:
    """The banner shows the server and its URL, in aligned lines. By default there is no log."""
    for path in ("/t/digits.txt", "/t/none"):
        server.get(path)
    time.sleep(0.1)
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


def test_help_and_version(binary: Path) -> None:
    """--help names all options. --version prints one line, with the project's version."""
    status, out, err = run_to_end(binary, "--help")
    assert (status, err) == (0, "")
    assert run_to_end(binary, "-h") == (status, out, err)
    names = "port address redis workers root backlog log user no-confinement print-syscalls version"
    for name in names.split():
        assert f"--{name}" in out
    version = toml_of(REPOSITORY / "pyproject.toml")["project"]["version"]
    told = f"{binary.name} (ZeroHTTPd Seven) {version}\n"
    assert run_to_end(binary, "--version") == (0, told, "")


WRONG = """
--unknown | --port | --port http | --port -1 | --port 65536 | --port 80a | --port=
--port 99999999999999999999 | --workers 0 | --workers -5 | --workers many | --backlog 0
--backlog x | --help=yes | --address 999.1.1.1 | --address nowhere.invalid | --redis=
--redis redis://no-such-host.invalid | --redis http://127.0.0.1:6379
--redis redis://127.0.0.1:port | --redis redis://127.0.0.1:6379/db
--redis redis://127.0.0.1:70000 | --redis redis://127.0.0.1:0
--redis redis://word@127.0.0.1:6379 | eighty | 0 127.0.0.1 many | -x | -xl | -lx
"""


@pytest.mark.shared_code
@pytest.mark.parametrize("words", re.split(r" \| |\n", WRONG.strip()))
def test_wrong_options(binary: Path, site: Path, words: str) -> None:
    """After a wrong option the server ends with one line. The line names the option, the unknown
    letter, or the wrong argument."""
    arguments = words.split(" ")
    port = () if "--port" in words or words[0] != "-" else ("--port", "0")
    line = _fails(binary, "--root", str(site), *port, *arguments)
    letter = f"'-{words.strip('-l')}' is not understood"
    about = arguments[0].strip("-").split("=")[0] if words[:2] == "--" else arguments[-1]
    assert (letter if re.fullmatch("-[xl]+", words) else about) in line


def test_an_option_of_one_server(binary: Path, arch: str) -> None:
    """A server whose workers cannot have a listener each rejects --listener-each."""
    if arch == "multicore" or architecture(arch).listener_each:
        pytest.skip("the workers of this server can have a listener each")
    assert _fails(binary, "--listener-each").startswith(f"{arch}: --listener-each ")


@pytest.mark.shared_code
def test_missing_parts(binary: Path, site: Path, tmp_path: Path) -> None:
    """The message names an occupied port, or a missing folder or template."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in _fails(binary, "--port", port, "--root", str(site))
    nowhere = str(tmp_path / "nowhere")
    assert nowhere in _fails(binary, "--port", "0", "--root", nowhere)
    assert "public" in _fails(binary, "--port", "0", "--root", str(tmp_path))
    shutil.copytree(site / "public" / "t" / "sub", tmp_path / "public")
    assert "templates" in _fails(binary, "--port", "0", "--root", str(tmp_path))
    (tmp_path / "templates" / "guestbook").mkdir(parents=True)
    assert "index.html" in _fails(binary, "--port", "0", "--root", str(tmp_path))


@pytest.fixture
def without_redirects(site: Path, tmp_path: Path) -> Path:
    """Return a site without the table of redirects."""
    for name in ("public/t/sub", "templates"):
        shutil.copytree(site / name, tmp_path / name.split("/")[0])
    return tmp_path


@pytest.mark.shared_code
def test_bad_redirects(binary: Path, without_redirects: Path) -> None:
    """The message about an error in the table of redirects names the line. A path that no request
    can match and an invalid target have their own messages."""
    first = ("/only-a-path", "/a /b 30x", "/a /b 304", "/a /b 300", "no-slash /b", "/a /b\0c 302")
    wrong = [(text, 1, "") for text in (*first, "/a /b\0\n", "/a /b 302 more")]
    wrong += [("# comment\n\n/a /b 200\n", 3, ""), ("/a /b\n/a /c\n", 2, "")]
    wrong += [("/a /b\n\n\n   # indented comment\n/c\n", 5, "")]
    wrong += [("/a?b=1 /c", 1, "query"), ("/a /grüße", 1, "%XX"), ("/%zz /b", 1, "bad %XX")]
    for text, line, why in wrong:
        (without_redirects / "redirects").write_text(text, encoding="utf-8")
        message = _fails(binary, "--port", "0", "--root", str(without_redirects))
        assert f"redirects:{line}: " in message, text
        assert why in message


@pytest.mark.shared_code
def test_redirects_are_optional(start: Start, without_redirects: Path) -> None:
    """The table of redirects is optional, and the last line needs no line end."""
    assert start(root=without_redirects).get("/old").status == 404
    table = without_redirects / "redirects"
    table.write_text("/new /\t# comment\n/old /page.html", encoding="utf-8")
    assert start(root=without_redirects).get("/old").field("Location") == "/page.html"


class _Short(Server):
    """A server that is started with positional arguments: PORT [REDIS_HOST]."""

    def command(self) -> list[str]:
        return [str(self.binary), *self.options, "--root", str(self.root)]


@pytest.mark.shared_code
def test_short_form(binary: Path, site: Path) -> None:
    port = str(free_port())
    hosts = {"": "127.0.0.1:6379", "localhost": "localhost:6379", "localhost:1": "localhost:1"}
    for host, redis in {**hosts, "::1": "[::1]:6379"}.items():
        with _Short(binary, site, "", (port, host) if host else (port,)) as server:
            assert server.url == f"http://127.0.0.1:{port}/"
            assert server.banner["redis"] == f"redis://{redis}/0"
            assert server.get("/t/digits.txt").status == 200


@pytest.mark.shared_code
@pytest.mark.parametrize(
    ("address", "host", "reached"),
    [
        ("127.0.0.1", "127.0.0.1", ("127.0.0.1",)),
        ("127.0.0.2", "127.0.0.2", ("127.0.0.2",)),
        ("::1", "[::1]", ("::1",)),
        ("localhost", None, ("localhost",)),
        ("0.0.0.0", None, ("127.0.0.1", "127.0.0.3")),
        ("::", None, ("::1",)),
    ],
)
def test_addresses(start: Start, address: str, host: str | None, reached: tuple[str, ...]) -> None:
    """IPv4 and IPv6 addresses and host names are accepted. With a wildcard address the
    server listens on all addresses, and its printed URL can be opened."""
    if reached[0] != "localhost" and not can_listen(reached[0]):
        pytest.skip(f"this machine has no {reached[0]}")
    server = start("--address", address)
    assert host is None or server.url == f"http://{host}:{server.port}/"
    for local in reached:
        with socket.create_connection((local, server.port), TIMEOUT) as connection:
            connection.sendall(request("GET", "/t/digits.txt", CLOSE))
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
    assert server.get("/t/digits.txt").status == 200


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
    """If this machine does not have a host name's first address, the server tries the next one."""
    prefix = ("unshare", "-m", "-n", "sh", "-c", NAMESAKE, str(tmp_path / "hosts"))
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("no new namespace, or no IPv6 in it")
    with Server(binary, site, "redis://127.0.0.1:1", ("--address", "namesake"), prefix) as server:
        assert server.host == "127.0.0.1"


@pytest.mark.shared_code
def test_port_can_be_taken_again_at_once(start: Start) -> None:
    port = free_port()  # not ephemeral: another program might get such a port
    server = start("--port", str(port))
    # The server closes first, so the kernel keeps its port in TIME_WAIT.
    assert [r.status for r in server.send_to_end(request("GET", "/t/digits.txt", CLOSE))] == [200]
    server.finish()
    again = start("--port", str(port))
    assert again.port == port
    assert again.send(request("GET", "/t/digits.txt")).status == 200


@pytest.mark.shared_code
@pytest.mark.parametrize("url", ["unix:{path}", "redis://localhost:{port}/0"])
def test_redis_by_another_address(start: Start, own: PrivateRedis, url: str) -> None:
    """Redis is reached by a Unix socket, whose URL names no database, and by a host name."""
    server = start(redis=url.format(path=own.socket_path, port=own.port))
    assert server.sign("Ann", "here").status == 303
    assert own.client().remarks() == [b"here - Ann"]


@pytest.mark.shared_code
def test_redis_with_password_and_database(start: Start) -> None:
    """AUTH works with a user and without (the old form), and SELECT works. The password is never
    shown."""
    with PrivateRedis(
        "--requirepass", "word", "--user", "ann", ">s3cr:t/@", "on", "~*", "+@all"
    ) as own:

        def visited(user: str, database: int) -> tuple[Server, int, list[str]]:
            server = start(redis=f"redis://{user}127.0.0.1:{own.port}/{database}")
            response = server.get("/guestbook")
            return server, response.status, remarks(response.text)

        ann = "ann:s3cr%3At%2F%40@"
        server, *_ = visited(ann, 7)
        assert server.sign("Ann", "number seven").status == 303
        for output in (server.stdout, server.stderr, server.banner["redis"]):
            assert "s3cr" not in output
        assert visited(":word@", 7)[1:] == (200, ["number seven - Ann"])
        assert visited(":word@", 0)[1:] == (200, [])
        assert visited("", 0)[1:] == (502, [])
        assert visited(ann, 5000)[1:] == (503, [])
        wrong, *answer = visited("ann:wrong-word@", 7)
        assert answer == [503, []]
        assert wrong.get("/t/digits.txt").status == 200
        assert "wrong-word" not in wrong.stderr


def test_each_promise_of_the_second_storey_has_a_test() -> None:
    for place in SECOND_STOREY:
        file, _, name = place.partition("::")
        text = (REPOSITORY / "tests/e2e" / file).read_text()
        assert not name or f"def {name}(" in text, place
