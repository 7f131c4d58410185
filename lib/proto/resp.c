/* SPDX-License-Identifier: MIT */
#include "proto/resp.h"

#include "config.h"

/* The servers' largest reply is an array of strings.  Arrays nested without
   limit could make the parser recurse until the stack is full. */
#define DEPTH_LIMIT  8
/* A number and its sign; INT64_MIN has 20 characters. */
#define NUMBER_LIMIT (sizeof((struct resp_skip *)NULL)->line - 2)

/* Returns the end of the line that starts at `at`, without its CR LF: 0 if it
   is not complete yet. */
static size_t line_end(struct view input, size_t at) {
    size_t lf = at + view_find(view_skip(input, at), '\n');
    if (lf == input.length || lf == at || input.data[lf - 1] != '\r')
        return 0;
    return lf - 1;
}

static bool is_line(char type) { /* of text that is no number */
    return type == '+' || type == '-';
}

static bool is_type(char type) {
    return is_line(type) || type == ':' || type == '$' || type == '*';
}

static bool parse_integer(struct view text, int64_t *integer) {
    bool negative = view_starts_with(text, VIEW("-"));
    bool has_sign = negative || view_starts_with(text, VIEW("+"));
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t number;

    if (text.length > NUMBER_LIMIT)
        return false;
    if (!view_number(view_skip(text, has_sign ? 1 : 0), limit, &number))
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
    if (length < 0 || length > REDIS_SKIP_LIMIT)
        return RESP_MALFORMED;
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
    if (count == -1) {
        reply->type = RESP_NULL;
        return (ssize_t)start;
    }
    /* Each element has three bytes at least, so count is limited as well. */
    if (count < 0 || count > REDIS_SKIP_LIMIT / 3)
        return RESP_MALFORMED;
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
    int64_t number = 0;

    *reply = (struct resp_reply){.type = RESP_NULL};
    if (input.length == 0)
        return 0;
    char type = input.data[0];
    if (!is_type(type))
        return RESP_MALFORMED;
    size_t end = line_end(input, 1);
    if (end == 0) /* a line without an end so far, or a bare LF */
        return view_find(input, '\n') < input.length ? RESP_MALFORMED : 0;
    struct view line = view_slice(input, 1, end - 1);
    if (is_line(type)) {
        if (view_find(line, '\r') < line.length)
            return RESP_MALFORMED;
        reply->type = type == '+' ? RESP_STATUS : RESP_ERROR;
        reply->text = line;
        return (ssize_t)end + 2;
    }
    if (!parse_integer(line, &number))
        return RESP_MALFORMED;
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
    return used >= 0 && length > REDIS_REPLY_LIMIT ? RESP_TOO_LARGE : used;
}

/* ---- Replies that are too large ---- */

void resp_skip_begin(struct resp_skip *skip) {
    *skip = (struct resp_skip){.replies = 1};
}

/* The line is whole: it is a reply, or the beginning of a string or an array.
   An array's elements are counted as replies that follow, so any depth works.
   Returns false if it is malformed. */
static bool skip_line(struct resp_skip *skip) {
    size_t length = skip->line_length - 1; /* without its CR */
    char type = skip->line[0];
    int64_t number;

    skip->line_length = 0;
    skip->after_cr = false;
    skip->replies--;
    if (is_line(type))
        return true;
    if (!parse_integer((struct view){skip->line + 1, length - 1}, &number))
        return false;
    if (type == ':' || number == -1)
        return true;
    if (number < 0 || number > REDIS_SKIP_LIMIT / (type == '*' ? 3 : 1))
        return false;
    if (type == '$')
        skip->string = (uint64_t)number + 2;
    skip->replies += type == '$' ? 1 : (uint64_t)number;
    return skip->replies <= REDIS_SKIP_LIMIT;
}

/* Keeps the first bytes of the line.  The rest of a text is dropped; a number
   that does not fit is malformed. */
static bool skip_line_byte(struct resp_skip *skip, char byte) {
    if (skip->after_cr != (byte == '\n')) /* CR and LF come as a pair only */
        return false;
    if (skip->after_cr)
        return skip_line(skip);
    skip->after_cr = byte == '\r';
    if (skip->line_length < sizeof skip->line)
        skip->line[skip->line_length] = byte;
    else if (!is_line(skip->line[0]))
        return false;
    skip->line_length++;
    return is_type(skip->line[0]);
}

/* At the end of a string: CR, then LF. */
static bool skip_string_end(struct resp_skip *skip, char byte) {
    bool good = byte == (skip->string == 2 ? '\r' : '\n');
    if (--skip->string == 0)
        skip->replies--;
    return good;
}

ssize_t resp_skip(struct resp_skip *skip, struct view input) {
    size_t at = 0;

    while (skip->replies > 0 && at < input.length) {
        if (skip->string > 2) {
            uint64_t left = skip->string - 2;
            size_t here = input.length - at;
            size_t count = left < here ? (size_t)left : here;
            skip->string -= count;
            at += count;
            continue;
        }
        bool good = skip->string > 0 ? skip_string_end(skip, input.data[at])
                                     : skip_line_byte(skip, input.data[at]);
        if (!good)
            return RESP_MALFORMED;
        at++;
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
            resp_skip_begin(skip);
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
