"""What a sweep was asked for, and how that is kept so that it can be resumed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.records.conditions import Conditions
from bench.records.errors import UserError
from bench.records.plan import Plan
from bench.records.results import Results
from bench.services.redis_server import without_password
from bench.subjects.subject import Subject


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    plan: Plan = field(default_factory=Plan)
    subjects: tuple[str, ...] | None = None
    """By name; None: the project's servers."""
    floors: bool = False
    """And the floors of the servers among them."""
    redis: str | None = None
    results: Path = Path("results")
    hosts: Path | None = None
    """The file that names the hosts; None: everything on this machine."""
    command: tuple[str, ...] = ()
    """The command line that asked for it."""


def can_serve(subject: Subject, conditions: Conditions) -> bool:
    """Whether a subject can be measured under some conditions."""
    return subject.can(conditions.workload, conditions.server_keeps, conditions.idle)


def kept(options: Options) -> dict[str, Any]:
    """The options in the form in which `options_of` reads them."""
    redis = without_password(options.redis) if options.redis else None
    hosts = str(options.hosts.resolve()) if options.hosts else None
    return {
        "plan": asdict(options.plan),
        "floors": options.floors,
        "redis": redis,
        "hosts": hosts,
    }


def options_of(old: Results, parent: Path, redis: str | None) -> Options:
    """The options of a sweep from its results. Raises UserError for those of older versions."""
    stored = old.settings.get("options")
    if not stored:
        raise UserError("this sweep was made by an older version, which could not be resumed")
    plan = {k: tuple(v) if isinstance(v, list) else v for k, v in stored["plan"].items()}
    names = tuple(old.servers)
    if redis is None and stored["redis"] and "***" in stored["redis"]:
        raise UserError("give --redis again: the password was not kept")
    hosts = Path(stored["hosts"]) if stored.get("hosts") else None
    return Options(Plan(**plan), names, False, redis or stored["redis"], parent, hosts)


def hide_password(words: Sequence[str]) -> list[str]:
    """A command line without the password in the URL of a Redis."""
    return [without_password(word.removeprefix("--redis=")) for word in words]
