# SPDX-License-Identifier: MIT
"""Grade untrusted input: a malicious program, a folder without a server, no folder at all."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bench.grade.faults import FAULTS
from bench.grade.fence import version
from bench.grade.show import stage_text
from bench.grade.stage import OVER, CheckOutcome, Failed, FaultFound, Grade, StageOutcome
from bench.grade.stages import STAGES
from bench.grade.trying import World
from bench.host.project import ROOT

HARM = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>

extern char **environ;

int main(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(@PORT@)};
    int variables = 0, children = 0;

    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int net = connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to,
                      sizeof to);
    FILE *file = fopen("@FILE@", "a");
    FILE *other = fopen("@FILE@", "r");
    FILE *new = fopen("@FILE@.new", "w");
    while (environ[variables] != NULL)
        variables++;
    for (int i = 0; i < 3000; i++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                pause();
        children += child > 0;
    }
    fprintf(stderr, "user %d net %d file %d read %d new %d variables %d children %d\n",
            (int)getuid(), net, file != NULL, other != NULL, new != NULL, variables, children);
    return 1;
}
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "grade", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_a_program_that_means_harm_does_none(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine\n")
    tmp_path.chmod(0o777)  # the other user may write to the folders above, as to /tmp
    (tmp_path / "08_harm").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        text = HARM.replace("@PORT@", str(port)).replace("@FILE@", str(tmp_path / "mine.txt"))
        (tmp_path / "08_harm" / "main.c").write_text(text)
        done = run(str(tmp_path / "08_harm"), "--json", "--only", "serves")
    assert done.returncode == 0, done.stderr
    found = Grade.model_validate_json(done.stdout)
    assert found.faults == ["never-serves"]
    finding = found.stages[1].checks[0].finding
    assert finding is not None
    said = re.search(
        r"user (\d+) net (-?\d) file (\d) read (\d) new (\d) variables (\d+) children (\d+)",
        finding.seen,
    )
    assert said is not None, finding.seen
    user, net, file, read, new, variables, children = map(int, said.groups())
    alone = not any("NO network" in words for words in found.isolation)
    assert net == (-1 if alone else 0), said[0]
    assert (file, variables) == (0, 2), said[0]  # PATH and LC_ALL
    if version():  # otherwise nothing confines it, and the grade says so
        assert (read, new) == (0, 0), said[0]
        assert "none to write" in " ".join(found.isolation)
    assert user not in (0, os.getuid())
    assert 0 < children < 512
    left = [one for one in psutil.process_iter(["uids", "status"]) if _is_alive(one, user)]
    assert left == []


def _is_alive(process: psutil.Process, user: int) -> bool:
    uids, status = process.info["uids"], process.info["status"]
    return uids is not None and uids.real == user and status != psutil.STATUS_ZOMBIE


SAYS = r"""
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

int main(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    char room[9000] = "", end[] = "\r\n\r\n";

    bind(listener, (struct sockaddr *)&a, sizeof a);
    listen(listener, 9);
    getsockname(listener, (struct sockaddr *)&a, &length);
    int port = ntohs(a.sin_port);
    (void)port;
    memset(room, '9', 5000);
    printf(@SAID@);
    fflush(stdout);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0 || recv(client, room + 5000, 4000, 0) < 0)
            continue;
        room[5000] = 0;
        @DONE@;
        dprintf(client, "%s", end);
        close(client);
    }
}
"""
HERE = '"url           http://127.0.0.1:%d/\\n@MORE@", port'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "done"),
    [
        ('"url           http://127.0.0.1:99999/\\n"', ""),
        ('"url           http://[::1/\\n"', ""),
        ('"url           http://a%cb/\\n", 0', ""),
        (HERE.replace("@MORE@", "requests      1\\ncpu           user 1.2.3 s\\n"), ""),
        (HERE.replace("@MORE@", "requests      \\u00b2\\nworker 1      x\\n"), ""),
        (
            HERE.replace("@MORE@", ""),
            'dprintf(client, "HTTP/1.1 200 OK\\r\\nContent-Length: \\xb2")',
        ),
        (
            HERE.replace("@MORE@", ""),
            'dprintf(client, "HTTP/1.1 200\\r\\nContent-Length: %s", room)',
        ),
        (HERE.replace("@MORE@", ""), 'dprintf(client, "HTTP/1.1 %s", room)'),
        (HERE.replace("@MORE@", ""), "kill(getpid(), 40)"),
    ],
)
def test_whatever_it_says_it_is_graded(tmp_path: Path, said: str, done: str) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "08_says").mkdir()
    text = SAYS.replace("@SAID@", said).replace("@DONE@", done)
    (tmp_path / "08_says" / "main.c").write_text(text)
    graded = run(str(tmp_path / "08_says"), "--json", "--only", "serves")
    assert graded.returncode == 0, graded.stderr
    found = Grade.model_validate_json(graded.stdout)
    assert found.points == 3, graded.stdout
    assert found.faults[0] in ("never-serves", "no-answer", "crash", "wrong-length")


SLOWLY = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    static char lines[1 << 20];
    memset(lines, '\n', sizeof lines);
    for (int i = 0; i < 100; i++)
        if (write(STDOUT_FILENO, lines, sizeof lines) < 0)
            return 1;
    pause();
}
"""
MANY_TOKENS = "".join(f"#define T{n + 1} {f'T{n} ' * 10}\n" for n in range(9)) + "T9\n"


@pytest.mark.slow
@pytest.mark.parametrize("source", [SLOWLY, "#define T0 ;\n" + MANY_TOKENS], ids=["says", "tokens"])
def test_what_never_ends_has_its_grade_within_a_minute(tmp_path: Path, source: str) -> None:
    """A program that prints 100 MB, and a source that becomes 10^9 tokens, are graded within a
    minute."""
    tmp_path.chmod(0o755)
    (tmp_path / "08_slow").mkdir()
    (tmp_path / "08_slow" / "main.c").write_text(source)
    found = Grade.model_validate_json(run(str(tmp_path / "08_slow"), "--json").stdout)
    assert found.seconds < 50
    assert found.faults in (["never-serves"], ["does-not-compile"])


def test_what_fails_when_the_time_is_over_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure after the time limit is not reported, because the grader itself ended the
    server."""

    def fails(*_: object) -> None:
        raise Failed(FAULTS["no-answer"], "nothing came")

    monkeypatch.setattr(World, "_once", fails)
    seconds = iter((10.0, 0.0))
    world = World(SimpleNamespace(left=lambda: next(seconds)), seed=1, can_trace=False)  # type: ignore[arg-type]
    outcome = world.check(STAGES[0], STAGES[0].checks[0])
    assert (outcome.came, outcome.note, outcome.finding) == ("not tried", OVER, None)


def test_who_is_killed_for_a_call_before_it_listens(tmp_path: Path) -> None:
    """A server killed for an unlisted call before it listens is reported as such. The first thread
    of this one makes such a call before it is ready."""
    tmp_path.chmod(0o755)
    (tmp_path / "08_early").mkdir()
    main = "#include <signal.h>\nint main(void) {\n    return raise(SIGSYS);\n}\n"
    (tmp_path / "08_early" / "main.c").write_text(main)
    graded = run(str(tmp_path / "08_early"), "--json", "--only", "serves")
    assert Grade.model_validate_json(graded.stdout).faults == ["unlisted-call"]


ASKS_REDIS = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

int main(int count, char **words) {
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], "redis://", 8) != 0)
            continue;
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        to.sin_port = htons((unsigned short)atoi(strrchr(words[i], ':') + 1));
        const char *asked[] = {@ASKED@};
        for (size_t k = 0; k < sizeof asked / sizeof *asked; k++) {
            int redis = socket(AF_INET, SOCK_STREAM, 0);
            char reply[200] = "";
            if (connect(redis, (struct sockaddr *)&to, sizeof to) == 0 &&
                dprintf(redis, "%s\r\n", asked[k]) > 0 && read(redis, reply, 199) >= 0)
                fprintf(stderr, "%zu:%.7s;", k, strtok(reply, "\r"));
        }
    }
    return 1;
}
"""
REPLIES = {
    "CONFIG SET dir /": "-NOPERM",
    "SHUTDOWN NOSAVE": "-NOPERM",
    "REPLICAOF 127.0.0.1 1": "-NOPERM",
    "EVAL 'while true do end' 0": "-NOPERM",
    "GET visitor_count": "$7",
    "LPUSH mine x": ":1",
}


def test_its_redis_is_for_data_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "08_asks").mkdir()
    asked = ", ".join(f'"{command}"' for command in REPLIES)
    (tmp_path / "08_asks" / "main.c").write_text(ASKS_REDIS.replace("@ASKED@", asked))
    done = run(str(tmp_path / "08_asks"), "--json", "--only", "serves")
    assert done.returncode == 0, done.stderr
    finding = Grade.model_validate_json(done.stdout).stages[1].checks[0].finding
    assert finding is not None
    said = "".join(f"{number}:{reply};" for number, reply in enumerate(REPLIES.values()))
    assert said in finding.seen


def test_what_does_not_compile_is_shown_as_the_compiler_shows_it(tmp_path: Path) -> None:
    (tmp_path / "08_broken").mkdir()
    (tmp_path / "08_broken" / "main.c").write_text("int main(void) { return 0 }\n")
    tmp_path.chmod(0o755)
    found = json.loads(run(str(tmp_path / "08_broken"), "--json").stdout)
    assert (found["points"], found["faults"]) == (0, ["does-not-compile"])
    assert "expected" in found["stages"][0]["checks"][0]["finding"]["seen"]


def test_what_does_not_link_is_told_by_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "08_broken").mkdir()
    (tmp_path / "08_broken" / "main.c").write_text("int error_of_mine;\n")
    tmp_path.chmod(0o755)
    found = json.loads(run(str(tmp_path / "08_broken"), "--json").stdout)
    assert "reference to `main'" in found["stages"][0]["checks"][0]["finding"]["seen"]


def test_what_a_source_says_does_not_paint_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "08_broken").mkdir()
    text = "#error \x1b[2J\x1b[8m100 of 100 points\r" + "a" * 100_000 + "\n"
    (tmp_path / "08_broken" / "main.c").write_text(text)
    tmp_path.chmod(0o755)
    done = run(str(tmp_path / "08_broken"))
    assert "100 of 100 points" in done.stdout
    assert all(letter.isprintable() or letter == "\n" for letter in done.stdout)
    assert len(done.stdout) < 10_000


@pytest.mark.parametrize("name", ["09_nobody", "lib"])
def test_what_is_no_server_is_refused(name: str) -> None:
    done = run(name)
    assert done.returncode == 2
    assert "main.c" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("what", ["folder", "main.c", "tests.toml", "pipe", "deep"])
def test_what_leads_elsewhere_or_never_ends_is_refused(tmp_path: Path, what: str) -> None:
    other, folder = tmp_path / "other" / "08_other", tmp_path / "08_link"
    for place in (other, folder):
        place.mkdir(parents=True)
        (place / "main.c").write_text("int main(void) { return 0; }\n")
    if what == "folder":
        (folder / "main.c").unlink()
        folder.rmdir()
        folder.symlink_to(other)
    elif what == "pipe":
        os.mkfifo(folder / "tests.toml")
    elif what == "deep":
        (folder / "tests.toml").write_text("a = " + "[" * 100_000)
    else:
        (folder / what).unlink(missing_ok=True)
        (folder / what).symlink_to(other / "main.c")
    done = run(str(folder))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "08_link" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_same_seed_asks_the_same(tmp_path: Path) -> None:
    asked = []
    (tmp_path / "08_empty").mkdir()
    tmp_path.chmod(0o755)
    (tmp_path / "08_empty" / "main.c").write_text((ROOT / "course/own/main.c").read_text())
    for seed in ("5", "5", "6"):
        words = ("--json", "--seed", seed, "--only", "serves")
        found = json.loads(run(str(tmp_path / "08_empty"), *words).stdout)
        proof = found["stages"][1]["checks"][0]["finding"]
        assert proof["fault"] == "fixed-answer"
        asked.append((found["seed"], found["points"]))
    assert asked[0] == asked[1] == (5, 3)
    assert asked[2] == (6, 3)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_to_be_read_is_there(fault: object) -> None:
    read = str(fault.read)
    for name in re.findall(r"(?:lib|ops|course|docs|0\d_\w+)/[\w./-]+\w", read):
        assert (ROOT / name).is_file(), name
    for word, file in re.findall(r"`(\w+)` in ((?:lib|ops|0\d_)[\w./-]+\w)", read):
        assert word in (ROOT / file).read_text(), f"{file} has no {word}"


def test_a_fault_is_explained_once() -> None:
    fault = FAULTS["no-redis"]
    finding = FaultFound(
        fault=fault.name, title=fault.title, meaning=fault.meaning, read=fault.read, seen="a 503"
    )
    check = CheckOutcome(check="down", points=0, of=4, came="failed", finding=finding)
    explained: set[str] = set()
    stage = StageOutcome(stage="redis", title="Redis", checks=[check])
    first, second = (stage_text(stage, explained) for _ in range(2))
    assert "Read: " in first
    assert "Read: " not in second
    assert second.count("Seen: a 503.") == second.count("Explained above") == 1
    assert first.startswith("\n  0 of 4   Redis\n")
    assert "\n\n         >>> " in first
