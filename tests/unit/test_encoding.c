/* SPDX-License-Identifier: MIT */
/* Percent-encoding and UTF-8: lib/proto/encoding.c. */
#include "harness.h"
#include "proto/encoding.h"

#include <locale.h>
#include <uchar.h>

/* ---- Escapes: RFC 3986, section 2.1 ---- */

struct escape_row {
    const char *name;
    struct view text;
    int byte;
};
static const struct escape_row escapes[] = {
    {"escape: upper case", V("%2F"), 0x2f},
    {"escape: lower case", V("%2f"), 0x2f},
    {"escape: 00", V("%00"), 0},
    {"escape: ff", V("%fF"), 255},
    {"escape: 80", V("%80"), 128},
    {"escape: text after", V("%41%42"), 0x41},
    {"escape: a digit after", V("%414"), 0x41},
    {"escape: nothing", V(""), -1},
    {"escape: no percent sign", V("412"), -1},
    {"escape: a letter before", V("a%41"), -1},
    {"escape: only a percent sign", V("%"), -1},
    {"escape: one digit", V("%4"), -1},
    {"escape: bad first digit", V("%g1"), -1},
    {"escape: bad second digit", V("%1g"), -1},
    {"escape: two percent signs", V("%%41"), -1},
    {"escape: blank", V("% 1"), -1},
    {"escape: plus", V("%+1"), -1},
    {"escape: minus", V("%-1"), -1},
    {"escape: 0x", V("%0x1"), -1},
    {"escape: NUL", V("%\0001"), -1},
    {"escape: not ASCII", V("%\xb2\xb3"), -1},
    {"escape: of IIS", V("%u0041"), -1},
};

static void escape(void **state) {
    const struct escape_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++)
        assert_int_equal(percent_decode(guarded(row->text, guard)), row->byte);
}

TEST(every_byte_can_be_escaped) {
    char text[4];

    for (int byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "%%%02x", (unsigned)byte);
        assert_int_equal(percent_decode(view_of(text)), byte);
        snprintf(text, sizeof text, "%%%02X", (unsigned)byte);
        assert_int_equal(percent_decode(view_of(text)), byte);
    }
}

/* ---- UTF-8: RFC 3629 ---- */

struct utf8_row {
    const char *name;
    struct view text;
    size_t length; /* bytes of the first character; 0: invalid */
    int64_t count; /* characters; -1: not UTF-8 */
};
#define ONE(name, text, length) {"utf8: " name, V(text), length, 1}
#define NONE(name, text)        {"not utf8: " name, V(text), 0, -1}
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
    {"utf8: invalid after a letter", V("a\xff"), 1, -1},
    {"utf8: cut off after a letter", V("a\xe2\x82"), 1, -1},

    NONE("a continuation byte", "\x80"),
    NONE("the last continuation byte", "\xbf"),
    NONE("cut off, of 2", "\xc3"),
    NONE("cut off, 1 of 3", "\xe2"),
    NONE("cut off, 2 of 3", "\xe2\x82"),
    NONE("cut off, 1 of 4", "\xf0"),
    NONE("cut off, 2 of 4", "\xf0\x9f"),
    NONE("cut off, 3 of 4", "\xf0\x9f\x98"),
    NONE("a letter as byte 2 of 2", "\xc3"
                                    "a"),
    NONE("a letter as byte 3 of 3", "\xe2\x82"
                                    "a"),
    NONE("a start byte as byte 2 of 2", "\xc3\xc3"),
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
    NONE("the start byte F5", "\xf5\x80\x80\x80"),
    NONE("five bytes", "\xf8\x88\x80\x80\x80"),
    NONE("FE", "\xfe"),
    NONE("FF", "\xff"),
    NONE("Latin-1", "\xe9!"),
};

static void utf8(void **state) {
    const struct utf8_row *row = *state;
    uint32_t code;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        struct view text = guarded(row->text, guard);
        assert_int_equal(utf8_character(text, &code), row->length);
        assert_int_equal(utf8_count(text), row->count);
    }
}

/* Returns the length of a character as the C library decodes it. */
static size_t reference_length(const unsigned char *bytes, size_t length,
                               uint32_t *code) {
    mbstate_t state = {0};
    size_t size = mbrtoc32(code, (const char *)bytes, length, &state);

    if (size > 4 || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
        return 0;
    return size == 0 ? 1 : size; /* 0: the character is NUL */
}

/* Tests all first and second bytes, with third and fourth bytes on both sides
   of every border, in all lengths. */
TEST(utf8_agrees_with_its_definition) {
    static const unsigned char borders[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
                                            0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    unsigned char bytes[4];
    uint32_t code, expected;

    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    for (unsigned pair = 0; pair < 0x10000; pair++)
        for (size_t i = 0; i < ROWS(borders); i++)
            for (size_t j = 0; j < ROWS(borders); j++) {
                bytes[0] = (unsigned char)(pair >> 8);
                bytes[1] = (unsigned char)(pair & 0xff);
                bytes[2] = borders[i];
                bytes[3] = borders[j];
                for (size_t length = 1; length <= 4; length++) {
                    struct view text = {(const char *)bytes, length};
                    size_t size = reference_length(bytes, length, &expected);
                    if (utf8_character(text, &code) != size ||
                        (size > 0 && code != expected))
                        fail_msg("%02x %02x %02x %02x, %zu", bytes[0], bytes[1],
                                 bytes[2], bytes[3], length);
                }
            }
}

TEST(utf8_of_null) {
    uint32_t code;

    assert_int_equal(utf8_character((struct view){NULL, 0}, &code), 0);
    assert_int_equal(utf8_count((struct view){NULL, 0}), 0);
}

TEST_TABLE(escape, escapes)
TEST_TABLE(utf8, utf8_rows)
