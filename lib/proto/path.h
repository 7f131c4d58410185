/* SPDX-License-Identifier: MIT */
/* Paths in URLs: decoded once, made safe once, and never decoded again. */
#ifndef PROTO_PATH_H
#define PROTO_PATH_H

#include "config.h"
#include "proto/bytes.h"

/* A decoded path: begins with a slash, has no segment "." or "..", no empty
   segment and no NUL byte, and keeps its last slash.  NUL-terminated, since it
   goes to system calls. */
struct path {
    char *text; /* the caller's */
    size_t length;
};

/* The bytes that the text of this path needs, or some more; PATH_SIZE at most.
   A last slash may be added, and the NUL. */
static inline size_t path_room(struct view encoded) {
    size_t room = encoded.length + 2;
    if (room < SHORT_PATH)
        return SHORT_PATH;
    return room < PATH_SIZE ? room : PATH_SIZE;
}

/*
 * Decodes the path of a request target (percent-encoding: RFC 3986, section
 * 2.1; dot segments: section 5.2.4) into path->text, which has path_room()
 * bytes.  Returns 0, or minus a status: -400 for a bad escape, a NUL byte or a
 * path above the root; -414 for a path that does not fit.
 *
 * The RFC drops a ".." at the root; here it is treated as an attack.
 */
int path_decode(struct view encoded, struct path *path);

struct view path_view(const struct path *path);

#endif
