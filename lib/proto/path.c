/* SPDX-License-Identifier: MIT */
#include "proto/encoding.h"

#include "config.h"

#include <sys/param.h>

/* Decodes every escape, also %2F: "a%2Fb" and "a/b" name one file here, and
   "..%2F" must be found as a dot segment later. */
static int decode(struct view encoded, struct buffer *path) {
    for (size_t at = 0; at < encoded.length; at++) {
        int byte = (unsigned char)encoded.data[at];
        if (byte == '%') {
            byte = percent_decode(view_skip(encoded, at));
            at += 2; /* the loop skips the third byte */
        }
        if (byte <= 0)
            return -400;
        if (path->length + 1 >= PATH_SIZE)
            return -414;
        path->data[path->length++] = (char)byte;
    }
    return 0;
}

/* Removes dot segments and double slashes, in place. */
static int remove_dot_segments(struct buffer *path) {
    struct view rest = view_skip(buffer_view(path), 1);
    size_t length = 0; /* of the kept part: "" or "/a/b" */
    bool ends_in_slash = true;

    while (rest.length > 0) {
        size_t before = rest.length;
        struct view segment = view_cut(&rest, '/');
        bool climbs = view_equal(segment, VIEW(".."));

        if (climbs && length == 0)
            return -400;
        if (climbs) /* drops the last segment, and the slash before it */
            do
                length--;
            while (path->data[length] != '/');
        if (climbs || segment.length == 0 || view_equal(segment, VIEW("."))) {
            ends_in_slash = true;
            continue;
        }
        path->data[length++] = '/';
        memmove(path->data + length, segment.data, segment.length);
        length += segment.length;
        ends_in_slash = before > segment.length;
    }
    if (ends_in_slash)
        path->data[length++] = '/';
    path->length = length;
    path->data[length] = '\0';
    return 0;
}

int path_decode(struct view encoded, struct buffer *path) {
    buffer_clear(path);
    if (buffer_reserve(path, MIN(encoded.length + 1, PATH_SIZE)) == NULL)
        return -503;
    int result = decode(encoded, path);
    if (result < 0)
        return result;
    if (path->length == 0 || path->data[0] != '/')
        return -400;
    return remove_dot_segments(path);
}
