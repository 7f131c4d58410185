/* SPDX-License-Identifier: MIT */
#include "proto/html.h"

#include "proto/encoding.h"

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
BYTE_SET plain_bytes = {{BYTES('\t', '\n'), BYTES('\r', '\r'), BYTES(' ', '!'),
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

void html_append_text(struct buffer *html, struct view text) {
    struct view instead;
    size_t done = 0; /* bytes that were appended */
    size_t at = 0;   /* bytes that were looked at */

    for (;;) {
        at += view_span(view_skip(text, at), &plain_bytes);
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

static const struct template_value *
find_value(struct view text, const struct template_value *values,
           size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t length = values[i].name.length;
        if (text.length >= length + 2 && text.data[length + 1] == '$' &&
            view_equal(view_slice(text, 1, length), values[i].name))
            return &values[i];
    }
    return NULL;
}

void template_append(struct buffer *html, struct view text,
                     const struct template_value *values, size_t count) {
    while (text.length > 0) {
        size_t dollar = view_find(text, '$');
        buffer_append(html, view_slice(text, 0, dollar));
        text = view_skip(text, dollar);
        if (text.length == 0)
            return;
        const struct template_value *value = find_value(text, values, count);
        if (value == NULL) {
            buffer_append(html, VIEW("$"));
            text = view_skip(text, 1);
        } else {
            buffer_append(html, value->html);
            text = view_skip(text, value->name.length + 2);
        }
    }
}
