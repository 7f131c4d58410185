/* SPDX-License-Identifier: MIT */
/*
 * Coroutines: functions with a stack each, which wait for a descriptor, for a
 * time or for each other.  One event loop continues those whose wait is over.
 *
 *       main stack                    the coroutines' stacks
 *
 *     accept4() would wait          +---+
 *       run the event loop:         | A | recv() would wait: note who waits
 *         epoll_wait()  ----------> +---+   for which descriptor, switch back
 *         switch to each that       | B |
 *         is ready      <---------- +---+
 *
 * They switch only when they wait.  So no other coroutine runs between two
 * waits: no lock is needed, and none may be held during a wait.  The main stack
 * is a coroutine like the others; the loop runs on it while it waits.
 *
 * Only one coroutine may wait for a descriptor at a time.
 */
#ifndef COROUTINES_COROUTINE_H
#define COROUTINES_COROUTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cached_time;

/* Begins: from now on the wrapped calls (calls.c) switch instead of sleeping.
   `limit`: the largest number of coroutines.  The rounds of `time` are the
   loop's iterations. Exits 1 if memory is short. */
void coroutines_begin(size_t limit, struct cached_time *time);
void coroutines_end(void); /* frees the stacks, when none is in use */

/* Makes sure that there is a stack for one more.  Returns false with errno set
   if memory is short. */
bool coroutine_reserve(void);

/* Runs the function on the reserved stack until it first waits, or returns. */
void coroutine_start(void (*function)(void *), void *argument);

/* Sets a function that serves all coroutines.  The loop calls it each time
   before it waits for the kernel.  It may resume coroutines; it returns when it
   must be called again at the latest (INT64_MAX: after the next event). */
void coroutines_set_service(int64_t (*service)(void));

/* Called by the service: from now on the loop reports the events of the
   descriptor (coroutine_may_receive()).  Returns false if memory is short. */
bool coroutine_watch(int descriptor);

/* Returns the number of coroutines that have not returned yet. */
size_t coroutines_alive(void);

/* Waits until a coroutine has returned or the server stops, a minute at
   most. */
void coroutines_wait_for_end(void);

/* ---- Waiting ---- */

/* Are there coroutines?  Otherwise calls may sleep. */
bool coroutines_run(void);

enum woken {
    WOKEN_READY,
    WOKEN_TIMEOUT,   /* at the deadline */
    WOKEN_BY_SIGNAL, /* the server is stopping: check whether to continue */
    WOKEN_NO_MEMORY, /* no memory to watch the descriptor */
};

/* The deadline of a wait that no time and no signal ends. */
#define NO_DEADLINE INT64_MAX

/* Waits until the descriptor has one of the epoll_ctl(2) events, until the
   deadline at most (clock_milliseconds()).  -1: waits for the time only.  Call
   it when the descriptor is known not to be ready. */
enum woken coroutine_wait(int descriptor, uint32_t events, int64_t deadline);

struct coroutine;
struct coroutine *coroutine_current(void);

/* Ends the wait of a coroutine, and runs it until it waits again or returns. */
void coroutine_resume(struct coroutine *coroutine);

/* Begins to load a stack that runs next: with many connections nothing of it is
   left in the processor's cache.  `variable` is a local variable of the
   function that waits. */
void coroutine_prefetch(const void *variable);

/* After this number of calls in one turn, the other coroutines run first. */
void coroutine_yield_after(unsigned calls);

/* The timeouts of a socket in milliseconds, as SO_RCVTIMEO and SO_SNDTIMEO; but
   0 means: never wait.  Returns NULL if memory is short, but never for a socket
   whose timeouts were set before. */
struct timeouts {
    int receive, send;
};
struct timeouts *coroutine_timeouts(int descriptor);

/* Returns false if recv would find nothing: it has emptied the socket, and no
   event has been reported since. */
bool coroutine_may_receive(int descriptor);

/* Call it after recv has returned fewer bytes than requested: the socket is
   empty (epoll(7)). */
void coroutine_received_all(int descriptor);

/* Begins a new round of the cached time: bytes that were received without a
   wait may be newer than this loop iteration. */
void coroutines_next_round(void);

/* Deletes the data of a descriptor that will be closed.  The close also removes
   it from the epoll set. */
void coroutine_forget(int descriptor);

#endif
