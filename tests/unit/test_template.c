/* SPDX-License-Identifier: MIT */
/* Templates: lib/proto/html.c. */
#include "harness.h"
#include "proto/html.h"

#include <string.h>

struct value {
    struct view name, html;
};
static const struct value known[] = {
    {V("A"), V("alpha")},           {V("COUNT"), V("12,345")},
    {V("COUNT_LONG"), V("long")},   {V("EMPTY"), V("")},
    {V("NULL"), {NULL, 0}},         {V("DOLLAR"), V("$")},
    {V("NAMED"), V("$A$")},         {V("ITSELF"), V("$ITSELF$")},
    {V("BYTES"), V("a\0\xff\r\n")}, {{NULL, 0}, {NULL, 0}},
};

/* Appends the value of `name` in a table that ends with an empty name. */
static bool append_value(struct buffer *html, struct view name,
                         const void *values) {
    for (const struct value *value = values; value->name.length > 0; value++)
        if (view_equal(name, value->name)) {
            buffer_append(html, value->html);
            return true;
        }
    return false;
}

struct row {
    const char *name;
    struct view text, html;
};
static const struct row rows[] = {
    {"nothing", V(""), V("")},
    {"no placeholder", V("<p>Hello</p>\n"), V("<p>Hello</p>\n")},
    {"alone", V("$A$"), V("alpha")},
    {"at the front", V("$A$ b"), V("alpha b")},
    {"at the end", V("b $A$"), V("b alpha")},
    {"in the middle", V("<p>$COUNT$</p>"), V("<p>12,345</p>")},
    {"twice", V("$A$$A$"), V("alphaalpha")},
    {"two", V("$A$ and $COUNT$"), V("alpha and 12,345")},
    {"longer name with the same start", V("$COUNT_LONG$"), V("long")},
    {"an empty value", V("[$EMPTY$]"), V("[]")},
    {"a value of NULL", V("[$NULL$]"), V("[]")},
    {"any bytes in a value", V("$BYTES$"), V("a\0\xff\r\n")},
    {"any bytes in the text", V("\0$A$\xff"), V("\0alpha\xff")},
    /* Placeholders in inserted values are not replaced. */
    {"a placeholder in a value", V("$NAMED$"), V("$A$")},
    {"a value like its own placeholder", V("$ITSELF$"), V("$ITSELF$")},
    {"a value ending in a dollar", V("$DOLLAR$A$"), V("$A$")},
    {"a dollar value before a placeholder", V("$DOLLAR$$A$"), V("$alpha")},
    {"a dollar before a value like a name", V("$$NAMED$"), V("$$A$")},
    /* Unknown names are not replaced. */
    {"unknown", V("$UNKNOWN$"), V("$UNKNOWN$")},
    {"unknown, then known", V("$UNKNOWN$ $A$"), V("$UNKNOWN$ alpha")},
    {"a prefix of a name", V("$COUN$"), V("$COUN$")},
    {"longer than a name", V("$COUNTS$"), V("$COUNTS$")},
    {"names are case-sensitive", V("$a$"), V("$a$")},
    {"a blank in the name", V("$ A$ $A $"), V("$ A$ $A $")},
    {"a line end in the name", V("$A\n$"), V("$A\n$")},
    {"NUL in the name", V("$A\0$"), V("$A\0$")},
    /* A lone dollar is not changed. */
    {"a dollar", V("$"), V("$")},
    {"two dollars", V("$$"), V("$$")},
    {"three dollars", V("$$$"), V("$$$")},
    {"a price", V("it costs 5$"), V("it costs 5$")},
    {"a price before a placeholder", V("5$ and $A$"), V("5$ and alpha")},
    {"a dollar before a placeholder", V("$$A$"), V("$alpha")},
    {"a dollar after a placeholder", V("$A$$"), V("alpha$")},
    {"a placeholder in dollars", V("$$A$$"), V("$alpha$")},
    {"not closed", V("$A"), V("$A")},
    {"not closed, closed later", V("$A $A$"), V("$A alpha")},
    {"not opened", V("A$"), V("A$")},
    {"two placeholders share a dollar", V("$COUNT$A$"), V("12,345A$")},
    {"cut off at each place", V("$COUNT_LONG"), V("$COUNT_LONG")},
    {"cut off after the shorter name", V("$COUNT_"), V("$COUNT_")},
};

static void append(void **state) {
    const struct row *row = *state;
    struct buffer html = {0};

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        buffer_clear(&html);
        buffer_append(&html, VIEW("before"));
        template_append(&html, guarded(row->text, guard), append_value, known);
        assert_view_equal(view_skip(buffer_view(&html), 6), row->html);
    }
    buffer_free(&html);
}

TEST(without_values_the_text_stays) {
    struct buffer html = {0};

    static const struct value none[] = {{{NULL, 0}, {NULL, 0}}};
    template_append(&html, VIEW("$A$ $$ $"), append_value, none);
    assert_view_equal(buffer_view(&html), VIEW("$A$ $$ $"));
    template_append(&html, (struct view){NULL, 0}, append_value, none);
    assert_view_equal(buffer_view(&html), VIEW("$A$ $$ $"));
    buffer_free(&html);
}

/* Values of any length may be inserted any number of times. */
TEST(large_values_come_in_whole) {
    struct buffer large = {0};
    struct buffer html = {0};
    struct buffer text = {0};
    struct buffer expected = {0};

    append_times(&large, VIEW("$LARGE$ <li>"), 5000);
    const struct value values[] = {{V("LARGE"), buffer_view(&large)},
                                   {{NULL, 0}, {NULL, 0}}};
    for (size_t i = 0; i < 20; i++) {
        buffer_append(&text, VIEW("a$LARGE$b"));
        buffer_append(&expected, VIEW("a"));
        buffer_append(&expected, buffer_view(&large));
        buffer_append(&expected, VIEW("b"));
    }
    template_append(&html, buffer_view(&text), append_value, values);
    assert_true(view_equal(buffer_view(&html), buffer_view(&expected)));
    buffer_free(&large);
    buffer_free(&html);
    buffer_free(&text);
    buffer_free(&expected);
}

TEST_TABLE(append, rows)
