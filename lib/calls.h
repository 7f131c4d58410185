/* SPDX-License-Identifier: MIT */
/*
 * Names and numbers of system calls.  Each server's main.c lists the calls that
 * only some servers need after their start.  ops/confine.c lists the calls that
 * all servers need, and forbids all other calls.
 */
#pragma once

#include <features.h> /* __GLIBC__ */
#include <sys/syscall.h>

/* A system call.  An array of calls ends with a name that is NULL. */
struct call {
    const char *name;
    int number;
};

#define CALLS_LIMIT 24
#define CALL(name)  {#name, SYS_##name}
#define CALLS_END   {NULL, 0}

/* Newer processors (aarch64) have only the newer forms of poll and epoll_wait.
   The epoll_wait() of musl uses the newer form on all processors. */
#ifndef SYS_poll
#define SYS_poll SYS_ppoll
#endif
#if !defined SYS_epoll_wait || !defined __GLIBC__
#undef SYS_epoll_wait
#define SYS_epoll_wait SYS_epoll_pwait
#endif

/* Blocking servers: poll waits for a connection to Redis, and fcntl makes its
   socket blocking.  poll also checks the backlog, and makes pauses. */
#define BLOCKING_CALLS CALL(poll), CALL(fcntl)
/* Children: calls of the parent and of the child.  Only musl uses fork.  Since
   musl 1.2.4 a child reads its thread id with set_tid_address. */
#define FORKING_CALLS                                                          \
    FORK_CALLS, CALL(set_robust_list), CALL(prctl), CALL(getppid), CALL(kill)
#ifdef __GLIBC__
#define FORK_CALLS CALL(clone)
#elif defined SYS_fork
#define FORK_CALLS CALL(fork), CALL(set_tid_address)
#else
#define FORK_CALLS CALL(clone), CALL(set_tid_address)
#endif
/* Threads: start, end, locks and heaps.  For its heaps glibc tries to
   read the number of processors and the overcommit policy (openat).  Landlock
   rejects both; then glibc uses defaults. */
#define THREADED_CALLS                                                         \
    CALL(futex), CALL(mprotect), CALL(sched_getaffinity), CALL(rseq),          \
        CALL(set_robust_list), CALL(exit), CALL(openat)
/* The calls that create a thread: clone3 since glibc 2.34, clone before.  With
   the first thread the C library installs a signal handler. */
#define THREAD_CREATING_CALLS CALL(clone3), CALL(clone), CALL(rt_sigaction)
