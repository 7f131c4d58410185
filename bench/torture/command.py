# SPDX-License-Identifier: MIT
"""The command `zerohttpd torture`: all configurations, and their results."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import redis

from bench.host.signals import SignalWatch
from bench.readers.console import console
from bench.records import torture as record
from bench.records.errors import Interrupted, UserError
from bench.records.store import make_folder
from bench.records.torture import Record
from bench.report.page.build import build_torture
from bench.torture import line
from bench.torture.beginning import empty_record, ground
from bench.torture.options import TortureOptions, parse
from bench.torture.scene import Ground
from bench.torture.turns import attack_all, summary


def run(words: Sequence[str]) -> int:
    """Run the test. Exit status: 0 all promises kept, 1 one broken, 128 + n after signal n. Raises
    UserError, and Interrupted before the first configuration."""
    options = parse(words)
    line.enter_own_network(["-m", "bench", "torture", *words])
    with SignalWatch() as watch:
        try:
            with ground(watch) as where:
                return attack(options, where)
        except redis.RedisError as error:
            raise UserError(f"the private Redis is lost: {error}") from error


def attack(options: TortureOptions, where: Ground) -> int:
    """Measure all configurations and return the exit status; results are saved even after an error.
    Raises UserError, and redis.RedisError if the private Redis is lost."""
    begun, status = time.monotonic(), 0
    made = empty_record(options, where)
    folder = make_folder(options.results, made.started, "torture-")
    try:
        attack_all(options, where, made, folder, begun)
    except Interrupted as interrupted:
        status = interrupted.exit_status
    finally:
        if made.state == "running":
            made.state = "interrupted"
        made.seconds = round(time.monotonic() - begun, 1)
        keep(made, folder, options.markdown)
    out = console()
    out.print(summary(made))
    out.print(f"Kept in {folder}", soft_wrap=True, markup=False)
    return status or int(bool(made.broken()))


def keep(made: Record, folder: Path, beside: Path | None) -> None:
    """Save the record, the page and the table. Raises UserError."""
    record.save(made, folder)
    _, table = build_torture(folder)
    if beside:
        shutil.copyfile(table, beside)
