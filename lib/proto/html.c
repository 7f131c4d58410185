/* SPDX-License-Identifier: MIT */
#include "proto/html.h"

#include "proto/encoding.h"

#define REPLACEMENT VIEW("\xef\xbf\xbd") /* U+FFFD */

/* Is the character at the front of the text, of so many bytes, one that HTML
   text shall not have: a control character of Latin 1, U+0080 to U+009F, or one
   that turns the text behind it around, U+202A to U+202E, U+2066 to U+2069? */
static bool is_unwanted(struct view text, size_t length) {
    const unsigned char *byte = (const unsigned char *)text.data;

    if (length == 2)
        return byte[0] == 0xc2 && byte[1] <= 0x9f;
    if (length != 3 || byte[0] != 0xe2)
        return false;
    return (byte[1] == 0x80 && byte[2] >= 0xaa && byte[2] <= 0xae) ||
           (byte[1] == 0x81 && byte[2] >= 0xa6 && byte[2] <= 0xa9);
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

static bool stands_for_itself(char byte) {
    return (byte & 0x80) == 0 && reference_for(byte).length == 0;
}

static struct byte_set plain_bytes;

__attribute__((constructor)) static void fill_set(void) {
    byte_set_fill(&plain_bytes, stands_for_itself);
}

void html_append_text(struct buffer *html, struct view text) {
    size_t plain = 0; /* bytes at the front that can go out as they are */

    for (;;) {
        plain += view_span(view_from(text, plain), &plain_bytes);
        if (plain == text.length)
            break;
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
