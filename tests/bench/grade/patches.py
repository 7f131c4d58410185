# SPDX-License-Identifier: MIT
"""Servers with one fault each: the skeleton's solution, or one of the seven servers, and a
patch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.host.project import ROOT

WHOLE = "course/own/solution.c"
SKELETON = "course/own/main.c"


class Patch(NamedTuple):
    """A fault, the stage that must find it, and the changes that make it."""

    fault: str
    stage: str
    base: str
    changes: tuple[tuple[str, str], ...]

    def more(self, before: str, after: str) -> Patch:
        """Return this patch with one more change."""
        return self._replace(changes=(*self.changes, (before, after)))

    def apply(self, folder: Path) -> Path:
        """Return a folder of a server that has the fault."""
        server = folder / "08_patched"
        server.mkdir()
        text = (ROOT / self.base).read_text()
        name = "NAME" if self.base.startswith("course") else self.base.split("/")[0][3:]
        includes = (
            "#include <poll.h>",
            "#include <poll.h>\n#include <string.h>\n#include <sys/wait.h>",
        )
        more = (includes,) if self.base == WHOLE else ()
        for before, after in (*more, *self.changes, (f'.name = "{name}"', '.name = "patched"')):
            assert before in text, f"{self.base} has no {before!r}"
            text = text.replace(before, after, 1)
        (server / "main.c").write_text(text)
        return server


def _whole(fault: str, stage: str, before: str, after: str) -> Patch:
    return Patch(fault, stage, WHOLE, ((before, after),))


RECEIVED = "        connection_received(connection, (size_t)count);"
SENT = "        connection_sent(connection, (uint64_t)count);"
TRANSMIT = (
    "    ssize_t count =\n        transmit(conn->client->socket, connection_pending(connection));"
)
CALLED = "    bool fits = called &&"
FREE = "    connection_free(connection);\n    close(conn->client->socket);"
CLOSE = "    close(conn->client->socket);\n"
READY = "    server_ready(&server);"
PUT = "            queue_put(&client);"
HERE = """\
            struct blocking_conn conn = {.server = &server, .redis = &redis,
                .counters = counters, .client = &client};
            serve(&conn);
"""


START_WORKERS = "    while (!children_are_complete(&workers) && start_worker(server)) {\n    }\n"
UNLOCK = "    pthread_mutex_unlock(&queue.lock);\n    pthread_cond_signal(&queue.filled);"
WAIT_FILLED = "        pthread_cond_wait(&queue.filled, &queue.lock);"
LOCK = "static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;"
FORKED_SERVE = "        blocking_serve(worker, client);"
LOST = "        lost = true, connection_abandon(connection);\n}"


def _forking(fault: str, start: str, failed: str) -> Patch:
    """Return a patch with a child for each client instead of the threads."""
    code = f"""\
        {{
            {start}
            pid_t child = fork();
            if (child == 0) {{
{HERE}
                _exit(0);
            }}
            if (child < 0) {{
                {failed}
            }}
            close(client.socket);
            if (client.socket < 0)
                queue_put(&client);
        }}"""
    calls = (".calls = {", ".calls = {FORKING_CALLS, ")
    count = ("size_t count = server.options.workers;", "size_t count = 0;")
    return Patch(fault, "leaves-nothing", WHOLE, ((PUT, code), calls, count))


GROWING_POOL = _whole(
    "",
    "leaves-nothing",
    "    size_t count = server.options.workers;\n",
    """\
    size_t most = server.options.workers, count = 1;
    static int pairs[WORKERS_LIMIT][2];
    for (size_t i = 0; i < most; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) != 0)
            server_fatal("cannot create pair %zu", i + 1);
""",
).more(
    PUT,
    """\
        {
            numbers[count] = count;
            if (count < most &&
                pthread_create(&threads[count], NULL, work, &numbers[count]) == 0)
                count++;
            queue_put(&client);
        }""",
)
"""No fault: socket pairs made at the start, and a thread for each client up to a limit."""

GOES_ON = _forking("child-accepts", "while (waitpid(-1, NULL, 1) > 0);", "")._replace(
    stage="serves"
)

PATCHES = (
    Patch("fixed-answer", "serves", SKELETON, ()),
    Patch(
        "sigpipe",
        "bad-input",
        "03_preforking/main.c",
        (
            ('#include "net/blocking.h"', '#include "net/blocking.h"\n#include <signal.h>'),
            (READY, f"    signal(SIGPIPE, SIG_DFL);\n{READY}"),
        ),
    ),
    _whole(
        "never-serves", "serves", READY, f"    for (volatile int i = 0; i < 1;)\n        ;\n{READY}"
    ),
    GOES_ON._replace(changes=tuple((a, b.replace("_exit(0);", "")) for a, b in GOES_ON.changes)),
    _whole(
        "wrong-length",
        "serves",
        SENT,
        f"    {{\n{SENT}\n        if (connection_need(connection) == NEED_DONE)\n"
        '            send(conn->client->socket, "-", 1, MSG_NOSIGNAL);\n    }',
    ),
    _whole(
        "ignores-end",
        "bad-input",
        RECEIVED,
        "    {\n        while (count == 0 && !server_is_stopping())\n"
        f"            count = recv(conn->client->socket, room, size, 0);\n{RECEIVED}\n    }}",
    ),
    _whole(
        "one-redis-question",
        "redis",
        "    bool called =",
        f"    {LOCK}\n    pthread_mutex_lock(&one);\n    bool called =",
    ).more(CALLED, f"    pthread_mutex_unlock(&one);\n{CALLED}"),
    _whole(
        "lock-kept",
        "redis",
        "    bool called =",
        f"    {LOCK}\n    pthread_mutex_lock(&one);\n    pthread_mutex_unlock(&one);\n"
        "    bool called =",
    ).more(CALLED, f"    if (!called)\n        pthread_mutex_lock(&one);\n{CALLED}"),
    _whole(
        "descriptor-leak",
        "leaves-nothing",
        CLOSE,
        f"    if (!lost)\n    {CLOSE}    lost = false;\n",
    )
    .more("        connection_abandon(connection);\n}", LOST)
    .more("struct blocking_conn {", "static _Thread_local bool lost;\nstruct blocking_conn {"),
    _whole("closes-twice", "leaves-nothing", CLOSE, CLOSE * 2),
    Patch(
        "closes-twice",
        "leaves-nothing",
        "02_forking/main.c",
        ((FORKED_SERVE, f"{FORKED_SERVE}\n    close(client->socket);"),),
    ),
    _whole(
        "descriptor-leak",
        "leaves-nothing",
        CLOSE,
        f"{CLOSE}    int ends[2];\n    if (pipe2(ends, 0) < 0)\n        return;\n",
    ).more(".calls = {", ".calls = {CALL(pipe2), "),
    _whole("memory-leak", "leaves-nothing", "    connection_free(connection);\n", ""),
    Patch(
        "worker-not-replaced",
        "leaves-nothing",
        "03_preforking/main.c",
        ((START_WORKERS, ""),),
    ),
    _whole("sanitizer-error", "races", UNLOCK, f"    pthread_mutex_unlock(&queue.lock);\n{UNLOCK}"),
    Patch(
        "sanitizer-error",
        "races",
        "02_forking/main.c",
        (
            (
                FORKED_SERVE,
                f"{FORKED_SERVE}\n    volatile char *kept = malloc(1);\n"
                "    free((void *)kept);\n    kept[0] = 1;",
            ),
        ),
    ),
    Patch(
        "sanitizer-error",
        "races",
        "06_poll/main.c",
        (
            (
                "        loop->count--;\n",
                "        loop->watched[source->slot + loop->capacity].fd = 0;\n"
                "        loop->count--;\n",
            ),
        ),
    ),
    _forking("zombies", "", "poll(NULL, 0, 10);"),
    _forking("dies-at-limit", "while (waitpid(-1, NULL, 1) > 0);", "close(client.socket);"),
    Patch(
        "workers-pile-up",
        "leaves-nothing",
        WHOLE,
        (
            (
                PUT,
                """\
        {
            static struct client clients[10000];
            static size_t number, zero;
            pthread_t thread;
            clients[number] = client;
            queue_put(&clients[number++]);
            pthread_create(&thread, NULL, work, &zero);
        }""",
            ),
            ("size_t count = server.options.workers;", "size_t count = 0;"),
        ),
    ),
    Patch(
        "dies-at-limit",
        "leaves-nothing",
        "04_threading/main.c",
        (("    return error == 0;", "    return true;"),),
    ),
    Patch(
        "not-joined",
        "leaves-nothing",
        "04_threading/main.c",
        (("    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);\n", ""),),
    ),
    Patch(
        "sigpipe",
        "bad-input",
        WHOLE,
        (
            ("#include <pthread.h>", "#include <pthread.h>\n#include <signal.h>"),
            (READY, f"    signal(SIGPIPE, SIG_DFL);\n{READY}"),
        ),
    ),
    _whole("bad-head", "serves", "    cached_time_set(&conn->cached_time, time(NULL));\n", ""),
    _whole("unlisted-call", "serves", ", THREADED_CALLS, THREAD_CREATING_CALLS", ""),
    _whole(
        "redis-made-anew",
        "redis",
        "    redis_pool_return(conn->redis, client);\n}",
        "    redis_client_close(client);\n    redis_pool_return(conn->redis, client);\n}",
    ),
    _whole(
        "redis-leak",
        "leaves-nothing",
        "    redis_pool_return(conn->redis, client);\n}",
        "}",
    ),
    Patch(
        "redis-leak",
        "leaves-nothing",
        "03_preforking/main.c",
        (
            (
                "        blocking_serve(&worker, &client);",
                "        for (int i = 0; i < 8; i++)\n"
                "            (void)redis_pool_borrow(redis);\n"
                "        blocking_serve(&worker, &client);",
            ),
        ),
    ),
    _whole(
        "restarted-timeout",
        "silent",
        RECEIVED,
        f"    {{\n{RECEIVED}\n        conn->since = clock_milliseconds();\n    }}",
    ),
    _whole("no-answer", "serves", RECEIVED, "        connection_abandon(connection);"),
    _whole("wrong-answer", "serves", RECEIVED, f"    {{\n        room[6] = '-';\n{RECEIVED}    }}"),
    _whole(
        "wrong-length",
        "serves",
        TRANSMIT,
        """\
    struct pending pending = connection_pending(connection);
    char *length = memmem(pending.first.data, pending.first.length, "Content-Length: ", 16);
    if (length != NULL)
        length[16] = '9';
    ssize_t count = transmit(conn->client->socket, pending);""",
    ),
    _whole(
        "not-kept",
        "silent",
        ".requests_per_connection = KEEP_ALIVE_REQUESTS",
        ".requests_per_connection = 1",
    ),
    _whole(
        "not-kept",
        "silent",
        "            connection_next(connection);",
        "            connection_abandon(connection);",
    ),
    _whole("never-closes", "serves", CLOSE, ""),
    _whole(
        "no-redis",
        "serves",
        "    if (client == NULL) {\n",
        "    if (client != NULL)\n        redis_pool_return(conn->redis, client);\n    {\n",
    ),
    _whole(
        "short-write",
        "serves",
        SENT,
        f"""\
    {{
{SENT}
        if (connection_need(connection) == NEED_SEND)
            connection_abandon(connection);
    }}""",
    ),
    _whole(
        "takes-memory",
        "serves",
        RECEIVED,
        f"""\
    {{
        char *volatile kept = malloc(1 << 30);
        for (size_t i = 0; kept != NULL && i < 1 << 30; i += 4096)
            kept[i] = 1;
        poll(NULL, 0, 1000);
{RECEIVED}
    }}""",
    ),
    _whole(
        "one-recv",
        "bad-input",
        RECEIVED,
        f"""\
    {{
{RECEIVED}
        if (connection_need(connection) == NEED_RECEIVE)
            connection_abandon(connection);
    }}""",
    ),
    _whole(
        "believes-anything",
        "bad-input",
        RECEIVED,
        f"""\
    {{
        if (memmem(room, (size_t)count, "Broken", 6) != NULL)
            count = sprintf(room, "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");
{RECEIVED}
    }}""",
    ),
    _whole(
        "crash",
        "bad-input",
        RECEIVED,
        f"    {{\n        if (room[0] == 22)\n            abort();\n{RECEIVED}\n    }}",
    ),
    _whole(
        "loses-pipelined",
        "bad-input",
        "            connection_next(connection);",
        "            connection->input.length = connection->exchange.head;\n"
        "            connection_next(connection);",
    ),
    _whole(
        "one-stops-all",
        "silent",
        PUT,
        f"        {{\n{HERE}            if (client.socket < 0)\n    {PUT}\n        }}",
    ),
    Patch(
        "one-stops-all",
        "silent",
        "05_prethreading/main.c",
        (("    return wait || room == 0;", "    return wait && room < 0;"),),
    ),
    Patch(
        "workers-end",
        "load",
        "05_prethreading/main.c",
        (("    while (queue.count == 0", "    if (queue.count == 0"),),
    ),
    _whole("no-timeout", "silent", "while (time_left(conn) > 0 && ", "while ("),
    _whole(
        "no-send-timeout",
        "silent",
        "    if (!wait_for(conn, POLLOUT)) {",
        "    while (!wait_for(conn, POLLOUT) && !server_is_out_of_time())\n"
        "        conn->since = clock_milliseconds();\n"
        "    if (server_is_out_of_time()) {",
    ),
    _whole("spins", "silent", "#define LOOK      100", "#define LOOK      2"),
    _whole("cuts-slow-reader", "silent", f"{SENT}\n    conn->since = clock_milliseconds();", SENT),
    _whole(
        "lost-wakeup",
        "serves",
        f"    queue.count++;\n{UNLOCK}",
        "    bool was_empty = queue.count++ == 0;\n    pthread_mutex_unlock(&queue.lock);\n"
        "    if (was_empty)\n        pthread_cond_signal(&queue.filled);",
    )
    .more("    while (queue.count == 0 && !queue.closed)", "    do")
    .more(WAIT_FILLED, f"{WAIT_FILLED}\n    while (queue.count == 0 && !queue.closed);"),
    _whole(
        "descriptor-leak",
        "leaves-nothing",
        CLOSE,
        f"    if (conn->connection.greeted)\n    {CLOSE}",
    ),
    _whole(
        "redis-stops-all",
        "redis",
        CALLED,
        f"    while (!called)\n        poll(NULL, 0, 50);\n{CALLED}",
    ),
    _whole(
        "redis-not-back",
        "redis",
        CALLED,
        "    static bool gone;\n    gone = gone || !called;\n"
        f"    called = called && !gone;\n{CALLED}",
    ),
    _whole(
        "wrong-reply",
        "redis",
        CALLED,
        "    static struct resp_reply last;\n    last = reply;\n    poll(NULL, 0, 20);\n"
        f"    reply = last;\n{CALLED}",
    ),
    _whole(
        "cuts-off",
        "ends",
        "server_is_stopping() && connection_is_idle(&conn->connection);",
        "server_is_stopping();",
    ),
    _whole(
        "deaf", "ends", "    while (server_keep_accepting())", "    while (poll(NULL, 0, 1) < 1)"
    ),
    _whole("bad-status", "ends", "return server_end(&server);", "return 1 + server_end(&server);"),
    _whole(
        "orphans",
        "ends",
        READY,
        f"    if (fork() == 0)\n        for (;;)\n            poll(NULL, 0, 1000);\n{READY}",
    ),
    _whole(
        "fails-under-load",
        "load",
        PUT,
        f"""\
        {{
            static int number;
            if (++number % 50 == 0)
                close(client.socket);
            else
    {PUT}
        }}""",
    ),
    _whole(
        "dear",
        "load",
        FREE,
        f"    for (volatile int i = 0; i < 1000000; i = i + 1)\n        ;\n{FREE}",
    ),
    _whole(
        "not-sanitized",
        "races",
        "#include <pthread.h>",
        "#ifdef __SANITIZE_THREAD__\n#error not looked at\n#endif\n#include <pthread.h>",
    ),
    _whole(
        "data-race",
        "races",
        "static void queue_put(const struct client *client) {\n"
        "    pthread_mutex_lock(&queue.lock);",
        "static void queue_put(const struct client *client) {",
    ),
)
