/* SPDX-License-Identifier: MIT */
#include "proto/http.h"

#include "config.h"

#include <string.h>
#include <sys/param.h>

/* Each of these functions reads a line at the front of the input.  It returns
   the length of the line, 0 if the line is incomplete, or minus a status at the
   first invalid byte. */

/* Takes CR LF, after the part of the line that was read already. */
static ssize_t take_line_end(struct view input, size_t read) {
    struct view end = view_slice(VIEW("\r\n"), 0, MIN(2, input.length - read));

    if (!view_starts_with(view_skip(input, read), end))
        return -400;
    return end.length == 2 ? (ssize_t)read + 2 : 0;
}

/* Takes the size of a chunk, and drops its extensions. */
static ssize_t take_size(struct http_chunks *chunks, struct view input) {
    size_t at = 0;
    int digit;

    chunks->size = 0;
    for (; at < input.length && (digit = hex_digit(input.data[at])) >= 0;
         at++) {
        if (chunks->size > BODY_LIMIT) /* so the size cannot overflow, either */
            return -413;
        chunks->size = chunks->size * 16 + (uint64_t)digit;
    }
    if (at == 0 && input.length > 0)
        return -400;
    struct view rest = view_skip(input, at);
    struct view text = view_trim(rest);
    if (text.length == 0)
        return 0;
    if (text.data[0] == ';')
        at += view_span(rest, &http_value_bytes);
    else if (text.data != rest.data) /* blanks, but no extension */
        return -400;
    return take_line_end(input, at);
}

/* Takes a trailer field, or the empty line after the last one. */
static ssize_t take_trailer(struct view input) {
    size_t name = view_span(input, &http_token_bytes);
    struct view rest = view_skip(input, name);

    if (rest.length == 0)
        return 0;
    if (name > 0 && rest.data[0] != ':')
        return -400;
    return take_line_end(
        input, name > 0 ? name + view_span(rest, &http_value_bytes) : 0);
}

/* Takes a line that is no part of the body, and sets the next state. */
static ssize_t take_line(struct http_chunks *chunks, struct view input) {
    /* Any byte after the limit is an error. */
    size_t left = CHUNK_OVERHEAD_LIMIT - chunks->overhead;
    struct view line = view_slice(input, 0, MIN(input.length, left));
    ssize_t used = chunks->state == CHUNK_SIZE   ? take_size(chunks, line)
                   : chunks->state == CHUNK_DATA ? take_line_end(line, 0)
                                                 : take_trailer(line);

    if (used == 0 && input.length > left)
        return -413;
    if (used <= 0)
        return used;
    chunks->overhead += (size_t)used;
    if (chunks->state == CHUNK_DATA) {
        chunks->state = CHUNK_SIZE;
    } else if (chunks->state == CHUNK_SIZE) {
        chunks->state = chunks->size > 0 ? CHUNK_DATA : CHUNK_TRAILER;
        chunks->body += chunks->size;
        if (chunks->body > BODY_LIMIT)
            return -413;
    } else if (used == 2) {
        chunks->state = CHUNK_DONE;
    }
    return used;
}

int http_decode_chunks(struct http_chunks *chunks, struct buffer *input,
                       size_t *end) {
    struct view rest = view_skip(buffer_view(input), *end);
    ssize_t used = 1;

    while (used > 0 && chunks->state != CHUNK_DONE && rest.length > 0) {
        if (chunks->state == CHUNK_DATA && chunks->size > 0) {
            used = (ssize_t)MIN(chunks->size, rest.length);
            memmove(input->data + *end, rest.data, (size_t)used);
            *end += (size_t)used;
            chunks->size -= (uint64_t)used;
        } else {
            used = take_line(chunks, rest);
        }
        rest = view_skip(rest, used > 0 ? (size_t)used : 0);
    }
    input->length = *end + rest.length;
    if (rest.length > 0)
        memmove(input->data + *end, rest.data, rest.length);
    return used < 0 ? (int)used : chunks->state == CHUNK_DONE;
}
