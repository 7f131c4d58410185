# SPDX-License-Identifier: MIT
"""The faults that the grader can name: title, explanation, what to read, and their traces."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault, with the texts that the student reads."""

    name: str
    title: str
    """Addressed to the author of the server."""
    meaning: str
    read: str
    """A place that explains it or does it right."""
    trace: str = ""
    """A regular expression for the trace lines that prove it; those with the client's port come
    first."""
    brings: tuple[str, ...] = ()
    """Faults that it may cause. A later finding of one of them costs no points."""


BROKEN_SERVICE = (
    *("no-answer", "wrong-answer", "wrong-length", "never-closes", "short-write", "ignores-end"),
    *("loses-pipelined", "one-recv", "bad-head", "one-stops-all", "crash", "spins", "cuts-off"),
    *("deaf", "bad-status", "fails-under-load", "descriptor-leak", "workers-pile-up"),
    *("dies-at-limit", "redis-stops-all", "redis-not-back", "wrong-reply", "redis-leak"),
    *("takes-memory", "one-redis-question", "lock-kept", "lost-wakeup", "cuts-slow-reader"),
)
"""Faults that a process may show because it is blocked, busy or in an undefined state."""

NEVER_SERVES = FaultKind(
    "never-serves",
    "The server does not start serving",
    "The server was started but did not reach server_ready(), which prints the line `url`. It "
    "ended before this call, or is in an endless loop, waits, or forks children that fork again.",
    "main() in your main.c, from its first line to server_ready()",
    r"clone|fork|exit|\w+\(",
)
CHILD_ACCEPTS = FaultKind(
    "child-accepts",
    "Your child process continues in the accept loop",
    "After fork() the child serves one client and must then end. Instead it went back to the loop "
    "and accepts clients itself, so each client leaves one more process.",
    "_exit(2) after the child has served its client: `serve` and main() in 02_forking/main.c",
    r"accept|clone",
    brings=(*BROKEN_SERVICE, "zombies", "orphans", "no-redis"),
)
IGNORES_END = FaultKind(
    "ignores-end",
    "You do not notice that a client has left",
    "recv() returned 0: the client will send no more, and each later recv() returns 0 at once. "
    "The server must pass the 0 on to connection_received() and close the connection, not call "
    "recv() again.",
    "recv(2), RETURN VALUE; `receive` in lib/net/blocking.c; connection_received in "
    "lib/app/connection.h",
    r"(recv|read).* = 0 <",
    brings=(*BROKEN_SERVICE, "no-timeout", "dear"),
)
LOCK_KEPT = FaultKind(
    "lock-kept",
    "Threads wait for a lock that is not released",
    "A thread locked a mutex and did not unlock it: it returned early after an error, or it sleeps "
    "while it holds the lock. Every thread that needs the lock waits.",
    "pthread_mutex_lock(3): unlock on each return path of the function, also after an error, and "
    "before each call that may sleep",
    r"futex\(",
    brings=BROKEN_SERVICE,
)
LOST_WAKEUP = FaultKind(
    "lost-wakeup",
    "Clients that arrive at the same time are left waiting",
    "Clients connected and sent requests while the server could not run. When it could run again, "
    "it slept although clients were waiting. One notification may mean several clients. After an "
    "edge-triggered epoll event (EPOLLET), call accept until EAGAIN. After a wake-up by a "
    "condition variable, take clients from the queue until it is empty.",
    'epoll(7), "edge-triggered"; `accept_clients` in lib/net/readiness.c; pthread_cond_wait(3): '
    "test the condition in a loop; `queue_take` in 05_prethreading/main.c",
    r"accept|epoll_wait|futex",
    brings=BROKEN_SERVICE,
)
ONE_REDIS_QUESTION = FaultKind(
    "one-redis-question",
    "Only one client at a time can query Redis",
    "Several clients requested the guestbook at once, and Redis replied late. They were answered "
    "one after another: each waited until Redis had answered all clients before it. Possible "
    "causes: a lock that is held during the query, or a single connection without a queue.",
    "redis_pool_borrow in lib/net/redis/pool.h: it holds its lock only while it takes a "
    "connection; docs/tutorial/book/09-redis.md",
    r"futex|connect\(|poll",
    brings=("fails-under-load", "dear", "one-stops-all"),
)
NEVER_CLOSES = FaultKind(
    "never-closes",
    "You do not close the connection",
    "The client received the whole response, but the connection stayed open although it had to be "
    "closed (`Connection: close` or HTTP/1.0). Each open connection uses a descriptor, and a "
    "browser may wait. (After fork(), both the parent and the child must close the descriptor.)",
    "close(2); NEED_CLOSE at the end of `blocking_serve` in lib/net/blocking.c; what the parent "
    "closes: main() in 02_forking/main.c",
    r"close\(",
    brings=("descriptor-leak", "fails-under-load"),
)
ONE_RECV = FaultKind(
    "one-recv",
    "You assume that one recv returns a whole request",
    "The request arrived in several pieces, which TCP allows. The server must keep the bytes that "
    "have arrived and call recv again until the request is complete.",
    "`receive` in lib/net/blocking.c; STATE_HEAD in lib/app/connection.c",
    r"recv|read\(",
)
SHORT_WRITE = FaultKind(
    "short-write",
    "A large response does not arrive completely",
    "A client that reads slowly received only the beginning, or wrong bytes. send() returns how "
    "many bytes the kernel has taken; the server must send the rest later. If the kernel takes "
    "none (EAGAIN), wait until the socket is writable.",
    "send(2), RETURN VALUE; `send_some` in lib/net/blocking.c",
    r"send|write",
    brings=("cuts-slow-reader",),
)
FIXED_ANSWER = FaultKind(
    "fixed-answer",
    "You answer before you have read the request",
    "Every request gets the same response. After you have written receive() and send_some(), "
    "remove the three lines of `hello`: the client takes their text for the response, because "
    "it arrives first.",
    "stage 1 of the skeleton: receive(), send_some() and serve()",
    r"recv|send|read|write",
)
NO_ANSWER = FaultKind(
    "no-answer",
    "A client gets no response",
    "A client did not receive a complete response.",
    "the table of needs in lib/app/connection.h; `blocking_serve` in lib/net/blocking.c",
)
WRONG_ANSWER = FaultKind(
    "wrong-answer",
    "You send the wrong response",
    "The response is valid HTTP, but it is not the right one for this request.",
    "connection_pending and connection_sent in lib/app/connection.h",
)
BAD_HEAD = FaultKind(
    "bad-head",
    "The head of your response is not valid HTTP",
    "The head has bytes that HTTP forbids. One of its lines is the date: the application knows it "
    "only after your server has passed the time to it.",
    "cached_time_set in lib/app/cached_time.h; RFC 9110, section 5.5: the bytes that a field may "
    "have",
    r"send|write",
)
WRONG_LENGTH = FaultKind(
    "wrong-length",
    "Your Content-Length differs from the length of the body",
    "The client relies on this number: it waits for bytes that never arrive, or takes the rest of "
    "one response for the beginning of the next.",
    "RFC 9110, section 8.6; send the bytes that connection_pending returns, unchanged: "
    "`send_some` in lib/net/blocking.c",
    r"send|write",
    brings=("no-answer", "wrong-answer", "loses-pipelined", "fails-under-load", "wrong-length"),
)
NOT_KEPT = FaultKind(
    "not-kept",
    "You do not keep connections open",
    "An HTTP/1.1 client may send several requests on one connection. Keep the connection open if "
    "no other client waits: a new one for each request costs both sides more than the request.",
    "`.requests_per_connection` and NEED_KEEP in the skeleton; connection_keep and connection_next "
    "in lib/app/connection.h",
    r"recv|send|close\(",
)
NO_REDIS = FaultKind(
    "no-redis",
    "You do not serve data from Redis",
    "The server serves files, but not the pages whose data is in Redis.",
    "stage 2 of the skeleton; `ask_once` in lib/net/blocking.c",
    r"connect\(|poll\(",
)
REDIS_LEAK = FaultKind(
    "redis-leak",
    "You do not return borrowed Redis connections",
    "A connection that redis_pool_borrow() had lent was not returned, perhaps only after an error. "
    "When all connections are lent, redis_pool_borrow() waits for one or returns NULL.",
    "redis_pool_borrow and redis_pool_return in lib/net/redis/pool.h: one return for each borrow, "
    "on every return path",
    r"connect\(",
)
REDIS_ANEW = FaultKind(
    "redis-made-anew",
    "You open a new Redis connection for each request",
    "Clients requested pages one after another, and Redis accepted about one new connection for "
    "each page. A returned connection is used again only if it is still open.",
    "redis_pool_borrow and redis_pool_return in lib/net/redis/pool.h; close a connection only "
    "after an error",
    r"connect\(",
    brings=("dear", "fails-under-load"),
)
BELIEVES = FaultKind(
    "believes-anything",
    "You accept an invalid request",
    "A request that is not HTTP or has two possible meanings was answered as if it were valid, or "
    "a path led out of public/. (Request smuggling needs two programs that disagree on meaning.)",
    "RFC 9112, sections 3 and 6.3; lib/proto/http.c",
)
LOSES_PIPELINED = FaultKind(
    "loses-pipelined",
    "You lose the data after the first request",
    "Several requests came in one packet on a connection that you keep open. A later one was not "
    "answered.",
    "connection_next in lib/app/connection.c: data that is already in the buffer needs no recv",
    r"recv|send",
)
SIGPIPE = FaultKind(
    "sigpipe",
    "SIGPIPE killed a process of the server",
    "A client left while the server sent data to it. A process that writes to a closed connection "
    "gets this signal. Unless the process ignores the signal, it is terminated.",
    "signal(7), SIGPIPE; MSG_NOSIGNAL in send(2); signal() in lib/net/server.c",
    r"SIGPIPE|EPIPE|ECONNRESET",
)
CRASH = FaultKind(
    "crash",
    "A process of the server ended while it served clients",
    "A process of the server ended before SIGTERM asked the server to stop.",
    "core(5); build the server with `make debug` and send the same request again",
    r"\+\+\+|--- SIG",
)
ONE_STOPS_ALL = FaultKind(
    "one-stops-all",
    "One client blocks all others",
    "Some clients were silent, before or during their request, and all other clients waited for "
    "them. One of your blocking calls waits for a single client.",
    "docs/explanation/architecture.md: what each call waits for; `wait_for` in "
    "lib/net/readiness.c; `receive` in lib/net/blocking.c",
    r"recv|read\(|poll|epoll_wait|accept",
)
BY_NATURE = FaultKind(
    "by-nature",
    "One connection after another: a limit of this architecture",
    "The server handles one connection after another, as its tests.toml says. One silent client "
    "blocks it, and while it keeps a connection open it serves no other. This architecture cannot "
    "get these points. It is not a fault.",
    '01_iterative/main.c, "What happens at the limit?". If your server handles several '
    "connections at once, remove the line stalled_by from its tests.toml",
)
NO_PATIENCE = FaultKind(
    "no-timeout",
    "A silent client is never disconnected",
    "A client sent nothing more, and the server still held its connection long after the timeout. "
    "A few such clients use up all your workers or descriptors.",
    "connection_timeout and connection_timed_out in lib/app/connection.h; options_time in "
    "lib/net/options.h, through which --time-scale shortens all times; REQUEST_TIMEOUT in "
    "lib/config.h",
    r"recv|read\(|poll|epoll_wait",
    brings=("restarted-timeout", "no-send-timeout"),
)
RESTARTED_TIMEOUT = FaultKind(
    "restarted-timeout",
    "Each received byte restarts the timeout",
    "A request arrived one byte at a time with short pauses, and the server waited much longer "
    "than a request may take. The timeout is a deadline for the whole request, not a limit for "
    "the pause between bytes. (The attack that uses this is called Slowloris.)",
    "`set_timeout` in lib/net/blocking.c; `evented_start_waiting` in lib/net/evented.c; "
    "connection_timeout in lib/app/connection.h",
    r"recv|read\(|poll|epoll_wait",
)
NO_SEND_TIMEOUT = FaultKind(
    "no-send-timeout",
    "A client that reads nothing is never disconnected",
    "A client requested a large file and read none of it. Long after the timeout it still occupied "
    "your worker and some megabytes in the kernel. Disconnect a client that takes no bytes for "
    "SEND_TIMEOUT; a client that takes some bytes now and then may continue.",
    "SEND_TIMEOUT in lib/config.h; `takes_bytes` in lib/net/blocking.c; `has_time` in "
    "lib/net/evented.c",
    r"send|write|poll|epoll_wait",
)
CUTS_SLOW_READER = FaultKind(
    "cuts-slow-reader",
    "You cut off a client that reads slowly",
    "A client read a large file slowly but steadily and did not get all of it. SEND_TIMEOUT limits "
    "the time in which a client takes nothing at all; each byte that it takes restarts this "
    "timeout. A time limit for the whole response cuts off every client with a slow connection.",
    "SEND_TIMEOUT in lib/config.h; `takes_bytes` in lib/net/blocking.c; `has_time` in "
    "lib/net/evented.c",
    r"send|write|poll|epoll_wait|close\(",
)
DESCRIPTOR_LEAK = FaultKind(
    "descriptor-leak",
    "You do not close a descriptor",
    "After a client left, a file was replaced or Redis was down, a descriptor is still open. When "
    "all descriptors are used (`ulimit -n`), the server cannot accept new clients.",
    "close(2) on each return path of the function that serves; `ls /proc/PID/fd`",
    r"accept|close\(",
)
CLOSES_TWICE = FaultKind(
    "closes-twice",
    "You close a descriptor twice",
    "close() was called for a descriptor that was not open. Between two closes of the same number "
    "the kernel may give this number to another client, whose connection the second close ends. "
    "With threads this can happen at any time.",
    "close(2), EBADF; close each descriptor in one place, by its owner: the end of "
    "`blocking_serve` in lib/net/blocking.c",
    r"close\(.*EBADF",
    brings=BROKEN_SERVICE,
)
ZOMBIES = FaultKind(
    "zombies",
    "You leave zombies",
    "Child processes have ended, and the server has not waited for them. Each zombie keeps an "
    "entry in the process table until the table is full.",
    "waitpid(2); `children_reap` in lib/net/children.c",
    r"wait4|waitid|SIGCHLD|exited with",
)
WORKERS_PILE_UP = FaultKind(
    "workers-pile-up",
    "Your threads or processes do not end",
    "Clients left, and the threads or processes that served them still exist. At the limit of the "
    "system no new one can be created.",
    "a thread ends when it returns, a child when it calls `_exit`: `serve` in 04_threading/main.c "
    "and 02_forking/main.c; calls that may sleep for ever: stage 3 of the skeleton",
    r"clone|exit",
    brings=("memory-leak", "dies-at-limit"),
)
WORKERS_END = FaultKind(
    "workers-end",
    "Your workers end under load",
    "Clients came and were served, and afterwards the server had fewer processes or threads than "
    "before. A worker that ends serves no more clients. A thread that is woken may find the queue "
    "empty, because another thread was faster: it must wait again.",
    "pthread_cond_wait(3): test the condition in a loop; `queue_take` in 05_prethreading/main.c",
    r"exit|futex",
    brings=("fails-under-load",),
)
NOT_JOINED = FaultKind(
    "not-joined",
    "You neither join nor detach your threads",
    "Threads have ended, but their stacks are still in memory. The C library keeps them until "
    "pthread_join() is called, as the kernel keeps a zombie until waitpid(). Memory use grows with "
    "each client.",
    "pthread_join(3), pthread_detach(3); PTHREAD_CREATE_DETACHED in 04_threading/main.c",
    r"clone|mmap",
    brings=("memory-leak",),
)
DIES_AT_LIMIT = FaultKind(
    "dies-at-limit",
    "You drop clients when no thread or process can be created",
    "More clients came than processes and threads were allowed; fork() and pthread_create() then "
    "fail with EAGAIN. Continue to serve the current clients, and let the others wait.",
    "fork(2), pthread_create(3): their return values and EAGAIN; `fork_for` in 02_forking/main.c",
    r"clone|EAGAIN",
)
SPINS = FaultKind(
    "spins",
    "You wait without sleeping (busy waiting)",
    "The server had nothing to do, but a thread used the CPU or woke up again and again. It must "
    "sleep until there is an event. A loop around a call with a timeout of a few milliseconds is "
    "busy waiting, too.",
    "poll(2): its timeout; readiness that you do not need: `wait_for` in lib/net/readiness.c",
    r"\w+\(",
)
REDIS_STOPS_ALL = FaultKind(
    "redis-stops-all",
    "You do not answer correctly while Redis is down",
    "Redis was stopped or did not reply. Serve files as usual, because they do not need Redis. "
    "Answer all requests that need Redis with status 503.",
    "connection_replied(connection, NULL) in lib/app/connection.h",
    r"connect\(|poll|ECONNREFUSED",
)
REDIS_NOT_BACK = FaultKind(
    "redis-not-back",
    "You do not reconnect to Redis",
    "Redis answers again, but seconds later the guestbook still does not work. Replace a "
    "connection that has ended with a new one.",
    "redis_client_call in lib/net/redis/client.c; REDIS_RETRY in lib/config.h",
    r"connect\(|poll|EPIPE",
)
WRONG_REPLY = FaultKind(
    "wrong-reply",
    "A client got the Redis reply to another request",
    "Redis sends its replies on a connection in the order of the commands, also late ones. Either "
    "only one request at a time uses a connection, or a queue assigns each reply to its request.",
    "docs/tutorial/book/09-redis.md, its second half; lib/net/redis/pool.h",
    r"connect\(|recv|send",
)
CUTS_OFF = FaultKind(
    "cuts-off",
    "SIGTERM cuts off clients that you are serving",
    "A client was in the middle of its request or response when SIGTERM came. The server must "
    "finish this response. (The signal ends a sleeping call with EINTR. This is not an error of "
    "the client: make the call again.)",
    "lib/process/stop.h; EINTR in signal(7); `receive` in lib/net/blocking.c; connection_is_idle "
    "in lib/app/connection.h",
    r"SIGTERM|exited with|exit_group|close\(",
)
DEAF = FaultKind(
    "deaf",
    "The server does not end after SIGTERM",
    "The server still ran when its time after SIGTERM was over. Perhaps main() noticed the signal "
    "and waits for its workers. Wake each worker that sleeps for a client. A worker must leave an "
    "idle client (connection_is_idle) at once, and any other client when "
    "server_is_out_of_time() is true.",
    "lib/process/stop.h; signal(7): which calls return with EINTR; `wake_threads` in "
    "04_threading/main.c; children_end in lib/net/children.h",
    r"SIGTERM|SIGALRM|EINTR|wait4|kill\(",
)
BAD_STATUS = FaultKind(
    "bad-status",
    "The exit status after SIGTERM is not 0",
    "After SIGTERM the server ended, but not with exit status 0.",
    "server_end in lib/net/server.h",
    r"exit_group|\+\+\+",
)
ORPHANS = FaultKind(
    "orphans",
    "Your child processes outlive the server",
    "The first process has ended, but other processes of the server still run.",
    "children_end in lib/net/children.h",
    r"kill\(|wait4|exited with",
)
FAILS_UNDER_LOAD = FaultKind(
    "fails-under-load",
    "You lose clients under load",
    "Many clients sent requests at once, and not every request got a complete response.",
    'README.md, "The seven servers": what each server does at its limit',
    r"accept|EMFILE|EAGAIN",
)
DEAR = FaultKind(
    "dear",
    "A request costs much more CPU time than in any of the seven servers",
    "The server works, but it uses several times the CPU time of forking, usually the most "
    "expensive. Look for calls that are repeated without need, and for memory that is copied.",
    "`make timeline`; perf(1); `cpu/request`, which the server prints when it ends",
)
DATA_RACE = FaultKind(
    "data-race",
    "Threads use the same memory without a lock",
    "Two threads use the same memory at once, and at least one writes. Such code works a thousand "
    "times and then loses a client or crashes. Often the memory is a queue, a `struct client` that "
    "main() overwrites for the next client, or data that main() frees while threads still serve.",
    "pthread_mutex_lock(3); `queue_take` in 05_prethreading/main.c; pthread_join(3); `make tsan`",
    brings=BROKEN_SERVICE,
)
SANITIZER_ERROR = FaultKind(
    "sanitizer-error",
    "A sanitizer reports a misuse of memory or of a lock",
    "Memory was used beyond its end or after it was freed, an operation has no defined result, or "
    "a mutex was misused: unlocked by another thread, locked twice, or destroyed while locked. A "
    "program with such an error may work for a long time.",
    "the proof: its first function of your code; free(3), pthread_mutex_lock(3); `make debug`",
    brings=BROKEN_SERVICE,
)
NOT_SANITIZED = FaultKind(
    "not-sanitized",
    "The server does not compile with a sanitizer",
    "It compiles without sanitizers. They find data races and misuses of memory, so the server "
    "must compile with them, too.",
    "the compiler's first message; `make tsan`, `make debug`",
)
UNLISTED_CALL = FaultKind(
    "unlisted-call",
    "You use a system call that is not in your list",
    "The server lists its system calls before it serves, and the kernel rejects all others. This "
    "limits what an attacker can do. Functions of the C library make system calls, too: "
    "pthread_create() needs clone3 and more.",
    "`.calls` at the head of your main.c: THREADED_CALLS, THREAD_CREATING_CALLS, FORKING_CALLS, "
    "CALL(...); lib/calls.h; seccomp(2)",
    r"--- SIGSYS",
)
MEMORY_LEAK = FaultKind(
    "memory-leak",
    "You leak memory with each request",
    "After each repetition of the same requests the server used more memory than before. Free each "
    "malloc() result on each return path, also after an error.",
    "malloc(3), free(3); `valgrind --leak-check=full`, or `make debug`, which reports leaks at the "
    "end; connection_free in lib/app/connection.h; redis_pool_return in lib/net/redis/pool.h",
    r"mmap|brk",
)
WORKER_LOST = FaultKind(
    "worker-not-replaced",
    "You do not replace terminated worker processes",
    "All worker processes were killed (kill -9), as the kernel does when it runs out of memory. "
    "The next client was not served. The first process must fork new workers in their place.",
    "waitpid(2); `replace_workers` in 03_preforking/main.c",
    r"wait4|SIGCHLD|clone",
)
TAKES_MEMORY = FaultKind(
    "takes-memory",
    "You use too much memory",
    "The server used more memory than the grader allows, so the grader killed it.",
    "limits for buffers: lib/config.h",
)

FAULTS = {one.name: one for one in list(globals().values()) if isinstance(one, FaultKind)}
