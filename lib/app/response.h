/* SPDX-License-Identifier: MIT */
/*
 * A response being made: a head, and a body that is bytes in memory or a range
 * of a file.
 *
 * Start one, add fields, and fill the body.  Starting again drops what was
 * there: after an error half-way, the caller simply starts anew.
 */
#ifndef APP_RESPONSE_H
#define APP_RESPONSE_H

#include "app/cached_time.h"
#include "app/file.h"
#include "ops.h"

struct response {
    const struct cached_time *cached_time; /* for the Date field */
    int status;
    struct buffer head; /* status line and fields */
    struct buffer body;
    size_t head_length; /* when it is finished: the body may follow it */

    /* Or the body is `count` bytes of this file from that offset on. */
    struct file *file;   /* borrowed; NULL: the body is in `body` */
    struct cache *cache; /* that the file goes back to */
    uint64_t offset;
    uint64_t count;
};

/* The status line, Date and Server; drops what was there before. */
void response_start(struct response *response, int status);

/* Appends a field.  Neither part may hold a control byte: the caller has
   checked. */
void response_field(struct response *response, struct view name,
                    struct view value);

/* Starts a small HTML page that explains what the status means and why. */
void response_error(struct response *response, int status,
                    const char *sentence);

/* The body is `count` bytes of the file, borrowed from the cache, from `first`
   on: at least one, or the whole of it.  The response owns the file now. */
void response_file(struct response *response, struct cache *cache,
                   struct file *file, uint64_t first, uint64_t count);

/* Returns the part of the body that is in memory. */
struct view response_body(const struct response *response);

/* Starts a redirect: RFC 9110, section 15.4. */
void response_redirect(struct response *response, int status,
                       struct view location);

/* Ends the head: how long the body is (if the status has one), whether the
   connection stays, and the blank line.  A small body is moved after it: one
   piece of memory is sent by a simpler call than two. */
void response_finish(struct response *response, bool keep_alive,
                     int minor_version);

uint64_t response_length(const struct response *response); /* of the body */
void response_free(struct response *response); /* leaves a valid empty one */

#endif
