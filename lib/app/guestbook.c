/* SPDX-License-Identifier: MIT */
/*
 * The guestbook: remarks and a visitor count, kept in Redis under the keys of
 * the original ZeroHTTPd.
 *
 *     guestbook_remarks   a list of strings "remarks - name", oldest first
 *     visitor_count       a number
 */
#include "app/app.h"
#include "app/routes.h"
#include "config.h"
#include "proto/encoding.h"
#include "proto/html.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#define TEXT(literal)  #literal
#define VALUE(literal) TEXT(literal)

/* One field of the form: the typed text, and its error. */
struct form_field {
    struct buffer typed;
    char error[80];
};

/* The data of the page: the exchange, with Redis' replies, and the form. */
struct page {
    struct exchange *exchange;
    struct form_field name;
    struct form_field remarks;
};

/* ---- Reading the form ---- */

static bool is_space(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Trims the text, and replaces each CR LF by one line feed.  Browsers send two
   bytes for a line break, but count it as one character. */
static void normalise(struct buffer *text) {
    size_t length = 0;

    for (size_t i = 0; i < text->length; i++) {
        char byte = text->data[i];
        if (byte == '\r' && i + 1 < text->length && text->data[i + 1] == '\n')
            continue;
        if (length > 0 || !is_space(byte))
            text->data[length++] = byte;
    }
    while (length > 0 && is_space(text->data[length - 1]))
        length--;
    text->length = length;
}

static void read_field(struct view body, struct view key, const char *what,
                       int64_t limit, struct form_field *field) {
    /* A missing field counts as an empty one. */
    (void)form_append_field(body, key, &field->typed);
    normalise(&field->typed);
    int64_t characters = utf8_count(buffer_view(&field->typed));
    if (characters == 0)
        snprintf(field->error, sizeof field->error, "Please write %s.", what);
    else if (characters < 0)
        snprintf(field->error, sizeof field->error,
                 "This is not valid UTF-8 text.");
    else if (characters > limit)
        snprintf(field->error, sizeof field->error,
                 "Please write at most %ld characters, not %ld.", (long)limit,
                 (long)characters);
}

/* ---- Making the page ---- */

#define REMARK_START VIEW("<li class=\"remark\"><p>")
#define REMARK_END   VIEW("</p></li>\n")

/* Redis keeps the newest remark last; the page shows it first. */
static void append_remarks(struct buffer *html, struct view items) {
    struct view newest_last[REMARKS_SHOWN];
    struct resp_reply item;
    size_t count = 0;

    while (count < REMARKS_SHOWN && resp_next(&items, &item))
        newest_last[count++] = item.text;
    if (count == 0)
        buffer_append(html, VIEW("<li class=\"remark none\"><p>No remarks yet. "
                                 "Yours could be the first.</p></li>\n"));
    while (count-- > 0) {
        buffer_append(html, REMARK_START);
        html_append_text(html, newest_last[count]);
        buffer_append(html, REMARK_END);
    }
}

/* 1234567 becomes 1,234,567. */
static void append_grouped(struct buffer *html, int64_t number) {
    if (-1000 < number && number < 1000) {
        buffer_append_number(html, number);
        return;
    }
    int last = abs((int)(number % 1000)); /* the number may be negative */
    char group[] = {',', (char)('0' + last / 100), (char)('0' + last / 10 % 10),
                    (char)('0' + last % 10)};
    append_grouped(html, number / 1000);
    buffer_append(html, (struct view){group, sizeof group});
}

static bool append_value(struct buffer *html, struct view name,
                         const void *values) {
    const struct page *page = values;
    const struct exchange *exchange = page->exchange;

    if (view_equal(name, VIEW("GUEST_REMARKS")))
        append_remarks(html, exchange->reply->items);
    else if (view_equal(name, VIEW("VISITOR_COUNT")))
        append_grouped(html, exchange->kept_numbers[0]);
    else if (view_equal(name, VIEW("REMARKS_COUNT")))
        append_grouped(html, exchange->kept_numbers[1]);
    else if (view_equal(name, VIEW("GUEST_NAME")))
        html_append_text(html, buffer_view(&page->name.typed));
    else if (view_equal(name, VIEW("GUEST_NAME_ERROR")))
        html_append_text(html, view_of(page->name.error));
    else if (view_equal(name, VIEW("GUEST_REMARKS_TYPED")))
        html_append_text(html, buffer_view(&page->remarks.typed));
    else if (view_equal(name, VIEW("GUEST_REMARKS_ERROR")))
        html_append_text(html, view_of(page->remarks.error));
    else
        return false;
    return true;
}

/* Makes the page, or a 503 if the budget does not allow its size. */
static void fill_page(const struct page *page, int status,
                      struct view template) {
    struct exchange *exchange = page->exchange;
    struct response *response = &exchange->response;
    struct buffer body = {0};
    /* This size is nearly always enough, so memory is allocated once. */
    size_t room = template.length + exchange->reply->items.length +
                  MIN(exchange->reply->count, REMARKS_SHOWN) *
                      (REMARK_START.length + REMARK_END.length) +
                  128;

    if (!exchange_reserve(exchange, room))
        return;
    buffer_reserve(&body, room);
    template_append(&body, template, append_value, page);
    if (!exchange_reserve(exchange, body.capacity)) {
        buffer_free(&body);
        return;
    }
    response_start(response, status);
    response_field(response, VIEW("Content-Type"),
                   VIEW("text/html; charset=utf-8"));
    response_field(response, VIEW("Cache-Control"), VIEW("no-store"));
    buffer_free(&response->body);
    response->body = body;
}

static void finish_page(const struct page *page, int status) {
    struct exchange *exchange = page->exchange;
    struct file *file =
        cache_borrow(exchange->app->templates, GUESTBOOK_TEMPLATE,
                     exchange->response.cached_time->round);

    if (file == NULL) {
        response_error(&exchange->response, 500,
                       "The guestbook's template cannot be read.");
        return;
    }
    fill_page(page, status, buffer_view(&file->text));
    cache_return(file);
}

/* Needs three replies, one after another.  INCR answers with the visitor's own
   number.  A later GET could also count newer visitors, and two visitors could
   see the same number.  The remarks are requested last, so they need not be
   copied. */
static void show(const struct page *page, int status) {
    static const char oldest[] = "-" VALUE(REMARKS_SHOWN);
    struct exchange *exchange = page->exchange;

    switch (exchange->step) {
    case 0:
        exchange_ask(exchange, RESP_INTEGER,
                     (struct view[]){VIEW("INCR"), VIEW("visitor_count")}, 2);
        break;
    case 1:
        exchange->kept_numbers[0] = exchange->reply->integer;
        exchange_ask(exchange, RESP_INTEGER,
                     (struct view[]){VIEW("LLEN"), VIEW("guestbook_remarks")},
                     2);
        break;
    case 2:
        exchange->kept_numbers[1] = exchange->reply->integer;
        exchange_ask(exchange, RESP_ARRAY,
                     (struct view[]){VIEW("LRANGE"), VIEW("guestbook_remarks"),
                                     view_of(oldest), VIEW("-1")},
                     4);
        break;
    case 3:
        finish_page(page, status);
    }
}

void guestbook_show(struct exchange *exchange) {
    const struct page page = {.exchange = exchange};
    show(&page, 200);
}

/* The response reports success only after Redis has confirmed the remark. */
static void sign(const struct page *page) {
    struct exchange *exchange = page->exchange;

    switch (exchange->step) {
    case 0:
        buffer_append(&exchange->kept, buffer_view(&page->remarks.typed));
        buffer_append(&exchange->kept, VIEW(" - "));
        buffer_append(&exchange->kept, buffer_view(&page->name.typed));
        exchange_ask(exchange, RESP_INTEGER,
                     (struct view[]){VIEW("RPUSH"), VIEW("guestbook_remarks"),
                                     buffer_view(&exchange->kept)},
                     3);
        break;
    case 1:
        response_redirect(&exchange->response, 303, VIEW("/guestbook"));
    }
}

static bool is_form(struct view content_type) {
    struct view type = view_trim(view_cut(&content_type, ';'));
    return view_equal_ignoring_case(type,
                                    VIEW("application/x-www-form-urlencoded"));
}

void guestbook_sign(struct exchange *exchange) {
    struct page page = {.exchange = exchange};

    if (exchange->request.content_type.data != NULL &&
        !is_form(exchange->request.content_type)) {
        response_error(&exchange->response, 415,
                       "The guestbook accepts only "
                       "application/x-www-form-urlencoded.");
        return;
    }
    /* Parsing the form again at each step is cheaper than storing it. */
    read_field(exchange->content, VIEW("guest-name"), "your name",
               GUEST_NAME_LIMIT, &page.name);
    read_field(exchange->content, VIEW("guest-remarks"), "a remark",
               GUEST_REMARKS_LIMIT, &page.remarks);
    if (page.name.typed.failed || page.remarks.typed.failed)
        response_error(&exchange->response, 503, "Out of memory.");
    else if (page.name.error[0] == '\0' && page.remarks.error[0] == '\0')
        sign(&page);
    else
        show(&page, 400);
    buffer_free(&page.name.typed);
    buffer_free(&page.remarks.typed);
}
