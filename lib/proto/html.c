/* SPDX-License-Identifier: MIT */
#include "proto/html.h"

#include "proto/encoding.h"

#include <string.h>

#define REPLACEMENT VIEW("\xef\xbf\xbd") /* U+FFFD */

/* The characters that are special in HTML, and their replacements. */
#define EACH_SPECIAL(DO)                                                       \
    DO('&', "&amp;")                                                           \
    DO('<', "&lt;")                                                            \
    DO('>', "&gt;")                                                            \
    DO('"', "&quot;")                                                          \
    DO('\'', "&#39;")

/* Is this a control character, a character that changes the direction of the
   text, or a noncharacter? */
static bool is_forbidden(uint32_t code) {
    return (code < ' ' && code != '\t' && code != '\n' && code != '\r') ||
           (code >= 0x7f && code <= 0x9f) ||
           (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) ||
           (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

/* Returns the number of bytes of the character at the front of the text, at
   least 1. *instead is its replacement; empty: the character is kept. */
static size_t look_at_character(struct view text, struct view *instead) {
#define REFERENCE(character, reference)                                        \
    if (text.data[0] == (character))                                           \
        *instead = VIEW(reference);
    uint32_t code;
    size_t length = utf8_character(text, &code);

    *instead = length == 0 || is_forbidden(code) ? REPLACEMENT : VIEW("");
    EACH_SPECIAL(REFERENCE)
    return length > 0 ? length : 1;
}

/* Sixteen bytes, which one instruction can compare (the manual of gcc, "Vector
   Extensions"; clang has this extension, too). */
typedef unsigned char block __attribute__((vector_size(16)));

/* Are all of these bytes plain: printable ASCII, and not special? */
static bool is_plain_block(const char *bytes) {
#define OR_EQUAL(character, reference) | (b == (character))
    block b;
    uint64_t other[2];

    memcpy(&b, bytes, sizeof b);
    b = (block)((b < ' ') | (b > '~') EACH_SPECIAL(OR_EQUAL));
    memcpy(other, &b, sizeof other);
    return (other[0] | other[1]) == 0;
}

/* Returns the number of plain bytes at the front of the text. */
static size_t plain_bytes(struct view text) {
#define MEMBER(character, reference) [character] = true,
    BYTE_SET others = {
        {BYTES('\0', '\x1f'), EACH_SPECIAL(MEMBER) BYTES(0x7f, 0xff)}};
    const size_t size = sizeof(block);
    size_t length = 0;

    while (text.length - length >= size && is_plain_block(text.data + length))
        length += size;
    /* The rest is shorter than a block: check the last 16 bytes. */
    if (length > 0 && text.length - length < size &&
        is_plain_block(text.data + text.length - size))
        return text.length;
    while (length < text.length &&
           !others.has[(unsigned char)text.data[length]])
        length++;
    return length;
}

void html_append_text(struct buffer *html, struct view text) {
    struct view instead;
    size_t done = 0; /* bytes that were appended */
    size_t at = 0;   /* bytes that were checked */

    while ((at += plain_bytes(view_skip(text, at))) < text.length) {
        size_t length = look_at_character(view_skip(text, at), &instead);
        if (instead.length > 0) {
            buffer_append(html, view_slice(text, done, at - done));
            buffer_append(html, instead);
            done = at + length;
        }
        at += length;
    }
    buffer_append(html, view_skip(text, done));
}

/* ---- Templates ---- */

void template_append(struct buffer *html, struct view text,
                     template_value *append_value, const void *values) {
    for (;;) {
        size_t dollar = view_find(text, '$');
        buffer_append(html, view_slice(text, 0, dollar));
        text = view_skip(text, dollar);
        if (text.length == 0)
            return;
        size_t end = view_find(view_skip(text, 1), '$');
        bool closed = end < text.length - 1;
        if (closed && append_value(html, view_slice(text, 1, end), values)) {
            text = view_skip(text, end + 2);
        } else {
            buffer_append(html, VIEW("$"));
            text = view_skip(text, 1);
        }
    }
}
