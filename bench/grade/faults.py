# SPDX-License-Identifier: MIT
"""Faults that are known by name: what is seen of them from outside, and what to read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FaultKind:
    """One of them."""

    name: str
    title: str
    """Said to the one who made it."""
    meaning: str
    read: str
    """Where it is explained, or done right."""
    trace: str = ""
    """Lines of a trace that prove it: a regular expression; of the client's socket in any case."""
    brings: tuple[str, ...] = ()
    """Faults that may be its consequences. A later finding of one of them costs no points."""


BROKEN_SERVICE = (
    *("no-answer", "wrong-answer", "wrong-length", "never-closes", "short-write", "ignores-end"),
    *("loses-pipelined", "one-recv", "bad-head", "one-stops-all", "crash", "spins", "cuts-off"),
    *("deaf", "bad-status", "fails-under-load", "descriptor-leak", "workers-pile-up"),
    *("dies-at-limit", "redis-stops-all", "redis-not-back", "wrong-reply", "redis-leak"),
    *("takes-memory", "one-redis-question", "lock-kept", "lost-wakeup", "cuts-slow-reader"),
)
"""What a process that is confused, stuck or busy may fail in."""

NEVER_SERVES = FaultKind(
    "never-serves",
    "You never began to serve",
    "The server was started and did not reach server_ready(), which prints the line `url`. Either "
    "it ended before, or it did something else: a loop without an end, a wait, or children that "
    "make children.",
    "main() in your main.c, from its first line to server_ready()",
    r"clone|fork|exit|\w+\(",
)
CHILD_ACCEPTS = FaultKind(
    "child-accepts",
    "Your child goes on in the accept loop",
    "After fork() the child serves one client and must then end. Instead it went back to the loop "
    "and accepts clients itself, so each client leaves one more process.",
    "_exit(2), after the client is served: `serve` and main() in 02_forking/main.c",
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
    "A thread took a mutex and did not release it: on a way out after an error, or because it "
    "sleeps while it has the lock. Every thread that needs the lock waits for it.",
    "pthread_mutex_lock(3): an unlock on each way out of the function, also after an error, and "
    "before each call that may sleep",
    r"futex\(",
    brings=BROKEN_SERVICE,
)
LOST_WAKEUP = FaultKind(
    "lost-wakeup",
    "Clients that come at the same moment are left waiting",
    "Clients connected and sent their requests while the server could not run. When it could run "
    "again, it slept although clients waited. One notification may stand for several clients: "
    "after an event of an edge-triggered epoll (EPOLLET) accept until EAGAIN; after a wake-up by a "
    "condition variable take clients from the queue until it is empty.",
    'epoll(7), "edge-triggered"; `accept_clients` in 07_epoll/main.c; pthread_cond_wait(3): test '
    "the condition in a loop; `queue_take` in 05_prethreading/main.c",
    r"accept|epoll_wait|futex",
    brings=BROKEN_SERVICE,
)
ONE_REDIS_QUESTION = FaultKind(
    "one-redis-question",
    "Only one client at a time may ask Redis",
    "Several clients asked for the guestbook at once, and Redis replied late. They were answered "
    "one after another: each waited until Redis had answered all clients before it. A "
    "lock that is held during the question does this; so does a single connection without a queue.",
    "redis_pool_borrow in lib/net/redis/pool.h: its lock is held only while a connection is taken; "
    "course/book/09-redis.md",
    r"futex|connect\(|poll",
    brings=("fails-under-load", "dear", "one-stops-all"),
)
NEVER_CLOSES = FaultKind(
    "never-closes",
    "You never close",
    "The whole answer came, and with it `Connection: close`; but you kept the connection. A "
    "browser may wait for its end, and each such connection keeps a descriptor. (After fork() the "
    "parent and the child both have it, and both must close it.)",
    "close(2); NEED_CLOSE, at the end of `blocking_serve` in lib/net/blocking.c; what the parent "
    "closes: main() in 02_forking/main.c",
    r"close\(",
    brings=("descriptor-leak", "fails-under-load"),
)
ONE_RECV = FaultKind(
    "one-recv",
    "You take one recv for a whole request",
    "The request came in several pieces, as TCP may bring any. What has come must be kept and more "
    "be read, until the request is whole.",
    "`receive` in lib/net/blocking.c; STATE_HEAD in lib/app/connection.c",
    r"recv|read\(",
)
SHORT_WRITE = FaultKind(
    "short-write",
    "A big answer does not arrive whole",
    "A client that reads slowly got only the beginning. A send returns how many bytes the kernel "
    "had room for; the rest is still yours to send. If there is no room (EAGAIN), wait until the "
    "socket is writable.",
    "send(2), RETURN VALUE; `send_some` in lib/net/blocking.c",
    r"send|write",
    brings=("cuts-slow-reader",),
)
FIXED_ANSWER = FaultKind(
    "fixed-answer",
    "You answer before you have read",
    "Every request gets the same answer, whatever it asks for. When receive() and send_some() are "
    "written, the three lines of `hello` must go: what they send comes first, and is taken for the "
    "answer.",
    "stage 1 of the skeleton: receive(), send_some() and serve()",
    r"recv|send|read|write",
)
NO_ANSWER = FaultKind(
    "no-answer",
    "You do not answer",
    "A client got no whole answer.",
    "the table of needs in lib/app/connection.h; `blocking_serve` in lib/net/blocking.c",
)
WRONG_ANSWER = FaultKind(
    "wrong-answer",
    "You answer with something else",
    "The answer is whole HTTP, but it is not what was asked for.",
    "connection_pending and connection_sent in lib/app/connection.h",
)
BAD_HEAD = FaultKind(
    "bad-head",
    "The head of your answer is no HTTP",
    "It has bytes that no head may have. The date is one of its lines, and the application knows "
    "it only when it has been told the time.",
    "moment_set in lib/app/moment.h; RFC 9110, section 5.5: which bytes a field may have",
    r"send|write",
)
WRONG_LENGTH = FaultKind(
    "wrong-length",
    "Your Content-Length is not the length of what you send",
    "The client believes that number: it waits for bytes that never come, or takes the rest of one "
    "answer for the beginning of the next.",
    "RFC 9110, section 8.6; send what connection_pending says, and no byte of it changed: "
    "`send_some` in lib/net/blocking.c",
    r"send|write",
    brings=("no-answer", "wrong-answer", "loses-pipelined", "fails-under-load", "wrong-length"),
)
NOT_KEPT = FaultKind(
    "not-kept",
    "You keep no connection",
    "A client of HTTP/1.1 may ask again on the same connection. Where nobody else waits, it should "
    "be kept: to make a new one for each request costs both sides more than the request.",
    "`.requests_per_connection` and NEED_KEEP in the skeleton; connection_keep and connection_next "
    "in lib/app/connection.h",
    r"recv|send|close\(",
)
NO_REDIS = FaultKind(
    "no-redis",
    "You do not bring what Redis says",
    "Files are served, but what is kept in Redis is not.",
    "stage 2 of the skeleton; `ask_once` in lib/net/blocking.c",
    r"connect\(|poll\(",
)
REDIS_LEAK = FaultKind(
    "redis-leak",
    "You keep what you have borrowed",
    "A connection to Redis that redis_pool_borrow() had lent was not returned, perhaps only after "
    "an error. When too many are lent, redis_pool_borrow() waits for one, or returns NULL.",
    "redis_pool_borrow and redis_pool_return in lib/net/redis/pool.h: one for each other, on every "
    "way out",
    r"connect\(",
)
BELIEVES = FaultKind(
    "believes-anything",
    "You take a bad request for a good one",
    "Something that is no HTTP, or could be read in two ways, was answered as if it were right. "
    "Two programs that read the same bytes differently are how requests are smuggled.",
    "RFC 9112, sections 3 and 6.3; lib/proto/http.c",
)
LOSES_PIPELINED = FaultKind(
    "loses-pipelined",
    "You forget what came behind the first request",
    "Two requests came in one packet on a connection that you keep. The second was not answered.",
    "connection_next in lib/app/connection.c: what is in the buffer already needs no recv",
    r"recv|send",
)
SIGPIPE = FaultKind(
    "sigpipe",
    "SIGPIPE killed a worker",
    "A client left while it was sent something. Who writes to a connection that is gone gets this "
    "signal, and unless it is ignored it ends the whole process.",
    "signal(7), SIGPIPE; MSG_NOSIGNAL in send(2); signal() in lib/net/server.c",
    r"SIGPIPE|EPIPE|ECONNRESET",
)
CRASH = FaultKind(
    "crash",
    "A process of yours ended while clients were served",
    "A process of the server has ended before it was asked to stop.",
    "core(5); build it with `make debug` and send it the same again",
    r"\+\+\+|--- SIG",
)
ONE_STOPS_ALL = FaultKind(
    "one-stops-all",
    "One client stops your loop",
    "Some clients were silent, before their request or in the middle of it, and everybody else "
    "waited for them. One of the calls that sleep, sleeps for a single client.",
    "the tables in docs/architecture.md: who waits for whom; `wait_for` in lib/net/evented.c; "
    "`receive` in lib/net/blocking.c",
    r"recv|read\(|poll|epoll_wait|accept",
)
BY_NATURE = FaultKind(
    "by-nature",
    "One connection after another: so it must be",
    "It serves one connection after another and says so in its tests.toml. One silent client stops "
    "it, and a connection that it kept would be all that it serves. This architecture cannot have "
    "these points. It is no fault.",
    "01_iterative/main.c: what happens at the limit. If yours shall serve more than one, take the "
    "line stalled_by out of its tests.toml",
)
NO_PATIENCE = FaultKind(
    "no-timeout",
    "Who says nothing may stay for ever",
    "Half a request came, then nothing more; the connection was still open long after its time. A "
    "few such clients take all your workers or descriptors.",
    "connection_patience and connection_timed_out in lib/app/connection.h; options_time in "
    "lib/net/options.h, through which --time-scale shortens all times; REQUEST_TIMEOUT in "
    "lib/config.h",
    r"recv|read\(|poll|epoll_wait",
    brings=("restarted-timeout", "no-send-timeout"),
)
RESTARTED_TIMEOUT = FaultKind(
    "restarted-timeout",
    "Each byte buys the client its whole time again",
    "A request came a byte at a time, never long silent, and was waited for much longer than a "
    "request may take. The time is for the whole request: a deadline, and no pause between bytes. "
    "(The attack by this is called Slowloris.)",
    "`set_timeout` in lib/net/blocking.c; `start_waiting` in lib/net/evented.c; "
    "connection_patience in lib/app/connection.h",
    r"recv|read\(|poll|epoll_wait",
)
NO_SEND_TIMEOUT = FaultKind(
    "no-send-timeout",
    "Who takes nothing may stay for ever",
    "A client asked for a big file and read none of it. Long after its time it still had your "
    "worker, and some megabytes in the kernel. Who takes some bytes now and then may go on; who "
    "takes none is sent away.",
    "SEND_TIMEOUT in lib/config.h; `takes_bytes` in lib/net/blocking.c; `has_time` in "
    "lib/net/evented.c",
    r"send|write|poll|epoll_wait",
)
CUTS_SLOW_READER = FaultKind(
    "cuts-slow-reader",
    "You cut off a client that reads slowly",
    "A client read a large file slowly but steadily and did not get all of it. SEND_TIMEOUT limits "
    "the time in which a client takes nothing at all; each byte that it takes starts this time "
    "again. A time limit for a whole response cuts off every client with a slow connection.",
    "SEND_TIMEOUT in lib/config.h; `takes_bytes` in lib/net/blocking.c; `has_time` in "
    "lib/net/evented.c",
    r"send|write|poll|epoll_wait|close\(",
)
DESCRIPTOR_LEAK = FaultKind(
    "descriptor-leak",
    "You do not close a descriptor",
    "A client has gone, a file was replaced or Redis was gone, and the descriptor is still open. "
    "When the last one is used up (`ulimit -n`), no new client can come in.",
    "close(2), on each way out of the function that serves; `ls /proc/PID/fd`",
    r"accept|close\(",
)
CLOSES_TWICE = FaultKind(
    "closes-twice",
    "You close a descriptor twice",
    "close() was called for a descriptor that was not open. Between two closes of the same number "
    "the system may give this number to another client, whose connection the second close ends. "
    "With threads this happens at any time.",
    "close(2), EBADF; each descriptor is closed in one place, by the one who owns it: the end of "
    "`blocking_serve` in lib/net/blocking.c",
    r"close\(.*EBADF",
    brings=BROKEN_SERVICE,
)
ZOMBIES = FaultKind(
    "zombies",
    "You leave zombies",
    "Children have ended and nobody has waited for them. Each keeps its place in the process table "
    "until there is none left.",
    "waitpid(2); `children_reap` in lib/process/children.c",
    r"wait4|waitid|SIGCHLD|exited with",
)
WORKERS_PILE_UP = FaultKind(
    "workers-pile-up",
    "Threads or processes that do not end",
    "Clients have come and gone, and who served them is still there. Sooner or later none can be "
    "made any more.",
    "a thread ends by returning, a child by `_exit`: `serve` in 04_threading/main.c, and "
    "02_forking/main.c; where it may sleep for ever: stage 3 of the skeleton",
    r"clone|exit",
    brings=("memory-leak", "dies-at-limit"),
)
NOT_JOINED = FaultKind(
    "not-joined",
    "You leave threads that nobody joins",
    "Threads have ended, but their stacks are still there, as a zombie's place in the process "
    "table: the system keeps them for the one who asks how they ended. Memory grows with each "
    "client.",
    "pthread_join(3), pthread_detach(3); PTHREAD_CREATE_DETACHED in 04_threading/main.c",
    r"clone|mmap",
    brings=("memory-leak",),
)
DIES_AT_LIMIT = FaultKind(
    "dies-at-limit",
    "Where threads or processes run out, you give up",
    "More clients came than processes and threads were allowed; fork() and pthread_create() then "
    "fail with EAGAIN. The clients that are being served must go on, and the others must wait.",
    "fork(2), pthread_create(3): what they return, EAGAIN; `fork_for` in 02_forking/main.c",
    r"clone|EAGAIN",
)
SPINS = FaultKind(
    "spins",
    "You wait without sleeping",
    "Nothing was to do, and it used a processor all the same. Something asks again and again "
    "instead of sleeping until there is an event. A call with a timeout of a few milliseconds, in "
    "a loop, asks again and again, too.",
    "poll(2): its timeout; readiness that is not wanted: `wait_for` in lib/net/evented.c",
    r"\w+\(",
)
REDIS_STOPS_ALL = FaultKind(
    "redis-stops-all",
    "Without Redis you do not answer as you should",
    "Redis was gone, or did not reply. Files do not need it. What needs it must be answered 503.",
    "connection_replied(connection, NULL) in lib/app/connection.h",
    r"connect\(|poll|ECONNREFUSED",
)
REDIS_NOT_BACK = FaultKind(
    "redis-not-back",
    "Redis is back, and you have not noticed",
    "The guestbook still cannot be had, seconds after Redis answers again. A connection that has "
    "ended must be made anew.",
    "redis_client_call in lib/net/redis/client.c; REDIS_RETRY in lib/config.h",
    r"connect\(|poll|EPIPE",
)
WRONG_REPLY = FaultKind(
    "wrong-reply",
    "A client got the reply of another",
    "Several clients asked at once, and one got another reply than Redis has for its question. A "
    "connection to Redis answers in order: it is one user's at a time, or has a queue.",
    "course/book/09-redis.md, its second half; lib/net/redis/pool.h",
    r"connect\(|recv|send",
)
CUTS_OFF = FaultKind(
    "cuts-off",
    "SIGTERM cuts off whom you are serving",
    "A client had sent half its request when the server was told to stop, and the rest a moment "
    "later. A client that is being served must still be answered. (The signal ends a call that "
    "sleeps with EINTR. That alone is no reason to give the client up: call again.)",
    "lib/process/stop.h; EINTR in signal(7); `receive` in lib/net/blocking.c; connection_is_idle "
    "in lib/app/connection.h",
    r"SIGTERM|exited with|exit_group|close\(",
)
DEAF = FaultKind(
    "deaf",
    "After SIGTERM you do not end",
    "It was told to stop and was still there when its time was over. Perhaps main() has heard it "
    "and waits for those who serve: each of them that sleeps for a client must be woken too, leave "
    "a client who is idle (connection_is_idle) at once, and any other, in the middle of a request "
    "say, when server_is_out_of_time().",
    "lib/process/stop.h; signal(7): which calls return with EINTR; `wake_threads` in "
    "04_threading/main.c; children_end in lib/process/children.h",
    r"SIGTERM|SIGALRM|EINTR|wait4|kill\(",
)
BAD_STATUS = FaultKind(
    "bad-status",
    "You do not end as one should",
    "After SIGTERM it ended, but not with exit status 0.",
    "server_end in lib/net/server.h",
    r"exit_group|\+\+\+",
)
ORPHANS = FaultKind(
    "orphans",
    "Your children outlive you",
    "The first process has ended, and others that it made are still there.",
    "children_end in lib/process/children.h",
    r"kill\(|wait4|exited with",
)
FAILS_UNDER_LOAD = FaultKind(
    "fails-under-load",
    "Under load you lose clients",
    "Not every request of many clients at once had a whole answer.",
    "README, The seven servers: at its limit",
    r"accept|EMFILE|EAGAIN",
)
DEAR = FaultKind(
    "dear",
    "A request costs you much more than the dearest of the seven",
    "It works, but takes a multiple of the processor time that forking takes. Look for a call that "
    "is made again and again, or memory that is copied.",
    "`make timeline`; perf(1); `cpu/request`, which the server prints at its end",
)
DATA_RACE = FaultKind(
    "data-race",
    "Threads use the same memory without a lock",
    "Two threads use the same memory at once, and at least one writes. It works a thousand "
    "times and then loses a client, or crashes. Often it is a queue, a `struct client` that main() "
    "overwrites for the next client, or something that main() frees while threads still serve.",
    "pthread_mutex_lock(3); `queue_take` in 05_prethreading/main.c; pthread_join(3); `make tsan`",
    brings=BROKEN_SERVICE,
)
SANITIZER_ERROR = FaultKind(
    "sanitizer-error",
    "A sanitizer reports a misuse of memory or of a lock",
    "Memory was used beyond its end or after it was freed, an operation has no defined result, or "
    "a mutex was unlocked by a thread that did not hold it, locked twice, or destroyed while it "
    "was locked. Such a program may work for a long time.",
    "the proof: the first function of yours in it; free(3), pthread_mutex_lock(3); `make debug`",
    brings=BROKEN_SERVICE,
)
NOT_SANITIZED = FaultKind(
    "not-sanitized",
    "It does not compile with a sanitizer",
    "It compiles without. The sanitizers find data races and misuses of memory, so it must "
    "compile with them, too.",
    "the compiler's first message; `make tsan`, `make debug`",
)
UNLISTED_CALL = FaultKind(
    "unlisted-call",
    "You use a system call that is not in your list",
    "What a server may ask of the kernel is said before it serves; all else is refused, so that "
    "who breaks in can do little. The C library's functions are made of such calls: a thread is a "
    "clone3 and more.",
    "`.calls` at the head of your main.c: THREADED_CALLS, THREAD_CREATING_CALLS, FORKING_CALLS, "
    "CALL(...); lib/process/confine.h; seccomp(2)",
    r"--- SIGSYS",
)
MEMORY_LEAK = FaultKind(
    "memory-leak",
    "You lose memory with each request",
    "The same requests came again and again, and after each round the server held more memory than "
    "before. What malloc() gives must be freed on each way out, also after an error.",
    "malloc(3), free(3); `valgrind --leak-check=full`, or `make debug`, which reports leaks at the "
    "end; connection_free in lib/app/connection.h; redis_pool_return in lib/net/redis/pool.h",
    r"mmap|brk",
)
WORKER_LOST = FaultKind(
    "worker-not-replaced",
    "Workers that die are not replaced",
    "All worker processes were killed (kill -9), as the kernel does where memory is short, and a "
    "client who came then was not served. The first process must make others in their place.",
    "waitpid(2); `replace_workers` in 03_preforking/main.c",
    r"wait4|SIGCHLD|clone",
)
TAKES_MEMORY = FaultKind(
    "takes-memory",
    "You take memory without end",
    "It used more than it was granted and was ended for it.",
    "a buffer needs a limit: lib/config.h",
)

FAULTS = {one.name: one for one in list(globals().values()) if isinstance(one, FaultKind)}
