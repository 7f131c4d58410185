/* SPDX-License-Identifier: MIT */
#include "answers.h"

#include "must.h"

#include <string.h>

static const struct view interim =
    VIEW_INITIALIZER("HTTP/1.1 100 Continue\r\n\r\n");

static struct view take_line(struct view *rest) {
    must(view_find(*rest, '\n') < rest->length);
    struct view line = view_cut(rest, '\n');
    must(line.length > 0 && line.data[line.length - 1] == '\r');
    line.length--;
    for (size_t i = 0; i < line.length; i++) /* no control bytes */
        must((unsigned char)line.data[i] >= 0x20 && line.data[i] != 0x7f);
    return line;
}

static int read_status(struct view line) {
    uint64_t status;

    must(view_starts_with(line, VIEW("HTTP/1.1 ")) && line.length > 13);
    must(view_number(view_slice(line, 9, 3), 599, &status) && status >= 200);
    must(line.data[12] == ' ');
    return (int)status;
}

struct view answer_field(const struct answer *answer, struct view name) {
    struct view rest = answer->head;
    struct view found = {NULL, 0};

    (void)view_cut(&rest, '\n');
    while (rest.length > 0) {
        struct view line = view_cut(&rest, '\n');
        struct view key = view_cut(&line, ':');
        if (!view_equal_ignoring_case(key, name))
            continue;
        must(found.data == NULL); /* no field occurs twice */
        must(line.length >= 2 && line.data[0] == ' ');
        found = view_slice(line, 1, line.length - 2);
    }
    return found;
}

static void read_fields(struct answer *answer, struct view *rest) {
    const char *start = answer->head.data;
    size_t end;

    for (;;) {
        end = (size_t)(rest->data - start);
        struct view line = take_line(rest);
        if (line.length == 0)
            break;
        size_t colon = view_find(line, ':');
        must(colon > 0 && colon + 1 < line.length);
        must(view_find(line, ' ') == colon + 1);
    }
    answer->head.length = end;
    must(answer_field(answer, VIEW("Date")).length == 29);
    must(answer_field(answer, VIEW("Server")).length > 0);
    struct view connection = answer_field(answer, VIEW("Connection"));
    answer->closes = view_equal(connection, VIEW("close"));
    answer->keeps = view_equal(connection, VIEW("keep-alive"));
    must(connection.data == NULL || answer->closes || answer->keeps);
}

struct answer read_answer(struct view bytes, bool is_head) {
    struct answer answer = {0};
    uint64_t length = 0;

    answer.continued = view_starts_with(bytes, interim);
    if (answer.continued)
        bytes = view_skip(bytes, interim.length);
    answer.head = bytes;
    answer.status = read_status(take_line(&bytes));
    read_fields(&answer, &bytes);
    answer.body = bytes;

    struct view said = answer_field(&answer, VIEW("Content-Length"));
    bool bodiless = answer.status == 204 || answer.status == 304;
    must(bodiless == (said.data == NULL));
    if (!bodiless)
        must(view_number(said, UINT64_MAX, &length));
    must(answer.body.length == (is_head ? 0 : length));
    if (answer.status == 405 || answer.status == 204)
        must(answer_field(&answer, VIEW("Allow")).length > 0);
    return answer;
}

bool view_contains(struct view view, struct view part) {
    return memmem(view.data, view.length, part.data, part.length) != NULL;
}
