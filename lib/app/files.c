/* SPDX-License-Identifier: MIT */
#include "app/app.h"
#include "app/routes.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    struct view ending;
    struct view type;
} content_types[] = {
#define TYPE(ending, type) {VIEW_INITIALIZER(ending), VIEW_INITIALIZER(type)}
    TYPE("html", "text/html; charset=utf-8"),
    TYPE("htm", "text/html; charset=utf-8"),
    TYPE("css", "text/css; charset=utf-8"),
    TYPE("js", "text/javascript; charset=utf-8"),
    TYPE("mjs", "text/javascript; charset=utf-8"),
    TYPE("txt", "text/plain; charset=utf-8"),
    TYPE("md", "text/markdown; charset=utf-8"),
    TYPE("csv", "text/csv; charset=utf-8"),
    TYPE("xml", "application/xml"),
    TYPE("json", "application/json"),
    TYPE("map", "application/json"),
    TYPE("webmanifest", "application/manifest+json"),
    TYPE("png", "image/png"),
    TYPE("jpg", "image/jpeg"),
    TYPE("jpeg", "image/jpeg"),
    TYPE("gif", "image/gif"),
    TYPE("svg", "image/svg+xml"),
    TYPE("webp", "image/webp"),
    TYPE("avif", "image/avif"),
    TYPE("ico", "image/vnd.microsoft.icon"),
    TYPE("woff", "font/woff"),
    TYPE("woff2", "font/woff2"),
    TYPE("ttf", "font/ttf"),
    TYPE("otf", "font/otf"),
    TYPE("mp3", "audio/mpeg"),
    TYPE("ogg", "audio/ogg"),
    TYPE("wav", "audio/wav"),
    TYPE("mp4", "video/mp4"),
    TYPE("webm", "video/webm"),
    TYPE("pdf", "application/pdf"),
    TYPE("zip", "application/zip"),
    TYPE("gz", "application/gzip"),
    TYPE("wasm", "application/wasm"),
#undef TYPE
};

static struct view content_type_of(struct view name) {
    const char *dot = memrchr(name.data, '.', name.length);
    /* A name without a dot has no ending, even if it is "html". */
    struct view ending = VIEW("");

    if (dot != NULL)
        ending = view_skip(name, (size_t)(dot - name.data) + 1);
    for (size_t i = 0; i < sizeof content_types / sizeof content_types[0]; i++)
        if (view_equal_ignoring_case(ending, content_types[i].ending))
            return content_types[i].type;
    return VIEW("application/octet-stream");
}

static bool field_lists_etag(const struct http_request *request,
                             struct view name, const struct file *file,
                             enum http_comparison comparison) {
    struct view fields = request->fields;
    struct view value;

    while (http_next_field_line(&fields, name, &value))
        if (http_lists_etag(value, file->etag, comparison))
            return true;
    return false;
}

/* The order of the preconditions is that of RFC 9110, section 13.2.2: if the
   client has sent tags, the date is ignored. */
static bool precondition_fails(const struct http_request *request,
                               const struct file *file) {
    time_t since;

    if (request->if_match.data != NULL)
        return !field_lists_etag(request, VIEW("If-Match"), file, HTTP_STRONG);
    return http_parse_date(request->if_unmodified_since, &since) &&
           file->modified > since;
}

static bool is_not_modified(const struct http_request *request,
                            const struct file *file) {
    time_t since;

    if (request->if_none_match.data != NULL)
        return field_lists_etag(request, VIEW("If-None-Match"), file,
                                HTTP_WEAK);
    return http_parse_date(request->if_modified_since, &since) &&
           file->modified <= since;
}

/* With If-Range a client requests the rest of a file only if the file is
   unchanged (RFC 9110, section 13.1.5).  A date never matches here, because two
   versions that were written in the same second have the same date. */
static bool wants_range(const struct http_request *request,
                        const struct file *file) {
    if (request->method != HTTP_GET || request->range.data == NULL)
        return false;
    return request->if_range.data == NULL ||
           view_equal(request->if_range, file->etag);
}

static void serve_file(struct exchange *exchange, struct file *file,
                       struct view name) {
    const struct http_request *request = &exchange->request;
    struct response *response = &exchange->response;
    uint64_t size = (uint64_t)file->status.st_size;
    uint64_t first = 0;
    uint64_t last = size - 1; /* size 0: wraps; last + 1 wraps back to 0 */
    enum http_range range = HTTP_RANGE_NONE;
    char place[80]; /* has room for three numbers */

    if (wants_range(request, file))
        range = http_parse_range(request->range, size, &first, &last);
    if (precondition_fails(request, file)) {
        response_error(response, 412, "The file has changed.");
    } else if (is_not_modified(request, file)) {
        response_start(response, 304);
        buffer_append(&response->head, file->validators);
    } else if (range == HTTP_RANGE_UNSATISFIABLE) {
        response_error(response, 416, "The file has no byte in this range.");
        snprintf(place, sizeof place, "bytes */%ju", (uintmax_t)size);
        response_field(response, VIEW("Content-Range"), view_of(place));
    } else {
        response_start(response, range == HTTP_RANGE_OK ? 206 : 200);
        response_field(response, VIEW("Content-Type"), content_type_of(name));
        buffer_append(&response->head, file->validators);
        buffer_append(&response->head, VIEW("Accept-Ranges: bytes\r\n"));
        if (range == HTTP_RANGE_OK) {
            snprintf(place, sizeof place, "bytes %ju-%ju/%ju", (uintmax_t)first,
                     (uintmax_t)last, (uintmax_t)size);
            response_field(response, VIEW("Content-Range"), view_of(place));
        }
        response_file(response, file, first, last - first + 1);
        return; /* response_free() calls cache_return() */
    }
    cache_return(file);
}

/* Escapes all bytes except unreserved ones (RFC 3986, section 2.3) and slashes:
   a decoded path may contain any byte except NUL, even line ends. */
static void append_encoded(struct buffer *buffer, struct view path) {
    BYTE_SET unescaped = {{BYTES('0', '9'), BYTES('A', 'Z'), BYTES('a', 'z'),
                           BYTES('-', '/'), BYTES('_', '_'), BYTES('~', '~')}};
    static const char digits[] = "0123456789ABCDEF";

    for (;;) {
        buffer_append(buffer, view_take(&path, &unescaped));
        if (path.length == 0)
            return;
        unsigned char byte = (unsigned char)path.data[0];
        char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};
        buffer_append(buffer, (struct view){escape, sizeof escape});
        path = view_skip(path, 1);
    }
}

static void redirect_to_folder(struct exchange *exchange) {
    append_encoded(&exchange->kept, buffer_view(&exchange->path));
    buffer_append(&exchange->kept, VIEW("/"));
    if (exchange->request.query.length > 0) {
        buffer_append(&exchange->kept, VIEW("?"));
        buffer_append(&exchange->kept, exchange->request.query);
    }
    response_redirect(&exchange->response, 301, buffer_view(&exchange->kept));
}

void files_page(struct exchange *exchange) {
    static const char index_name[] = "index.html";
    struct buffer *path = &exchange->path;
    bool is_folder = path->data[path->length - 1] == '/';

    if (is_folder) {
        buffer_append(path, (struct view){index_name, sizeof index_name});
        path->length--; /* the length does not include the NUL */
    }
    struct file *file = NULL;
    if (!path->failed) /* if it has failed, errno is ENOMEM */
        file = cache_borrow(exchange->app->public, path->data + 1,
                            exchange->response.cached_time->round);
    if (file != NULL) {
        serve_file(exchange, file, buffer_view(path));
        return;
    }
    switch (errno) {
    case EISDIR:
        if (!is_folder) {
            redirect_to_folder(exchange);
            return;
        }
        break;
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case EXDEV: /* the path leaves public/ */
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO: /* a socket */
        break;
    default: /* too many open files, memory is short, the disk fails ... */
        response_unavailable(&exchange->response,
                             "The file cannot be read now.");
        return;
    }
    response_error(&exchange->response, 404, "This page does not exist.");
}
