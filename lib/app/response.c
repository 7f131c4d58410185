/* SPDX-License-Identifier: MIT */
#include "app/response.h"

#include "config.h"
#include "proto/html.h"

#include <stdio.h>

/* RFC 9110, section 15; and RFC 6585 for 431. */
static const struct {
    int status;
    struct view reason; /* the reason phrase */
} statuses[] = {
    {200, VIEW_INITIALIZER("OK")},
    {204, VIEW_INITIALIZER("No Content")},
    {206, VIEW_INITIALIZER("Partial Content")},
    {301, VIEW_INITIALIZER("Moved Permanently")},
    {302, VIEW_INITIALIZER("Found")},
    {303, VIEW_INITIALIZER("See Other")},
    {304, VIEW_INITIALIZER("Not Modified")},
    {307, VIEW_INITIALIZER("Temporary Redirect")},
    {308, VIEW_INITIALIZER("Permanent Redirect")},
    {400, VIEW_INITIALIZER("Bad Request")},
    {404, VIEW_INITIALIZER("Not Found")},
    {405, VIEW_INITIALIZER("Method Not Allowed")},
    {408, VIEW_INITIALIZER("Request Timeout")},
    {412, VIEW_INITIALIZER("Precondition Failed")},
    {413, VIEW_INITIALIZER("Content Too Large")},
    {414, VIEW_INITIALIZER("URI Too Long")},
    {415, VIEW_INITIALIZER("Unsupported Media Type")},
    {416, VIEW_INITIALIZER("Range Not Satisfiable")},
    {417, VIEW_INITIALIZER("Expectation Failed")},
    {431, VIEW_INITIALIZER("Request Header Fields Too Large")},
    {500, VIEW_INITIALIZER("Internal Server Error")},
    {501, VIEW_INITIALIZER("Not Implemented")},
    {502, VIEW_INITIALIZER("Bad Gateway")},
    {503, VIEW_INITIALIZER("Service Unavailable")},
    {505, VIEW_INITIALIZER("HTTP Version Not Supported")},
};

static struct view reason_phrase_of(int status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].reason;
    return VIEW("Unknown");
}

static void append_status(struct buffer *buffer, int status) {
    buffer_append_number(buffer, status);
    buffer_append(buffer, VIEW(" "));
    buffer_append(buffer, reason_phrase_of(status));
}

static void forget_body(struct response *response) {
    if (response->file != NULL)
        cache_return(response->file);
    response->file = NULL;
    buffer_clear(&response->body);
}

void cached_time_set(struct cached_time *cached_time, time_t now) {
    char date[HTTP_DATE_SIZE];

    if (cached_time->now == now && cached_time->fields[0] != '\0')
        return;
    cached_time->now = now;
    http_format_date(now, date);
    snprintf(cached_time->fields, sizeof cached_time->fields,
             "Date: %s\r\nServer: ZeroHTTPd-Seven\r\n", date);
}

void cached_time_next_round(struct cached_time *cached_time) {
    if (++cached_time->round == 0)
        cached_time->round = 1;
}

void response_start(struct response *response, int status) {
    struct buffer *head = &response->head;

    forget_body(response);
    buffer_clear(head);
    response->status = status;
    buffer_reserve(head, RESPONSE_SIZE);
    buffer_append(head, VIEW("HTTP/1.1 "));
    append_status(head, status);
    buffer_append(head, VIEW("\r\n"));
    buffer_append(head,
                  (struct view){response->cached_time->fields,
                                sizeof response->cached_time->fields - 1});
}

void response_field(struct response *response, struct view name,
                    struct view value) {
    buffer_append(&response->head, name);
    buffer_append(&response->head, VIEW(": "));
    buffer_append(&response->head, value);
    buffer_append(&response->head, VIEW("\r\n"));
}

void response_page(struct response *response, struct view heading) {
    struct buffer *body = &response->body;
    struct view reason = reason_phrase_of(response->status);

    buffer_append(&response->head,
                  VIEW("Content-Type: text/html; charset=utf-8\r\n"));
    buffer_reserve(body, NOTE_SIZE);
    buffer_append(body, VIEW("<!DOCTYPE html>\n<html lang=\"en\">\n"
                             "<meta charset=\"utf-8\">\n"
                             "<meta name=\"viewport\" "
                             "content=\"width=device-width\">\n<title>"));
    if (heading.length > 0)
        buffer_append(body, heading);
    else
        append_status(body, response->status);
    buffer_append(body, VIEW("</title>\n<link rel=\"stylesheet\" "
                             "href=\"/style.css\">\n<h1>"));
    buffer_append(body, heading.length > 0 ? heading : reason);
    buffer_append(body, VIEW("</h1>\n"));
}

void response_error(struct response *response, int status,
                    const char *sentence) {
    response_start(response, status);
    response_page(response, VIEW(""));
    buffer_append(&response->body, VIEW("<p>"));
    html_append_text(&response->body, view_of(sentence));
    buffer_append(&response->body, VIEW("</p>\n</html>\n"));
}

void response_unavailable(struct response *response, const char *sentence) {
    response_error(response, 503, sentence);
    response_field(response, VIEW("Retry-After"), VIEW("1"));
}

void response_redirect(struct response *response, int status,
                       struct view location) {
    response_start(response, status);
    response_field(response, VIEW("Location"), location);
    response_page(response, VIEW(""));
    buffer_append(&response->body, VIEW("<p><a href=\""));
    html_append_text(&response->body, location);
    buffer_append(&response->body, VIEW("\">This way</a>.</p>\n</html>\n"));
}

void response_file(struct response *response, struct file *file, uint64_t first,
                   uint64_t count) {
    response->file = file;
    response->file_offset = first;
    response->file_bytes = count;
}

struct view response_body(const struct response *response) {
    const struct file *file = response->file;

    if (file == NULL)
        return buffer_view(&response->body);
    if (file->text.length == 0)
        return VIEW("");
    return view_slice(buffer_view(&file->text), (size_t)response->file_offset,
                      (size_t)response->file_bytes);
}

void response_finish(struct response *response, bool keep_alive,
                     int minor_version) {
    struct buffer *head = &response->head;
    uint64_t length =
        response->file != NULL ? response->file_bytes : response->body.length;

    /* RFC 9110, section 8.6: a 204 must not have a Content-Length.  In a 304 it
       would be the length of the omitted body. */
    if (response->status != 304 && response->status != 204) {
        buffer_append(head, VIEW("Content-Length: "));
        buffer_append_number(head, (int64_t)length);
        buffer_append(head, VIEW("\r\n"));
    }
    if (!keep_alive)
        buffer_append(head, VIEW("Connection: close\r\n"));
    else if (minor_version == 0)
        buffer_append(head, VIEW("Connection: keep-alive\r\n"));
    buffer_append(head, VIEW("\r\n"));
    response->head_length = head->length;
    struct view body = response_body(response);
    if (body.length > 0 && !response->body.failed &&
        body.length < head->capacity - head->length) {
        buffer_append(head, body);
        forget_body(response);
    }
}

void response_free(struct response *response) {
    forget_body(response);
    buffer_free(&response->head);
    buffer_free(&response->body);
}
