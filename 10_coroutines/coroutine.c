/* SPDX-License-Identifier: MIT */
#include "coroutine.h"

#include "app/response.h"
#include "limits.h"
#include "ops.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/stop.h"
#include "stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>
#include <utlist.h>

/* A coroutine is stored at the upper end of its own stack, in the page that is
   used first. */
struct coroutine {
    struct stack stack;
    struct coroutine *resumer; /* runs next when this one waits */
    void (*function)(void *);  /* NULL: run() ends; the stack is unmapped */
    void *argument;
    unsigned calls;    /* in this turn */
    const void *frame; /* of the function that waits */
    enum woken woken;
    bool waits;
    int descriptor; /* for which it waits; -1: none */
    int64_t deadline;
    size_t place; /* in the heap, from 1; 0: not in the heap */
    struct coroutine *prev, *next;
};

/* The data of a watched descriptor. */
struct watched {
    struct coroutine *waiter;
    uint32_t events;   /* the events that the waiter waits for */
    bool in_set;       /* the kernel watches it */
    uint32_t reported; /* events so far; an empty socket clears EPOLLIN */
    struct timeouts timeouts;
};

static struct {
    int set; /* the epoll descriptor */
    bool runs;
    struct coroutine main; /* the stack on which the loop runs */
    bool main_awaits_end;  /* the end of another coroutine */
    struct coroutine *current;
    struct watched *watched; /* by descriptor; grows */
    size_t known;            /* the length of `watched` */
    struct coroutine *ready; /* run_ready() runs them */
    /* All coroutines that wait with a deadline: a binary heap, in which the
       earliest deadline is first. */
    struct coroutine **heap;
    size_t waiting;
    size_t alive;
    int64_t (*service)(void); /* NULL: there is none */
    struct cached_time *time; /* each loop iteration changes its `round` */
    struct coroutine *unused; /* the stack returned last is used first */
    size_t unused_count;
    int64_t unmap_at; /* when the next unused stacks are unmapped */
    int64_t wake_at;  /* while the server stops: when to wake all */
    unsigned turns;   /* since memory was returned to the kernel */
    int64_t trim_at;
} loop = {.set = -1};

/* ---- Deadlines ---- */

static void put(struct coroutine *coroutine, size_t place) {
    loop.heap[place] = coroutine;
    coroutine->place = place;
}

/* Puts the coroutine at `place` or above.  Each parent that has a later
   deadline moves one level down. */
static void sift_up(struct coroutine *coroutine, size_t place) {
    while (place > 1 && loop.heap[place / 2]->deadline > coroutine->deadline) {
        put(loop.heap[place / 2], place);
        place /= 2;
    }
    put(coroutine, place);
}

/* Puts the coroutine at `place` or below.  While a child has an earlier
   deadline, the earlier of the two children moves one level up. */
static void sift_down(struct coroutine *coroutine, size_t place) {
    struct coroutine **heap = loop.heap;
    size_t child;

    while ((child = 2 * place) <= loop.waiting) {
        if (child < loop.waiting &&
            heap[child + 1]->deadline < heap[child]->deadline)
            child++;
        if (heap[child]->deadline >= coroutine->deadline)
            break;
        put(heap[child], place);
        place = child;
    }
    put(coroutine, place);
}

static void heap_add(struct coroutine *coroutine) {
    sift_up(coroutine, ++loop.waiting);
}

/* The last coroutine of the heap takes the free place, and moves up or down
   from there. */
static void heap_remove(struct coroutine *coroutine) {
    struct coroutine *last = loop.heap[loop.waiting--];
    size_t place = coroutine->place;

    coroutine->place = 0;
    if (last == coroutine)
        return;
    sift_up(last, place);
    sift_down(last, last->place);
}

/* ---- Descriptors ---- */

/* Returns the descriptor's data; NULL if memory is short. */
static struct watched *find_watched(int descriptor) {
    size_t number = (size_t)descriptor;

    if (number >= loop.known) {
        size_t length = 2 * number + 64;
        struct watched *more =
            realloc(loop.watched, length * sizeof loop.watched[0]);
        if (more == NULL)
            return NULL;
        memset(more + loop.known, 0,
               (length - loop.known) * sizeof loop.watched[0]);
        loop.watched = more;
        loop.known = length;
    }
    return &loop.watched[number];
}

struct timeouts *coroutine_timeouts(int descriptor) {
    struct watched *watched = find_watched(descriptor);

    return watched == NULL ? NULL : &watched->timeouts;
}

void coroutine_forget(int descriptor) {
    if ((size_t)descriptor < loop.known)
        loop.watched[descriptor] = (struct watched){0};
}

/* ---- Turns ---- */

/* Runs the coroutine until it yields or ends. */
static void resume(struct coroutine *coroutine) {
    struct coroutine *self = loop.current;

    coroutine->resumer = self;
    coroutine->calls = 0;
    loop.turns++; /* memory_trim() counts turns as exchanges */
    loop.current = coroutine;
    stack_switch(&self->stack, &coroutine->stack, false);
}

static void run_iteration(void);

/* Lets other coroutines run; returns when this coroutine has its next turn. */
static void give_turn(void) {
    struct coroutine *self = loop.current;

    self->frame = __builtin_frame_address(0);
    if (self == &loop.main) {
        self->resumer = NULL; /* run_ready() sets it at the next turn */
        while (self->resumer == NULL)
            run_iteration();
        self->calls = 0;
        return;
    }
    loop.current = self->resumer;
    stack_switch(&self->stack, &loop.current->stack, false);
}

static void make_ready(struct coroutine *coroutine) {
    DL_APPEND(loop.ready, coroutine);
}

static void end_wait(struct coroutine *coroutine, enum woken woken) {
    coroutine->waits = false;
    if (coroutine->place > 0)
        heap_remove(coroutine);
    if (coroutine->descriptor >= 0)
        loop.watched[coroutine->descriptor].waiter = NULL;
    coroutine->woken = woken;
}

static void wake(struct coroutine *coroutine, enum woken woken) {
    end_wait(coroutine, woken);
    make_ready(coroutine);
}

/*
 * A descriptor enters the epoll set at the first wait, for both directions, and
 * stays there: one system call for each connection.  So the descriptor has to
 * be edge-triggered.  A level-triggered descriptor would be reported in each
 * loop iteration while no coroutine waits for it.  The kernel reports each
 * arrival once; if no coroutine waits, the event is only recorded.  No arrival
 * is missed: a call is tried before the wait, unless the last call has emptied
 * the socket and no event was reported since then.  EPOLLRDHUP reports the end
 * of the stream, which may come with the last bytes.
 */
bool coroutine_watch(int descriptor) {
    struct watched *watched = find_watched(descriptor);
    struct epoll_event event = {.events =
                                    EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.fd = descriptor};

    if (watched != NULL && !watched->in_set)
        watched->in_set =
            epoll_ctl(loop.set, EPOLL_CTL_ADD, descriptor, &event) == 0;
    return watched != NULL && watched->in_set;
}

bool coroutine_may_receive(int descriptor) {
    const uint32_t events = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;

    return (size_t)descriptor >= loop.known ||
           !loop.watched[descriptor].in_set ||
           (loop.watched[descriptor].reported & events) != 0;
}

void coroutine_received_all(int descriptor) {
    if ((size_t)descriptor < loop.known)
        loop.watched[descriptor].reported &= ~(uint32_t)EPOLLIN;
}

enum woken coroutine_wait(int descriptor, uint32_t events, int64_t deadline) {
    struct coroutine *self = loop.current;

    if (descriptor >= 0) {
        if (!coroutine_watch(descriptor))
            return WOKEN_NO_MEMORY;
        loop.watched[descriptor].waiter = self;
        loop.watched[descriptor].events = events | EPOLLERR | EPOLLHUP;
    }
    self->waits = true;
    self->descriptor = descriptor;
    self->deadline = deadline;
    if (deadline != NO_DEADLINE)
        heap_add(self);
    give_turn();
    return self->woken;
}

struct coroutine *coroutine_current(void) {
    return loop.current;
}

void coroutine_resume(struct coroutine *coroutine) {
    end_wait(coroutine, WOKEN_READY);
    resume(coroutine);
}

/* The stack grows down.  Below the variable are frames of functions that the
   suspended function has called; above it are the frames of its callers. */
void coroutine_prefetch(const void *variable) {
    enum { CACHE_LINE = 64, BELOW = 2 * CACHE_LINE, ABOVE = 10 * CACHE_LINE };

    for (int i = -BELOW; i < ABOVE; i += CACHE_LINE)
        __builtin_prefetch((void *)((uintptr_t)variable + (uintptr_t)i));
}

void coroutine_yield_after(unsigned calls) {
    if (++loop.current->calls <= calls)
        return;
    make_ready(loop.current);
    give_turn();
}

/* ---- The event loop ---- */

/* Returns how long the loop may sleep, in milliseconds; -1: without limit. */
static int time_to_sleep(int64_t earliest) {
    int64_t now = clock_milliseconds();

    if (loop.waiting > 0)
        earliest = MIN(earliest, loop.heap[1]->deadline);
    if (server_is_stopping())
        earliest = MIN(earliest, loop.wake_at);
    earliest = MIN(earliest, MIN(loop.trim_at, loop.unmap_at));
    if (earliest <= now || loop.ready != NULL)
        return 0;
    return earliest == INT64_MAX ? -1 : (int)(earliest - now);
}

static void wake_late(int64_t now) {
    while (loop.waiting > 0 && loop.heap[1]->deadline <= now)
        wake(loop.heap[1], WOKEN_TIMEOUT);
}

/* Wakes all coroutines that wait with a deadline, so that they check whether
   the server stops.  The loop repeats this every WAKE_DELAY milliseconds.  04
   and 05 pass the signal on to each thread instead. */
static void wake_all(int64_t now) {
    loop.wake_at = now + WAKE_DELAY;
    while (loop.waiting > 0)
        wake(loop.heap[loop.waiting], WOKEN_BY_SIGNAL);
}

/* Coroutines that become ready meanwhile run in the next iteration. */
static void run_ready(void) {
    struct coroutine *batch = loop.ready, *coroutine;

    loop.ready = NULL;
    while ((coroutine = batch) != NULL) {
        DL_DELETE(batch, coroutine);
        if (batch != NULL)
            coroutine_prefetch(batch->frame);
        if (coroutine == &loop.main)
            coroutine->resumer = coroutine;
        else
            resume(coroutine);
    }
}

static void unmap_unused(int64_t now);

static void run_iteration(void) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int64_t service_at = loop.service == NULL ? INT64_MAX : loop.service();
    int count =
        epoll_wait(loop.set, events, EVENTS_AT_ONCE, time_to_sleep(service_at));

    for (int i = 0; i < count; i++) {
        struct watched *watched = &loop.watched[events[i].data.fd];
        watched->reported |= events[i].events;
        if (watched->waiter != NULL && (events[i].events & watched->events))
            wake(watched->waiter, WOKEN_READY);
    }
    coroutines_next_round();
    int64_t now = clock_milliseconds();
    wake_late(now);
    if (server_is_stopping() && (count < 0 || now >= loop.wake_at))
        wake_all(now);
    run_ready();
    loop.trim_at = memory_trim(&loop.turns, false, now);
    unmap_unused(now);
}

/* ---- Stacks ---- */

/* begin() calls run() on each new stack.  run() calls the function of each
   coroutine that gets this stack, one after another. */
static void run(void) {
    struct coroutine *self = loop.current;

    while (self->function != NULL) {
        self->function(self->argument);
        loop.alive--;
        if (loop.main_awaits_end && loop.main.waits)
            wake(&loop.main, WOKEN_READY);
        LL_PREPEND(loop.unused, self);
        loop.unused_count++;
        if (loop.unmap_at == INT64_MAX && loop.unused_count > 1)
            loop.unmap_at = clock_milliseconds() + STACK_IDLE_TIME;
        give_turn();
    }
    loop.current = self->resumer;
    stack_switch(&self->stack, &loop.current->stack, true);
}

/* The guard at the lower end allows no access.  So a stack that grows too far
   ends the program with SIGSEGV, before it changes other memory. */
static struct coroutine *map_stack(void) {
    char *memory =
        mmap(NULL, COROUTINE_GUARD + COROUTINE_STACK, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    if (mprotect(memory, COROUTINE_GUARD, PROT_NONE) < 0) {
        munmap(memory, COROUTINE_GUARD + COROUTINE_STACK);
        return NULL;
    }
    size_t own = (sizeof(struct coroutine) + 63) & ~(size_t)63;
    char *bottom = memory + COROUTINE_GUARD;
    struct coroutine *coroutine = (void *)(bottom + COROUTINE_STACK - own);
    stack_prepare(&coroutine->stack, bottom, COROUTINE_STACK - own, run);
    return coroutine;
}

static struct coroutine *take_unused(void) {
    struct coroutine *coroutine = loop.unused;

    LL_DELETE(loop.unused, coroutine);
    loop.unused_count--;
    return coroutine;
}

/* The sanitizers need a last switch away from the stack: run() makes this
   switch. */
static void unmap_stack(struct coroutine *coroutine) {
    char *memory = coroutine->stack.bottom - COROUTINE_GUARD;

    coroutine->function = NULL;
    resume(coroutine);
    stack_free(&coroutine->stack);
    munmap(memory, COROUTINE_GUARD + COROUTINE_STACK);
}

/* Unmaps half of the unused stacks.  Keeps the last stack, which
   coroutine_reserve() may have reserved.  Unmaps at most STACKS_AT_ONCE stacks,
   because clients wait meanwhile. */
static void unmap_unused(int64_t now) {
    if (now < loop.unmap_at)
        return;
    size_t count = MIN(loop.unused_count / 2, STACKS_AT_ONCE);
    for (size_t i = 0; i < count; i++)
        unmap_stack(take_unused());
    loop.unmap_at = loop.unused_count <= 1    ? INT64_MAX
                    : count == STACKS_AT_ONCE ? now + RETRY_DELAY
                                              : now + STACK_IDLE_TIME;
}

/* ---- The calls of coroutine.h ---- */

void coroutines_next_round(void) {
    cached_time_next_round(loop.time);
}

void coroutines_begin(size_t limit, struct cached_time *time) {
    loop.set = epoll_create1(EPOLL_CLOEXEC);
    /* Index 0 is unused; the main stack needs an entry. */
    loop.heap = calloc(limit + 2, sizeof loop.heap[0]);
    if (loop.set < 0 || loop.heap == NULL)
        server_fatal("cannot create the event loop: %s", strerror(errno));
    loop.current = &loop.main;
    loop.time = time;
    loop.unmap_at = loop.trim_at = INT64_MAX;
    loop.runs = true;
}

void coroutines_end(void) {
    loop.runs = false;
    loop.service = NULL;
    while (loop.unused != NULL)
        unmap_stack(take_unused());
    free(loop.heap);
    free(loop.watched);
    loop.watched = NULL;
    loop.known = 0;
    close(loop.set);
}

bool coroutines_run(void) {
    return loop.runs;
}

bool coroutine_reserve(void) {
    if (loop.unused != NULL)
        return true;
    struct coroutine *coroutine = map_stack();
    if (coroutine == NULL)
        return false;
    LL_PREPEND(loop.unused, coroutine);
    loop.unused_count++;
    return true;
}

void coroutines_set_service(int64_t (*service)(void)) {
    loop.service = service;
}

void coroutine_start(void (*function)(void *), void *argument) {
    struct coroutine *coroutine = take_unused();

    coroutine->function = function;
    coroutine->argument = argument;
    loop.alive++;
    resume(coroutine);
}

size_t coroutines_alive(void) {
    return loop.alive;
}

void coroutines_wait_for_end(void) {
    loop.main_awaits_end = true;
    (void)coroutine_wait(-1, 0, clock_milliseconds() + LOG_INTERVAL);
    loop.main_awaits_end = false;
}
