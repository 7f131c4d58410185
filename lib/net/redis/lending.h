/* SPDX-License-Identifier: MIT */
/*
 * How forked processes and their parent share connections to Redis: 02 and 03.
 *
 * Who owns a socket after fork()?  Both.  A child that lives for one client
 * would take its connection to Redis with it when it ends.  So once Redis has
 * answered anybody, the parent connects, without waiting, and lends.  A child
 * that ends well says in shared memory how it leaves the connection.  A child
 * that was killed says nothing, and may have left half a command or an unread
 * reply in it, which the next child would take for its own: such a connection
 * is closed.  So is a connection that its child found broken; that child
 * connects for itself.
 *
 * A process cannot hand a connection to its neighbour, as threads do.  So where
 * Redis has no client to spare, each closes its own when it does not use it.  A
 * child that sleeps and keeps one has to be woken for that: the child that was
 * refused wakes the parent, and the parent wakes those that keep one, again and
 * again, so that no wake-up can be lost.  It is the parent's part because only
 * a parent can be sure that a process id is still that of its child.
 */
#ifndef NET_REDIS_LENDING_H
#define NET_REDIS_LENDING_H

#include "net/redis/pool.h"

#include <sys/types.h>

/* A child's part, in memory that it shares with its parent. */
struct redis_loan {
    _Atomic bool keeping; /* a connection that it may not be using */
    enum {
        LOAN_SPOILT, /* also the value until the child changes it */
        LOAN_UNTOUCHED,
        LOAN_READY, /* used, and between two commands */
    } left_as;
};

struct redis_lending {
    const struct redis_server *server;
    size_t count;                  /* places for children */
    struct redis_loan *loans;      /* of each place */
    struct redis_client **clients; /* what is, or can be, lent; NULL: nothing */
    int64_t looked_at;             /* when, for what to spare */
};

/* For so many children at once. */
void redis_lending_init(struct redis_lending *lending,
                        const struct redis_server *server, size_t count);

/* The parent, before it forks: has a connection to lend to that place, unless
   Redis is still unused, or connections or descriptors are short. */
void redis_lending_prepare(struct redis_lending *lending, size_t place);

/* The child: its pool, with what it was lent; and how it leaves that. */
void redis_lending_open(struct redis_lending *lending, size_t place,
                        struct redis_pool *pool);
void redis_lending_leave(struct redis_lending *lending, size_t place,
                         const struct redis_pool *pool);

/* The parent, after the child's end. */
void redis_lending_take_back(struct redis_lending *lending, size_t place);

/* The parent, whenever it has slept: closes idle connections that others may
   want; and where clients are scarce, wakes those of its children, one a place,
   0 for none, that keep a connection. */
void redis_lending_spare(struct redis_lending *lending, const pid_t *children);

void redis_lending_close(struct redis_lending *lending);

#endif
