/* SPDX-License-Identifier: MIT */
#include "false_redis.h"

#include "must.h"

#include <string.h>

#define WORDS_LIMIT 4

/* Reads a count like "*3\r\n" or "$17\r\n". */
static size_t take_count(struct view *rest, char type) {
    uint64_t count;

    must(rest->length > 0 && rest->data[0] == type);
    struct view line = view_cut(rest, '\n');
    must(line.length > 2 && line.data[line.length - 1] == '\r');
    must(view_number(view_slice(line, 1, line.length - 2), SIZE_MAX, &count));
    return (size_t)count;
}

static size_t take_words(struct view command, struct view words[WORDS_LIMIT]) {
    size_t count = take_count(&command, '*');

    must(count >= 2 && count <= WORDS_LIMIT);
    for (size_t i = 0; i < count; i++) {
        size_t length = take_count(&command, '$');
        must(command.length >= length + 2);
        words[i] = view_slice(command, 0, length);
        must(view_equal(view_slice(command, length, 2), VIEW("\r\n")));
        command = view_skip(command, length + 2);
    }
    must(command.length == 0);
    return count;
}

static void append_string(struct buffer *reply, struct view text) {
    buffer_append(reply, VIEW("$"));
    buffer_append_number(reply, (int64_t)text.length);
    buffer_append(reply, VIEW("\r\n"));
    buffer_append(reply, text);
    buffer_append(reply, VIEW("\r\n"));
}

static void append_integer(struct buffer *reply, int64_t number) {
    buffer_append(reply, VIEW(":"));
    buffer_append_number(reply, number);
    buffer_append(reply, VIEW("\r\n"));
}

/* Appends the newest remark once for each remark in Redis (at most 50). */
static void append_remarks(const struct false_redis *redis,
                           struct buffer *reply) {
    int64_t shown = redis->remarks < 50 ? redis->remarks : 50;

    buffer_append(reply, VIEW("*"));
    buffer_append_number(reply, shown);
    buffer_append(reply, VIEW("\r\n"));
    while (shown-- > 0)
        append_string(reply, buffer_view(&redis->last));
}

/* Appends a link's target: null for a name of four bytes, an invalid address
   for a name with unusual bytes, otherwise a path with the name. */
static void append_link(struct view key, struct buffer *reply,
                        struct buffer *link) {
    must(view_starts_with(key, VIEW("link:")));
    if (key.length == strlen("link:none")) {
        buffer_append(reply, VIEW("$-1\r\n"));
        return;
    }
    for (size_t i = 0; i < key.length; i++) /* characters that no URL has */
        if (key.data[i] <= ' ' || key.data[i] > '~') {
            append_string(reply, VIEW("no address"));
            return;
        }
    buffer_append(link, VIEW("/to/"));
    buffer_append(link, view_skip(key, strlen("link:")));
    append_string(reply, buffer_view(link));
}

void false_redis_answer(struct false_redis *redis, struct view command,
                        struct buffer *reply, int64_t *visitor,
                        struct buffer *link) {
    struct view words[WORDS_LIMIT];
    size_t count = take_words(command, words);
    bool of_remarks = view_equal(words[1], VIEW("guestbook_remarks"));

    if (view_equal(words[0], VIEW("LRANGE")) && of_remarks && count == 4) {
        append_remarks(redis, reply);
    } else if (view_equal(words[0], VIEW("INCR")) && count == 2) {
        must(view_equal(words[1], VIEW("visitor_count")));
        append_integer(reply, *visitor = ++redis->visitors);
    } else if (view_equal(words[0], VIEW("LLEN")) && of_remarks && count == 2) {
        append_integer(reply, redis->remarks);
    } else if (view_equal(words[0], VIEW("RPUSH")) && of_remarks &&
               count == 3) {
        must(words[2].length > 3);
        buffer_clear(&redis->last);
        buffer_append(&redis->last, words[2]);
        append_integer(reply, ++redis->remarks);
    } else {
        must(view_equal(words[0], VIEW("GET")) && count == 2);
        append_link(words[1], reply, link);
    }
}
