/* SPDX-License-Identifier: MIT */
#include "proto/http_chunks.h"

#include "config.h"
#include "proto/http.h"

#include <string.h>

static bool is_control(char byte) {
    return ((unsigned char)byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* Each of these functions takes one byte that is not body, and sets the next
   state.  Returns 1 when the byte ended the body, 0, or minus a status. */
static int expect(struct http_chunks *chunks, char byte, char expected,
                  enum http_chunk_state next) {
    chunks->state = next;
    return byte == expected ? 0 : -400;
}

static int take_size_byte(struct http_chunks *chunks, char byte) {
    int value = hex_digit(byte);

    if (value >= 0) {
        if (chunks->size > BODY_LIMIT) /* so it cannot overflow, either */
            return -413;
        chunks->size = chunks->size * 16 + (uint64_t)value;
        chunks->has_digit = true;
        return 0;
    }
    if (!chunks->has_digit)
        return -400;
    chunks->has_digit = false;
    if (byte == ' ' || byte == '\t') {
        chunks->state = CHUNK_SIZE_BLANK;
        return 0;
    }
    return byte == ';' ? expect(chunks, byte, ';', CHUNK_EXTENSION)
                       : expect(chunks, byte, '\r', CHUNK_SIZE_LF);
}

static int take_trailer_byte(struct http_chunks *chunks, char byte) {
    switch (chunks->state) {
    case TRAILER_START:
        chunks->state = byte == '\r' ? TRAILER_END_LF : TRAILER_NAME;
        return byte == '\r' || http_is_token_byte(byte) ? 0 : -400;
    case TRAILER_NAME:
        if (byte == ':')
            chunks->state = TRAILER_VALUE;
        return byte == ':' || http_is_token_byte(byte) ? 0 : -400;
    case TRAILER_VALUE:
        if (byte == '\r')
            chunks->state = TRAILER_LF;
        return byte == '\r' || !is_control(byte) ? 0 : -400;
    case TRAILER_LF:
        return expect(chunks, byte, '\n', TRAILER_START);
    default: /* TRAILER_END_LF */
        return byte == '\n' ? 1 : -400;
    }
}

static int take_chunk_byte(struct http_chunks *chunks, char byte) {
    switch (chunks->state) {
    case CHUNK_SIZE:
        return take_size_byte(chunks, byte);
    case CHUNK_SIZE_BLANK: /* only before an extension */
        if (byte == ' ' || byte == '\t')
            return 0;
        return expect(chunks, byte, ';', CHUNK_EXTENSION);
    case CHUNK_EXTENSION:
        if (byte == '\r')
            chunks->state = CHUNK_SIZE_LF;
        return byte == '\r' || !is_control(byte) ? 0 : -400;
    case CHUNK_SIZE_LF:
        return expect(chunks, byte, '\n',
                      chunks->size > 0 ? CHUNK_DATA : TRAILER_START);
    case CHUNK_DATA_CR:
        return expect(chunks, byte, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return expect(chunks, byte, '\n', CHUNK_SIZE);
    case CHUNK_DATA: /* not taken byte by byte */
        return -400;
    default:
        return take_trailer_byte(chunks, byte);
    }
}

ssize_t http_decode_chunks(struct http_chunks *chunks, char *bytes,
                           size_t length, size_t *decoded) {
    size_t at = 0;

    *decoded = 0;
    while (at < length) {
        if (chunks->state == CHUNK_DATA) {
            size_t count = length - at;
            if (count > chunks->size)
                count = (size_t)chunks->size;
            memmove(bytes + *decoded, bytes + at, count);
            *decoded += count;
            at += count;
            chunks->size -= count;
            if (chunks->size == 0)
                chunks->state = CHUNK_DATA_CR;
            continue;
        }
        if (++chunks->overhead > CHUNK_OVERHEAD_LIMIT)
            return -413;
        int result = take_chunk_byte(chunks, bytes[at++]);
        if (result < 0)
            return result;
        if (result > 0)
            return (ssize_t)at;
        if (chunks->state == CHUNK_DATA) {
            chunks->body += chunks->size;
            if (chunks->body > BODY_LIMIT)
                return -413;
        }
    }
    return 0;
}
