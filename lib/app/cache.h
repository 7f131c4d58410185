/* SPDX-License-Identifier: MIT */
/*
 * The files below one folder, kept between requests: small ones in memory, the
 * others open.
 *
 * A hit costs one system call, which checks whether the file is still the same,
 * at most once in an iteration of an event loop; a miss opens it.  The kernel
 * itself confines every path to the folder (RESOLVE_BENEATH of openat2(2),
 * since Linux 5.6), whatever symbolic links say; an absolute link is rejected
 * even when it points inside.
 *
 * One cache serves all threads of a process: a lock guards the table, and a
 * file stays until its last borrower gives it back.  A limited number of files
 * that are not borrowed stays open (OPEN_FILES); when the process runs out of
 * descriptors, none.
 */
#ifndef APP_CACHE_H
#define APP_CACHE_H

#include "proto/bytes.h"

#include <sys/stat.h>

struct cache;

struct file {
    int descriptor;     /* open for reading; -1 in a cache of texts */
    struct stat status; /* size and times */
    /* When it was modified; of a file dated in the future, when it was opened:
       RFC 9110, section 8.8.2.1. */
    time_t modified;
    /* Last-Modified and ETag as they are sent, and the value of the latter:
       from inode, size and time of change, quoted. */
    struct view validators, etag;
    char validators_text[128];
    struct buffer text; /* the whole file, if it is small; else empty */
};

/*
 * A cache for the folder, or NULL with errno set if that cannot be made.  It
 * holds files up to SMALL_FILE bytes in memory; with `texts` all of them, up to
 * TEMPLATE_LIMIT bytes, and others cannot be borrowed.
 */
struct cache *cache_create(const char *folder, bool texts);
void cache_destroy(struct cache *cache); /* nothing is borrowed any more */

/*
 * Borrows the regular file of that name, relative to the folder, as it is in
 * that loop iteration (app/cached_time.h).  Returns NULL with errno set: EISDIR
 * for a folder, EACCES for anything else that is no file, EXDEV for a path that
 * leaves the folder, or the errno of openat2(2).
 */
struct file *cache_borrow(struct cache *cache, const char *name,
                          unsigned round);
void cache_return(struct cache *cache, struct file *file);

#endif
