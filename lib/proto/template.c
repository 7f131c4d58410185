/* SPDX-License-Identifier: MIT */
#include "proto/template.h"

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
