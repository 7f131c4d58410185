# SPDX-License-Identifier: MIT
"""Attacks do what they say, to real servers with a real Redis."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from bench.records.torture import TortureCell
from bench.services.private_redis import REMARKS_SHOWN
from bench.services.redis_server import connect
from bench.torture import attacks
from bench.torture.attacks import ATTACKS, UNDER_WAY
from bench.torture.cell import lying_redis, measure, scene_for
from bench.torture.scene import AttackScene, Ground, held_connections, page

from .conftest import sign, status, subject, until

Start = Callable[..., AttackScene]


def test_redis_killed(scene: Start, ground: Ground) -> None:
    epoll = scene("epoll")
    assert sign(epoll, "before") == 303
    with attacks.redis_killed(epoll):
        until(lambda: status(epoll, "/guestbook") == 503, "it is still served without Redis")
        assert status(epoll, "/redirect") == 302
    until(lambda: status(epoll, "/guestbook") == 200, "it does not come back")
    assert "before" in ground.redis.remarks(), "what was answered is there after kill -9"


def test_redis_stopped(scene: Start, ground: Ground) -> None:
    epoll = scene("epoll")
    quick = connect(ground.redis.url)
    quick.connection_pool.connection_kwargs["socket_timeout"] = 0.2
    with attacks.redis_stopped(epoll):
        with pytest.raises(redis.TimeoutError):
            quick.execute_command("PING")
        assert status(epoll, "/redirect") == 302
    until(lambda: status(epoll, "/guestbook") == 200, "it does not come back")
    quick.close()


def test_redis_lying(scene: Start, ground: Ground) -> None:
    with lying_redis(ground) as liar:
        epoll = scene("epoll", liar=liar)
        assert sign(epoll, "true") == 303
        with attacks.redis_lying(epoll):
            until(lambda: status(epoll, "/guestbook") == 503, "it believes the reply")
            stored = [sign(epoll, f"false-{number}") for number in range(20)]
            assert set(stored) <= {502, 503}  # a reply of a wrong type; Redis counts as down
            assert status(epoll, "/redirect") == 302
        until(lambda: status(epoll, "/guestbook") == 200, "it does not recover")
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
    with attacks.redis_full(epoll):
        others = [connect(ground.redis.url) for _ in range(attacks.FULL_REDIS)]
        let_in = [answers(other) for other in others]
        assert not all(let_in), "there is room for all"
        for other in others:
            other.close()
        time.sleep(0.3)  # for the crowd
    assert ground.redis.clients_limit() > 1000
    assert epoll.crowd_seen is not None
    assert epoll.crowd_seen.answers["good"] == epoll.crowd_seen.opened > 0


@pytest.mark.parametrize("name", ["forking", "preforking"])
def test_children_killed(scene: Start, name: str) -> None:
    server = scene(name)
    assert server.has_children()
    with attacks.children_killed(server) as kill:

        def killed() -> bool:
            kill()
            return server.killed >= 5

        until(killed, "no child to be found")
    assert server.server.running()
    until(lambda: status(server, "/guestbook") == 200, "the connections are still held")


@pytest.mark.parametrize("name", ["iterative", "threading", "prethreading", "poll", "epoll"])
def test_others_have_no_children(scene: Start, name: str) -> None:
    assert not scene(name).has_children()


@pytest.mark.parametrize("name", ["threading", "epoll"])
def test_sigterm(scene: Start, name: str) -> None:
    server = scene(name)
    with server.crowd("rush", UNDER_WAY, page("guestbook")):  # as many connections to Redis
        time.sleep(0.5)
    pid, port = server.server.pid, server.port
    with attacks.sigterm(server):
        assert server.server.pid != pid
        assert server.port == port
        assert status(server, "/guestbook") == 200
    assert [(end.obeyed, end.well) for end in server.ended] == [(True, True)]
    seen = server.crowd_seen
    assert seen is not None
    assert seen.opened == UNDER_WAY
    # If Redis was idle for 2 s on a busy machine they get 503: whole answers all the same.
    assert seen.answers["good"] + seen.answers["unavailable"] == UNDER_WAY


def test_few_descriptors(ground: Ground) -> None:
    with scene_for(subject("epoll"), ATTACKS["few-descriptors"], ground) as few:
        limits = Path(f"/proc/{few.server.pid}/limits").read_text()
        line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        assert line.split()[3:5] == [str(attacks.DESCRIPTORS)] * 2
        with ATTACKS["few-descriptors"].run(few):
            until(lambda: status(few, "/redirect") == 302, "no client is served")
            time.sleep(0.3)  # for the crowd


def test_large_pages(ground: Ground) -> None:
    """Large pages have the stated size, the limit is set, and afterwards the page is small. Takes 1
    s."""
    attack = ATTACKS["large-pages"]
    with scene_for(subject("epoll"), attack, ground) as scene:
        limits = Path(f"/proc/{scene.server.pid}/limits").read_text()
        line = next(line for line in limits.splitlines() if line.startswith("Max data size"))
        assert line.split()[3:5] == [str(attacks.DATA_MB << 20)] * 2
        sign(scene, "kept")
        with attack.run(scene):
            until(lambda: status(scene, "/guestbook") in (200, 503), "no answer comes")
            assert len(ground.redis.remarks()) > REMARKS_SHOWN
            until(lambda: held_connections(scene.port) >= attacks.CROWD, "the crowd is missing")
        assert not any('"' * 1000 in remark for remark in ground.redis.remarks())
        until(lambda: status(scene, "/guestbook") == 200, "the page stays large")
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
    assert ATTACKS["redis-killed"].rated(pages) == ["redirect", "small"]
    assert ATTACKS["redis-full"].rated(pages) == pages
    assert ATTACKS["flood"].rated(pages) == pages


def test_without_a_line_it_is_said(ground: Ground) -> None:
    without = replace(ground, why_no_line="no slow line here: network namespaces need root")
    cell: TortureCell = measure(subject("epoll"), ATTACKS["slow-line"], without, 0.3)
    assert cell.reason == "no slow line here: network namespaces need root"
    assert cell.before is None
