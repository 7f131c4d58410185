/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer: all parsers get the same bytes.  `make fuzz` runs it;
 * the inputs in corpus/proto are replayed by `make test`.
 *
 * The sanitizers find reads and writes out of bounds; the code here asserts
 * what else must be true for any input.
 */
#include "config.h"
#include "must.h"
#include "proto/encoding.h"
#include "proto/html.h"
#include "proto/http.h"
#include "proto/http_fields.h"
#include "proto/resp.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Copies a view to memory of its size: a sanitizer detects reads past it. */
static char *copy_of(struct view view) {
    char *copy = malloc(view.length > 0 ? view.length : 1);
    must(copy != NULL);
    if (view.length > 0)
        memcpy(copy, view.data, view.length);
    return copy;
}

static void must_lack(struct view view, const char *bytes) {
    for (; *bytes != '\0'; bytes++)
        must(view_find(view, *bytes) == view.length);
}

/* ---- The head ---- */

static void must_be_good(const struct http_request *request) {
    struct buffer path = {0};

    must(request->complaint == NULL);
    must(view_starts_with(request->path, VIEW("/")) ||
         (request->method == HTTP_OPTIONS &&
          view_equal(request->path, VIEW("*"))));
    must(view_find(request->path, '?') == request->path.length);
    must(request->minor_version == 0 || request->host.data != NULL);
    must(request->line.length <= REQUEST_LINE_LIMIT);
    must((request->content_length > 0) == (request->body == HTTP_LENGTH_BODY));
    const struct view values[] = {
        request->line,         request->path,
        request->query,        request->host,
        request->content_type, request->if_none_match,
        request->if_range,     request->if_modified_since,
        request->range,
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        must_lack(values[i], "\r\n\x1b\x7f");
        must(view_find(values[i], '\0') == values[i].length);
    }
    (void)path_decode(request->path, &path);
    buffer_free(&path);
}

static void fuzz_head(struct view input) {
    struct http_request request;
    ssize_t whole = http_parse_head(input, 0, &request);

    must(whole <= (ssize_t)input.length && whole <= HEAD_LIMIT);
    must(whole >= 0 || request.complaint != NULL);
    if (whole > 0)
        must_be_good(&request);

    ssize_t result = 0;
    for (size_t length = 0; result == 0 && length <= input.length; length++) {
        char *prefix = copy_of(view_slice(input, 0, length));
        result = http_parse_head((struct view){prefix, length},
                                 length > 0 ? length - 1 : 0, &request);
        must(result <= 0 || result == (ssize_t)length);
        free(prefix);
    }
    must(whole < 0 ? result < 0 : result == whole);
}

/* ---- Chunks ---- */

static void fuzz_chunks(struct view input) {
    struct http_chunks chunks = {0};
    struct buffer whole = {0};
    size_t end = 0;

    buffer_append(&whole, input);
    int result = http_decode_chunks(&chunks, &whole, &end);
    must(end <= whole.length && whole.length <= input.length);
    must(end <= BODY_LIMIT);
    size_t rest = whole.length - end;
    if (result > 0) /* bytes after the body are kept */
        must(view_equal(view_skip(buffer_view(&whole), end),
                        view_skip(input, input.length - rest)));

    struct buffer body = {0};
    size_t at = 0, body_end = 0;
    int got = 0;
    chunks = (struct http_chunks){0};
    for (; got == 0 && at < input.length; at++) {
        buffer_append(&body, view_slice(input, at, 1));
        got = http_decode_chunks(&chunks, &body, &body_end);
    }
    must(got == result && body_end == end);
    must(got <= 0 || at == input.length - rest);
    must(view_equal(view_slice(buffer_view(&body), 0, end),
                    view_slice(buffer_view(&whole), 0, end)));
    buffer_free(&body);
    buffer_free(&whole);
}

/* ---- Redis replies ---- */

static void walk(const struct resp_reply *reply, struct view input) {
    struct view items = reply->items;
    struct resp_reply item;
    size_t count = 0;

    must(reply->text.length <= input.length);
    must(reply->type == RESP_STRING ||
         view_find(reply->text, '\n') == reply->text.length);
    if (reply->type != RESP_ARRAY)
        return;
    while (resp_next(&items, &item)) {
        walk(&item, reply->items);
        count++;
    }
    must(count == reply->count && items.length == 0);
}

enum { MALFORMED = -1, TOO_LARGE = -2 };

/* Returns the number of bytes of a whole reply, 0 if more are needed, or an
   error. */
static ssize_t read_whole(struct view input, struct resp_reply *reply) {
    struct resp_scan scan = {0};
    size_t used;
    int result = resp_read(&scan, input, &used, reply);

    if (result < 0)
        return MALFORMED;
    if (scan.skips || (result > 0 && reply->type == RESP_ERROR &&
                       view_starts_with(reply->text, VIEW("the reply is"))))
        return TOO_LARGE;
    return result > 0 ? (ssize_t)used : 0;
}

/* Aborts unless reading byte by byte finds the same end of a reply. */
static void must_be_read_alike(struct view input, ssize_t whole) {
    struct resp_scan scan = {0};
    struct resp_reply reply;
    size_t at = 0, used = 0;
    int result = 0;

    for (size_t end = 1; result == 0 && end <= input.length; end++) {
        at += used;
        result =
            resp_read(&scan, view_slice(input, at, end - at), &used, &reply);
    }
    if (whole > 0)
        must(result == 1 && at + used == (size_t)whole);
    else if (whole != TOO_LARGE)
        must(result <= 0);
}

static void fuzz_resp(struct view input) {
    struct resp_reply reply;
    ssize_t whole = read_whole(input, &reply);

    must(whole <= (ssize_t)input.length);
    if (whole > 0) {
        must(reply.text.length == 0 ||
             (reply.text.data > input.data &&
              reply.text.data + reply.text.length < input.data + whole));
        must(reply.items.length < (size_t)whole);
        if (reply.type == RESP_ARRAY)
            walk(&reply, input);
    }
    ssize_t result = 0;
    for (size_t length = 0; result == 0 && length <= input.length; length++) {
        char *prefix = copy_of(view_slice(input, 0, length));
        result = read_whole((struct view){prefix, length}, &reply);
        must(result <= 0 || result == (ssize_t)length);
        free(prefix);
    }
    /* With more bytes, a large array may prove to be malformed. */
    must(result == whole || (result == TOO_LARGE && whole == MALFORMED));
    must_be_read_alike(input, whole);

    struct buffer command = {0};
    resp_append_command(&command, &input, 1);
    must(read_whole(buffer_view(&command), &reply) == (ssize_t)command.length);
    struct resp_reply word;
    must(resp_next(&reply.items, &word) && view_equal(word.text, input));
    buffer_free(&command);
}

/* ---- Text ---- */

static void fuzz_form(struct view input) {
    struct view body = input;
    struct view name = view_cut(&body, '\n');
    struct buffer value = {0};

    bool found = form_append_field(body, name, &value);
    must(value.length <= body.length && (found || value.length == 0));
    if (percent_decode(input) >= 0)
        must(input.data[0] == '%' && hex_digit(input.data[2]) >= 0);
    buffer_free(&value);
}

/* Aborts if the text has a C1 control, or a character that changes the
   direction of text. */
static void must_not_turn(struct view text) {
    for (size_t i = 0; i + 1 < text.length; i++) {
        unsigned char first = (unsigned char)text.data[i];
        unsigned char second = (unsigned char)text.data[i + 1];
        must(first != 0xc2 || second >= 0xa0);
        if (first != 0xe2 || i + 2 == text.length)
            continue;
        unsigned char third = (unsigned char)text.data[i + 2];
        must(second != 0x80 || third < 0xaa || third > 0xae);
        must(second != 0x81 || third < 0xa6 || third > 0xa9);
    }
}

static void fuzz_html(struct view input) {
    struct buffer html = {0};

    html_append_text(&html, input);
    must(html.length >= input.length || utf8_count(input) < 0);
    must_lack(buffer_view(&html), "<>\"'\x01\x08\x0b\x1f\x7f");
    must_not_turn(buffer_view(&html));
    must(view_find(buffer_view(&html), '\0') == html.length);
    must(utf8_count(buffer_view(&html)) >= 0);
    must(utf8_count(input) <= (int64_t)input.length);
    struct view rest = buffer_view(&html);
    for (view_cut(&rest, '&'); rest.length > 0; view_cut(&rest, '&'))
        must(view_starts_with(rest, VIEW("amp;")) ||
             view_starts_with(rest, VIEW("lt;")) ||
             view_starts_with(rest, VIEW("gt;")) ||
             view_starts_with(rest, VIEW("quot;")) ||
             view_starts_with(rest, VIEW("#39;")));
    buffer_free(&html);
}

static void fuzz_path(struct view input) {
    struct buffer path = {0};
    int result = path_decode(input, &path);

    must(result == 0 || result == -400 || result == -414);
    if (result != 0) {
        buffer_free(&path);
        return;
    }
    must(path.length > 0 && path.length < PATH_SIZE);
    must(strlen(path.data) == path.length && path.data[0] == '/');
    struct view rest = view_skip(buffer_view(&path), 1);
    while (rest.length > 0) {
        struct view segment = view_cut(&rest, '/');
        must(segment.length > 0 && !view_equal(segment, VIEW(".")) &&
             !view_equal(segment, VIEW("..")));
    }
    buffer_free(&path);
}

static bool append_placeholder(struct buffer *html, struct view name,
                               const void *values) {
    (void)values;
    buffer_append(html, VIEW("$"));
    buffer_append(html, name);
    buffer_append(html, VIEW("$"));
    return true;
}

static bool append_nothing(struct buffer *html, struct view name,
                           const void *empty) {
    (void)html;
    return view_equal(name, *(const struct view *)empty);
}

static void fuzz_template(struct view input) {
    struct view text = input;
    struct view name = view_cut(&text, '\n');
    struct buffer html = {0};

    /* If each value equals its placeholder, the text does not change. */
    template_append(&html, text, append_placeholder, NULL);
    must(view_equal(buffer_view(&html), text));
    buffer_clear(&html);
    template_append(&html, text, append_nothing, &name);
    must(html.length <= text.length);
    must(html.length == text.length || name.length + 2 <= text.length);
    buffer_free(&html);
}

/* ---- Values of fields ---- */

static void fuzz_fields(struct view input) {
    struct view value = input;
    struct view etag = view_cut(&value, '\n');
    uint64_t first;
    uint64_t last;
    time_t time;

    must(http_lists_etag(value, etag, HTTP_WEAK) ||
         !http_lists_etag(value, etag, HTTP_STRONG));
    must(etag.length == 0 || view_find(etag, ',') < etag.length ||
         view_trim(etag).length < etag.length ||
         http_lists_etag(etag, etag, HTTP_WEAK));
    const uint64_t sizes[] = {0, 1, 10, 1000, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (http_parse_range(input, sizes[i], &first, &last) == HTTP_RANGE_OK)
            must(first <= last && last < sizes[i]);
    if (http_parse_date(input, &time)) {
        char text[HTTP_DATE_SIZE];
        time_t again;
        http_format_date(time, text);
        must(http_parse_date(view_of(text), &again) && again == time);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct view input = {(const char *)data, size};

    fuzz_head(input);
    fuzz_chunks(input);
    fuzz_resp(input);
    fuzz_form(input);
    fuzz_html(input);
    fuzz_path(input);
    fuzz_template(input);
    fuzz_fields(input);
    return 0;
}
