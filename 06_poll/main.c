/* SPDX-License-Identifier: MIT */
/*
 * poll: one event loop serves all connections, and poll() sleeps for all of
 * them.
 *
 *     clients          this process                            kernel
 *
 *     A --------+    +--------------------------+   poll     +-------------+
 *     B --------+--> | array: listener, A, B, C,| ---------> | checks      |
 *     C --------+    |  Redis; serves each that | <--------- | every one   |
 *     Redis ----+    |  is ready until its next |  "A, Redis"| of them     |
 *                    |  call would sleep        |            +-------------+
 *                    +--------------------------+
 *
 * Who waits, and where?  poll() is the only call that waits for the network,
 * and it waits for all clients.  Every other call on a socket returns at once;
 * if it would have to wait, the loop continues with another client.
 *
 * Where does a half-done request live?  In its `struct event_conn`, on the
 * heap: a state machine instead of a stack.  A request that waits for Redis is
 * in a queue, because all requests share one connection to Redis, and replies
 * come in order.
 *
 * What does it cost?  The array belongs to the program, so a change of interest
 * is an assignment and costs no system call.  But each poll() passes the whole
 * array to the kernel, which checks every descriptor; then the program searches
 * for ready descriptors.  So the cost of one event grows with the number of
 * connections, including idle ones.
 *
 * What happens at the limit?  At the limit of descriptors the server stops
 * accepting until a client leaves; other clients wait in the backlog.  The
 * server uses only one core: a handler that computes delays all clients (try
 * /sorted).
 *
 * What to try: connect 2,000 silent clients, and measure one more request, here
 * and in 07.  Commands and results: docs/tutorial/book/06-poll.md.
 *
 * To see it: `strace -e trace=/poll ./poll`, with some clients that have sent
 * half a request: each call (ppoll on ARM) receives all their descriptors.
 */
#include "config.h"
#include "net/readiness.h"

#include <poll.h>
#include <stdlib.h>

static const struct architecture architecture = {
    .name = "poll",
    .summary = "one process, one event loop (poll)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(poll)},
};

/* Two arrays in parallel, because poll() takes an array of struct pollfd. */
struct loop {
    struct pollfd *watched;
    struct event_source **sources; /* of the descriptor at the same index */
    size_t count;
    size_t capacity;
};

/* Allocates an entry for each possible descriptor, so that watching never
   fails. */
static void loop_init(struct loop *loop) {
    loop->count = 0;
    loop->capacity = (size_t)sysconf(_SC_OPEN_MAX);
    loop->watched = calloc(loop->capacity, sizeof loop->watched[0]);
    loop->sources = calloc(loop->capacity, sizeof loop->sources[0]);
    if (loop->watched == NULL || loop->sources == NULL)
        server_fatal("no memory for %zu connections; allow fewer descriptors",
                     loop->capacity);
}

/* Writes the changed interest to the array; the kernel sees it at the next
   poll().  The last entry takes the place of a removed one. */
static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    struct loop *loop = context;

    if (source->interest == 0) {
        source->slot = loop->count++;
        loop->sources[source->slot] = source;
    }
    if (interest == 0) {
        loop->count--;
        loop->watched[source->slot] = loop->watched[loop->count];
        loop->sources[source->slot] = loop->sources[loop->count];
        loop->sources[source->slot]->slot = source->slot;
        return true;
    }
    loop->watched[source->slot] =
        (struct pollfd){.fd = source->descriptor, .events = (short)interest};
    return true;
}

/* Sleeps until a descriptor is ready, and serves all that are ready.  The loop
   runs from the end to the front.  An entry removed meanwhile is replaced by an
   entry that was checked already; an entry added meanwhile is not checked this
   time. */
static void run_round(struct loop *loop, struct evented *evented) {
    int timeout = readiness_prepare_wait(evented);
    int count = poll(loop->watched, loop->count, timeout);

    evented_begin_round(evented);
    for (size_t i = loop->count; i-- > 0 && count > 0;) {
        unsigned ready =
            i < loop->count ? (unsigned)loop->watched[i].revents : 0;
        if (ready == 0)
            continue;
        count--;
        loop->watched[i].revents = 0;
        readiness_event(evented, loop->sources[i], ready);
    }
    readiness_end_round(evented);
}

int main(int argc, char **argv) {
    struct server server;
    struct evented evented;
    struct loop loop;

    server_start(&server, &architecture, argc, argv);
    loop_init(&loop);
    readiness_init(&evented, &server, (struct event_loop){watch, &loop});

    server_ready(&server);
    while (readiness_keep_running(&evented))
        run_round(&loop, &evented);

    readiness_free(&evented);
    free(loop.watched);
    free(loop.sources);
    return server_end(&server);
}
