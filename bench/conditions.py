"""What a cell is: a subject, the conditions it is measured under, a level. Pure."""

from typing import NamedTuple

from bench.measurement import Mode


class Conditions(NamedTuple):
    """What all cells of one chart have in common: everything but the subject and the level."""

    workload: str
    """By name: redirect, small, large, sorted, link, guestbook, sign; or a path."""
    keep_alive: bool = False
    idle: int = 0
    """Idle keep-alive connections held open beside the load."""
    redis_delay_ms: float = 0.0
    """By which each reply of Redis comes later."""
    mode: Mode = "closed"
    rate: float | None = None
    """Requests per second asked for in the open loop."""

    def describe(self) -> str:
        """In words: "guestbook, keep-alive, 1,000 idle connections"."""
        words = [self.workload]
        if self.keep_alive:
            words.append("keep-alive")
        if self.idle:
            words.append(f"{self.idle:,} idle connections")
        if self.redis_delay_ms:
            words.append(f"Redis {self.redis_delay_ms:g} ms slower")
        if self.mode == "open":
            words.append(f"open loop at {self.rate:,.0f}/s")
        return ", ".join(words)

    def slug(self) -> str:
        """For file names: "guestbook_keep-alive_idle1000"."""
        words = [self.workload.strip("/").replace("/", "-") or "root"]
        words += ["keep-alive"] if self.keep_alive else []
        words += [f"idle{self.idle}"] if self.idle else []
        words += [f"redis{self.redis_delay_ms:g}ms"] if self.redis_delay_ms else []
        words += [f"open{self.rate:g}"] if self.mode == "open" else []
        return "_".join(words)


class CellKey(NamedTuple):
    """Which cell a run belongs to."""

    subject: str
    conditions: Conditions
    concurrency: int
