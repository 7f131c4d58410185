/* SPDX-License-Identifier: MIT */
/* The forms that browsers send. */
#ifndef PROTO_FORM_H
#define PROTO_FORM_H

#include "proto/bytes.h"

/*
 * Finds the first field of that name in a body of the type
 * application/x-www-form-urlencoded and appends its decoded value.  Returns
 * false if there is no such field.  A percent sign without two digits stays as
 * it is, as the URL standard (url.spec.whatwg.org) requires.
 */
bool form_append_field(struct view body, struct view name,
                       struct buffer *value);

#endif
