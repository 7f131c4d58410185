/* SPDX-License-Identifier: MIT */
/* Decodes escapes such as %2F, paths, fields of forms, and UTF-8. */
#pragma once

#include "proto/bytes.h"

/* Decodes the escape %XX at the front of the text.  Returns the byte, 0 to 255,
   or -1 if there is no valid escape (RFC 3986, section 2.1). */
int percent_decode(struct view text);

/* Decodes the path of a request target (percent-encoding: RFC 3986, section
   2.1; dot segments: section 5.2.4).  The result replaces the bytes of the
   buffer.  It begins with a slash, has no segment "." or "..", no empty segment
   and no NUL byte, and keeps its last slash.  A NUL follows the path, for
   system calls.  Returns 0, or minus a status.  -400: no slash at the start, a
   bad escape, a NUL byte or a path above the root (the RFC drops such a "..").
   -414: the path needs more than PATH_SIZE bytes.  -503: memory is short. */
int path_decode(struct view encoded, struct buffer *path);

/* Finds the first field of that name in a body of the type
   application/x-www-form-urlencoded and appends its decoded value.  Returns
   false if there is no such field.  A percent sign without two hexadecimal
   digits stays as it is, as the URL standard (url.spec.whatwg.org) requires. */
bool form_append_field(struct view body, struct view name,
                       struct buffer *value);

/* Returns the number of bytes of the UTF-8 character at the front of the text,
   1 to 4; *code is its code point.  Returns 0 if there is no valid character,
   but for example a part of one, or a surrogate (RFC 3629, section 3). */
size_t utf8_character(struct view text, uint32_t *code);

/* Returns the number of code points, or -1 if the text is not UTF-8. */
int64_t utf8_count(struct view text);
