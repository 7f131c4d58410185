/* SPDX-License-Identifier: MIT */
#include "proto/resp.h"

#include "config.h"

/* The servers' largest reply is an array of strings.  Arrays nested without
   limit could make the parser recurse until the stack is full. */
#define DEPTH_LIMIT  8
/* A number and its sign; INT64_MIN has 20 characters, but zeros may precede. */
#define NUMBER_LIMIT 30

static bool is_text(char type) { /* its line holds no number */
    return type == '+' || type == '-';
}

static bool parse_number(struct view text, int64_t *result) {
    bool negative = view_starts_with(text, VIEW("-"));
    bool has_sign = negative || view_starts_with(text, VIEW("+"));
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t number;

    if (text.length > NUMBER_LIMIT)
        return false;
    if (!view_number(view_skip(text, has_sign ? 1 : 0), limit, &number))
        return false;
    /* Negated as unsigned: an int64_t cannot hold -INT64_MIN. */
    *result = (int64_t)(negative ? -number : number);
    return true;
}

/* May a reply of that type begin with this number?  A length is -1 (null) or
   limited.  Each element of an array has three bytes at least. */
static bool is_allowed(char type, int64_t number) {
    return type == ':' ||
           (number >= -1 && number <= REDIS_SKIP_LIMIT / (type == '*' ? 3 : 1));
}

/* A line at the front of the input: a whole reply, or the beginning of a string
   or an array. */
struct line {
    char type;
    struct view text;
    int64_t number; /* 0 if is_text() */
};

/* Returns its number of bytes, 0 if it is not whole, or RESP_MALFORMED. */
static ssize_t parse_line(struct view input, struct line *line) {
    size_t end = view_find(input, '\n');

    if (input.length == 0)
        return 0;
    *line = (struct line){.type = input.data[0]};
    if (!is_text(line->type) && view_find(VIEW(":$*"), line->type) == 3)
        return RESP_MALFORMED;
    if (end == input.length)
        return is_text(line->type) || end <= NUMBER_LIMIT + 2 ? 0
                                                              : RESP_MALFORMED;
    if (end == 1 || input.data[end - 1] != '\r')
        return RESP_MALFORMED;
    line->text = view_slice(input, 1, end - 2);
    bool good = is_text(line->type)
                    ? view_find(line->text, '\r') == line->text.length
                    : parse_number(line->text, &line->number) &&
                          is_allowed(line->type, line->number);
    return good ? (ssize_t)end + 1 : RESP_MALFORMED;
}

static bool is_null(const struct line *line) {
    return line->type != ':' && line->number == -1;
}

static ssize_t parse(struct view input, int depth, struct resp_reply *reply);

static ssize_t parse_string(struct view input, size_t start, int64_t length,
                            struct resp_reply *reply) {
    if (length > REDIS_REPLY_LIMIT)
        return RESP_TOO_LARGE;
    size_t end = start + (size_t)length;
    if (input.length < end + 2)
        return 0;
    if (input.data[end] != '\r' || input.data[end + 1] != '\n')
        return RESP_MALFORMED;
    reply->type = RESP_STRING;
    reply->text = view_slice(input, start, (size_t)length);
    return (ssize_t)end + 2;
}

static ssize_t parse_array(struct view input, size_t start, int64_t count,
                           int depth, struct resp_reply *reply) {
    if (count > REDIS_REPLY_LIMIT / 3 || depth == DEPTH_LIMIT)
        return RESP_TOO_LARGE;
    size_t at = start;
    reply->all_strings = true;
    for (int64_t i = 0; i < count; i++) {
        struct resp_reply item;
        ssize_t used = parse(view_skip(input, at), depth + 1, &item);
        if (used <= 0)
            return used;
        reply->all_strings &= item.type == RESP_STRING;
        at += (size_t)used;
    }
    reply->type = RESP_ARRAY;
    reply->count = (size_t)count;
    reply->items = view_slice(input, start, at - start);
    return (ssize_t)at;
}

static ssize_t parse(struct view input, int depth, struct resp_reply *reply) {
    struct line line;
    ssize_t end = parse_line(input, &line);

    *reply = (struct resp_reply){.type = RESP_NULL};
    if (end <= 0 || is_null(&line))
        return end;
    if (line.type == '$')
        return parse_string(input, (size_t)end, line.number, reply);
    if (line.type == '*')
        return parse_array(input, (size_t)end, line.number, depth, reply);
    reply->type = line.type == '+'   ? RESP_STATUS
                  : line.type == '-' ? RESP_ERROR
                                     : RESP_INTEGER;
    if (is_text(line.type))
        reply->text = line.text;
    reply->integer = line.number;
    return end;
}

ssize_t resp_parse(struct view input, struct resp_reply *reply) {
    ssize_t used = parse(input, 0, reply);
    size_t length = used == 0 ? input.length : (size_t)used;
    return used >= 0 && length > REDIS_REPLY_LIMIT ? RESP_TOO_LARGE : used;
}

/* ---- Replies that are too large ---- */

/* The rest of a line that holds a text.  Keeps a CR until the LF comes. */
static ssize_t skip_text(struct resp_skip *skip, struct view input) {
    size_t end = view_find(input, '\r');

    if (view_find(input, '\n') < end)
        return RESP_MALFORMED;
    if (input.length - end < 2)
        return (ssize_t)end;
    if (input.data[end + 1] != '\n')
        return RESP_MALFORMED;
    skip->in_text = false;
    skip->replies--;
    return (ssize_t)end + 2;
}

static ssize_t skip_string(struct resp_skip *skip, struct view input) {
    if (skip->string > 2) {
        uint64_t left = skip->string - 2;
        size_t count = left < input.length ? (size_t)left : input.length;
        skip->string -= count;
        return (ssize_t)count;
    }
    if (input.length < 2)
        return 0;
    skip->string = 0;
    skip->replies--;
    return view_starts_with(input, VIEW("\r\n")) ? 2 : RESP_MALFORMED;
}

/* An array's elements are counted as replies that follow, so any depth works.
 */
static ssize_t skip_line(struct resp_skip *skip, struct view input) {
    struct line line;

    if (input.length > 0 && is_text(input.data[0])) {
        skip->in_text = true;
        return 1;
    }
    ssize_t end = parse_line(input, &line);
    if (end <= 0)
        return end;
    if (line.type == '$' && !is_null(&line))
        skip->string = (uint64_t)line.number + 2;
    else
        skip->replies--;
    if (line.type == '*' && !is_null(&line))
        skip->replies += (uint64_t)line.number;
    return skip->replies <= REDIS_SKIP_LIMIT ? end : RESP_MALFORMED;
}

ssize_t resp_skip(struct resp_skip *skip, struct view input) {
    size_t at = 0;
    ssize_t used = 1;

    while (skip->replies > 0 && used > 0) {
        struct view rest = view_skip(input, at);
        used = skip->string > 0 ? skip_string(skip, rest)
               : skip->in_text  ? skip_text(skip, rest)
                                : skip_line(skip, rest);
        if (used < 0)
            return used;
        at += (size_t)used;
    }
    return (ssize_t)at;
}

int resp_read(struct resp_skip *skip, struct view input, size_t *used,
              struct resp_reply *reply) {
    static const struct view too_large =
        VIEW_INITIALIZER("the reply is too large and was skipped");
    bool skipping = skip->replies > 0;
    ssize_t result = skipping ? RESP_TOO_LARGE : resp_parse(input, reply);

    if (result == RESP_TOO_LARGE) {
        if (!skipping)
            skip->replies = 1;
        result = resp_skip(skip, input);
        *reply = (struct resp_reply){.type = RESP_ERROR, .text = too_large};
    }
    *used = result > 0 ? (size_t)result : 0;
    if (result < 0)
        return -1;
    return result > 0 && skip->replies == 0;
}

bool resp_next(struct view *items, struct resp_reply *item) {
    ssize_t used = parse(*items, 1, item);
    if (used <= 0)
        return false;
    *items = view_skip(*items, (size_t)used);
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
