/* SPDX-License-Identifier: MIT */
#include "proto/http_chunks.h"

#include "config.h"
#include "proto/http.h"

#include <string.h>

static bool is_control(char byte) {
    return ((unsigned char)byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* Handles one byte that is not body.  Returns 1 when it ended the body, 0, or
   minus a status. */
static int chunk_byte(struct http_chunks *chunks, char byte) {
    switch (chunks->state) {
    case CHUNK_SIZE: {
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
        if (byte == '\r')
            chunks->state = CHUNK_SIZE_LF;
        else if (byte == ';')
            chunks->state = CHUNK_EXTENSION;
        else if (byte == ' ' || byte == '\t')
            chunks->state = CHUNK_SIZE_BLANK;
        else
            return -400;
        return 0;
    }
    case CHUNK_SIZE_BLANK: /* only before an extension */
        if (byte == ';')
            chunks->state = CHUNK_EXTENSION;
        return byte == ';' || byte == ' ' || byte == '\t' ? 0 : -400;
    case CHUNK_EXTENSION:
        if (byte == '\r')
            chunks->state = CHUNK_SIZE_LF;
        else if (is_control(byte))
            return -400;
        return 0;
    case CHUNK_SIZE_LF:
        chunks->state = chunks->size > 0 ? CHUNK_DATA : TRAILER_START;
        return byte == '\n' ? 0 : -400;
    case CHUNK_DATA_CR:
        chunks->state = CHUNK_DATA_LF;
        return byte == '\r' ? 0 : -400;
    case CHUNK_DATA_LF:
        chunks->state = CHUNK_SIZE;
        return byte == '\n' ? 0 : -400;
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
        chunks->state = TRAILER_START;
        return byte == '\n' ? 0 : -400;
    case TRAILER_END_LF:
        return byte == '\n' ? 1 : -400;
    case CHUNK_DATA:
        break; /* not taken byte by byte */
    }
    return -400;
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
        int result = chunk_byte(chunks, bytes[at++]);
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
