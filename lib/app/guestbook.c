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

#define TEXT(literal)  #literal
#define VALUE(literal) TEXT(literal)

/* One field of the form: the typed text, and its error. */
struct form_field {
    struct buffer typed;
    char error[80];
};

struct form {
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
                 "At most %ld characters, please; these are %ld.", (long)limit,
                 (long)characters);
}

static void read_form(struct view body, struct form *form) {
    read_field(body, VIEW("guest-name"), "your name", GUEST_NAME_LIMIT,
               &form->name);
    read_field(body, VIEW("guest-remarks"), "a remark", GUEST_REMARKS_LIMIT,
               &form->remarks);
}

static bool is_valid(const struct form *form) {
    return form->name.error[0] == '\0' && form->remarks.error[0] == '\0';
}

static void free_form(struct form *form) {
    buffer_free(&form->name.typed);
    buffer_free(&form->remarks.typed);
}

/* ---- Making the page ---- */

/* Reserves memory for the template and for twice the remarks: for a short time
   the remarks and the page are both in memory. */
static bool reserve_page(struct exchange *exchange, size_t remarks) {
    bool large = remarks > LARGE_RESPONSE / 2;
    return exchange_reserve(exchange, large ? 2 * remarks + LARGE_RESPONSE : 0);
}

/* Redis keeps the newest remark last; the page shows it first.  Returns false
   if there is no memory for a page of this size now; the response is then a
   503. */
static bool append_remarks(struct exchange *exchange) {
    struct view newest_last[REMARKS_SHOWN];
    struct view items = exchange->reply->items;
    struct buffer *html = &exchange->kept;
    struct resp_reply item;
    size_t count = 0, room = 0; /* room: enough if no byte is escaped */

    while (count < REMARKS_SHOWN && resp_next(&items, &item)) {
        newest_last[count++] = item.text;
        room += item.text.length + sizeof "<li class=\"remark\"><p></p></li>";
    }
    if (!reserve_page(exchange, room))
        return false;
    if (count == 0)
        buffer_append(html, VIEW("<li class=\"remark none\"><p>No remarks yet. "
                                 "Yours could be the first.</p></li>\n"));
    /* Nearly always this is all the memory that is needed, allocated once. */
    buffer_reserve(html, room);
    while (count-- > 0) {
        buffer_append(html, VIEW("<li class=\"remark\"><p>"));
        html_append_text(html, newest_last[count]);
        buffer_append(html, VIEW("</p></li>\n"));
    }
    if (reserve_page(exchange, html->capacity))
        return true;
    buffer_free(html);
    return false;
}

/* 1234567 becomes 1,234,567. */
static void append_grouped(struct buffer *html, int64_t number) {
    if (-1000 < number && number < 1000) {
        buffer_append_number(html, number);
        return;
    }
    int last = abs((int)(number % 1000)); /* may be negative */
    char group[] = {',', (char)('0' + last / 100), (char)('0' + last / 10 % 10),
                    (char)('0' + last % 10)};
    append_grouped(html, number / 1000);
    buffer_append(html, (struct view){group, sizeof group});
}

static void append_field(struct buffer *typed, struct buffer *error,
                         const struct form_field *field) {
    html_append_text(typed, buffer_view(&field->typed));
    html_append_text(error, view_of(field->error));
}

/* Makes the page, if the budget allows its size.  Then frees the memory of the
   remarks, which are in the page. */
static void fill_page(struct exchange *exchange, int status,
                      struct view template, const struct template_value *values,
                      size_t count) {
    struct response *response = &exchange->response;
    size_t room = template.length + 64;

    for (size_t i = 0; i < count; i++)
        room += values[i].html.length;
    size_t needed = room + exchange->kept.length;
    if (needed > exchange->reserved && !exchange_reserve(exchange, needed))
        return;
    response_start(response, status);
    response_field(response, VIEW("Content-Type"),
                   VIEW("text/html; charset=utf-8"));
    response_field(response, VIEW("Cache-Control"), VIEW("no-store"));
    buffer_reserve(&response->body, room);
    template_append(&response->body, template, values, count);
    response->body.failed |= exchange->kept.failed;
    buffer_free(&exchange->kept);
    (void)exchange_reserve(exchange,
                           response->body.capacity); /* no more than before */
}

/* The values for the template, except the remarks, which are in `kept`. */
enum { VISITORS, WRITTEN, NAME, NAME_ERROR, TYPED, TYPED_ERROR, VALUES };

static void finish_page(struct exchange *exchange, int status,
                        const struct form *form) {
    struct response *response = &exchange->response;
    struct cache *templates = exchange->app->templates;
    struct buffer html[VALUES] = {0};

    struct file *file = cache_borrow(templates, GUESTBOOK_TEMPLATE,
                                     response->cached_time->round);
    if (file == NULL) {
        response_error(response, 500,
                       "The guestbook's template cannot be read.");
        return;
    }
    append_grouped(&html[VISITORS], exchange->kept_number);
    append_grouped(&html[WRITTEN], exchange->reply->integer);
    append_field(&html[NAME], &html[NAME_ERROR], &form->name);
    append_field(&html[TYPED], &html[TYPED_ERROR], &form->remarks);
    const struct template_value values[] = {
        {VIEW("GUEST_REMARKS"), buffer_view(&exchange->kept)},
        {VIEW("VISITOR_COUNT"), buffer_view(&html[VISITORS])},
        {VIEW("REMARKS_COUNT"), buffer_view(&html[WRITTEN])},
        {VIEW("GUEST_NAME"), buffer_view(&html[NAME])},
        {VIEW("GUEST_NAME_ERROR"), buffer_view(&html[NAME_ERROR])},
        {VIEW("GUEST_REMARKS_TYPED"), buffer_view(&html[TYPED])},
        {VIEW("GUEST_REMARKS_ERROR"), buffer_view(&html[TYPED_ERROR])},
    };

    fill_page(exchange, status, buffer_view(&file->text), values,
              sizeof values / sizeof values[0]);
    for (size_t i = 0; i < VALUES; i++) {
        response->body.failed |= html[i].failed;
        buffer_free(&html[i]);
    }
    cache_return(templates, file);
}

/* Three replies, one after another.  INCR answers with the visitor's own
   number.  A GET after it would also count visitors who came meanwhile, and two
   visitors would see the same number. */
static void show(struct exchange *exchange, int status,
                 const struct form *form) {
    static const char oldest[] = "-" VALUE(REMARKS_SHOWN);

    switch (exchange->step) {
    case 0:
        exchange_ask(exchange, RESP_ARRAY,
                     (struct view[]){VIEW("LRANGE"), VIEW("guestbook_remarks"),
                                     view_of(oldest), VIEW("-1")},
                     4);
        break;
    case 1:
        if (append_remarks(exchange))
            exchange_ask(exchange, RESP_INTEGER,
                         (struct view[]){VIEW("INCR"), VIEW("visitor_count")},
                         2);
        break;
    case 2:
        exchange->kept_number = exchange->reply->integer;
        exchange_ask(exchange, RESP_INTEGER,
                     (struct view[]){VIEW("LLEN"), VIEW("guestbook_remarks")},
                     2);
        break;
    case 3:
        finish_page(exchange, status, form);
    }
}

void guestbook_show(struct exchange *exchange) {
    static const struct form empty;
    show(exchange, 200, &empty);
}

/* The response reports success only after Redis has confirmed the remark. */
static void sign(struct exchange *exchange, const struct form *form) {
    switch (exchange->step) {
    case 0:
        buffer_append(&exchange->kept, buffer_view(&form->remarks.typed));
        buffer_append(&exchange->kept, VIEW(" - "));
        buffer_append(&exchange->kept, buffer_view(&form->name.typed));
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
    struct form form = {0};

    if (exchange->request.content_type.data != NULL &&
        !is_form(exchange->request.content_type)) {
        response_error(&exchange->response, 415,
                       "The guestbook accepts only "
                       "application/x-www-form-urlencoded.");
        return;
    }
    /* The form is read again at each step: that is cheaper than to keep it. */
    read_form(exchange->content, &form);
    if (form.name.typed.failed || form.remarks.typed.failed)
        response_error(&exchange->response, 503, "Memory is short.");
    else if (is_valid(&form))
        sign(exchange, &form);
    else
        show(exchange, 400, &form);
    free_form(&form);
}
