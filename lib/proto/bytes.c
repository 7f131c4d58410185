/* SPDX-License-Identifier: MIT */
#include "proto/bytes.h"

#include <stdlib.h>
#include <sys/param.h>

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t';
}

struct view view_trim(struct view view) {
    while (view.length > 0 && is_blank(view.data[0]))
        view = view_skip(view, 1);
    while (view.length > 0 && is_blank(view.data[view.length - 1]))
        view.length--;
    return view;
}

static char lower(char byte) {
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* strncasecmp(3) would stop at a NUL, and depends on the locale. */
bool bytes_equal_ignoring_case(const char *a, const char *b, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

struct view view_cut(struct view *rest, char separator) {
    size_t end = view_find(*rest, separator);
    struct view first = view_slice(*rest, 0, end);
    *rest = view_skip(*rest, end < rest->length ? end + 1 : end);
    return first;
}

bool view_next_element(struct view *list, struct view *element) {
    while (list->length > 0) {
        *element = view_trim(view_cut(list, ','));
        if (element->length > 0)
            return true;
    }
    return false;
}

bool view_number(struct view digits, uint64_t limit, uint64_t *number) {
    uint64_t value;

    if (!view_take_number(&digits, &value) || digits.length > 0 ||
        value > limit)
        return false;
    *number = value;
    return true;
}

int hex_digit(char byte) {
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

char *buffer_reserve(struct buffer *buffer, size_t more) {
    if (buffer->failed)
        return NULL;
    if (more > buffer->capacity - buffer->length || buffer->data == NULL) {
        size_t needed = buffer->length + more;
        /* Grows by half, so n appends copy O(n) bytes in all. */
        size_t capacity = buffer->capacity + buffer->capacity / 2;
        capacity = MAX(MAX(capacity, needed), 64);
        char *data =
            more > SIZE_MAX / 2 ? NULL : realloc(buffer->data, capacity);
        if (data == NULL) {
            buffer->failed = true;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->length;
}

void buffer_append_number(struct buffer *buffer, int64_t number) {
    char digits[20]; /* of a 64-bit number, with its sign */
    size_t start = sizeof digits;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do {
        digits[--start] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (number < 0)
        digits[--start] = '-';
    buffer_append(buffer, (struct view){digits + start, sizeof digits - start});
}

void buffer_consume(struct buffer *buffer, size_t count) {
    assert(count <= buffer->length);
    buffer->length -= count;
    if (buffer->length > 0 && count > 0)
        memmove(buffer->data, buffer->data + count, buffer->length);
}

void buffer_clear(struct buffer *buffer) {
    buffer->length = 0;
    buffer->failed = false;
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}

struct view buffer_view(const struct buffer *buffer) {
    return (struct view){buffer->data, buffer->length};
}
