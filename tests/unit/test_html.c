/* SPDX-License-Identifier: MIT */
/* UTF-8 and text in HTML: lib/proto/html.c. */
#include "harness.h"
#include "proto/html.h"

#include <string.h>

/* ---- UTF-8: RFC 3629 ---- */

struct utf8_row {
    const char *name;
    struct view text;
    size_t length; /* of the first character; 0: there is none */
    int64_t count; /* of all; -1: not UTF-8 */
};
#define ONE(name, text, length)                                                \
    { "utf8: " name, V(text), length, 1 }
#define NONE(name, text)                                                       \
    { "not utf8: " name, V(text), 0, -1 }
static const struct utf8_row utf8_rows[] = {
    ONE("U+0000", "\0", 1),
    ONE("U+0041", "A", 1),
    ONE("U+007F", "\x7f", 1),
    ONE("U+0080", "\xc2\x80", 2),
    ONE("U+00E9", "\xc3\xa9", 2),
    ONE("U+07FF", "\xdf\xbf", 2),
    ONE("U+0800", "\xe0\xa0\x80", 3),
    ONE("U+20AC", "\xe2\x82\xac", 3),
    ONE("U+D7FF", "\xed\x9f\xbf", 3),
    ONE("U+E000", "\xee\x80\x80", 3),
    ONE("U+FFFD", "\xef\xbf\xbd", 3),
    ONE("U+FFFF", "\xef\xbf\xbf", 3),
    ONE("U+10000", "\xf0\x90\x80\x80", 4),
    ONE("U+1F600", "\xf0\x9f\x98\x80", 4),
    ONE("U+10FFFF", "\xf4\x8f\xbf\xbf", 4),
    {"utf8: nothing", V(""), 0, 0},
    {"utf8: all lengths", V("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 1, 4},
    {"utf8: combining marks count", V("e\xcc\x81"), 1, 2},
    {"utf8: a byte order mark",
     V("\xef\xbb\xbf"
       "a"),
     3, 2},
    {"utf8: rubbish behind a letter", V("a\xff"), 1, -1},
    {"utf8: cut off behind a letter", V("a\xe2\x82"), 1, -1},

    NONE("a continuation", "\x80"),
    NONE("the last continuation", "\xbf"),
    NONE("cut off, of 2", "\xc3"),
    NONE("cut off, 1 of 3", "\xe2"),
    NONE("cut off, 2 of 3", "\xe2\x82"),
    NONE("cut off, 1 of 4", "\xf0"),
    NONE("cut off, 2 of 4", "\xf0\x9f"),
    NONE("cut off, 3 of 4", "\xf0\x9f\x98"),
    NONE("a letter in place 2 of 2", "\xc3"
                                     "a"),
    NONE("a letter in place 3 of 3", "\xe2\x82"
                                     "a"),
    NONE("a start in place 2 of 2", "\xc3\xc3"),
    NONE("overlong NUL", "\xc0\x80"),
    NONE("overlong slash, 2", "\xc0\xaf"),
    NONE("overlong slash, 3", "\xe0\x80\xaf"),
    NONE("overlong slash, 4", "\xf0\x80\x80\xaf"),
    NONE("overlong U+007F", "\xc1\xbf"),
    NONE("overlong U+07FF", "\xe0\x9f\xbf"),
    NONE("overlong U+FFFF", "\xf0\x8f\xbf\xbf"),
    NONE("the first surrogate", "\xed\xa0\x80"),
    NONE("the last surrogate", "\xed\xbf\xbf"),
    NONE("a pair of surrogates", "\xed\xa0\xbd\xed\xb8\x80"),
    NONE("U+110000", "\xf4\x90\x80\x80"),
    NONE("a start of F5", "\xf5\x80\x80\x80"),
    NONE("five bytes", "\xf8\x88\x80\x80\x80"),
    NONE("FE", "\xfe"),
    NONE("FF", "\xff"),
    NONE("Latin-1", "\xe9!"),
};

static void utf8(void **state) {
    const struct utf8_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        struct view text = guarded(row->text, guard);
        assert_int_equal(utf8_character(text), row->length);
        assert_int_equal(utf8_count(text), row->count);
    }
}

/* The definition once more, in another way: the value of the bits, and what
   values are allowed.  Returns the length, or 0. */
static size_t reference_length(const unsigned char *bytes, size_t length) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = bytes[0] < 0x80             ? 1
                  : (bytes[0] & 0xe0) == 0xc0 ? 2
                  : (bytes[0] & 0xf0) == 0xe0 ? 3
                  : (bytes[0] & 0xf8) == 0xf0 ? 4
                                              : 0;
    if (size < 2)
        return size;
    if (size > length)
        return 0;
    uint32_t value = bytes[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (bytes[i] & 0x3fu);
    }
    if (value < least[size] || value > 0x10ffff ||
        (value >= 0xd800 && value <= 0xdfff))
        return 0;
    return size;
}

/* All first and second bytes, with third and fourth ones from both sides of
   every border, in all lengths. */
static void utf8_agrees_with_its_definition(void **state) {
    static const unsigned char borders[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
                                            0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    unsigned char bytes[4];
    (void)state;

    for (unsigned pair = 0; pair < 0x10000; pair++)
        for (size_t i = 0; i < ROWS(borders); i++)
            for (size_t j = 0; j < ROWS(borders); j++) {
                bytes[0] = (unsigned char)(pair >> 8);
                bytes[1] = (unsigned char)(pair & 0xff);
                bytes[2] = borders[i];
                bytes[3] = borders[j];
                for (size_t length = 1; length <= 4; length++) {
                    struct view text = {(const char *)bytes, length};
                    if (utf8_character(text) != reference_length(bytes, length))
                        fail_msg("%02x %02x %02x %02x, %zu", bytes[0], bytes[1],
                                 bytes[2], bytes[3], length);
                }
            }
}

static void utf8_of_null(void **state) {
    (void)state;
    assert_int_equal(utf8_character((struct view){NULL, 0}), 0);
    assert_int_equal(utf8_count((struct view){NULL, 0}), 0);
}

/* ---- Text in HTML ---- */

struct text_row {
    const char *name;
    struct view text, html;
};
#define FFFD "\xef\xbf\xbd"
static const struct text_row texts[] = {
    {"text: nothing", V(""), V("")},
    {"text: plain", V("Hello, world"), V("Hello, world")},
    {"text: <", V("<"), V("&lt;")},
    {"text: >", V(">"), V("&gt;")},
    {"text: &", V("&"), V("&amp;")},
    {"text: \"", V("\""), V("&quot;")},
    {"text: '", V("'"), V("&#39;")},
    {"text: all five", V("<&>\"'"), V("&lt;&amp;&gt;&quot;&#39;")},
    {"text: references are text", V("&lt;&amp;&#39;"),
     V("&amp;lt;&amp;amp;&amp;#39;")},
    {"text: a script", V("<script>alert('x')</script>"),
     V("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;")},
    {"text: out of an attribute", V("\" onload=\"x"),
     V("&quot; onload=&quot;x")},
    {"text: out of a comment", V("--><b>"), V("--&gt;&lt;b&gt;")},
    {"text: in the middle", V("a<b"), V("a&lt;b")},
    {"text: at both ends", V("<a>"), V("&lt;a&gt;")},
    {"text: white space stays", V("a\tb\nc\r\nd e"), V("a\tb\nc\r\nd e")},
    {"text: placeholders stay", V("$VISITOR_COUNT$"), V("$VISITOR_COUNT$")},
    {"text: UTF-8 stays", V("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
     V("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")},
    {"text: UTF-8 among markup", V("<\xc3\xa9>"), V("&lt;\xc3\xa9&gt;")},
    {"text: NUL", V("a\0b"), V("a" FFFD "b")},
    {"text: ESC", V("\x1b[1m"), V(FFFD "[1m")},
    {"text: VT and FF", V("\v\f"), V(FFFD FFFD)},
    {"text: DEL", V("\x7f"), V(FFFD)},
    {"text: not UTF-8", V("\xff"), V(FFFD)},
    {"text: Latin-1", V("caf\xe9!"), V("caf" FFFD "!")},
    {"text: cut off by markup", V("\xe2\x82<"), V(FFFD FFFD "&lt;")},
    {"text: cut off at the end", V("a\xf0\x9f\x98"), V("a" FFFD FFFD FFFD)},
    {"text: overlong <", V("\xc0\xbc"), V(FFFD FFFD)},
    {"text: overlong <, of three", V("\xe0\x80\xbc"), V(FFFD FFFD FFFD)},
    {"text: a surrogate", V("\xed\xa0\x80"), V(FFFD FFFD FFFD)},
    {"text: U+0080", V("a\xc2\x80z"), V("a" FFFD "z")},
    {"text: U+0085, NEL", V("\xc2\x85"), V(FFFD)},
    {"text: U+009B, CSI", V("\xc2\x9b[1m"), V(FFFD "[1m")},
    {"text: U+009F and U+00A0", V("\xc2\x9f\xc2\xa0"), V(FFFD "\xc2\xa0")},
    {"text: U+00C2 is a letter", V("\xc3\x82"), V("\xc3\x82")},
    {"text: U+2029 and U+202A", V("\xe2\x80\xa9\xe2\x80\xaa"),
     V("\xe2\x80\xa9" FFFD)},
    {"text: U+202E, an override",
     V("a\xe2\x80\xae"
       "evil"),
     V("a" FFFD "evil")},
    {"text: U+202F stays", V("\xe2\x80\xaf"), V("\xe2\x80\xaf")},
    {"text: U+2065 and U+2066", V("\xe2\x81\xa5\xe2\x81\xa6"),
     V("\xe2\x81\xa5" FFFD)},
    {"text: U+2069 and U+206A", V("\xe2\x81\xa9\xe2\x81\xaa"),
     V(FFFD "\xe2\x81\xaa")},
    {"text: U+200E, U+200F, U+061C stay", V("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c"),
     V("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c")},
    {"text: the bytes of U+202E elsewhere", V("\xf0\xa2\x80\xae"),
     V("\xf0\xa2\x80\xae")},
};

static void text(void **state) {
    const struct text_row *row = *state;
    struct buffer html = {0};

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        buffer_clear(&html);
        buffer_append(&html, VIEW("before"));
        html_append_text(&html, guarded(row->text, guard));
        assert_view_equal(view_from(buffer_view(&html), 6), row->html);
    }
    buffer_free(&html);
}

/* Of every two bytes: what comes out is UTF-8, has no markup, and text that
   was good comes out again when its references are resolved. */
static void every_pair_of_bytes_is_safe(void **state) {
    struct buffer html = {0};
    (void)state;

    for (unsigned pair = 0; pair < 0x10000; pair++) {
        char bytes[2] = {(char)(pair >> 8), (char)(pair & 0xff)};
        buffer_clear(&html);
        html_append_text(&html, (struct view){bytes, 2});
        struct view out = buffer_view(&html);
        assert_true(utf8_count(out) > 0);
        assert_int_equal(view_find(out, '<'), out.length);
        assert_int_equal(view_find(out, '>'), out.length);
        assert_int_equal(view_find(out, '"'), out.length);
        assert_int_equal(view_find(out, '\''), out.length);
        for (size_t i = 0; i < out.length; i++) {
            unsigned char byte = (unsigned char)out.data[i];
            assert_true(byte >= 0x20 || byte == '\t' || byte == '\n' ||
                        byte == '\r');
            assert_int_not_equal(byte, 0x7f);
            assert_false(byte == 0xc2 && (unsigned char)out.data[i + 1] < 0xa0);
        }
    }
    buffer_free(&html);
}

int main(void) {
    SUITE_ADD_TABLE(utf8, utf8_rows);
    suite_add("utf8: its definition", utf8_agrees_with_its_definition, NULL);
    suite_add("utf8: NULL", utf8_of_null, NULL);
    SUITE_ADD_TABLE(text, texts);
    suite_add("text: every pair of bytes", every_pair_of_bytes_is_safe, NULL);
    return suite_run("html");
}
