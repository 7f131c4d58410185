/* SPDX-License-Identifier: MIT */
/*
 * A view refers to bytes of other code; a buffer owns its bytes, and grows.
 *
 * Neither is a C string: both may hold NUL bytes, and need not end in one.
 */
#pragma once

#ifdef NDEBUG
#error "build without -DNDEBUG: it removes the checks of bounds"
#endif

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that other code owns; their owner decides how long they are valid. */
struct view {
    const char *data;
    size_t length;
};

/* A view of a string literal, without its final NUL.  The second form is for a
   static variable, whose initial value must be a constant in C. */
#define VIEW(literal)             ((struct view)VIEW_INITIALIZER(literal))
#define VIEW_INITIALIZER(literal) {"" literal, sizeof(literal) - 1}

/* Inline functions, because a request calls them about three hundred times. */
static inline struct view view_slice(struct view view, size_t offset,
                                     size_t length) {
    assert(offset <= view.length && length <= view.length - offset);
    /* Even NULL + 0 is undefined in C, and an empty view may hold NULL. */
    return (struct view){offset == 0 ? view.data : view.data + offset, length};
}

static inline struct view view_skip(struct view view, size_t offset) {
    return view_slice(view, offset, view.length - offset);
}

/* memcmp must not receive the NULL of an empty view, even with length 0. */
static inline bool view_equal(struct view a, struct view b) {
    return a.length == b.length &&
           (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool view_starts_with(struct view view, struct view prefix) {
    return view.length >= prefix.length &&
           view_equal(view_slice(view, 0, prefix.length), prefix);
}

/* Returns a view of the string, without its NUL. */
static inline struct view view_of(const char *string) {
    return (struct view){string, strlen(string)};
}

/* Returns the view without the blanks (SP, HTAB) around it. */
struct view view_trim(struct view view);

/* Compares two texts, but ignores the case of ASCII letters. */
bool bytes_equal_ignoring_case(const char *a, const char *b, size_t length);
static inline bool view_equal_ignoring_case(struct view a, struct view b) {
    return a.length == b.length &&
           bytes_equal_ignoring_case(a.data, b.data, a.length);
}

static inline bool view_starts_with_ignoring_case(struct view view,
                                                  struct view prefix) {
    return view.length >= prefix.length &&
           view_equal_ignoring_case(view_slice(view, 0, prefix.length), prefix);
}

/* Returns the offset of the first `byte`; view.length if there is none. */
static inline size_t view_find(struct view view, char byte) {
    const char *found =
        view.length == 0 ? NULL
                         : (const char *)memchr(view.data, byte, view.length);
    return found == NULL ? view.length : (size_t)(found - view.data);
}

/* A set of bytes, as a table: a lookup is one read of memory.  BYTES adds a
   range of bytes, with an extension of gcc and clang. */
struct byte_set {
    bool has[256];
};
#define BYTE_SET           __extension__ static const struct byte_set
#define BYTES(first, last) [(first)...(last)] = true

/* Returns the number of bytes at the view's front that are all in the set. */
static inline size_t view_span(struct view view, const struct byte_set *set) {
    size_t length = 0;
    while (length < view.length && set->has[(unsigned char)view.data[length]])
        length++;
    return length;
}

/* Removes the bytes of the set from the front of *rest, and returns them. */
static inline struct view view_take(struct view *rest,
                                    const struct byte_set *set) {
    struct view first = view_slice(*rest, 0, view_span(*rest, set));
    *rest = view_skip(*rest, first.length);
    return first;
}

/* Cuts *rest at the first separator.  Returns the part before it; the part
   after it stays in *rest (nothing if there was no separator). */
struct view view_cut(struct view *rest, char separator);

/* Removes the next element from a list with commas, without blanks around it.
   Skips empty elements (RFC 9110, 5.6.1.2).  Returns false at the end. */
bool view_next_element(struct view *list, struct view *element);

/* Takes the decimal number at the front of *rest.  Returns false if there is no
   digit, or if *number cannot hold the number. */
static inline bool view_take_number(struct view *rest, uint64_t *number) {
    uint64_t value = 0;
    size_t count = 0;

    for (; count < rest->length; count++) {
        unsigned digit = (unsigned char)rest->data[count] - (unsigned)'0';
        if (digit > 9)
            break;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *rest = view_skip(*rest, count);
    *number = value;
    return count > 0;
}

/* Reads a decimal number, digits only.  Returns false, and leaves *number
   unchanged, if the text is empty, has another byte or exceeds the limit. */
bool view_number(struct view digits, uint64_t limit, uint64_t *number);

/* Returns the value of a hexadecimal digit, 0 to 15; -1 for any other byte. */
int hex_digit(char byte);

/* A growable buffer; all zero is a valid empty buffer.  If memory is short, an
   append sets `failed`, and later appends do nothing.  So code may append many
   parts and check once, at the end. */
struct buffer {
    char *data;
    size_t length;   /* bytes in use */
    size_t capacity; /* bytes allocated */
    bool failed;     /* memory was short: some of the bytes are missing */
};

/* Makes room for `more` bytes after the used ones and returns its address;
   NULL, with `failed` set, if memory is short.  May move the used bytes. */
char *buffer_reserve(struct buffer *buffer, size_t more);

/* Most appends have enough memory, and make no function call. */
static inline void buffer_append(struct buffer *buffer, struct view view) {
    if ((buffer->failed || view.length > buffer->capacity - buffer->length) &&
        buffer_reserve(buffer, view.length) == NULL)
        return;
    if (view.length > 0)
        memcpy(buffer->data + buffer->length, view.data, view.length);
    buffer->length += view.length;
}
void buffer_append_number(struct buffer *buffer, int64_t number);
void buffer_consume(struct buffer *buffer, size_t count); /* at the front */
void buffer_clear(struct buffer *buffer);                 /* keeps the memory */
void buffer_free(struct buffer *buffer); /* leaves a valid empty buffer */
struct view buffer_view(const struct buffer *buffer);
