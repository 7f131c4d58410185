/* SPDX-License-Identifier: MIT */
/*
 * Calls the parsers of lib/proto for other programs.  This program repeatedly
 * reads a line "NAME LENGTH" and LENGTH bytes of input.  It prints a line
 * "LENGTH" and LENGTH bytes of JSON, in which strings are hexadecimal.
 *
 * If a parser needs two strings, the first string ends at the first LF.
 */
#include "proto/encoding.h"
#include "proto/html.h"
#include "proto/http.h"
#include "proto/http_fields.h"
#include "proto/resp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_LIMIT ((size_t)4 * 1024 * 1024)

/* ---- JSON ---- */

static void print_hex(FILE *out, struct view view) {
    fputc('"', out);
    for (size_t i = 0; i < view.length; i++)
        fprintf(out, "%02x", (unsigned char)view.data[i]);
    fputc('"', out);
}

static void print_member(FILE *out, const char *name, struct view view) {
    fprintf(out, ", \"%s\": ", name);
    print_hex(out, view);
}

static const char *truth(bool is_true) {
    return is_true ? "true" : "false";
}

static void print_reply(FILE *out, const struct resp_reply *reply) {
    struct view items = reply->items;
    struct resp_reply item;

    switch (reply->type) {
    case RESP_STATUS:
    case RESP_ERROR:
    case RESP_STRING:
        fprintf(out, "{\"%s\": ",
                reply->type == RESP_STATUS  ? "status"
                : reply->type == RESP_ERROR ? "error"
                                            : "string");
        print_hex(out, reply->text);
        fputc('}', out);
        break;
    case RESP_INTEGER:
        fprintf(out, "%" PRId64, reply->integer);
        break;
    case RESP_NULL:
        fputs("null", out);
        break;
    case RESP_ARRAY:
        fputc('[', out);
        for (size_t i = 0; resp_next(&items, &item); i++) {
            fputs(i > 0 ? ", " : "", out);
            print_reply(out, &item);
        }
        fputc(']', out);
    }
}

/* ---- The parsers ---- */

/* Parses a head, and a chunked body.  "head" is the length of the head, and
   "chunks" the encoded length of the body; both may be 0 or an error. */
static void run_request(FILE *out, struct view input) {
    struct http_request request;
    struct http_chunks chunks = {0};
    size_t decoded = 0;
    ssize_t end = http_parse_head(input, 0, &request);

    fprintf(out, "{\"head\": %zd", end);
    if (end <= 0) {
        fputc('}', out);
        return;
    }
    struct buffer body = {0};
    ssize_t used = 0;
    buffer_append(&body, view_skip(input, (size_t)end));
    if (request.body == HTTP_CHUNKED_BODY)
        used = http_decode_chunks(&chunks, &body, &decoded);
    if (used > 0) /* the encoded length of the body */
        used = (ssize_t)(input.length - (size_t)end - body.length + decoded);
    fprintf(out,
            ", \"chunked\": %s, \"chunks\": %zd, \"length\": %" PRIu64
            ", \"minor\": %d, \"keep_alive\": %s, \"continue\": %s",
            truth(request.body == HTTP_CHUNKED_BODY), used,
            request.content_length, request.minor_version,
            truth(request.keep_alive), truth(request.expects_continue));
    print_member(out, "line", request.line);
    print_member(out, "path", request.path);
    print_member(out, "host", request.host);
    print_member(out, "body", view_slice(buffer_view(&body), 0, decoded));
    fputc('}', out);
    buffer_free(&body);
}

static void run_form(FILE *out, struct view input) {
    struct view name = view_cut(&input, '\n');
    struct buffer value = {0};
    bool found = form_append_field(input, name, &value);

    fprintf(out, "{\"found\": %s", truth(found));
    print_member(out, "value", buffer_view(&value));
    fputc('}', out);
    buffer_free(&value);
}

static void run_date(FILE *out, struct view input) {
    time_t time;

    if (http_parse_date(input, &time))
        fprintf(out, "%" PRId64, (int64_t)time);
    else
        fputs("null", out);
}

static void run_format_date(FILE *out, struct view input) {
    char date[HTTP_DATE_SIZE];
    uint64_t seconds = 0;

    (void)view_number(input, INT64_MAX, &seconds);
    http_format_date((time_t)seconds, date);
    print_hex(out, view_of(date));
}

static void run_etags(FILE *out, struct view input) {
    struct view etag = view_cut(&input, '\n');

    fprintf(out, "{\"weakly\": %s, \"strongly\": %s}",
            truth(http_lists_etag(input, etag, HTTP_WEAK)),
            truth(http_lists_etag(input, etag, HTTP_STRONG)));
}

static void run_path(FILE *out, struct view input) {
    struct buffer path = {0};
    int result = path_decode(input, &path);

    if (result < 0)
        fprintf(out, "%d", result);
    else
        print_hex(out, buffer_view(&path));
    buffer_free(&path);
}

static void run_html(FILE *out, struct view input) {
    struct buffer html = {0};

    html_append_text(&html, input);
    print_hex(out, buffer_view(&html));
    buffer_free(&html);
}

static void run_resp(FILE *out, struct view input) {
    struct resp_scan scan = {0};
    struct resp_reply reply;
    size_t used;
    int result = resp_read(&scan, input, &used, &reply);

    fprintf(out, "{\"used\": %zd", result < 0 ? -1 : (ssize_t)used);
    if (result > 0) {
        fputs(", \"reply\": ", out);
        print_reply(out, &reply);
    }
    fputc('}', out);
}

static const struct parser {
    const char *name;
    void (*run)(FILE *out, struct view input);
} parsers[] = {
    {"request", run_request}, {"form", run_form},
    {"date", run_date},       {"format_date", run_format_date},
    {"etags", run_etags},     {"path", run_path},
    {"html", run_html},       {"resp", run_resp},
};

/* ---- The conversation ---- */

__attribute__((noreturn)) static void give_up(const char *what) {
    fprintf(stderr, "parsers: %s\n", what);
    exit(EXIT_FAILURE);
}

static const struct parser *find(const char *name) {
    for (size_t i = 0; i < sizeof parsers / sizeof parsers[0]; i++)
        if (strcmp(parsers[i].name, name) == 0)
            return &parsers[i];
    give_up("no such parser");
}

/* Calls a parser with input in memory of the exact size, so that a sanitizer
   detects a read past the end. */
static void answer(const struct parser *parser, size_t length) {
    char *input = malloc(length + (length == 0)), *text;
    size_t size;

    if (input == NULL || fread(input, 1, length, stdin) != length)
        give_up("the input ends too early");
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        give_up("no memory");
    parser->run(out, (struct view){input, length});
    if (fclose(out) != 0)
        give_up("no memory");
    printf("%zu\n%s", size, text);
    fflush(stdout);
    free(text);
    free(input);
}

int main(void) {
    char name[32];
    size_t length;

    while (scanf("%31s %zu", name, &length) == 2) {
        if (getchar() != '\n' || length > INPUT_LIMIT)
            give_up("a line is not: NAME LENGTH");
        answer(find(name), length);
    }
    return EXIT_SUCCESS;
}
