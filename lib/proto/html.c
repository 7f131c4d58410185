/* SPDX-License-Identifier: MIT */
#include "proto/html.h"

#include "proto/encoding.h"

#include <string.h>

#define REPLACEMENT VIEW("\xef\xbf\xbd") /* U+FFFD */

/* Returns the code point of the UTF-8 character at the front of the text, which
   has this number of bytes, at least two. */
static uint32_t code_point(struct view text, size_t length) {
    uint32_t code = (unsigned char)text.data[0] & (0xffu >> (length + 1));

    for (size_t i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)text.data[i] & 0x3fu);
    return code;
}

/* Must HTML text not contain this character?  Forbidden are control characters
   of Latin 1, and those that change the direction of the text.  So are
   noncharacters: the last two of each plane, and U+FDD0 to U+FDEF. */
static bool is_forbidden(uint32_t code) {
    return (code >= 0x80 && code <= 0x9f) ||
           (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) ||
           (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

/* Returns the reference for an ASCII byte; empty: the byte itself is used. */
static struct view reference_for(char byte) {
    switch (byte) {
    case '&':
        return VIEW("&amp;");
    case '<':
        return VIEW("&lt;");
    case '>':
        return VIEW("&gt;");
    case '"':
        return VIEW("&quot;");
    case '\'':
        return VIEW("&#39;");
    case '\t':
    case '\n':
    case '\r':
        return (struct view){NULL, 0};
    default:
        if ((unsigned char)byte < 0x20 || byte == 0x7f)
            return REPLACEMENT;
        return (struct view){NULL, 0};
    }
}

/* The ASCII bytes that need no escape: reference_for() returns nothing. */
BYTE_SET plain = {{BYTES('\t', '\n'), BYTES('\r', '\r'), BYTES(' ', '!'),
                   BYTES('#', '%'), BYTES('(', ';'), BYTES('=', '='),
                   BYTES('?', '~')}};

/* Returns the number of bytes of the character at the front of the text, at
   least 1.  *instead is its escape; empty: it needs none. */
static size_t look_at_character(struct view text, struct view *instead) {
    size_t length = utf8_character(text);

    *instead = (struct view){NULL, 0};
    if (length == 1)
        *instead = reference_for(text.data[0]);
    else if (length == 0 || is_forbidden(code_point(text, length)))
        *instead = REPLACEMENT;
    return length > 0 ? length : 1;
}

/* Sixteen bytes, which one instruction can compare (the manual of gcc, "Vector
   Extensions"; clang has them too). */
typedef unsigned char block __attribute__((vector_size(16)));

static bool is_plain_block(const char *bytes) {
    block b;
    uint64_t special[2];

    memcpy(&b, bytes, sizeof b);
    b = (block)((b < ' ') | (b > '~') | (b == '&') | (b == '<') | (b == '>') |
                (b == '"') | (b == '\''));
    memcpy(special, &b, sizeof special);
    return (special[0] | special[1]) == 0;
}

/* Returns the number of ASCII bytes at the front of the text that need no
   escape. */
static size_t plain_bytes(struct view text) {
    const size_t size = sizeof(block);
    size_t length = 0;

    while (text.length - length >= size && is_plain_block(text.data + length))
        length += size;
    /* The rest is a part of the last block. */
    if (length > 0 && text.length - length < size &&
        is_plain_block(text.data + text.length - size))
        return text.length;
    return length + view_span(view_skip(text, length), &plain);
}

void html_append_text(struct buffer *html, struct view text) {
    struct view instead;
    size_t done = 0; /* bytes that were appended */
    size_t at = 0;   /* bytes that were looked at */

    for (;;) {
        at += plain_bytes(view_skip(text, at));
        if (at == text.length)
            break;
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
