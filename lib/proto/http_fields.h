/* SPDX-License-Identifier: MIT */
/* The values of some header fields: dates, entity tags, byte ranges. */
#pragma once

#include "proto/bytes.h"

#include <time.h>

/* "Sun, 06 Nov 1994 08:49:37 GMT" and its NUL. */
#define HTTP_DATE_SIZE 30

/* Writes the date in the form for senders: RFC 9110, section 5.6.7. */
void http_format_date(time_t time, char date[HTTP_DATE_SIZE]);

/* Returns false if the value is no date of RFC 9110, section 5.6.7. */
bool http_parse_date(struct view value, time_t *time);

/* Is the tag in a line of If-Match or If-None-Match?  "*" matches every tag.
   The two fields compare in two ways (RFC 9110, section 8.8.3.2).  If-Match
   compares strongly: a tag with W/ never matches (section 13.1.1).
   If-None-Match compares weakly: W/ is ignored (13.1.2). */
enum http_comparison { HTTP_STRONG, HTTP_WEAK };
bool http_lists_etag(struct view value, struct view etag,
                     enum http_comparison comparison);

enum http_range {
    HTTP_RANGE_NONE,          /* no single valid range: send the whole file */
    HTTP_RANGE_OK,            /* *first to *last, both included */
    HTTP_RANGE_UNSATISFIABLE, /* a valid range, with no byte of the file: 416 */
};

/* Reads a Range value for a file of `size` bytes: RFC 9110, section 14.1.2.
   One range is served.  Several ranges are ignored, as section 14.2 allows:
   thousands of overlapping ranges (CVE-2011-3192) would cost more than the
   whole file.  *first and *last are set only with HTTP_RANGE_OK. */
enum http_range http_parse_range(struct view value, uint64_t size,
                                 uint64_t *first, uint64_t *last);
