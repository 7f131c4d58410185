# SPDX-License-Identifier: MIT
"""Data races: the same program, built with the thread sanitizer, under load."""

import re
import signal
import subprocess
from contextlib import ExitStack
from dataclasses import replace

from bench.grade.building import COMPILE_SECONDS, NotBuilt
from bench.grade.check import Stage, Trial
from bench.grade.faults import CRASH, DATA_RACE, NOT_SANITIZED, SANITIZER_ERROR
from bench.grade.proof import COMPILER, SANITIZER, mistake, shortened
from bench.grade.sandbox import Limits
from bench.grade.scene import Scene
from bench.grade.stage import Failed, NotHere
from bench.grade.stages.holding import hold
from bench.load.client import request

RACERS, ROUNDS = 8, 6
RACE_SECONDS = 8.0
_SUMMARY = re.compile(
    r"^SUMMARY: ThreadSanitizer: (data race|heap-use-after-free|unlock of|double lock|destroy of"
    r"|lock-order-inversion|read lock|use of an invalid mutex)(?:.*/| )(\S+) in (\w+)",
    re.MULTILINE,
)


def races(scene: Scene) -> str | None:
    """Where it has threads: the same program, built with the thread sanitizer, under load."""
    scene.start()
    with ExitStack() as stack:
        hold(scene, stack, 3)
        threads = scene.tasks() > len(scene.pids())
    scene.stop()
    if not threads:
        return "no threads: nothing to race for"
    assert scene.built is not None
    try:
        server, _ = scene.built.make(
            "tsan",
            ("CFLAGS=-O1 -g -fno-omit-frame-pointer -DSANITIZED -fsanitize=thread",),
            min(COMPILE_SECONDS, scene.left()),
        )
    except NotBuilt as error:
        if not compiler_has_it():
            raise NotHere("the compiler here has no thread sanitizer") from error
        lines = str(error).splitlines()
        raise Failed(
            NOT_SANITIZED,
            f"built with -fsanitize=thread: {mistake(lines)}",
            proof=shortened(lines),
            proof_kind=COMPILER,
        ) from error
    slow = replace(
        scene,
        server=server,
        running=None,
        ended=None,
        limits=Limits(address_space=None),
        patience=3 * scene.patience,
    )
    with slow.guarded():
        slow.start()
        try:
            slow.together([lambda: _race(slow)] * RACERS)
            slow.end_by_itself(RACE_SECONDS)
        except Failed:
            slow.end_by_itself(1)
        said = slow.said()
    slow.stop()
    found = _SUMMARY.search(said)
    if found:
        raise Failed(
            DATA_RACE if found[1] == "data race" else SANITIZER_ERROR,
            f"the thread sanitizer reported: {found[0].partition(': ThreadSanitizer: ')[2]}"[:200],
            proof=_pieces(said),
            proof_kind=SANITIZER,
        )
    # Where it had to be killed, it did not end in time: that is judged elsewhere.
    if slow.ended is not None and slow.ended.status not in (0, 66, -signal.SIGKILL):
        raise Failed(CRASH, f"with the thread sanitizer it {slow.ended.describe()}")
    return None


def compiler_has_it() -> bool:
    """Whether a program can be built with the thread sanitizer, whatever the program."""
    command = ["gcc", "-fsanitize=thread", "-xc", "-", "-o", "/dev/null"]
    done = subprocess.run(
        command, input="int main(void) { return 0; }", text=True, capture_output=True
    )
    return done.returncode == 0


def _race(scene: Scene) -> None:
    paths = [*scene.site.small, "/guestbook"]
    for number in range(ROUNDS):
        with scene.client() as client:
            scene.talk(client, request("GET", paths[number % len(paths)]))


def _pieces(said: str) -> list[str]:
    """What the sanitizer says of its first find: the two sides, and the lines of ours."""
    _, _, report = said.partition("WARNING: ThreadSanitizer: ")
    wanted = re.compile(r"(Write|Read|Previous|Location|Mutex).* |#\d+ .*/(?:\d\d_|lib/)")
    lines = [line.strip() for line in report.partition("SUMMARY")[0].splitlines()]
    return [re.sub(r"(#\d+ \w+) .*/((?:\d\d_|lib/)\S+).*", r"\1 \2", one)
            for one in lines if wanted.search(one)][:8]  # fmt: skip


RACES = Stage(
    "races",
    "Threads do not race",
    (Trial("threads do not race", 5, races, starts_server=False, seconds=6, also_closed=True),),
)
