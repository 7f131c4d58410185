/* SPDX-License-Identifier: MIT */
#include "proto/html.h"

static bool is_between(struct view text, size_t at, unsigned char low,
                       unsigned char high) {
    if (at >= text.length)
        return false;
    unsigned char byte = (unsigned char)text.data[at];
    return byte >= low && byte <= high;
}

/* The table of RFC 3629, section 4.  The second byte's range is what shuts out
   overlong forms, surrogates and what lies above U+10FFFF. */
size_t utf8_character(struct view text) {
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t length;
    } forms[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!is_between(text, 0, forms[i].first_low, forms[i].first_high))
            continue;
        if (forms[i].length > 1 &&
            !is_between(text, 1, forms[i].second_low, forms[i].second_high))
            return 0;
        for (size_t at = 2; at < forms[i].length; at++)
            if (!is_between(text, at, 0x80, 0xbf))
                return 0;
        return forms[i].length;
    }
    return 0;
}

int64_t utf8_count(struct view text) {
    int64_t count = 0;

    while (text.length > 0) {
        size_t length = utf8_character(text);
        if (length == 0)
            return -1;
        text = view_from(text, length);
        count++;
    }
    return count;
}

#define REPLACEMENT VIEW("\xef\xbf\xbd") /* U+FFFD */

/* Is the character at the front of the text, of so many bytes, one that HTML
   text shall not have: a control character of Latin 1, U+0080 to U+009F, or one
   that turns the text behind it around, U+202A to U+202E, U+2066 to U+2069? */
static bool is_unwanted(struct view text, size_t length) {
    if (length == 2)
        return is_between(text, 0, 0xc2, 0xc2) &&
               is_between(text, 1, 0x80, 0x9f);
    return length == 3 && is_between(text, 0, 0xe2, 0xe2) &&
           ((is_between(text, 1, 0x80, 0x80) &&
             is_between(text, 2, 0xaa, 0xae)) ||
            (is_between(text, 1, 0x81, 0x81) &&
             is_between(text, 2, 0xa6, 0xa9)));
}

/* What stands for an ASCII byte; empty: it stands for itself. */
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

void html_append_text(struct buffer *html, struct view text) {
    size_t plain = 0; /* bytes at the front that can go out as they are */

    while (plain < text.length) {
        unsigned char byte = (unsigned char)text.data[plain];
        size_t length =
            byte < 0x80 ? 1 : utf8_character(view_from(text, plain));
        struct view instead = {NULL, 0};
        if (length == 1)
            instead = reference_for(text.data[plain]);
        else if (length == 0 || is_unwanted(view_from(text, plain), length))
            instead = REPLACEMENT;
        if (instead.length == 0) {
            plain += length;
            continue;
        }
        buffer_append(html, view_part(text, 0, plain));
        buffer_append(html, instead);
        text = view_from(text, plain + (length > 0 ? length : 1));
        plain = 0;
    }
    buffer_append(html, text);
}
