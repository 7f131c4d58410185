/* SPDX-License-Identifier: MIT */
#include "proto/resp.h"

#include "config.h"

/* A reply to a command of ours is an array of strings at most.  One with arrays
   in arrays in arrays could make us call ourselves till the stack is full. */
#define DEPTH_LIMIT 8

/* Where the line that starts at `at` ends, without its CR LF: 0 if it is not
   yet whole. */
static size_t line_end(struct view input, size_t at) {
    size_t lf = at + view_find(view_from(input, at), '\n');
    if (lf == input.length || lf == at || input.data[lf - 1] != '\r')
        return 0;
    return lf - 1;
}

static bool parse_integer(struct view text, int64_t *integer) {
    bool negative = view_starts_with(text, VIEW("-"));
    bool has_sign = negative || view_starts_with(text, VIEW("+"));
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t number;

    if (!view_number(view_from(text, has_sign ? 1 : 0), limit, &number))
        return false;
    /* Negated as unsigned: an int64_t cannot hold -INT64_MIN. */
    *integer = (int64_t)(negative ? -number : number);
    return true;
}

static ssize_t parse(struct view input, int depth, struct resp_reply *reply);

static ssize_t parse_string(struct view input, size_t start, int64_t length,
                            struct resp_reply *reply) {
    if (length == -1) {
        reply->type = RESP_NULL;
        return (ssize_t)start;
    }
    if (length < 0 || length > REDIS_REPLY_LIMIT)
        return -1;
    size_t end = start + (size_t)length;
    if (input.length < end + 2)
        return 0;
    if (input.data[end] != '\r' || input.data[end + 1] != '\n')
        return -1;
    reply->type = RESP_STRING;
    reply->text = view_part(input, start, (size_t)length);
    return (ssize_t)end + 2;
}

static ssize_t parse_array(struct view input, size_t start, int64_t count,
                           int depth, struct resp_reply *reply) {
    if (count == -1) {
        reply->type = RESP_NULL;
        return (ssize_t)start;
    }
    /* Each element has three bytes at least, so count is limited as well. */
    if (count < 0 || count > REDIS_REPLY_LIMIT / 3 || depth == DEPTH_LIMIT)
        return -1;
    size_t at = start;
    reply->all_strings = true;
    for (int64_t i = 0; i < count; i++) {
        struct resp_reply item;
        ssize_t used = parse(view_from(input, at), depth + 1, &item);
        if (used <= 0)
            return used;
        reply->all_strings &= item.type == RESP_STRING;
        at += (size_t)used;
    }
    reply->type = RESP_ARRAY;
    reply->count = (size_t)count;
    reply->items = view_part(input, start, at - start);
    return (ssize_t)at;
}

static ssize_t parse(struct view input, int depth, struct resp_reply *reply) {
    int64_t number = 0;

    *reply = (struct resp_reply){.type = RESP_NULL};
    if (input.length == 0)
        return 0;
    char type = input.data[0];
    if (type != '+' && type != '-' && type != ':' && type != '$' && type != '*')
        return -1;
    size_t end = line_end(input, 1);
    if (end == 0) /* a line of which no end is in sight, or a bare LF */
        return view_find(input, '\n') < input.length ? -1 : 0;
    struct view line = view_part(input, 1, end - 1);
    if (type == '+' || type == '-') {
        if (view_find(line, '\r') < line.length)
            return -1;
        reply->type = type == '+' ? RESP_STATUS : RESP_ERROR;
        reply->text = line;
        return (ssize_t)end + 2;
    }
    if (!parse_integer(line, &number))
        return -1;
    if (type == '$')
        return parse_string(input, end + 2, number, reply);
    if (type == '*')
        return parse_array(input, end + 2, number, depth, reply);
    reply->type = RESP_INTEGER;
    reply->integer = number;
    return (ssize_t)end + 2;
}

ssize_t resp_parse(struct view input, struct resp_reply *reply) {
    ssize_t used = parse(input, 0, reply);
    size_t length = used == 0 ? input.length : (size_t)used;
    return used >= 0 && length > REDIS_REPLY_LIMIT ? -1 : used;
}

bool resp_next(struct view *items, struct resp_reply *item) {
    ssize_t used = parse(*items, 1, item);
    if (used <= 0)
        return false;
    *items = view_from(*items, (size_t)used);
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
