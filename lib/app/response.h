/* SPDX-License-Identifier: MIT */
/* To make a response, start it, add fields, and fill the body: bytes in memory
   or a range of a file.  Starting again drops the unfinished response. */
#pragma once

#include "app/file.h"
#include "ops.h"
#include "proto/http_fields.h"

/* The time that responses use; the driver sets it.  Each worker has its own
   structure; no threads share it. */
struct cached_time {
    time_t now; /* seconds since 1970 */
    /* In one round the cache checks a file only once for a change.  Each
       iteration of an event loop has one or more rounds; 0: no event loop. */
    unsigned round;
    /* The fields Date and Server: the same in each response of one second. */
    char fields[sizeof "Date: \r\nServer: ZeroHTTPd-Seven\r\n" +
                HTTP_DATE_SIZE - 1];
};

/* Formats the fields again only when the second has changed. */
void cached_time_set(struct cached_time *cached_time, time_t now);

void cached_time_next_round(struct cached_time *cached_time);

struct response {
    const struct cached_time *cached_time; /* also gives the current round */
    int status;
    struct buffer head; /* status line and fields */
    struct buffer body;
    size_t head_length; /* bytes of `head` before a small body, if any */

    /* The body is in `body`, or it is a part of a file. */
    struct file *file; /* borrowed; NULL: the body is in `body` */
    uint64_t file_offset;
    uint64_t file_bytes;
};

/* Starts a response with the status line, Date and Server. */
void response_start(struct response *response, int status);

/* Appends a field.  The caller has checked that no part has a control byte. */
void response_field(struct response *response, struct view name,
                    struct view value);

/* Starts the body as an HTML page without a template; the caller appends the
   rest.  The heading is also the title; "" means the status. */
void response_page(struct response *response, struct view heading);

/* Makes an HTML page with the status and the sentence. */
void response_error(struct response *response, int status,
                    const char *sentence);

/* Makes a page with the status 503: the client may retry after a second. */
void response_unavailable(struct response *response, const char *sentence);

/* Sets the body to `count` bytes of the file from `first` on; `count` is 0 only
   for an empty file.  The response will return the file to its cache. */
void response_file(struct response *response, struct file *file, uint64_t first,
                   uint64_t count);

/* Returns the body if it is in memory, but not in `head`; otherwise nothing. */
struct view response_body(const struct response *response);

/* Makes a redirect: RFC 9110, section 15.4. */
void response_redirect(struct response *response, int status,
                       struct view location);

/* Ends the head and adds a small body: one piece is sent faster than two. */
void response_finish(struct response *response, bool keep_alive,
                     int minor_version);

void response_free(struct response *response); /* leaves an empty response */
