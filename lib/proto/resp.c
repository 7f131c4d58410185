/* SPDX-License-Identifier: MIT */
#include "proto/resp.h"

#include "config.h"

/* Bytes of a number with its sign and leading zeros; INT64_MIN has 20. */
#define NUMBER_LIMIT   30
/* The bytes of the shortest reply: a type, CR and LF. */
#define SHORTEST_REPLY 3
#define MALFORMED      (-1)

/* ---- The end of a reply ---- */

/* Each of the scan functions reads bytes at the front of the input.  It returns
   the number of these bytes, 0 if more are needed, or MALFORMED. */

/* Scans the rest of a line of text.  Leaves a CR until its LF has come. */
static ssize_t scan_text(struct resp_scan *scan, struct view input) {
    size_t end = view_find(input, '\r');

    if (view_find(view_slice(input, 0, end), '\n') < end)
        return MALFORMED;
    if (input.length - end < 2)
        return (ssize_t)end;
    if (input.data[end + 1] != '\n')
        return MALFORMED;
    scan->in_text = false;
    scan->replies--;
    return (ssize_t)end + 2;
}

static ssize_t scan_string(struct resp_scan *scan, struct view input) {
    size_t end = (size_t)scan->string - 2;

    if (input.length < scan->string) {
        size_t count = input.length < end ? input.length : end;
        scan->string -= count;
        return (ssize_t)count;
    }
    scan->string = 0;
    scan->replies--;
    return view_starts_with(view_skip(input, end), VIEW("\r\n"))
               ? (ssize_t)end + 2
               : MALFORMED;
}

/* Records the beginning of a reply.  An array's elements are counted as replies
   that follow, so any depth works without recursion. */
static void begin_reply(struct resp_scan *scan, enum resp_type type,
                        int64_t number) {
    if (scan->start == 0)
        scan->reply = (struct resp_reply){
            .type = type, .integer = number, .count = (size_t)number};
    if (type != RESP_STRING)
        scan->others++;
    if (type == RESP_ARRAY)
        scan->replies += (uint64_t)number;
    if (type == RESP_STRING)
        scan->string = (uint64_t)number + 2;
    else if (type == RESP_STATUS || type == RESP_ERROR)
        scan->in_text = true;
    else
        scan->replies--;
}

/* Scans a number and its CR LF. */
static ssize_t scan_number(struct view input, int64_t *number) {
    bool negative = view_starts_with(input, VIEW("-"));
    size_t start = negative || view_starts_with(input, VIEW("+")) ? 1 : 0;
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t value;
    struct view rest = view_skip(input, start);

    if (rest.length == 0)
        return 0;
    if (!view_take_number(&rest, &value) || value > limit)
        return MALFORMED;
    size_t end = input.length - rest.length;
    if (end > NUMBER_LIMIT || (rest.length > 0 && rest.data[0] != '\r'))
        return MALFORMED;
    if (rest.length < 2)
        return 0;
    if (rest.data[1] != '\n')
        return MALFORMED;
    /* Negated as unsigned: an int64_t cannot hold -INT64_MIN. */
    *number = (int64_t)(negative ? -value : value);
    return (ssize_t)end + 2;
}

/* Scans a reply's type, and the number and CR LF after it, if any. */
static ssize_t scan_line(struct resp_scan *scan, struct view input) {
    int64_t number;

    if (input.length == 0)
        return 0;
    char type = input.data[0];
    if (type == '+' || type == '-') {
        begin_reply(scan, type == '+' ? RESP_STATUS : RESP_ERROR, 0);
        return 1;
    }
    if (type != ':' && type != '$' && type != '*')
        return MALFORMED;
    ssize_t length = scan_number(view_skip(input, 1), &number);
    if (length <= 0)
        return length;
    /* A length or a count is from -1 (null) to REDIS_SKIP_LIMIT. */
    if (type != ':' && (number < -1 || number > REDIS_SKIP_LIMIT))
        return MALFORMED;
    begin_reply(scan,
                type == ':'    ? RESP_INTEGER
                : number == -1 ? RESP_NULL
                : type == '$'  ? RESP_STRING
                               : RESP_ARRAY,
                number);
    return SHORTEST_REPLY * scan->replies <= REDIS_SKIP_LIMIT ? length + 1
                                                              : MALFORMED;
}

/* Scans the next bytes of the reply, but not an incomplete line with a number.
   The reply has ended when scan->replies is 0. */
static ssize_t scan_reply(struct resp_scan *scan, struct view input) {
    size_t at = 0;
    ssize_t used = 1;

    while (scan->replies > 0 && used > 0) {
        struct view rest = view_skip(input, at);
        used = scan->string > 0 ? scan_string(scan, rest)
               : scan->in_text  ? scan_text(scan, rest)
                                : scan_line(scan, rest);
        if (used < 0)
            return used;
        at += (size_t)used;
        if (scan->start == 0)
            scan->start = at;
    }
    return (ssize_t)at;
}

/* Is the reply longer than its limit?  `seen`: its scanned bytes. */
static bool is_too_large(const struct resp_scan *scan, size_t seen) {
    uint64_t later = scan->replies > 1 ? scan->replies - 1 : 0;
    uint64_t limit = scan->reply.type == RESP_STRING ? REDIS_STRING_LIMIT
                                                     : REDIS_REPLY_LIMIT;
    return seen + scan->string + SHORTEST_REPLY * later > limit;
}

/* ---- A whole reply ---- */

static struct resp_reply reply_of(const struct resp_scan *scan,
                                  struct view whole) {
    struct view rest = view_skip(whole, scan->start);
    struct resp_reply reply = scan->reply;

    if (reply.type == RESP_ARRAY) {
        reply.items = rest;
        reply.all_strings = scan->others == 1; /* the array itself */
    } else if (rest.length > 0) {
        reply.text = view_slice(rest, 0, rest.length - 2);
    }
    return reply;
}

int resp_read(struct resp_scan *scan, struct view input, size_t *used,
              struct resp_reply *reply) {
    if (scan->replies == 0)
        scan->replies = 1;
    ssize_t more = scan_reply(scan, view_skip(input, scan->seen));
    *used = 0;
    if (more < 0)
        return -1;
    scan->seen += (size_t)more;
    scan->skips |= is_too_large(scan, scan->seen);
    bool whole = scan->replies == 0;
    if (!whole && !scan->skips)
        return 0;
    *used = scan->seen;
    scan->seen = 0;
    if (!whole)
        return 0;
    *reply = scan->skips
                 ? (struct resp_reply){.type = RESP_ERROR,
                                       .text = VIEW("the reply is too large "
                                                    "and was skipped")}
                 : reply_of(scan, view_slice(input, 0, *used));
    *scan = (struct resp_scan){0};
    return 1;
}

bool resp_next(struct view *items, struct resp_reply *item) {
    int64_t length;
    ssize_t start = 0;

    /* Nearly every element is a string, and all its bytes have arrived. */
    if (view_starts_with(*items, VIEW("$")))
        start = scan_number(view_skip(*items, 1), &length);
    if (start > 0 && length >= 0) {
        struct view rest = view_skip(*items, (size_t)start + 1);
        *item = (struct resp_reply){
            .type = RESP_STRING, .text = view_slice(rest, 0, (size_t)length)};
        *items = view_skip(rest, (size_t)length + 2);
        return true;
    }
    struct resp_scan scan = {0};
    size_t used;
    if (resp_read(&scan, *items, &used, item) <= 0)
        return false;
    *items = view_skip(*items, used);
    return true;
}

void resp_append_command(struct buffer *buffer, const struct view *words,
                         size_t count) {
    buffer_append(buffer, VIEW("*"));
    buffer_append_number(buffer, (int64_t)count);
    buffer_append(buffer, VIEW("\r\n"));
    for (size_t i = 0; i < count; i++) {
        buffer_append(buffer, VIEW("$"));
        buffer_append_number(buffer, (int64_t)words[i].length);
        buffer_append(buffer, VIEW("\r\n"));
        buffer_append(buffer, words[i]);
        buffer_append(buffer, VIEW("\r\n"));
    }
}
