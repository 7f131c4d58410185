/* SPDX-License-Identifier: MIT */
/*
 * coroutines: a stack for each connection, on one event loop.
 *
 *     clients          kernel                     this process
 *
 *     A --------+    +--------------+  epoll_wait  +------+ switch  +---+
 *     B --------+--> | watched set: | -----------> | loop | ------> | A | a
 *     C --------+    | A B C Redis  |  "A, C"      |      | <------ +---+ stack
 *     Redis ----+    +--------------+              |      | ------> | C | for
 *                       ^                          |      | <------ +---+ each
 *                       |                          +------+         | B |
 *                       +--- epoll_ctl: each connection once -----  +---+
 *
 * Who waits, and where?  The process sleeps only in epoll_wait(), as in 07.  In
 * the source each connection waits in its own calls, as in 04: it is served by
 * the same blocking_serve(), with the same recv() and send().  The linker has
 * replaced these calls (calls.c): when the kernel would put a thread to sleep,
 * they switch to another stack.
 *
 * Where does a half-done request live?  On its own stack, as in 04 and 05: what
 * is a field of a structure in 07 is a local variable here.  The processor's
 * registers are on that stack, too, while another stack is in use (stack.c).
 *
 * What does it cost?  A switch is 15 instructions on x86-64, and no system
 * call.  An idle connection keeps its stack: 64 KB of addresses, of which the
 * first page (4 KB) is used, or five pages after /sorted.  The commands of all
 * coroutines go over one connection to Redis (redis.c), as in 07.
 *
 * What happens at the limit?  COROUTINES_LIMIT, the descriptors and the memory
 * for stacks limit the connections.  At the limit the accept loop waits until a
 * client leaves; further clients wait in the backlog.  A new connection that
 * has sent nothing stays for REQUEST_TIMEOUT, as in 07; 04 may close such a
 * connection earlier, because it occupies a thread.  The server uses only one
 * core, and a coroutine that computes delays all others, as in 07.  (Go
 * interrupts such code by a timer, and uses all cores.)  A stack cannot
 * grow.  If a stack overflows, the guard below it ends the process and all its
 * connections.
 *
 * What to try: begin many requests, and finish none.  Compare the threads and
 * the memory of this server, 04 and 07.  The commands and the results are in
 * docs/tutorial/book/14-coroutines.md.
 *
 * To see it: `gdb -p $(pgrep -x coroutines) -batch -ex 'tbreak redis_pool_call'
 * -ex continue -ex 'break switch_pointers' -ex continue -ex backtrace`, and
 * then `curl localhost:8000/guestbook`.  gdb lists the functions of a
 * connection that waits for Redis: from the switch through redis_pool_call()
 * and blocking_serve(), as in 05, to begin(), the first function on this stack.
 */
#include "coroutine.h"
#include "limits.h"
#include "net/blocking.h"

#include <poll.h>

static const struct architecture architecture = {
    .name = "coroutines",
    .summary = "a stack for each connection, one event loop (epoll)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, CALL(epoll_ctl), CALL(epoll_wait),
              CALL(mprotect)},
};

static struct server server;
/* All coroutines share this structure: no coroutine waits between setting
   `cached_time` and using it. */
static struct worker worker;
static size_t room; /* the largest number of connections */

/* Returns true if all slots are taken: a client may be in the backlog. */
static bool others_wait(const struct worker *one) {
    (void)one;
    return coroutines_alive() >= room;
}

/* The main function of a coroutine.  It copies the accept loop's variable,
   because the loop stores the next client there. */
static void serve(void *context) {
    const struct client client = *(const struct client *)context;

    blocking_serve(&worker, &client);
}

/* Returns true if one more client may be accepted.  The client's stack is
   allocated first: if there is no memory, the client waits in the backlog. */
static bool has_room(void) {
    if (coroutines_alive() >= room) {
        coroutines_wait_for_end();
        return false;
    }
    if (coroutine_reserve())
        return true;
    shortage_report("memory");
    poll(NULL, 0, RETRY_DELAY); /* a client may leave meanwhile */
    return false;
}

/* Returns the largest number of connections.  A second descriptor, for a file,
   is reserved for CHILDREN_LIMIT of them: as many as 04 can serve. */
static size_t room_for_clients(void) {
    size_t most = limit_by_descriptors(CHILDREN_LIMIT, 1);

    if (most > COROUTINES_LIMIT)
        most = COROUTINES_LIMIT;
    return limit_by_memory(most,
                           COROUTINE_GUARD + COROUTINE_STACK + COROUTINE_HEAP,
                           COROUTINE_MEMORY);
}

int main(int argc, char **argv) {
    struct client client;

    server_start(&server, &architecture, argc, argv);
    room = room_for_clients();
    worker = (struct worker){.server = &server,
                             .counters = server.counters,
                             .others_wait = others_wait,
                             .silent_may_stay = true};
    server_make_listener_nonblocking(&server);
    coroutines_begin(room, &worker.cached_time);

    server_ready(&server);
    /* The accept loop of 04.  While blocking_accept() waits, the event loop
       runs. */
    while (!server_shut_if_drained())
        if (has_room() && blocking_accept(&server, &client))
            coroutine_start(serve, &client);

    while (coroutines_alive() > 0)
        coroutines_wait_for_end();
    coroutines_end();
    return server_end(&server);
}
