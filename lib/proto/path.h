/* SPDX-License-Identifier: MIT */
/* Paths in URLs: decoded once, made safe once, and never decoded again. */
#ifndef PROTO_PATH_H
#define PROTO_PATH_H

#include "proto/bytes.h"

/*
 * Decodes the path of a request target (percent-encoding: RFC 3986, section
 * 2.1; dot segments: section 5.2.4).  The result replaces the bytes of the
 * buffer.  It begins with a slash, has no segment "." or "..", no empty segment
 * and no NUL byte, and keeps its last slash.  A NUL follows the path, because
 * the path is passed to system calls.  Returns 0, or minus a status: -400 for a
 * bad escape, a NUL byte or a path above the root; -414 for a path that needs
 * more than PATH_SIZE bytes; -503 if memory is short.
 *
 * The RFC drops a ".." at the root; here such a path is rejected, because it
 * may be an attack.
 */
int path_decode(struct view encoded, struct buffer *path);

#endif
