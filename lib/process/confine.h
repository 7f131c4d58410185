/* SPDX-License-Identifier: MIT */
/*
 * Least privilege: the rights that a server drops once it has started, so that
 * an attacker who takes it over can do little more than the server itself.
 *
 *     seccomp(2)     of the kernel's 350 system calls it keeps about forty
 *     landlock(7)    it reads files in public/ and templates/, no others;
 *                    writes none, binds no port, connects to that of Redis
 *     PR_SET_NO_NEW_PRIVS   what it runs gets no more rights than it has
 *
 * The list of kept calls describes a server: the calls of lib/ are in
 * confine.c, those of its way to wait in its main.c.
 */
#ifndef PROCESS_CONFINE_H
#define PROCESS_CONFINE_H

#include <features.h> /* __GLIBC__ */
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

/* A system call.  An array of them ends with a name of NULL. */
struct call {
    const char *name;
    int number;
};

#define CALLS_LIMIT 24
#define CALL(name)  {#name, SYS_##name}

/* Some calls exist twice, an older and a newer one.  Newer processors (aarch64)
   have only the newer one, and the epoll_wait() of musl makes the newer one on
   all.  The C library's function has the same name everywhere. */
#ifndef SYS_poll
#define SYS_poll SYS_ppoll
#endif
#if !defined SYS_epoll_wait || !defined __GLIBC__
#undef SYS_epoll_wait
#define SYS_epoll_wait SYS_epoll_pwait
#endif
/* Processors of 32 bits have others: there no call is rejected (confine_calls),
   and these names only let it compile. */
#ifndef SYS_newfstatat
#define SYS_newfstatat SYS_fstatat64
#endif
#ifndef SYS_mmap
#define SYS_mmap SYS_mmap2
#endif

/* For serving with calls that sleep.  A connection to Redis begins without
   waiting: poll waits for it, and fcntl then makes its calls block.  poll also
   checks whether a client waits in the backlog. */
#define BLOCKING_CALLS CALL(poll), CALL(fcntl)
/* Children: to fork them, be one, signal them and wait for them.  musl makes
   the call fork if it exists, glibc never; and its children, since 1.2.4, get
   their number by set_tid_address. */
#define FORKING_CALLS                                                          \
    FORK_CALLS, CALL(set_robust_list), CALL(prctl), CALL(getppid), CALL(kill)
#ifdef __GLIBC__
#define FORK_CALLS CALL(clone)
#elif defined SYS_fork
#define FORK_CALLS CALL(fork), CALL(set_tid_address)
#else
#define FORK_CALLS CALL(clone), CALL(set_tid_address)
#endif
/* Threads: their locks, their heaps, their beginning and end, their signals.
   With openat glibc reads two things.  The number of processors limits its
   heaps (/sys/devices/system/cpu/online, else /proc/stat).  When a heap
   shrinks, it reads whether memory may be overcommitted
   (/proc/sys/vm/overcommit_memory).  Landlock rejects both, and glibc goes on
   with its defaults. */
#define THREADED_CALLS                                                         \
    CALL(futex), CALL(madvise), CALL(mprotect), CALL(sched_getaffinity),       \
        CALL(rseq), CALL(set_robust_list), CALL(exit), CALL(openat)
/* To create one: clone3 since glibc 2.34, clone before.  With the first one the
   C library installs the handler of a signal of its own. */
#define THREAD_CREATING_CALLS CALL(clone3), CALL(clone), CALL(rt_sigaction)

/* Prints the names of all calls that a server keeps, one a line: those of lib/,
   then these of its way to wait. */
void confine_print_calls(const struct call *calls);

/*
 * Leaves the calling thread, and all that it creates, only the files in public/
 * and templates/ below the root, and of TCP the port of Redis (0: none).
 * Returns 2 when that is so; 1 when this kernel supports only the files (before
 * 6.7), 0 when it does not support it (before 5.13); -1 with errno set when it
 * failed.
 */
int confine_files_and_ports(const char *root, int redis_port);

/*
 * Leaves the whole process, with all present and later threads, only the calls
 * that lib/ needs, and these.  Any other returns ENOSYS, as from a kernel that
 * does not have it, and is logged on standard error.  Returns how many calls
 * are left, 0 when this kernel or processor does not support it, -1 with errno.
 */
int confine_calls(const struct call *calls);

#endif
