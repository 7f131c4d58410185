/* SPDX-License-Identifier: MIT */
/*
 * A file below a folder, open for reading.  The kernel confines every path to
 * the folder, also through symbolic links (RESOLVE_BENEATH of openat2(2), since
 * Linux 5.6).  It rejects every absolute link, even one into the folder.
 */
#pragma once

#include "proto/bytes.h"

#include <sys/stat.h>

struct file {
    int descriptor;     /* open for reading; -1 for a template */
    struct stat status; /* size and times */
    /* Time of the last change; if that is in the future, time of the opening:
       RFC 9110, section 8.8.2.1. */
    time_t modified;
    /* The fields Last-Modified and ETag, and the quoted value of ETag. */
    struct view validators, etag;
    char validators_text[128];
    struct buffer text;  /* a whole template or small file; otherwise empty */
    struct entry *entry; /* its entry in the cache (ops/cache.c) */
};

/* Opens the regular file of that name, relative to the folder; `status` comes
   from fstatat(2).  Files up to SMALL_FILE bytes are read into memory.  With
   `texts` all files are read into memory, and files above TEMPLATE_LIMIT are
   rejected.  After an error returns NULL with errno set, for example EISDIR for
   a folder, EXDEV for a path that leaves the folder, EACCES for other files
   that are not regular. */
struct file *file_open(int folder, const char *name, const struct stat *status,
                       bool texts);
void file_close(struct file *file);
