/* SPDX-License-Identifier: MIT */
/*
 * Least privilege: a started server drops the rights that it does not need.  So
 * an attacker who controls the server gets only the remaining rights.
 *
 *     seccomp(2)     it keeps about 40 to 50 of the kernel's 350 calls
 *     landlock(7)    it reads files in public/ and templates/, no others;
 *                    writes none, binds no port, connects to Redis only
 *     PR_SET_NO_NEW_PRIVS   programs that it starts get no more rights
 *
 * The calls that all servers need are listed here.  The calls that only some
 * servers need are in their main.c.
 */
#include "limits.h"
#include "ops.h"
#include "process/log.h"
#include "start.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- The calls that lib/ needs ---- */

/* Processors of 32 bits lack these calls.  Servers reject no call there, so
   these definitions only let the code compile. */
#ifndef SYS_newfstatat
#define SYS_newfstatat SYS_fstatat64
#endif
#ifndef SYS_mmap
#define SYS_mmap SYS_mmap2
#endif

static const struct call common[] = {
    /* clients, and Redis; getsockopt reads what a slow client acknowledged */
    CALL(accept4), CALL(recvfrom), CALL(sendto), CALL(sendmsg), CALL(sendfile),
    CALL(shutdown), CALL(close), CALL(socket), CALL(connect), CALL(setsockopt),
    CALL(getsockopt),
    /* files: openat2 is only for the cache, which opens them */
    CALL(newfstatat), CALL(fstat), CALL(openat2), CALL(read), CALL(pread64),
    /* messages and the log; wait4 for the log writer, in 02, 03 and 09 for all
       children; lseek for stdio, if standard output is a file */
    CALL(write), CALL(wait4), CALL(lseek),
    /* memory; qsort(3) reads its size (sysinfo) */
    CALL(brk), CALL(mmap), CALL(munmap), CALL(mremap), CALL(madvise),
    CALL(sysinfo),
    /* the clock, if it cannot be read without a call: vdso(7) */
    CALL(clock_gettime),
#ifdef SYS_time
    CALL(time),
#endif
    /* signals and the end; a stopping server sets its backlog to 0 (listen) */
    CALL(rt_sigreturn), CALL(restart_syscall), CALL(setitimer), CALL(listen),
    CALL(getpid), CALL(getrusage), CALL(exit_group),
    /* the message of a crash, such as "double free detected" (writev) */
    CALL(gettid), CALL(tgkill), CALL(rt_sigprocmask), CALL(writev),
#ifndef __GLIBC__
    /* musl: accept for accept4(2) without flags; tkill for a signal to a
       thread, and in a crash; membarrier before the first thread */
    CALL(accept), CALL(tkill), CALL(membarrier),
#endif
    CALLS_END};

void ops_print_calls(const struct call *calls) {
    for (const struct call *call = common; call->name != NULL; call++)
        puts(call->name);
    for (; calls->name != NULL; calls++)
        puts(calls->name);
}

/* ---- Files and ports: Landlock ---- */

/* The structure of linux/landlock.h; an older header lacks later fields.  An
   older kernel accepts a longer structure if the unknown fields are zero. */
struct ruleset {
    uint64_t files; /* a bit for each right: forbidden if no rule allows it */
    uint64_t ports;
    uint64_t scopes; /* abstract sockets, and signals to other processes */
};

struct port_rule {
    uint64_t allowed;
    uint64_t port;
};

enum { NET_PORT_RULE = 2, CONNECT_TCP = 2, BIND_AND_CONNECT = 3 };

static bool allow_folder(int ruleset, const char *root, const char *name) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", root, name);
    struct landlock_path_beneath_attr rule = {
        .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
        .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (rule.parent_fd < 0)
        return false;
    bool allowed = syscall(__NR_landlock_add_rule, ruleset,
                           LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(rule.parent_fd);
    return allowed;
}

/* Returns all rights of this version of Landlock (landlock(7)). */
static struct ruleset all_known_rights(int version) {
    static const int rights_to_files[] = {13, 14, 15, 15, 16};
    int last = version < 5 ? version : 5;

    return (struct ruleset){
        .files = (UINT64_C(1) << rights_to_files[last - 1]) - 1,
        .ports = version >= 4 ? BIND_AND_CONNECT : 0,
        .scopes = version >= 6 ? 3 : 0,
    };
}

/* Limits this thread, and all threads and processes that it creates, to files
   in public/ and templates/, and to the TCP port of Redis (0: none).  Returns 2
   if both are limited, 1 if only the files are (kernel before 6.7), 0 if
   neither is (before 5.13).  After a failure returns -1 with errno set. */
static int confine_files_and_ports(const char *root, int redis_port) {
    int version = (int)syscall(__NR_landlock_create_ruleset, NULL, 0,
                               LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return 0;
    struct ruleset known = all_known_rights(version);
    int ruleset =
        (int)syscall(__NR_landlock_create_ruleset, &known, sizeof known, 0);
    if (ruleset < 0)
        return -1;
    struct port_rule rule = {.allowed = CONNECT_TCP,
                             .port = (uint64_t)redis_port};
    bool done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                allow_folder(ruleset, root, "public") &&
                allow_folder(ruleset, root, "templates") &&
                (known.ports == 0 || redis_port == 0 ||
                 syscall(__NR_landlock_add_rule, ruleset, NET_PORT_RULE, &rule,
                         0) == 0) &&
                syscall(__NR_landlock_restrict_self, ruleset, 0) == 0;
    close(ruleset);
    if (!done)
        return -1;
    return known.ports != 0 ? 2 : 1;
}

/* ---- System calls: seccomp ---- */

/* Each processor has its own numbers for the calls, and its own register for a
   call's result. */
#if defined __x86_64__
#define PROCESSOR       AUDIT_ARCH_X86_64
#define REFUSE(context) ((context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS)
#elif defined __aarch64__
#define PROCESSOR       AUDIT_ARCH_AARCH64
#define REFUSE(context) ((context)->uc_mcontext.regs[0] = 0UL - ENOSYS)
#endif

#ifdef PROCESSOR
/* The message is made in advance: a signal handler may not use stdio. */
static char complaint[200];

/* Handles SIGSYS, for a call that is not in the list: logs the call, which
   returns ENOSYS.  A C library expects ENOSYS from an older kernel, and then
   uses another call. */
static void on_other_call(int signal_number, siginfo_t *info, void *context) {
    char text[sizeof complaint];
    int error = errno;

    (void)signal_number;
    memcpy(text, complaint, sizeof text);
    char *digit = strstr(text, " is not") - 1;
    for (int rest = info->si_syscall; rest > 0 && *digit == ' '; rest /= 10)
        *digit-- = (char)('0' + rest % 10);
    output_line(STDERR_FILENO, text, strlen(text));
    errno = error;
    REFUSE((ucontext_t *)context);
}

/* Two instructions for each system call, four before them and one after. */
struct filter {
    struct sock_filter
        steps[2 * (sizeof common / sizeof common[0] + CALLS_LIMIT) + 5];
    unsigned short length;
};

static void add(struct filter *filter, struct sock_filter step) {
    filter->steps[filter->length++] = step;
}

static int add_calls(struct filter *filter, const struct call *calls) {
    static const struct sock_filter allow =
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    int count = 0;

    for (; calls[count].name != NULL; count++) {
        add(filter,
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                         (unsigned)calls[count].number, 0, 1));
        add(filter, allow);
    }
    return count;
}

/* A program for a small virtual machine in the kernel: see seccomp(2) on
   filters.  The kernel caches the result for each number, so the length of the
   list costs nothing (since 5.11). */
static int load_filter(const struct call *own) {
    struct filter filter = {
        .steps = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                           offsetof(struct seccomp_data, arch)),
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROCESSOR, 1, 0),
                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                           offsetof(struct seccomp_data, nr))},
        .length = 4};

    int calls = add_calls(&filter, common);
    calls += add_calls(&filter, own);
    add(&filter,
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    struct sock_fprog program = {.len = filter.length, .filter = filter.steps};
    int result = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                              SECCOMP_FILTER_FLAG_TSYNC, &program);
    return result == 0 ? calls : -1;
}

/* Limits all threads to the calls that lib/ needs, and to `calls`.  Returns the
   number of calls that are left, 0 if this kernel or processor does not support
   filters, or -1 with errno set. */
static int confine_calls(const struct call *calls) {
    struct sigaction action = {.sa_sigaction = on_other_call,
                               .sa_flags = SA_SIGINFO};
    unsigned trap = SECCOMP_RET_TRAP;

    snprintf(complaint, sizeof complaint,
             "%.80s: system call        is not in its list (--print-syscalls), "
             "and was refused; --no-confinement allows all\n",
             program_invocation_short_name);
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap) < 0)
        return 0;
    if (sigaction(SIGSYS, &action, NULL) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return load_filter(calls);
}
#else
static int confine_calls(const struct call *calls) {
    (void)calls;
    return 0;
}
#endif

/* ---- The start ---- */

static int files_confined; /* the result of confine_files_and_ports() */

__attribute__((noreturn)) static void fail_to_confine(void) {
    server_fatal("cannot confine itself (%s); give --no-confinement",
                 strerror(errno));
}

void ops_confine_files(bool confined, const char *root, int redis_port) {
    if (output_start_writers() < 0) /* log writers are not confined */
        server_fatal("cannot start a log writer: %s", strerror(errno));
    if (confined)
        files_confined = confine_files_and_ports(root, redis_port);
    if (files_confined < 0)
        fail_to_confine();
}

const char *ops_confine_calls(bool confined, const struct call *calls) {
    static const char *const files[] = {
        "all files and ports (this kernel has no Landlock)",
        "public/, templates/, all ports (this kernel's Landlock limits none)",
        "public/, templates/, the port of Redis",
    };
    static char text[120];
    char number[12];

    memory_require(REQUEST_MEMORY);
    if (!confined)
        return "no";
    int count = confine_calls(calls);
    if (count < 0)
        fail_to_confine();
    snprintf(number, sizeof number, "%d", count);
    snprintf(text, sizeof text, "to %s system calls, %s",
             count > 0 ? number : "all", files[files_confined]);
    return text;
}
