/* SPDX-License-Identifier: MIT */
/*
 * Forms: lib/proto/encoding.c; url.spec.whatwg.org,
 * "application/x-www-form-urlencoded parsing".
 */
#include "harness.h"
#include "proto/encoding.h"

#include <string.h>

/* ---- Fields ---- */

struct field_row {
    const char *name;
    struct view body;
    struct view field;
    bool found;
    struct view value;
};
#define IS(name, body, value) {"form: " name, V(body), V("f"), true, V(value)}
#define NOT(name, body)       {"no field: " name, V(body), V("f"), false, V("")}
static const struct field_row fields[] = {
    IS("alone", "f=a", "a"),
    IS("first", "f=a&g=b", "a"),
    IS("last", "e=b&f=a", "a"),
    IS("between", "e=b&f=a&g=c", "a"),
    IS("the first of two", "f=a&f=b", "a"),
    IS("the first of two is empty", "f=&f=b", ""),
    IS("empty", "f=", ""),
    IS("empty, then another", "f=&g=b", ""),
    IS("no equals sign", "f", ""),
    IS("no equals sign, then another", "f&g=b", ""),
    IS("equals sign in the value", "f=a=b", "a=b"),
    IS("only equals signs", "f===", "=="),
    IS("plus is a space", "f=a+b++c", "a b  c"),
    IS("escaped plus", "f=a%2Bb%2bc", "a+b+c"),
    IS("escaped ampersand", "f=a%26g=b", "a&g=b"),
    IS("escaped equals sign", "f=%3D", "="),
    IS("escaped percent sign is decoded once", "f=%2541", "%41"),
    IS("escaped line ends", "f=a%0D%0Ab", "a\r\nb"),
    IS("escaped NUL", "f=a%00b", "a\0b"),
    IS("escaped UTF-8", "f=%C3%A9%e2%82%ac", "\xc3\xa9\xe2\x82\xac"),
    IS("raw UTF-8", "f=\xc3\xa9", "\xc3\xa9"),
    IS("not UTF-8", "f=%ff%FE", "\xff\xfe"),
    IS("percent sign at the end", "f=100%", "100%"),
    IS("percent sign and one digit", "f=100%4", "100%4"),
    IS("percent sign and no digit", "f=100%+a", "100% a"),
    IS("percent signs in a row", "f=%%41", "%A"),
    IS("an escape cut by the ampersand", "f=%4&1=2", "%4"),
    IS("a percent sign before the ampersand", "f=%&41", "%"),
    IS("an escape of IIS", "f=%u0041", "%u0041"),
    IS("markup", "f=%3Cb%3E", "<b>"),
    IS("empty fields before", "&&f=a", "a"),
    IS("empty fields after", "f=a&&", "a"),
    IS("nameless field before", "=b&f=a", "a"),
    IS("semicolon does not separate", "f=a;g=b", "a;g=b"),
    IS("line end after", "f=a\r\n", "a\r\n"),
    IS("escaped name", "%66=a", "a"),
    IS("longer name before", "ff=b&f=a", "a"),
    IS("a name with NUL before", "f%00=b&f=a", "a"),
    NOT("nothing", ""),
    NOT("another", "g=a"),
    NOT("names are case-sensitive", "F=a"),
    NOT("a longer name", "ff=a"),
    NOT("a name after a blank", "+f=a"),
    NOT("a name before a blank", "f+=a"),
    NOT("only in a value", "g=f"),
    NOT("escaped ampersand in a value", "g=a%26f=b"),
    NOT("only ampersands", "&&&"),
    NOT("only an equals sign", "="),
    NOT("half an escape", "%6=a"),
    {"form: hyphen", V("guest-name=A&guest-remarks=B"), V("guest-remarks"),
     true, V("B")},
    {"form: escaped hyphen", V("guest%2dname=A"), V("guest-name"), true,
     V("A")},
    {"form: a name with a blank", V("a+b=c"), V("a b"), true, V("c")},
    {"form: a prefix of the name", V("guest=b&guest-name=a"), V("guest-name"),
     true, V("a")},
    {"no field: a prefix of the name", V("guest=b"), V("guest-name"), false,
     V("")},
};

static void field(void **state) {
    const struct field_row *row = *state;
    struct buffer value = {0};

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        buffer_clear(&value);
        buffer_append(&value, VIEW("before"));
        assert_int_equal(
            form_append_field(guarded(row->body, guard), row->field, &value),
            row->found);
        assert_view_equal(view_skip(buffer_view(&value), 6), row->value);
    }
    buffer_free(&value);
}

/* A field has all its bytes, even if each byte is escaped. */
TEST(every_byte_comes_back) {
    struct buffer body = {0};
    struct buffer value = {0};
    char escape_text[4];

    buffer_append(&body, VIEW("e=1&f="));
    for (int byte = 0; byte < 256; byte++) {
        snprintf(escape_text, sizeof escape_text, "%%%02X", (unsigned)byte);
        buffer_append(&body, view_of(escape_text));
    }
    buffer_append(&body, VIEW("&g=2"));
    assert_true(form_append_field(guarded(buffer_view(&body), GUARD_AFTER),
                                  VIEW("f"), &value));
    assert_int_equal(value.length, 256);
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(value.data[byte], (char)byte);
    buffer_free(&body);
    buffer_free(&value);
}

TEST_TABLE(field, fields)
