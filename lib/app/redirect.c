/* SPDX-License-Identifier: MIT */
#include "app/app.h"
#include "app/routes.h"
#include "config.h"
#include "process/log.h"
#include "proto/encoding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By default uthash would exit without a message if memory is short. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct redirect {
    UT_hash_handle hh;
    int status;
    struct view target;
    char text[]; /* the path, which is the key, and the target */
};

static struct redirect *find_redirect(struct redirect *table,
                                      struct view path) {
    struct redirect *redirect;
    HASH_FIND(hh, table, path.data, path.length, redirect);
    return redirect;
}

BYTE_SET printable_bytes = {{BYTES('!', '~')}};
BYTE_SET word_bytes = {{BYTES(0, '\b'), BYTES('\n', 0x1f), BYTES('!', 0xff)}};

/* Is the text valid in a Location field?  No byte may end the line or URI. */
static bool is_location(struct view target) {
    return target.length > 0 &&
           view_span(target, &printable_bytes) == target.length;
}

/* The name of a scheme may have upper-case letters: RFC 3986, section 3.1. */
static bool is_target(struct view target) {
    return is_location(target) &&
           (target.data[0] == '/' ||
            view_starts_with_ignoring_case(target, VIEW("http://")) ||
            view_starts_with_ignoring_case(target, VIEW("https://")));
}

/* Removes the next word from the line.  A # begins a comment only at the start
   of a word, because a target may have a #fragment. */
static struct view next_word(struct view *line) {
    *line = view_trim(*line);
    if (view_starts_with(*line, VIEW("#")))
        line->length = 0;
    return view_take(line, &word_bytes);
}

static bool parse_status(struct view word, int *status) {
    uint64_t number;

    if (!view_number(word, 308, &number) || number < 301 ||
        (number > 303 && number < 307))
        return false;
    *status = (int)number;
    return true;
}

static const char *add_redirect(struct redirect **table, struct view path,
                                struct view target, int status) {
    if (find_redirect(*table, path) != NULL)
        return "this path is already in the table; remove one line";
    struct redirect *redirect =
        calloc(1, sizeof *redirect + path.length + target.length);
    if (redirect == NULL)
        return "out of memory";
    memcpy(redirect->text, path.data, path.length);
    memcpy(redirect->text + path.length, target.data, target.length);
    redirect->target =
        (struct view){redirect->text + path.length, target.length};
    redirect->status = status;
    HASH_ADD_KEYPTR(hh, *table, redirect->text, path.length, redirect);
    if (redirect->hh.tbl == NULL) {
        free(redirect);
        return "out of memory";
    }
    return NULL;
}

/* Returns NULL, or the error in the line.  Overwrites the buffer `path`. */
static const char *load_line(struct redirect **table, struct view line,
                             struct buffer *path) {
    struct view from = next_word(&line);
    struct view target = next_word(&line);
    struct view code = next_word(&line);
    int status = 302;

    if (from.length == 0)
        return NULL;
    if (next_word(&line).length > 0)
        return "write only: path target [status]";
    if (view_find(from, '?') < from.length)
        return "remove the query: a path matches with every query";
    int result = path_decode(from, path);
    if (result < 0)
        return result == -414   ? "the path is too long"
               : result == -503 ? "out of memory"
                                : "the path must start with /, stay below the "
                                  "root, and have no NUL or bad %XX";
    if (target.length > 0 && !is_location(target))
        return "the target must be printable ASCII; write %XX for other bytes";
    if (!is_target(target))
        return "the target must start with /, http:// or https://";
    if (code.length > 0 && !parse_status(code, &status))
        return "the status must be 301, 302, 303, 307 or 308";
    return add_redirect(table, buffer_view(path), target, status);
}

struct redirect *redirects_load(const char *file) {
    struct redirect *redirects = NULL;
    struct buffer path = {0};
    FILE *stream = fopen(file, "re");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;

    if (stream == NULL && errno == ENOENT)
        return NULL;
    if (stream == NULL)
        server_fatal("%s: %s", file, strerror(errno));
    for (int number = 1; (length = getline(&line, &capacity, stream)) >= 0;
         number++) {
        while (length > 0 &&
               (line[length - 1] == '\r' || line[length - 1] == '\n'))
            length--;
        const char *wrong =
            load_line(&redirects, (struct view){line, (size_t)length}, &path);
        if (wrong != NULL)
            server_fatal("%s:%d: %s", file, number, wrong);
    }
    if (!feof(stream)) /* an error, or memory is short */
        server_fatal("%s: %s", file, strerror(errno));
    free(line);
    buffer_free(&path);
    fclose(stream); /* cannot lose data: the file was only read */
    return redirects;
}

void redirects_free(struct redirect *redirects) {
    struct redirect *redirect, *next;

    HASH_ITER (hh, redirects, redirect, next) {
        HASH_DEL(redirects, redirect); /* NOLINT: it is freed only below */
        free(redirect);
    }
}

bool redirect_exists(const struct app *app, struct view path) {
    return app->redirects != NULL &&
           find_redirect(app->redirects, path) != NULL;
}

void redirect_page(struct exchange *exchange) {
    const struct redirect *redirect =
        find_redirect(exchange->app->redirects, buffer_view(&exchange->path));
    response_redirect(&exchange->response, redirect->status, redirect->target);
}

void link_page(struct exchange *exchange) {
    struct view name = view_skip(buffer_view(&exchange->path), strlen("/go/"));
    struct response *response = &exchange->response;

    switch (exchange->step) {
    case 0:
        if (name.length == 0 || name.length > LINK_NAME_LIMIT ||
            utf8_count(name) < 0) {
            response_error(response, 404, "This link does not exist.");
            break;
        }
        buffer_append(&exchange->kept, VIEW("link:"));
        buffer_append(&exchange->kept, name);
        exchange_ask(exchange, RESP_STRING,
                     (struct view[]){VIEW("GET"), buffer_view(&exchange->kept)},
                     2);
        break;
    case 1:
        if (exchange->reply->type == RESP_NULL)
            response_error(response, 404, "This link does not exist.");
        else if (!is_target(exchange->reply->text))
            response_error(
                response, 500,
                "The text that is stored for this link is not an address.");
        else
            response_redirect(response, 302, exchange->reply->text);
    }
}
