/* SPDX-License-Identifier: MIT */
/*
 * Writes to standard output and standard error.  A slow reader cannot stop the
 * server: each write(2) returns at once.  A line that cannot be written now is
 * dropped and counted; the count is printed before the next line, and at the
 * end.
 *
 * The kind of descriptor decides how a write avoids waiting:
 *
 *     pipe, terminal   reopened (/proc/self/fd/N) with O_NONBLOCK.  Setting the
 *                      flag without reopening would set it for all programs
 *                      that share the open file description: the shell, too.
 *     socket           MSG_DONTWAIT for each line
 *     file             no flag helps: write(2) waits for a slow disk.  So a
 *                      child process (the log writer) writes to the file, and
 *                      the server writes to a pipe without waiting.
 *
 * If the log writer is killed, the server reports that and writes to the file.
 * A pipe or terminal that the server may not open gets a log writer as well.
 * Without --log a file gets no log writer, because lines are rare.  Then a file
 * system that hangs stops the server.  The log writer is not confined.
 */
#include "limits.h"
#include "ops.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/shared.h"
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The state of a descriptor, shared by all processes: one process may drop a
   line and another one print the count. */
struct loss {
    _Atomic unsigned lines; /* dropped since the last count was printed */
    _Atomic bool partial;   /* the last line was written in part */
    _Atomic bool killed;    /* the end of the log writer was reported */
};

static struct loss own[STDERR_FILENO + 1], *losses = own;
static struct {
    bool is_socket;
    bool needs_writer;
    pid_t writer; /* the process id of the log writer; 0: none */
    int file;     /* the log writer's regular file; -1: a pipe or terminal */
} outputs[STDERR_FILENO + 1];

/* ---- The start ---- */

/* Replaces the descriptor by one of the same file that never blocks. */
static bool reopen(int descriptor) {
    char path[40];

    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    int again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (again < 0)
        return false;
    dup2(again, descriptor);
    close(again);
    return true;
}

void output_open(bool log) {
    struct stat status;

    losses = shared_allocate(sizeof own);
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
        if (fstat(i, &status) < 0)
            continue;
        outputs[i].is_socket = S_ISSOCK(status.st_mode);
        if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))
            outputs[i].needs_writer = !reopen(i);
        else
            outputs[i].needs_writer = log && S_ISREG(status.st_mode);
    }
}

/* ---- The log writer ---- */

/* The pipe's capacity, the largest without a privilege (pipe(7)). */
#define WRITER_PIPE_SIZE (1024 * 1024)

/* Is the pipe no longer open for writing in any process? */
static bool has_no_writer(int pipe) {
    struct pollfd entry = {.fd = pipe};

    return poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0;
}

/* Copies bytes until no process has the pipe open for writing.  The log writer
   sleeps after it has emptied the pipe, so most writes of the server need not
   wake it.  While the disk is full, it retries, and the server drops lines. */
static void copy(int pipe, int file) {
    static char bytes[64 * 1024];
    ssize_t count;

    while ((count = read(pipe, bytes, sizeof bytes)) > 0) {
        for (ssize_t done = 0; done < count;) {
            ssize_t more = write(file, bytes + done, (size_t)(count - done));
            if (more > 0)
                done += more;
            else if (has_no_writer(pipe))
                return;
            else
                poll(NULL, 0, WRITER_PAUSE);
        }
        if (count < (ssize_t)sizeof bytes)
            poll(NULL, 0, WRITER_PAUSE);
    }
}

/* Closes all other descriptors, because otherwise the port would stay in use.
   In its own session the log writer receives no Ctrl-C. */
static void run_log_writer(int descriptor, int pipe) {
    setsid();
    signal(SIGTERM, SIG_IGN); /* every signal that stops the server */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    dup2(descriptor, STDOUT_FILENO);
    dup2(pipe, STDIN_FILENO);
    for (int i = (int)sysconf(_SC_OPEN_MAX); i > STDOUT_FILENO; i--)
        close(i);
    copy(STDIN_FILENO, STDOUT_FILENO);
    _exit(EXIT_SUCCESS);
}

static int start_writer(int descriptor) {
    struct stat status;
    int ends[2];

    if (fstat(descriptor, &status) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    (void)fcntl(ends[1], F_SETPIPE_SZ,
                WRITER_PIPE_SIZE); /* otherwise the pipe has 64 KB */
    if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
        return -1;
    /* For a killed writer: only a file, as a pipe or terminal could block. */
    outputs[descriptor].file =
        S_ISREG(status.st_mode) ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    outputs[descriptor].writer = fork();
    if (outputs[descriptor].writer == 0)
        run_log_writer(descriptor, ends[0]);
    if (outputs[descriptor].writer > 0)
        dup2(ends[1], descriptor);
    close(ends[0]);
    close(ends[1]);
    return outputs[descriptor].writer;
}

int output_start_writers(void) {
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
        if (!outputs[i].needs_writer || start_writer(i) >= 0)
            continue;
        if (errno != EAGAIN)
            return -1;
        log_line(NULL,
                 "cannot start a log writer (%s), so a slow disk may delay "
                 "responses; allow more processes",
                 strerror(errno));
        break; /* the second one could not be started, either */
    }
    return 0;
}

/* Waits OUTPUT_TIMEOUT at most for the log writers. */
void ops_end(void) {
    int64_t until = clock_milliseconds() + OUTPUT_TIMEOUT;

    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
        if (outputs[i].writer <= 0)
            continue;
        close(i); /* the last descriptor of the pipe: the writer ends */
        while (waitpid(outputs[i].writer, NULL, WNOHANG) == 0 &&
               clock_milliseconds() < until)
            poll(NULL, 0, WRITER_PAUSE);
    }
}

/* ---- Printing ---- */

static void report_killed_writer(int descriptor) {
    if (!atomic_exchange(&losses[descriptor].killed, true))
        log_line(NULL,
                 "the log writer for standard %s was killed: lines may be "
                 "missing, and a slow disk may delay responses; restart the "
                 "server",
                 descriptor == STDOUT_FILENO ? "output" : "error");
}

static ssize_t write_now(int descriptor, const char *text, size_t length) {
    if (outputs[descriptor].is_socket)
        return send(descriptor, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    ssize_t count = write(descriptor, text, length);
    if (count >= 0 || errno != EPIPE || outputs[descriptor].writer <= 0)
        return count;
    report_killed_writer(descriptor);
    return write(outputs[descriptor].file, text, length);
}

/* Counts the lines as lost and returns false, unless all bytes were written. */
static bool check_written(struct loss *loss, unsigned lines, size_t length,
                          ssize_t written) {
    if (written == (ssize_t)length)
        return true;
    if (written > 0) {
        loss->partial = true;
        errno = EAGAIN;
    }
    atomic_fetch_add(&loss->lines, lines);
    return false;
}

/* Prints the count of lost lines, in only one process, and sets the count to 0.
   Returns false with errno set if the count cannot be written now. */
static bool print_loss(int descriptor, struct loss *loss) {
    unsigned lines = atomic_exchange(&loss->lines, 0);
    char text[200];

    if (lines == 0)
        return true;
    bool partial =
        atomic_exchange(&loss->partial, false); /* set before `lines` */
    int length =
        snprintf(text, sizeof text,
                 "%s%.80s: %u %s dropped here, because output could not be "
                 "written at once\n",
                 partial ? "\n" : "", program_invocation_short_name, lines,
                 lines == 1 ? "line was" : "lines were");
    ssize_t written = write_now(descriptor, text, (size_t)length);
    if (check_written(loss, lines, (size_t)length, written))
        return true;
    if (written <= 0)
        loss->partial |= partial;
    return false;
}

void output_line(int descriptor, const char *line, size_t length) {
    struct loss *loss = &losses[descriptor];

    if (atomic_load_explicit(&loss->lines, memory_order_relaxed) > 0 &&
        !print_loss(descriptor, loss)) {
        atomic_fetch_add(&loss->lines, 1);
        return;
    }
    check_written(loss, 1, length, write_now(descriptor, line, length));
}

/* Called after a failed write.  Waits until the descriptor is writable. Returns
   false if time is up, or if another try would fail, too. */
static bool may_try_again(int descriptor, int64_t until) {
    int64_t now = clock_milliseconds();
    struct pollfd entry = {.fd = descriptor, .events = POLLOUT};

    if (now >= until || (errno != EAGAIN && errno != EINTR))
        return false;
    poll(&entry, 1, (int)(until - now));
    return true;
}

/* First prints both counts of lost lines: this text may be the last one. */
void output_text(int descriptor, const char *text, size_t length) {
    int64_t until = clock_milliseconds() + OUTPUT_TIMEOUT;
    struct loss *loss = &losses[descriptor];
    size_t done = 0;

    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        while (!print_loss(i, &losses[i]) && may_try_again(i, until))
            continue;
    while (loss->lines == 0 && done < length) {
        ssize_t count = write_now(descriptor, text + done, length - done);
        if (count > 0)
            done += (size_t)count;
        else if (!may_try_again(descriptor, until))
            break;
    }
    if (done > 0 && done < length && text[done - 1] != '\n')
        loss->partial = true;
    for (; done < length; done++)
        loss->lines += text[done] == '\n';
}
