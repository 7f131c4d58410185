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

/* Removes a byte or an escape from the front of *text, and decodes it. */
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

/* A start byte has as many leading 1 bits as the character has bytes; the only
   byte of an ASCII character has none.  Each further byte begins with the bits
   10. */
size_t utf8_character(struct view text, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

    if (text.length == 0)
        return 0;
    unsigned char first = (unsigned char)text.data[0];
    size_t length = first < 0x80   ? 1
                    : first < 0xc0 ? 0
                    : first < 0xe0 ? 2
                    : first < 0xf0 ? 3
                    : first < 0xf8 ? 4
                                   : 0;
    if (length == 0 || length > text.length)
        return 0;
    *code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        unsigned char next = (unsigned char)text.data[i];
        if ((next & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (next & 0x3fu);
    }
    bool is_surrogate = *code >= 0xd800 && *code <= 0xdfff;
    return *code < least[length] || *code > 0x10ffff || is_surrogate ? 0
                                                                     : length;
}

int64_t utf8_count(struct view text) {
    int64_t count = 0;
    uint32_t code;

    while (text.length > 0) {
        size_t length = utf8_character(text, &code);
        if (length == 0)
            return -1;
        text = view_skip(text, length);
        count++;
    }
    return count;
}
