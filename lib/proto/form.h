/* SPDX-License-Identifier: MIT */
/* Percent-encoding, and the forms that browsers send with it. */
#ifndef PROTO_FORM_H
#define PROTO_FORM_H

#include "proto/bytes.h"

/*
 * Decodes the escape %XX at the front of the text.  Returns the byte, 0 to
 * 255, or -1 if there is none (RFC 3986, section 2.1).
 */
int percent_decode(struct view text);

/*
 * Finds the first field of that name in a body of the type
 * application/x-www-form-urlencoded and appends its decoded value.  Returns
 * false where there is no such field.  A percent sign without two digits
 * stands for itself, as the URL standard (url.spec.whatwg.org) has it.
 */
bool form_append_field(struct view body, struct view name,
                       struct buffer *value);

#endif
