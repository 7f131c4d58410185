/* SPDX-License-Identifier: MIT */
#include "proto/encoding.h"

int percent_decode(struct view text) {
    if (text.length < 3 || text.data[0] != '%')
        return -1;
    int high = hex_digit(text.data[1]);
    int low = hex_digit(text.data[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* ---- Forms ---- */

/* Takes the byte at the front of *text, which is not empty, and decodes it. */
static char next_byte(struct view *text) {
    int decoded = percent_decode(*text);
    char byte = text->data[0];

    *text = view_skip(*text, decoded >= 0 ? 3 : 1);
    if (decoded >= 0)
        return (char)decoded;
    return byte == '+' ? ' ' : byte;
}

static bool decodes_to(struct view encoded, struct view text) {
    size_t at = 0;

    for (; encoded.length > 0 && at < text.length; at++)
        if (next_byte(&encoded) != text.data[at])
            return false;
    return encoded.length == 0 && at == text.length;
}

bool form_append_field(struct view body, struct view name,
                       struct buffer *value) {
    while (body.length > 0) {
        struct view rest = view_cut(&body, '&');
        if (rest.length == 0) /* no field, not even one without a name */
            continue;
        struct view key = view_cut(&rest, '=');
        if (!decodes_to(key, name))
            continue;
        while (rest.length > 0) {
            char byte = next_byte(&rest);
            buffer_append(value, (struct view){&byte, 1});
        }
        return true;
    }
    return false;
}

/* ---- UTF-8 ---- */

static bool is_between(struct view text, size_t at, unsigned char low,
                       unsigned char high) {
    if (at >= text.length)
        return false;
    unsigned char byte = (unsigned char)text.data[at];
    return byte >= low && byte <= high;
}

/* The table of RFC 3629, section 4.  The second byte's range excludes overlong
   forms, surrogates and what lies above U+10FFFF. */
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
        text = view_skip(text, length);
        count++;
    }
    return count;
}
