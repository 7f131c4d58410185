/* SPDX-License-Identifier: MIT */
/*
 * Coroutines: functions that wait for a descriptor, for a time or for each
 * other, each on a stack of its own, and one event loop that continues those
 * for which the wait is over.
 *
 *       main stack                    the coroutines' stacks
 *
 *     accept4() would wait          +---+
 *       run the event loop:         | A | recv() would wait: note who waits
 *         epoll_wait()  ----------> +---+   for which descriptor, switch back
 *         switch to each that       | B |
 *         is ready      <---------- +---+
 *
 * They take turns only where they wait, so between two waits no other one runs:
 * no lock is needed, and none may be kept during a wait.  The main stack is a
 * coroutine like the others; the loop runs on it while it waits.
 *
 * One coroutine at a time waits for a descriptor.
 */
#ifndef NET_COROUTINE_H
#define NET_COROUTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins: from now on the wrapped calls (calls.c) switch instead of sleeping.
   `limit`: the most coroutines.  Accepted sockets inherit the timeouts of the
   listener.  Exits 1 if memory is short. */
void coroutines_begin(size_t limit, int listener);
void coroutines_end(void); /* none is left: frees the stacks */

/* Makes sure that there is a stack for one more.  Returns false with errno set
   if memory is short. */
bool coroutine_reserve(void);

/* Runs the function on the reserved stack until it first waits, or returns. */
void coroutine_start(void (*function)(void *), void *argument);

/* Returns how many have not returned yet. */
size_t coroutines_alive(void);

/* Waits until a coroutine has returned, or the server begins to stop. */
void coroutines_wait_for_end(void);

/* ---- For calls.c: waiting ---- */

/* Are there coroutines?  Otherwise calls may sleep. */
bool coroutines_run(void);

enum woken {
    WOKEN_READY,
    WOKEN_TIMEOUT,    /* at the deadline */
    WOKEN_BY_SIGNAL,  /* the server is stopping: look whether to go on */
    WOKEN_IMPOSSIBLE, /* no memory to watch the descriptor */
};

/* Waits until the descriptor has one of the epoll_ctl(2) events, until the
   deadline at most (clock_milliseconds()).  -1: waits for the time only.  Call
   it when the descriptor is known not to be ready. */
enum woken coroutine_wait(int descriptor, uint32_t events, int64_t deadline);

/* Waits until another coroutine calls coroutine_wake() for this address, which
   wakes the coroutine that has waited longest. */
enum woken coroutine_wait_on(const void *address, int64_t deadline);
void coroutine_wake(const void *address);

/* After this number of calls in one turn others have a turn first. */
void coroutine_yield_after(unsigned calls);

/* The timeouts of a socket in milliseconds, as SO_RCVTIMEO and SO_SNDTIMEO;
   but 0 is no time at all.
   NULL if memory is short: not for a socket whose timeouts were set before. */
struct timeouts {
    int receive, send;
};
struct timeouts *coroutine_timeouts(int descriptor);

/* The descriptor will be closed, which also removes it from the epoll set. */
void coroutine_forget(int descriptor);

#endif
