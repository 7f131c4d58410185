/* SPDX-License-Identifier: MIT */
/*
 * The head of an HTTP/1.x request, as RFC 9112 defines it, and chunked bodies.
 *
 * The functions do no I/O.  A parser returns one of three kinds of numbers:
 *
 *     > 0   complete; the length of the head, or 1 after a chunked body
 *     0     more bytes are needed
 *     < 0   invalid; minus the status of the answer, such as -400
 *
 * The parser is strict if two programs could otherwise read the same bytes as
 * different requests (request smuggling).  A line ends only in CR LF.  A blank
 * before a colon is an error.  The length of a body may be given in only one
 * way.
 */
#pragma once

#include "proto/bytes.h"

#include <sys/types.h>

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_OPTIONS,
    HTTP_OTHER,   /* another method of RFC 9110 or 5789: not allowed here */
    HTTP_UNKNOWN, /* any other token */
};

enum http_body { HTTP_NO_BODY, HTTP_LENGTH_BODY, HTTP_CHUNKED_BODY };

/* A parsed head.  The views point into the input and are valid as long as the
   input.  A field that the client did not send is a view with data == NULL.  A
   field that it sent twice is an empty view.  The two values, joined by a comma
   (RFC 9110, section 5.3), would be no valid date, range or type. */
struct http_request {
    enum http_method method; /* set even when the head is bad or not whole */
    struct view line;        /* the request line, for the log */
    struct view path;  /* still percent-encoded; starts with a slash, or is the
                          "*" of OPTIONS, which means the whole server */
    struct view query; /* after the '?', without it */
    int minor_version; /* 0 or 1 */
    bool keep_alive;   /* RFC 9112, section 9.3 */
    bool expects_continue;

    enum http_body body;
    uint64_t content_length; /* of an HTTP_LENGTH_BODY, bytes */

    struct view host;
    struct view content_type;
    struct view if_unmodified_since;
    struct view if_modified_since;
    struct view if_range;
    struct view range;

    /* Lists: each line of the field has a part, which http_next_field_line()
       returns.  Here data != NULL only shows that the field was sent. */
    struct view if_match;
    struct view if_none_match;
    struct view fields; /* all field lines, each with its CR LF */

    const char *complaint; /* of a bad head: a sentence with the reason */
};

/* The bytes that a token may have (RFC 9110, section 5.6.2), and those that the
   value of a field may have (section 5.5). */
extern const struct byte_set http_token_bytes, http_value_bytes;

/* RFC 9112, section 2.2: some clients send superfluous empty lines before a
   request.  Returns the length of such lines at the front of the input. */
size_t http_empty_lines(struct view input);

/* Parses a request's head, from the request line to the blank line (RFC 9112,
   sections 2 to 6).  The caller has dropped empty lines.  `seen`: the input's
   length when the last call returned 0; 0 at the first call. */
ssize_t http_parse_head(struct view input, size_t seen,
                        struct http_request *request);

/* Takes the next line of that name from the front of *fields, which is
   request.fields before the first call.  Returns false when none is left; then
   *value is undefined.  The lines of one name are one list, in their order (RFC
   9110, section 5.3). */
bool http_next_field_line(struct view *fields, struct view name,
                          struct view *value);

/* ---- A body in chunks (http_chunks.c): RFC 9112, section 7.1 ---- */

/* The state of a chunked body between two calls; all zero at its start. */
struct http_chunks {
    enum {
        CHUNK_SIZE,    /* the line with the size of a chunk */
        CHUNK_DATA,    /* the bytes of the chunk, then CR LF */
        CHUNK_TRAILER, /* fields after the last chunk, then an empty line */
        CHUNK_DONE,
    } state;
    uint64_t size;   /* bytes of this chunk that are still to come */
    uint64_t body;   /* bytes of all chunks so far */
    size_t overhead; /* bytes so far that are no part of the body */
};

/* Decodes a chunked body in place, from the byte *end of the input on, and
   moves *end to the end of the decoded bytes.  Bytes that are not decoded yet
   follow there.  Extensions and trailers are dropped.  Returns 1 if the body is
   complete; the following bytes belong to the next request.  Returns 0 if more
   bytes are needed.  Returns minus a status if the body is invalid: -413 if it
   exceeds BODY_LIMIT or CHUNK_OVERHEAD_LIMIT, otherwise -400. */
int http_decode_chunks(struct http_chunks *chunks, struct buffer *input,
                       size_t *end);
