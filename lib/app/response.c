/* SPDX-License-Identifier: MIT */
#include "app/response.h"

#include "proto/html.h"

static const char *reason_of(int status) {
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {200, "OK"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static void forget(struct response *response) {
    if (response->file != NULL)
        cache_return(response->cache, response->file);
    response->file = NULL;
    buffer_clear(&response->head);
    buffer_clear(&response->body);
}

void response_start(struct response *response, int status) {
    struct buffer *head = &response->head;

    forget(response);
    response->status = status;
    buffer_reserve(head, 320); /* all heads fit, but for long locations */
    buffer_append(head, VIEW("HTTP/1.1 "));
    buffer_append_number(head, status);
    buffer_append(head, VIEW(" "));
    buffer_append(head, view_of(reason_of(status)));
    buffer_append(head, VIEW("\r\nDate: "));
    buffer_append(head, view_of(response->moment->date));
    buffer_append(head, VIEW("\r\nServer: ZeroHTTPd-Seven\r\n"));
}

void response_field(struct response *response, struct view name,
                    struct view value) {
    buffer_append(&response->head, name);
    buffer_append(&response->head, VIEW(": "));
    buffer_append(&response->head, value);
    buffer_append(&response->head, VIEW("\r\n"));
}

/* The frame that all pages without a template share. */
static void append_page(struct response *response, struct view heading) {
    struct buffer *body = &response->body;

    buffer_reserve(body, 384); /* the whole page, but for long locations */
    buffer_append(body, VIEW("<!DOCTYPE html>\n<html lang=\"en\">\n"
                             "<meta charset=\"utf-8\">\n"
                             "<meta name=\"viewport\" "
                             "content=\"width=device-width\">\n<title>"));
    buffer_append_number(body, response->status);
    buffer_append(body, VIEW(" "));
    html_append_text(body, heading);
    buffer_append(body, VIEW("</title>\n<link rel=\"stylesheet\" "
                             "href=\"/style.css\">\n<h1>"));
    html_append_text(body, heading);
    buffer_append(body, VIEW("</h1>\n<p>"));
}

void response_error(struct response *response, int status,
                    const char *sentence) {
    response_start(response, status);
    response_field(response, VIEW("Content-Type"),
                   VIEW("text/html; charset=utf-8"));
    append_page(response, view_of(reason_of(status)));
    html_append_text(&response->body, view_of(sentence));
    buffer_append(&response->body, VIEW("</p>\n</html>\n"));
}

void response_redirect(struct response *response, int status,
                       struct view location) {
    response_start(response, status);
    response_field(response, VIEW("Location"), location);
    response_field(response, VIEW("Content-Type"),
                   VIEW("text/html; charset=utf-8"));
    append_page(response, view_of(reason_of(status)));
    buffer_append(&response->body, VIEW("<a href=\""));
    html_append_text(&response->body, location);
    buffer_append(&response->body, VIEW("\">This way</a>.</p>\n</html>\n"));
}

uint64_t response_length(const struct response *response) {
    return response->file != NULL ? response->count : response->body.length;
}

void response_finish(struct response *response, bool keep_alive,
                     int minor_version) {
    struct buffer *head = &response->head;

    /* RFC 9110, section 8.6: a 304 speaks of a body that it does not have, and
       a 204 says by itself that it has none. */
    if (response->status != 304 && response->status != 204) {
        buffer_append(head, VIEW("Content-Length: "));
        buffer_append_number(head, (int64_t)response_length(response));
        buffer_append(head, VIEW("\r\n"));
    }
    if (!keep_alive)
        buffer_append(head, VIEW("Connection: close\r\n"));
    else if (minor_version == 0)
        buffer_append(head, VIEW("Connection: keep-alive\r\n"));
    buffer_append(head, VIEW("\r\n"));
}

void response_free(struct response *response) {
    forget(response);
    buffer_free(&response->head);
    buffer_free(&response->body);
}
