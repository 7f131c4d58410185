# SPDX-License-Identifier: MIT
"""The commands at the end of the opening comments run, and show what the comments say."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import NamedTuple

import pytest

from bench.host.project import ROOT
from bench.timeline.record import Refused, require_tracing
from tests.e2e.tracing import skip_unless_traceable

from .exercises import run

SMALL = "curl -s -o /dev/null localhost:8000/files/small.txt"
LEAVES = "curl -0 -s -o /dev/null localhost:8000; sleep 0.3"
WAIT = "until (: <> /dev/tcp/localhost/8000) 2> /dev/null; do sleep 0.1; done; sleep 0.3"
"""Connections closed at once are no clients: they never send a byte."""


class Recipe(NamedTuple):
    """What to do before and after the copied line, and what its output must show."""

    options: str
    """The options of the server, unless the line itself starts it."""
    clients: str
    """The actions while it runs."""
    seen: tuple[str, ...]
    """Regular expressions for lines that must follow each other in the output."""
    told: str
    """The sentence of the comment."""


def half(count: int) -> str:
    """Open so many clients that have sent half a request."""
    return (
        f"for i in $(seq {count}); do exec {{client}}<> /dev/tcp/localhost/8000; "
        "printf 'GET /' >&$client; done; sleep 0.5"
    )


def in_order(lines: list[str], patterns: tuple[str, ...]) -> str:
    """Return the first pattern without a line after those of the patterns before; empty if all
    match."""
    rest = iter(lines)
    return next((one for one in patterns if not any(re.search(one, line) for line in rest)), "")


SERVED = (
    *(r"accept4\(.* = 7$", r"recvfrom\(7, \"GET", r"send(msg|to)\(7,"),
    *(r"shutdown\(7,", r"close\(7\)"),
)
CHILD = (r"clone\(", r"exit_group\(0\)", r"wait4\(-1, .* = \d\d*")
RECIPES = {
    "01_iterative": Recipe(
        "",
        f"{SMALL}; {SMALL}",
        SERVED + SERVED,
        "accept4, recvfrom, sendmsg or sendto, shutdown, close, and only then the next client.",
    ),
    "02_forking": Recipe(
        "",
        f"{SMALL}; sleep 0.3; {SMALL}",
        CHILD + CHILD,
        "clone in the parent, exit_group in the child, wait4 in the parent",
    ),
    "03_preforking": Recipe(
        "",
        "",
        (r"LISTEN.*(\"preforking\",pid=\d+,fd=\d+\),?\(?){101}\)",),
        "one listening socket, and 101 processes that have it.",
    ),
    "04_threading": Recipe(
        "",
        half(1),
        (r"recv", r"blocking_serve", r"accept4"),  # the newest thread comes first
        "the main thread sleeps in accept4, the client's in recv, and below that on its stack is "
        "blocking_serve.",
    ),
    "05_prethreading": Recipe(
        "--workers 2",
        half(5),
        (r"^\$1 = 3$",),
        "with --workers 2 and five clients that have sent half a request: 3.",
    ),
    "06_poll": Recipe(
        "",
        half(3),
        (r"poll\(\[({fd=\d+, events=POLLIN}(, )?){4}\], 4, ",),
        "each call, which is ppoll on ARM, is handed all of them.",
    ),
    "07_epoll": Recipe(
        "",
        f"{LEAVES}; printf '\\nstays\\n' >&2; {SMALL}",
        (r"^stays$", r"epoll_ctl\(\d+, EPOLL_CTL_ADD, "),
        "no epoll_ctl for `curl -0 localhost:8000`, which asks at once and leaves; EPOLL_CTL_ADD "
        "for a client that stays.",
    ),
    "08_io_uring": Recipe(
        "",
        LEAVES,
        tuple([r"io_uring_enter\(\d+, 1, 1, IORING_ENTER_GETEVENTS.* = 1$"] * 4),
        "for one client each call submits one operation: accept, receive, send.",
    ),
    "09_multicore": Recipe(
        "",
        LEAVES,
        (
            *[r"epoll_ctl\(\d+, EPOLL_CTL_ADD, 3, {events=EPOLLIN\|EPOLLEXCLUSIVE"] * 2,
            r"accept4\(3",
        ),
        "each worker adds the listening socket to its own set, EPOLL_CTL_ADD with EPOLLEXCLUSIVE; "
        "for one client only one of them returns from epoll_wait.",
    ),
    "10_coroutines": Recipe(
        "",
        "(for i in $(seq 20); do sleep 1; exec {client}<> /dev/tcp/localhost/8000; "
        "printf 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&$client; done) &",  # and it stays
        (r"__wrap_recv", r"blocking_serve", r"begin \(\)"),
        "The list goes from the switch through recv() and blocking_serve(), as in 04, to begin(), "
        "where its own stack ends.",
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
    said = run(script)
    missing = in_order(said.splitlines(), recipe.seen)
    assert not missing, f"{missing}\n{said[-6000:]}"
    if folder == "07_epoll":  # there is one before: of the listening socket
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
