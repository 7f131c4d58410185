/* SPDX-License-Identifier: MIT */
/* Text in HTML: lib/proto/html.c. */
#include "harness.h"
#include "proto/encoding.h"
#include "proto/html.h"

#include <string.h>

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
    {"text: ends an attribute", V("\" onload=\"x"), V("&quot; onload=&quot;x")},
    {"text: ends a comment", V("--><b>"), V("--&gt;&lt;b&gt;")},
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
    {"text: overlong <, three bytes", V("\xe0\x80\xbc"), V(FFFD FFFD FFFD)},
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
    {"text: U+FDCF and U+FDD0", V("\xef\xb7\x8f\xef\xb7\x90"),
     V("\xef\xb7\x8f" FFFD)},
    {"text: U+FDEF and U+FDF0", V("\xef\xb7\xaf\xef\xb7\xb0"),
     V(FFFD "\xef\xb7\xb0")},
    {"text: U+FFFD to U+FFFF", V("\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf"),
     V(FFFD FFFD FFFD)},
    {"text: U+1FFFD and U+1FFFE", V("\xf0\x9f\xbf\xbd\xf0\x9f\xbf\xbe"),
     V("\xf0\x9f\xbf\xbd" FFFD)},
    {"text: U+10FFFF", V("\xf4\x8f\xbf\xbf"), V(FFFD)},
    {"text: last bytes as in U+202E", V("\xf0\xa2\x80\xae"),
     V("\xf0\xa2\x80\xae")},
};

static void text(void **state) {
    const struct text_row *row = *state;
    struct buffer html = {0};

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        buffer_clear(&html);
        buffer_append(&html, VIEW("before"));
        html_append_text(&html, guarded(row->text, guard));
        assert_view_equal(view_skip(buffer_view(&html), 6), row->html);
    }
    buffer_free(&html);
}

/* Each pair of bytes gives UTF-8 without markup or control characters, except
   tab, CR and LF. */
TEST(every_pair_of_bytes_is_safe) {
    struct buffer html = {0};

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

/* The code compares blocks of bytes, so each byte is tried at each offset. */
TEST(each_byte_at_each_place) {
    struct buffer html = {0}, expected = {0};
    char text[50];

    for (size_t length = 1; length <= sizeof text; length++)
        for (size_t place = 0; place < length; place++)
            for (int byte = 0; byte < 256; byte++) {
                memset(text, 'x', sizeof text);
                text[place] = (char)byte;
                buffer_clear(&html);
                html_append_text(&html, (struct view){text, length});
                buffer_clear(&expected);
                append_times(&expected, VIEW("x"), place);
                html_append_text(&expected, (struct view){text + place, 1});
                append_times(&expected, VIEW("x"), length - place - 1);
                if (!view_equal(buffer_view(&html), buffer_view(&expected)))
                    fail_msg("byte %d at %zu of %zu", byte, place, length);
            }
    buffer_free(&html);
    buffer_free(&expected);
}

TEST_TABLE(text, texts)
