"""What a cell is: a subject, the conditions it is measured under, a level. Pure."""

from typing import NamedTuple

from bench.records.figures import Balancer, Mode

BALANCER_WORDS: dict[Balancer, str] = {
    "close": "through nginx",
    "keep": "through nginx, which keeps its connections",
}


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
    instances: int = 1
    """Processes of the server that are started side by side."""
    balancer: Balancer = "none"
    """nginx before them: none, or closing or keeping its connections to them."""

    @property
    def server_keeps(self) -> bool:
        """Whether the connections that the server itself sees are to be kept."""
        return self.keep_alive if self.balancer == "none" else self.balancer == "keep"

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
            words.append(f"open loop at {self.rate or 0:,.0f}/s")
        if self.instances > 1:
            words.append(f"{self.instances} instances")
        if self.balancer != "none":
            words.append(BALANCER_WORDS[self.balancer])
        return ", ".join(words)

    def slug(self) -> str:
        """For file names: "guestbook_keep-alive_idle1000"."""
        words = [self.workload.strip("/").replace("/", "-") or "root"]
        words += ["keep-alive"] if self.keep_alive else []
        words += [f"idle{self.idle}"] if self.idle else []
        words += [f"redis{self.redis_delay_ms:g}ms"] if self.redis_delay_ms else []
        words += [f"open{self.rate:g}"] if self.mode == "open" else []
        words += [f"x{self.instances}"] if self.instances > 1 else []
        words += [f"nginx-{self.balancer}"] if self.balancer != "none" else []
        return "_".join(words)


class CellKey(NamedTuple):
    """Which cell a run belongs to."""

    subject: str
    conditions: Conditions
    concurrency: int


FLOOR_PREFIX = "floor-"
