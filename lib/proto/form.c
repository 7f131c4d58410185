/* SPDX-License-Identifier: MIT */
#include "proto/form.h"

#include "proto/encoding.h"

/* Returns the decoded byte at the front of *text, which is not empty, and steps
   over it. */
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
