/* SPDX-License-Identifier: MIT */
/* Descriptors that an event loop watches: the listener, clients, Redis. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* Kinds of readiness.  poll and epoll use the same values for them, under
   different names.  Both are level-triggered here: a socket that is still ready
   is reported again at the next iteration, so bytes may be left for later. */
enum {
    READABLE = POLLIN,          /* EPOLLIN */
    WRITABLE = POLLOUT,         /* EPOLLOUT */
    BROKEN = POLLERR | POLLHUP, /* an error, or closed: always reported */
};

struct event_source {
    enum { SOURCE_LISTENER, SOURCE_CLIENT, SOURCE_REDIS } kind;
    int descriptor;    /* -1: closed */
    unsigned interest; /* the watched kinds of readiness; 0: none */
    size_t slot;       /* for the loop's own use */
};

/* The interface of an event loop, for code that has descriptors to watch. */
struct event_loop {
    /* Watches the source for `interest`; 0: no longer watches it.  A source
       that was just closed has the descriptor -1.  Returns false, and changes
       nothing, if memory is short. */
    bool (*watch)(void *context, struct event_source *source,
                  unsigned interest);
    void *context;
};

/* Calls watch() if the interest changes.  Returns false if memory is short. */
static inline bool source_watch(const struct event_loop *loop,
                                struct event_source *source,
                                unsigned interest) {
    if (source->interest == interest)
        return true;
    if (!loop->watch(loop->context, source, interest))
        return false;
    source->interest = interest;
    return true;
}

/* Closes the descriptor, and only then informs the loop.  This order saves a
   system call, because a closed descriptor has left epoll's set (epoll(7)). */
static inline void source_close(const struct event_loop *loop,
                                struct event_source *source) {
    if (source->descriptor >= 0)
        close(source->descriptor);
    source->descriptor = -1;
    (void)source_watch(loop, source, 0); /* cannot fail: it is closed */
}
