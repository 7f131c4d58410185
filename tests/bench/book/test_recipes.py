# SPDX-License-Identifier: MIT
"""The commands at the end of the opening comments run, and show what the comments say."""

import re
import shlex
import shutil
from typing import NamedTuple

import pytest

from bench.host.project import ROOT
from bench.timeline.record import Refused, require_tracing
from tests.e2e.tracing import skip_unless_traceable

from .exercises import run

ATTEMPTS = 3
"""On a busy machine the server may not have read yet what its clients have sent."""
SMALL = "curl -s -o /dev/null localhost:8000/files/small.txt"
LEAVES = "curl -0 -s -o /dev/null localhost:8000; sleep 0.3"
WAIT = "until (: <> /dev/tcp/localhost/8000) 2> /dev/null; do sleep 0.1; done; sleep 0.3"
"""Connections closed at once are no clients: they never send a byte."""


class Recipe(NamedTuple):
    """What to do before and after the copied line, and what its output must show."""

    told: str
    """The sentence of the comment."""
    seen: tuple[str, ...]
    """Regular expressions for lines that must follow each other in the output."""
    clients: str = ""
    """The actions while it runs."""
    options: str = ""
    """The options of the server, unless the line itself starts it."""


def half(count: int) -> str:
    """Open so many clients that have sent half a request."""
    return (
        f"for i in $(seq {count}); do exec {{client}}<> /dev/tcp/localhost/8000; "
        "printf 'GET /' >&$client; done; sleep 0.5"
    )


def in_order(lines: list[str], patterns: tuple[str, ...]) -> str:
    """Return the first pattern without a line after those before it; empty if all match."""
    rest = iter(lines)
    return next((one for one in patterns if not any(re.search(one, line) for line in rest)), "")


SERVED = (
    *(r"accept4\(.* = 7$", r"recvfrom\(7, \"GET", r"send(msg|to)\(7,"),
    *(r"shutdown\(7,", r"close\(7\)"),
)
CHILD = (r"clone\(", r"exit_group\(0\)", r"wait4\(-1, .* = \d\d*")
RECIPES = {
    "01_iterative": Recipe(
        "accept4, recvfrom, sendmsg or sendto, shutdown, close, and only then the next client.",
        SERVED + SERVED,
        f"{SMALL}; {SMALL}",
    ),
    "02_forking": Recipe(
        "clone in the parent, exit_group in the child, wait4 in the parent",
        CHILD + CHILD,
        f"{SMALL}; sleep 0.3; {SMALL}",
    ),
    "03_preforking": Recipe(
        "one listening socket, and 101 processes that have it.",
        (r"LISTEN.*(\"preforking\",pid=\d+,fd=\d+\),?\(?){101}\)",),
    ),
    "04_threading": Recipe(
        "the main thread sleeps in accept4, the client's in recv, and below that on its stack is "
        "blocking_serve.",
        (r"recv", r"blocking_serve", r"accept4"),  # the newest thread comes first
        half(1),
    ),
    "05_prethreading": Recipe(
        "with --workers 2 and five clients that have sent half a request: 3.",
        (r"^\$1 = 3$",),
        half(5),
        "--workers 2",
    ),
    "06_poll": Recipe(
        "each call, which is ppoll on ARM, is handed all of them.",
        (r"poll\(\[({fd=\d+, events=POLLIN}(, )?){4}\], 4, ",),
        half(3),
    ),
    "07_epoll": Recipe(
        "no epoll_ctl for `curl -0 localhost:8000`, which asks at once and leaves; EPOLL_CTL_ADD "
        "for a client that stays.",
        (r"^stays$", r"epoll_ctl\(\d+, EPOLL_CTL_ADD, "),
        f"{LEAVES}; printf '\\nstays\\n' >&2; {SMALL}",
    ),
    "08_io_uring": Recipe(
        "for one client each call submits one operation: accept, receive, send.",
        (r"io_uring_enter\(\d+, 1, 1, IORING_ENTER_GETEVENTS.* = 1$",) * 4,
        LEAVES,
    ),
    "09_multicore": Recipe(
        "each worker adds the listening socket to its own set, EPOLL_CTL_ADD with EPOLLEXCLUSIVE; "
        "for one client only one of them returns from epoll_wait.",
        (*[r"epoll_ctl\(\d+, EPOLL_CTL_ADD, 3, {events=EPOLLIN\|EPOLLEXCL"] * 2, r"accept4\(3"),
        LEAVES,
    ),
    "10_coroutines": Recipe(
        "The list goes from the switch through redis_pool_call() and blocking_serve(), as in 05, "
        "to begin(), where its own stack ends.",
        (r"redis_pool_call", r"blocking_serve", r"begin \(\)"),
        "(for i in $(seq 20); do sleep 1; exec {client}<> /dev/tcp/localhost/8000; "
        "printf 'GET /guestbook HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&$client; done) &",
    ),
}


def comment_of(file: str) -> str:
    """Return the opening comment of a server, on one line."""
    text = (ROOT / file).read_text()
    comment = text[text.index("/*\n") : text.index(" */\n", text.index("/*\n"))]
    return " ".join(re.sub(r"(?m)^ \*", "", comment).split())


def skip_unless_straced() -> None:
    """Skip if strace may not start what it traces, which most machines allow."""
    try:
        require_tracing(["strace"])
    except Refused as refused:
        pytest.skip(str(refused))


@pytest.mark.parametrize("folder", RECIPES)
def test_a_recipe_shows_what_it_says(folder: str) -> None:
    recipe, comment = RECIPES[folder], comment_of(f"{folder}/main.c")
    line = re.search(r"To see it: `([^`]+)`", comment)
    assert line is not None, f"{folder} ends without a command"
    assert recipe.told in comment
    tool, program = line[1].split()[0], folder.partition("_")[2]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    if tool == "gdb":  # it attaches; strace starts what it traces
        skip_unless_traceable()
    if tool == "strace":
        skip_unless_straced()
        script = f"{line[1]} & {WAIT}; {recipe.clients}; sleep 0.3; kill -9 $(pgrep -x {program})"
    else:
        start = f"./{shlex.quote(program)} {recipe.options} > /dev/null"
        script = f"{start} & {WAIT}; {recipe.clients}\n{line[1]}"
    for _ in range(ATTEMPTS):
        said = run(script)
        missing = in_order(said.splitlines(), recipe.seen)
        if not missing:
            break
    assert not missing, f"{missing}\n{said[-6000:]}"
    if folder == "07_epoll":  # the first one adds the listening socket
        assert said.partition("stays")[0].count("EPOLL_CTL_ADD") == 1, said


def test_the_first_server_lives_on_seven_system_calls() -> None:
    told = (
        "`strace build/floor/first 8000` shows each of them as it happens. (Before them come the "
        "calls that start any program, and two that only set something: setsockopt and, for "
        "signal(), rt_sigaction.)"
    )
    assert told in comment_of("floors/first.c")
    skip_unless_straced()
    said = run(
        f"strace build/floor/first 8000 & {WAIT}; "
        "answer=$(curl -s -i http://localhost:8000/); sleep 0.3; "
        'kill -9 $(pgrep -x first); wait; echo "$answer"'
    )
    life = (r"socket\(", r"bind\(", r"listen\(", r"accept\(", r"read\(4, \"GET", r"write\(.* = 90$")
    assert not in_order(said.splitlines(), (*life, r"close\(4\)")), said
    assert "Hello!" in said
    calls = set(re.findall(r"^(\w+)\(", said[said.index("socket(AF_INET") :], re.MULTILINE))
    set_up = {"setsockopt", "rt_sigaction"}
    assert calls - set_up == {"socket", "bind", "listen", "accept", "read", "write", "close"}


def test_each_server_ends_with_a_recipe() -> None:
    assert set(RECIPES) == {folder.name for folder in ROOT.glob("[0-9][0-9]_*")}
