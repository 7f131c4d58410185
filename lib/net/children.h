/* SPDX-License-Identifier: MIT */
/*
 * Child processes that serve: 02, 03 and 09 fork, stop and reap them.
 *
 * Who owns a socket after fork()?  Both processes.  So in 02, once Redis has
 * answered, the parent connects to Redis, without waiting, and lends the
 * connection to a child.  The connection outlives the child.  A child that
 * exits normally reports the state of the connection in shared memory.  If a
 * child is killed, the parent closes the connection.  Otherwise the next child
 * could take an unread reply for its own.
 *
 * If Redis has no free connection, each process closes its own unused
 * connection.  A child that sleeps must be woken for that.  So a child that
 * Redis has rejected wakes the parent, and the parent wakes all children.  Only
 * the parent can be sure that a process id is still a child's.
 */
#pragma once

#include "net/server.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A child has its slot from the fork until it is reaped. */
struct child {
    pid_t pid;                   /* 0: the slot is free */
    struct redis_client *client; /* lent; NULL: none */
    /* The state of that connection when the child ended; no command was waiting
       then.  PIPELINE_CLOSED: the child was killed, or has closed it. */
    enum pipeline_state final_state;
};

struct children {
    struct server *server;
    struct child *slots;
    size_t limit;          /* the number of slots */
    _Atomic size_t *alive; /* used slots; all processes may read it */
    bool lends;            /* the parent lends connections to Redis */
    bool stopped;          /* children_stop() was called */
    sigset_t mask;         /* the signals that are blocked in ppoll(2) */
};

/* Call this before server_ready(), which forbids system calls made here. */
void children_init(struct children *children, struct server *server,
                   size_t limit, bool lends);

/* Returns whether all slots are in use.  Parent and children may call it. */
bool children_are_complete(const struct children *children);

/* Forks a child, for which a slot must be free, and sets *slot.  Returns the
   result of fork(2).  The kernel kills the child when its parent ends.  In the
   child the lent connection is in the pool. */
pid_t children_fork(struct children *children, size_t *slot);

/* Ends this child after it has served, without exit(3): the parent cleans up.
   Reports the state of a lent Redis connection, or closes the child's own. */
__attribute__((noreturn)) void children_exit(struct children *children,
                                             size_t slot);

/* Reaps a child that has ended, and sets *slot to its slot, which is free
   again.  If `wait` is true, waits for a child to end.  Returns false if no
   child has ended, or if a signal came.  Call this function each time the
   parent has slept: it also closes idle connections to Redis. */
bool children_reap(struct children *children, bool wait, size_t *slot);

/* Sleeps until a signal comes or the time is over.  Also wakes, and returns
   true, if a client waits at the listener (-1: none) and a slot is free. */
bool children_sleep(const struct children *children, int listener,
                    int milliseconds);

/* Sends each child a stop signal, once.  New children inherit the stop flag. */
void children_stop(struct children *children);

/* Stops all children and waits for them; kills them when time is up. */
void children_end(struct children *children);
