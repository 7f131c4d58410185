/* SPDX-License-Identifier: MIT */
/*
 * Standard output and standard error: lines are printed, but no reader can stop
 * the service.  Each write(2) returns at once.  A line that cannot be written
 * now is dropped and counted; the next line is preceded by the count.
 *
 * How the write is kept from waiting depends on what the descriptor is:
 *
 *     pipe, terminal   opened anew (/proc/self/fd/N) with O_NONBLOCK.  The flag
 *                      belongs to the open file description, which we share
 *                      with other programs: the shell would get it, too.
 *     socket           MSG_DONTWAIT for each line
 *     file             no flag helps: write(2) waits for a slow disk.  A child
 *                      process (the log writer) does it, fed by a pipe that
 *                      never waits.  Only the access log has one.
 *
 * A pipe or terminal that we may not open (it belongs to another user) gets a
 * log writer as well.  Rare lines on a standard error that is a file are
 * written directly: the kernel keeps them in memory, but a file system that
 * hangs stops the process.  A production server sends all lines to a log
 * writer.
 *
 * The log writer is not confined (process/confine.h): it is forked before.  It
 * only copies bytes from the pipe to the file.
 */
#ifndef PROCESS_OUTPUT_H
#define PROCESS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Keeps both descriptors from waiting.  Call it while the process still has the
   user that started it, before any fork.  Returns -1 with errno set when there
   is no memory to share the counts. */
int output_open(void);

/* Starts the log writers that are needed; `log`: standard output is the access
   log.  Call it after the user was changed, before any fork or thread.  If the
   user may have no more processes (EAGAIN), there is none: then a line waits
   for its reader.  Returns -1 with errno set for any other failure. */
int output_start_writers(bool log);

/* Prints one line, which ends in a line feed.  Lines of up to PIPE_BUF (4,096)
   bytes are not mixed with those of other processes, see pipe(7). */
void output_line(int descriptor, const char *line, size_t length);

/* Prints some lines, and waits OUTPUT_TIMEOUT at most for their reader: for the
   start and the end of a server, when no request waits. */
void output_text(int descriptor, const char *text, size_t length);

/* The process prints no more to standard output and standard error.  Waits
   OUTPUT_TIMEOUT at most for the log writers to write what they were given. */
void output_close(void);

#endif
