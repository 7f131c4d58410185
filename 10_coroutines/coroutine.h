/* SPDX-License-Identifier: MIT */
/*
 * Coroutines: functions that each have a stack, and that wait for a descriptor,
 * for a time or for each other.  One event loop continues each function whose
 * wait is over.
 *
 *       main stack                    the coroutines' stacks
 *
 *     accept4() would wait          +---+
 *       run the event loop:         | A | recv() would wait: note who waits
 *         epoll_wait()  ----------> +---+   for which descriptor, switch back
 *         switch to each that       | B |
 *         is ready      <---------- +---+
 *
 * A coroutine switches only in a call that may wait.  Between two such calls no
 * other coroutine runs: no lock is needed, and no lock may be held during such
 * a call.  The code on the main stack is a coroutine, too.  While it waits, the
 * loop runs on the main stack.
 *
 * Only one coroutine at a time may wait for the same descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cached_time;

/* After this call the wrapped calls (calls.c) switch to another coroutine
   instead of sleeping.  `limit` is the largest number of coroutines.  Each loop
   iteration changes `time->round`.  Exits with status 1 if memory or
   descriptors are short. */
void coroutines_begin(size_t limit, struct cached_time *time);
void coroutines_end(void); /* frees the stacks, which must be unused */

/* Makes sure that there is a stack for one more coroutine.  Returns false with
   errno set if memory is short. */
bool coroutine_reserve(void);

/* Runs the function on the reserved stack, until it waits or returns. */
void coroutine_start(void (*function)(void *), void *argument);

/* Sets a function that serves all coroutines.  The loop calls this function
   each time before epoll_wait().  The function may resume coroutines.  It
   returns the time when the loop must call it again at the latest (INT64_MAX:
   after the next event). */
void coroutines_set_service(int64_t (*service)(void));

/* Makes the loop note the events of the descriptor, for
   coroutine_may_receive().  Returns false if memory is short. */
bool coroutine_watch(int descriptor);

/* Returns the number of coroutines that have not returned yet. */
size_t coroutines_alive(void);

/* Waits until a coroutine has returned or the server stops, for a minute at
   most. */
void coroutines_wait_for_end(void);

/* ---- Waiting ---- */

/* Returns true between coroutines_begin() and coroutines_end(); at other times
   calls may sleep. */
bool coroutines_run(void);

enum woken {
    WOKEN_READY,
    WOKEN_TIMEOUT,   /* at the deadline */
    WOKEN_BY_SIGNAL, /* the server is stopping: check whether to continue */
    WOKEN_NO_MEMORY, /* no memory to watch the descriptor */
};

/* Neither time nor a signal ends a wait with this deadline. */
#define NO_DEADLINE INT64_MAX

/* Waits until the descriptor has one of the epoll_ctl(2) events, but not after
   the deadline (of clock_milliseconds()).  If the descriptor is -1, no event
   ends the wait.  Call this function only when the descriptor is known not to
   be ready. */
enum woken coroutine_wait(int descriptor, uint32_t events, int64_t deadline);

struct coroutine;
struct coroutine *coroutine_current(void);

/* Ends the wait of a coroutine, and runs it until it waits again or returns. */
void coroutine_resume(struct coroutine *coroutine);

/* Begins to load a part of the stack that runs next into the processor's cache:
   with many connections nothing of this stack is left there.  `variable` is an
   address in the frame of the function that waits. */
void coroutine_prefetch(const void *variable);

/* Counts a call.  Lets the other coroutines run first if the current coroutine
   has already made this number of calls in its turn. */
void coroutine_yield_after(unsigned calls);

/* The timeouts of a socket in milliseconds, like SO_RCVTIMEO and SO_SNDTIMEO,
   except that 0 means: do not wait.  coroutine_timeouts() returns NULL if
   memory is short, but never for a socket whose timeouts were set before. */
struct timeouts {
    int receive, send;
};
struct timeouts *coroutine_timeouts(int descriptor);

/* Returns false if recv() would find nothing: an earlier recv() has emptied the
   socket, and no event has been reported since then. */
bool coroutine_may_receive(int descriptor);

/* Notes that the socket is empty (epoll(7)).  Call it after recv() has returned
   fewer bytes than requested. */
void coroutine_received_all(int descriptor);

/* After this call each cached file is checked for a change at its next use.
   Call it after bytes were received without a wait: a file may have changed
   since this loop iteration began. */
void coroutines_next_round(void);

/* Deletes the data of a descriptor that will be closed.  The close also removes
   the descriptor from the epoll set. */
void coroutine_forget(int descriptor);
