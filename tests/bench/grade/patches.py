# SPDX-License-Identifier: MIT
"""Servers with one fault each: the solution of the skeleton, or one of the seven, and a patch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.host.project import ROOT

WHOLE = "course/own/solution.c"
SKELETON = "course/own/main.c"


class Patch(NamedTuple):
    """A fault, the stage that must find it, and the change that makes it."""

    fault: str
    stage: str
    base: str
    before: str
    after: str

    def apply(self, folder: Path) -> Path:
        """A folder of a server that has it."""
        server = folder / "08_patched"
        server.mkdir()
        text = (ROOT / self.base).read_text()
        assert self.before in text, f"{self.base} has no {self.before!r}"
        name = "NAME" if self.base.startswith("course") else self.base.split("/")[0][3:]
        text = text.replace(self.before, self.after).replace(
            f'.name = "{name}"', '.name = "patched"'
        )
        (server / "main.c").write_text(text)
        return server


def _whole(fault: str, stage: str, before: str, after: str) -> Patch:
    return Patch(fault, stage, WHOLE, before, after)


PATCHES = (
    Patch("fixed-answer", "serves", SKELETON, "", ""),
    Patch("one-stops-all", "silent", "07_epoll/main.c", "SOCK_NONBLOCK, &client", "0, &client"),
    Patch(
        "sigpipe",
        "bad-input",
        "03_preforking/main.c",
        "    server_ready(&server);",
        "    signal(SIGPIPE, SIG_DFL);\n    server_ready(&server);",
    ),
    Patch(
        "zombies",
        "leaves-nothing",
        "02_forking/main.c",
        "while ((child = waitpid(-1, NULL, WNOHANG)) > 0)",
        "while ((child = 0) > 0)",
    ),
    Patch(
        "dies-at-limit",
        "leaves-nothing",
        "02_forking/main.c",
        'server_is_out_of("processes");',
        "break;",
    ),
    Patch(
        "workers-pile-up",
        "leaves-nothing",
        "04_threading/main.c",
        "    blocking_serve(&thread->worker, &thread->client);",
        "    blocking_serve(&thread->worker, &thread->client);\n"
        "    while (!server_is_stopping())\n        poll(NULL, 0, 50);",
    ),
    _whole(
        "no-answer",
        "serves",
        "    return exchange_received(exchange, (size_t)count);",
        "    exchange_received(exchange, (size_t)count);\n    return EXCHANGE_CLOSE;",
    ),
    _whole(
        "wrong-answer",
        "serves",
        "    return exchange_received(",
        "    if (count > 9)\n        room[6] = '-';\n    return exchange_received(",
    ),
    _whole("never-closes", "serves", "    close(serving->client->socket);\n", ""),
    _whole(
        "no-redis",
        "serves",
        "    if (client == NULL)\n",
        "    if (client != NULL)\n        redis_pool_return(serving->redis, client);\n",
    ),
    _whole(
        "short-write",
        "serves",
        "                      : exchange_sent(exchange, (uint64_t)count);",
        "           : exchange_sent(exchange, (uint64_t)count) == EXCHANGE_SEND\n"
        "               ? EXCHANGE_CLOSE\n               : EXCHANGE_DONE;",
    ),
    _whole(
        "takes-memory",
        "serves",
        "    exchange_free(exchange);",
        "    exchange_free(exchange);\n    char *volatile kept = malloc(1 << 30);\n"
        "    for (size_t i = 0; kept != NULL && i < 1 << 30; i += 4096)\n"
        "        kept[i] = 1;\n    poll(NULL, 0, 1000);",
    ),
    _whole(
        "one-recv",
        "bad-input",
        "    return exchange_received(exchange, (size_t)count);",
        "    enum exchange_need need = exchange_received(exchange, (size_t)count);\n"
        "    return need == EXCHANGE_RECEIVE ? EXCHANGE_CLOSE : need;",
    ),
    _whole(
        "believes-anything",
        "bad-input",
        "    return exchange_received(",
        '    if (memmem(room, (size_t)count, "Broken", 6) != NULL)\n'
        '        count = sprintf(room, "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");\n'
        "    return exchange_received(",
    ),
    _whole(
        "crash",
        "bad-input",
        "    return exchange_received(",
        "    if (room[0] == 22)\n        abort();\n    return exchange_received(",
    ),
    _whole(
        "loses-pipelined",
        "bad-input",
        "            need = exchange_next(exchange);",
        "            need = exchange_next(exchange);\n"
        "            if (need == EXCHANGE_KEEP)\n                need = EXCHANGE_RECEIVE;",
    ),
    _whole(
        "one-stops-all",
        "silent",
        "            queue_put(&client);",
        "        {\n            struct serving serving = {.server = &server, .redis = &redis,\n"
        "                .counters = counters, .client = &client};\n"
        "            serve(&serving);\n            if (client.socket < 0)\n"
        "                queue_put(&client);\n        }",
    ),
    _whole("no-timeout", "silent", "while (time_left(serving) > 0 && ", "while ("),
    _whole("spins", "silent", "poll(&client, 1, LOOK)", "poll(&client, 1, 0)"),
    _whole(
        "descriptor-leak",
        "leaves-nothing",
        "    close(serving->client->socket);",
        "    if (serving->exchange.state != STATE_HEAD)\n        close(serving->client->socket);",
    ),
    _whole(
        "redis-stops-all",
        "redis",
        "    bool fits = called &&",
        "    while (!called)\n        poll(NULL, 0, 50);\n    bool fits = called &&",
    ),
    _whole(
        "redis-not-back",
        "redis",
        "    bool fits = called &&",
        "    static bool gone;\n    gone = gone || !called;\n    called = called && !gone;\n"
        "    bool fits = called &&",
    ),
    _whole(
        "wrong-reply",
        "redis",
        "    bool fits = called &&",
        "    static struct resp_reply last;\n    last = reply;\n    poll(NULL, 0, 20);\n"
        "    reply = last;\n    bool fits = called &&",
    ),
    _whole(
        "cuts-off",
        "ends",
        "if (server_is_stopping() && exchange_is_idle(&serving->exchange))",
        "if (server_is_stopping())",
    ),
    _whole("deaf", "ends", "    while (server_goes_on())", "    while (poll(NULL, 0, 1) < 1)"),
    _whole("bad-status", "ends", "return server_end(&server);", "return 1 + server_end(&server);"),
    _whole(
        "orphans",
        "ends",
        "    server_ready(&server);",
        "    if (fork() == 0)\n        for (;;)\n            poll(NULL, 0, 1000);\n"
        "    server_ready(&server);",
    ),
    _whole(
        "fails-under-load",
        "load",
        "            queue_put(&client);",
        "        {\n            static int number;\n            if (++number % 50 == 0)\n"
        "                close(client.socket);\n            else\n"
        "                queue_put(&client);\n        }",
    ),
    _whole(
        "dear",
        "load",
        "    exchange_free(exchange);",
        "    exchange_free(exchange);\n"
        "    for (volatile int i = 0; i < 4000000; i = i + 1)\n        ;",
    ),
    _whole(
        "data-race",
        "load",
        "static void queue_put(const struct client *client) {\n"
        "    pthread_mutex_lock(&queue.lock);",
        "static void queue_put(const struct client *client) {",
    ),
)
