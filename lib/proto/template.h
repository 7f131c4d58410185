/* SPDX-License-Identifier: MIT */
/* Templates: HTML with placeholders such as $VISITOR_COUNT$. */
#ifndef PROTO_TEMPLATE_H
#define PROTO_TEMPLATE_H

#include "proto/bytes.h"

struct template_value {
    struct view name; /* without the dollar signs */
    struct view html; /* inserted as it is: its maker has escaped it */
};

/*
 * Appends the template with every placeholder replaced by the value of its
 * name.  Inserted values are not searched for placeholders again, so a visitor
 * who writes $VISITOR_COUNT$ sees just that.  Unknown names stay as they are.
 */
void template_append(struct buffer *html, struct view text,
                     const struct template_value *values, size_t count);

#endif
