/* SPDX-License-Identifier: MIT */
/*
 * A file below a folder, open for reading.  The kernel itself confines every
 * path to the folder (RESOLVE_BENEATH of openat2(2), since Linux 5.6), whatever
 * symbolic links say; an absolute link is rejected even when it points inside.
 */
#ifndef APP_FILE_H
#define APP_FILE_H

#include "proto/bytes.h"

#include <sys/stat.h>

struct file {
    int descriptor;     /* open for reading; -1 for a text */
    struct stat status; /* size and times */
    /* When it was modified; of a file dated in the future, when it was opened:
       RFC 9110, section 8.8.2.1. */
    time_t modified;
    /* Last-Modified and ETag as they are sent, and the value of the latter:
       from inode, size and time of change, quoted. */
    struct view validators, etag;
    char validators_text[128];
    struct buffer text; /* the whole file, if it is small; else empty */
    void *entry;        /* for the cache */
};

/*
 * Opens the regular file of that name, relative to the folder; `status` is what
 * fstatat(2) has returned for it.  Files up to SMALL_FILE bytes are read into
 * memory; with `texts` all, up to TEMPLATE_LIMIT bytes, and no longer ones are
 * opened.  Returns NULL with errno set: EISDIR for a folder, EACCES for
 * anything else that is no file, EXDEV for a path that leaves the folder, or
 * the errno of openat2(2).
 */
struct file *file_open(int folder, const char *name, const struct stat *status,
                       bool texts);
void file_close(struct file *file);

#endif
