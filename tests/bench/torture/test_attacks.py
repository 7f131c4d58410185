# SPDX-License-Identifier: MIT
"""Attacks do what they say, to real servers with a real Redis."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from bench.services.redis_server import REMARKS_SHOWN, connect
from bench.torture import attacks
from bench.torture.attacks import ATTACKS, UNDER_WAY
from bench.torture.cell import lying_redis, measure, scene_for
from bench.torture.ground import Ground
from bench.torture.scene import AttackScene, held_connections, page

from ..whole_sweep import wait_for
from .conftest import sign, status, subject

Start = Callable[..., AttackScene]


def test_redis_killed(scene: Start, ground: Ground) -> None:
    epoll = scene("epoll")
    assert sign(epoll, "before") == 303
    with ATTACKS["redis-killed"].run(epoll):
        wait_for(lambda: status(epoll, "/guestbook") == 503, "it is still served without Redis")
        assert status(epoll, "/redirect") == 302
    wait_for(lambda: status(epoll, "/guestbook") == 200, "it does not come back")
    assert "before" in ground.redis.remarks(), "what was answered is there after kill -9"


def test_redis_stopped(scene: Start, ground: Ground) -> None:
    epoll = scene("epoll")
    quick = connect(ground.redis.url)
    quick.connection_pool.connection_kwargs["socket_timeout"] = 0.2
    with ATTACKS["redis-stopped"].run(epoll):
        with pytest.raises(redis.TimeoutError):
            quick.execute_command("PING")
        assert status(epoll, "/redirect") == 302
    wait_for(lambda: status(epoll, "/guestbook") == 200, "it does not come back")
    quick.close()


def test_redis_lying(scene: Start, ground: Ground) -> None:
    with lying_redis(ground) as liar:
        epoll = scene("epoll", liar=liar)
        assert sign(epoll, "true") == 303
        with ATTACKS["redis-lying"].run(epoll):
            wait_for(lambda: status(epoll, "/guestbook") == 503, "it believes the reply")
            stored = [sign(epoll, f"false-{number}") for number in range(20)]
            assert set(stored) <= {502, 503}  # a reply of a wrong type; Redis counts as down
            assert status(epoll, "/redirect") == 302
        wait_for(lambda: status(epoll, "/guestbook") == 200, "it does not recover")
        assert sign(epoll, "again") == 303
    kept = ground.redis.remarks()
    assert "true" in kept
    assert "again" in kept
    assert not any(remark.startswith("false") for remark in kept)


def answers(client: redis.Redis) -> bool:
    """Return whether Redis accepts it; it stays connected."""
    try:
        return bool(client.execute_command("PING"))
    except redis.ConnectionError as error:
        if "max number of clients" not in str(error):
            raise
        return False


def test_redis_full(scene: Start, ground: Ground) -> None:
    epoll = scene("epoll")
    assert status(epoll, "/guestbook") == 200  # it is connected
    with ATTACKS["redis-full"].run(epoll):
        others = [connect(ground.redis.url) for _ in range(attacks.FULL_REDIS)]
        let_in = [answers(other) for other in others]
        assert not all(let_in), "there is room for all"
        for other in others:
            other.close()
        time.sleep(0.3)  # for the crowd
    assert ground.redis.clients_limit() > 1000
    assert epoll.crowd_seen.answers["good"] == epoll.crowd_seen.opened > 0


@pytest.mark.parametrize("name", ["forking", "preforking"])
def test_children_killed(scene: Start, name: str) -> None:
    server = scene(name)
    assert server.has_children()
    with ATTACKS["children-killed"].run(server) as kill:

        def killed() -> bool:
            kill()
            return server.killed >= 5

        wait_for(killed, "no child to be found")
    assert server.server.running()
    wait_for(lambda: status(server, "/guestbook") == 200, "the connections are still held")


@pytest.mark.parametrize("name", ["threading", "epoll"])
def test_sigterm(scene: Start, name: str) -> None:
    server = scene(name)
    with server.crowd("rush", UNDER_WAY, page("guestbook")):  # as many connections to Redis
        time.sleep(0.5)
    pid, port = server.server.pid, server.port
    with ATTACKS["sigterm"].run(server):
        assert server.server.pid != pid
        assert server.port == port
        assert status(server, "/guestbook") == 200
    assert [(end.obeyed, end.well) for end in server.ended] == [(True, True)]
    seen = server.crowd_seen
    assert seen.opened == UNDER_WAY
    # If Redis was idle for 2 s on a busy machine they get 503, which is also a complete answer.
    assert seen.answers["good"] + seen.answers["unavailable"] == UNDER_WAY


def limits_of(of: AttackScene, name: str) -> list[str]:
    """Return the soft and the hard limit of its server."""
    text = Path(f"/proc/{of.server.pid}/limits").read_text()
    return next(line for line in text.splitlines() if line.startswith(name)).split()[3:5]


def test_few_descriptors(ground: Ground) -> None:
    with scene_for(subject("epoll"), ATTACKS["few-descriptors"], ground) as few:
        assert limits_of(few, "Max open files") == ["64"] * 2
        with ATTACKS["few-descriptors"].run(few):
            wait_for(lambda: status(few, "/redirect") == 302, "no client is served")
            time.sleep(0.3)  # for the crowd


def test_large_pages(ground: Ground) -> None:
    """Large pages have the stated size, the limit is set, and afterwards the page is small. Takes 1
    s."""
    attack = ATTACKS["large-pages"]
    with scene_for(subject("epoll"), attack, ground) as scene:
        assert limits_of(scene, "Max data size") == [str(128 << 20)] * 2
        sign(scene, "kept")
        with attack.run(scene):
            wait_for(lambda: status(scene, "/guestbook") in (200, 503), "no answer comes")
            assert len(ground.redis.remarks()) > REMARKS_SHOWN
            wait_for(lambda: held_connections(scene.port) >= 200, "the crowd is missing")
        assert not any('"' * 1000 in remark for remark in ground.redis.remarks())
        wait_for(lambda: status(scene, "/guestbook") == 200, "the page stays large")
        assert scene.server.running()
    assert "kept" in ground.redis.remarks()


def test_who_cannot_take_part() -> None:
    stranger = subject("epoll")
    nginx = type(stranger)("nginx", "stranger", stranger.command, workloads=frozenset({"small"}))
    assert ATTACKS["redis-killed"].why_not(nginx) == "does not use Redis"
    assert ATTACKS["sigterm"].why_not(nginx)
    assert not ATTACKS["flood"].why_not(nginx)
    assert not any(attack.why_not(stranger) for attack in ATTACKS.values())


def test_who_is_rated() -> None:
    pages = ["redirect", "small", "guestbook", "sign"]
    rated = {name: ATTACKS[name].rated(pages) for name in ("redis-killed", "redis-full", "flood")}
    assert rated == {"redis-killed": pages[:2], "redis-full": pages, "flood": pages}


def test_without_a_line_it_is_said(ground: Ground) -> None:
    why = "no slow line here: network namespaces need root"
    cell = measure(subject("epoll"), ATTACKS["slow-line"], replace(ground, why_no_line=why), 0.3)
    assert (cell.reason, cell.before) == (why, None)
