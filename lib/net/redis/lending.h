/* SPDX-License-Identifier: MIT */
/*
 * Connections to Redis that forked processes share with their parent: 02 and
 * 03.
 *
 * Who owns a socket after fork()?  Both.  So once Redis has answered, the
 * parent connects, without waiting, and lends; the connection outlives the
 * child.  A child that ends well reports the state of the connection in shared
 * memory.  A killed child may have left half a command or an unread reply,
 * which the next child would take for its own, so the parent closes the
 * connection.
 *
 * If Redis has no free connection, each process closes its own when it does not
 * use it.  A child that sleeps with one must be woken for that.  The rejected
 * child wakes the parent repeatedly, and the parent wakes those that keep one:
 * only a parent knows that a process id is still its child's.
 */
#ifndef NET_REDIS_LENDING_H
#define NET_REDIS_LENDING_H

#include "net/redis/pool.h"

#include <sys/types.h>

/* The data of a slot, in memory that its child shares with the parent: so a
   write copies no page after a fork. */
struct redis_loan {
    struct redis_client *client; /* what is, or can be, lent; NULL: nothing */
    _Atomic bool keeps_idle; /* it has a connection that it may not be using */
    enum {
        LOAN_BROKEN, /* also the value until the child reports another */
        LOAN_UNUSED,
        LOAN_READY, /* used, and between two commands */
    } final_state;
};

struct redis_lending {
    const struct redis_server *server;
    size_t count;             /* slots for children */
    struct redis_loan *loans; /* one for each slot */
    int64_t checked_at;       /* time of the last check for unused ones */
};

/* Prepares the lending for this number of children at once. */
void redis_lending_init(struct redis_lending *lending,
                        const struct redis_server *server, size_t count);

/* The parent, before it forks: prepares a connection for that slot, unless
   Redis was never needed yet, or connections or descriptors are short. */
void redis_lending_prepare(struct redis_lending *lending, size_t slot);

/* The child: opens its pool, with what it was lent; reports its state. */
void redis_lending_open(struct redis_lending *lending, size_t slot,
                        struct redis_pool *pool);
void redis_lending_leave(struct redis_lending *lending, size_t slot,
                         const struct redis_pool *pool);

/* The parent, after the child's end. */
void redis_lending_child_ended(struct redis_lending *lending, size_t slot);

/* The parent, each time it has slept: closes unused connections that others may
   need.  If Redis connections are scarce, wakes the children that keep one; the
   array has a process id for each slot, 0 for none. */
void redis_lending_close_idle(struct redis_lending *lending,
                              const pid_t *children);

void redis_lending_close(struct redis_lending *lending);

#endif
