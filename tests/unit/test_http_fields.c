/* SPDX-License-Identifier: MIT */
/* Dates, entity tags and ranges: lib/proto/http_fields.c. */
#include "harness.h"
#include "proto/http_fields.h"

#include <string.h>

/* ---- Dates: RFC 9110, section 5.6.7 ---- */

struct date_row {
    const char *name;
    struct view value;
    bool valid;
    time_t time;
};
#define DATE(name, value, time) {"date: " name, V(value), true, time}
#define NO_DATE(name, value)    {"no date: " name, V(value), false, 0}
static const struct date_row dates[] = {
    DATE("IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", 784111777),
    DATE("RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", 784111777),
    DATE("asctime", "Sun Nov  6 08:49:37 1994", 784111777),
    DATE("asctime, two digits", "Wed Nov 16 08:49:37 1994", 784975777),
    DATE("the epoch", "Thu, 01 Jan 1970 00:00:00 GMT", 0),
    DATE("before the epoch", "Wed, 31 Dec 1969 23:59:59 GMT", -1),
    DATE("a leap day", "Thu, 29 Feb 2024 12:00:00 GMT", 1709208000),
    DATE("a leap day of a century", "Tue, 29 Feb 2000 00:00:00 GMT", 951782400),
    DATE("a year's last second", "Thu, 31 Dec 2026 23:59:59 GMT", 1798761599),
    DATE("beyond 32 bits", "Tue, 19 Jan 2038 03:14:08 GMT", 2147483648),
    DATE("beyond 32 bits, unsigned", "Sun, 07 Feb 2106 06:28:16 GMT",
         4294967296),
    DATE("the last one", "Fri, 31 Dec 9999 23:59:59 GMT", 253402300799),
    DATE("RFC 850, this century", "Friday, 01-Jan-27 00:00:00 GMT", 1798761600),

    NO_DATE("nothing", ""),
    NO_DATE("a blank", " "),
    NO_DATE("a word", "yesterday"),
    NO_DATE("a number", "784111777"),
    NO_DATE("another zone", "Sun, 06 Nov 1994 08:49:37 UTC"),
    NO_DATE("an offset", "Sun, 06 Nov 1994 08:49:37 +0000"),
    NO_DATE("no zone", "Sun, 06 Nov 1994 08:49:37"),
    NO_DATE("half a zone", "Sun, 06 Nov 1994 08:49:37 GM"),
    NO_DATE("text after it", "Sun, 06 Nov 1994 08:49:37 GMT x"),
    NO_DATE("NUL after it", "Sun, 06 Nov 1994 08:49:37 GMT\0x"),
    NO_DATE("NUL in it", "Sun, 06 Nov 1994 08:49:37\0GMT"),
    NO_DATE("a list", "Sun, 06 Nov 1994 08:49:37 GMT, \"x\""),
    NO_DATE("a length, as old browsers sent it",
            "Sun, 06 Nov 1994 08:49:37 GMT; length=42"),
    NO_DATE("no day's name", "06 Nov 1994 08:49:37 GMT"),
    NO_DATE("an unknown day", "Son, 06 Nov 1994 08:49:37 GMT"),
    NO_DATE("an unknown month", "Sun, 06 Nob 1994 08:49:37 GMT"),
    NO_DATE("day 0", "Sun, 00 Nov 1994 08:49:37 GMT"),
    NO_DATE("day 32", "Sun, 32 Dec 1994 08:49:37 GMT"),
    NO_DATE("a day that does not exist", "Thu, 31 Feb 1994 08:49:37 GMT"),
    NO_DATE("29 February in a common year", "Wed, 29 Feb 2023 08:49:37 GMT"),
    NO_DATE("hour 24", "Sun, 06 Nov 1994 24:00:00 GMT"),
    NO_DATE("minute 60", "Sun, 06 Nov 1994 08:60:00 GMT"),
    /* The RFC allows leap seconds; this server rejects them. */
    NO_DATE("a leap second", "Sat, 31 Dec 2016 23:59:60 GMT"),
    NO_DATE("second 62", "Sun, 06 Nov 1994 08:49:62 GMT"),
    NO_DATE("no seconds", "Sun, 06 Nov 1994 08:49 GMT"),
    NO_DATE("a year of two digits", "Sun, 06 Nov 94 08:49:37 GMT"),
    NO_DATE("a year of three digits", "Thu, 06 Nov 194 08:49:37 GMT"),
    NO_DATE("RFC 850, a year of four digits",
            "Sunday, 06-Nov-1994 08:49:37 GMT"),
    NO_DATE("ISO 8601", "1994-11-06T08:49:37Z"),
    NO_DATE("63 bytes",
            "Sun, 06 Nov 1994 08:49:37 GMT                                  "),
    NO_DATE("64 bytes",
            "Sun, 06 Nov 1994 08:49:37 GMT                                   "),
    NO_DATE("a format of strptime", "%a, %d %b %Y %H:%M:%S GMT"),
};

static void parse_date(void **state) {
    const struct date_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        time_t time = 77;
        assert_int_equal(http_parse_date(guarded(row->value, guard), &time),
                         row->valid);
        assert_int_equal(time, row->valid ? row->time : 77);
    }
}

TEST(prefixes_are_no_dates) {
    static const struct view forms[] = {
        V("Sun, 06 Nov 1994 08:49:37 GMT"),
        V("Sunday, 06-Nov-94 08:49:37 GMT"),
        V("Sun Nov  6 08:49:37 199"), /* the year lacks a digit */
    };
    time_t time;

    for (size_t i = 0; i < ROWS(forms); i++)
        for (size_t length = 0; length < forms[i].length; length++)
            assert_false(http_parse_date(
                guarded(view_slice(forms[i], 0, length), GUARD_AFTER), &time));
    assert_false(http_parse_date((struct view){NULL, 0}, &time));
}

TEST(format_and_parse_are_inverse) {
    char text[HTTP_DATE_SIZE];

    /* The step changes days, hours, minutes and seconds. */
    for (time_t time = 0; time <= 253402300799; time += 12345671) {
        time_t again = -1;
        memset(text, 'x', sizeof text);
        http_format_date(time, text);
        assert_int_equal(strlen(text), HTTP_DATE_SIZE - 1);
        assert_true(http_parse_date(view_of(text), &again));
        assert_int_equal(again, time);
    }
}

/* For any file time, the text is a valid date and fits into the buffer. */
TEST(every_time_has_a_date) {
    static const time_t times[] = {INT64_MAX,    INT64_MIN,     -1,
                                   253402300800, -62167219200L, 1LL << 40};
    char text[HTTP_DATE_SIZE + 1];
    time_t time;

    for (size_t i = 0; i < ROWS(times); i++) {
        memset(text, 'x', sizeof text);
        http_format_date(times[i], text);
        assert_int_equal(text[HTTP_DATE_SIZE], 'x');
        assert_int_equal(text[HTTP_DATE_SIZE - 1], '\0');
        assert_int_equal(strlen(text), HTTP_DATE_SIZE - 1);
        assert_true(http_parse_date(view_of(text), &time));
    }
}

/* ---- Entity tags: RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2 ---- */

struct etag_row {
    const char *name;
    struct view value, etag;
    bool weakly, strongly; /* does the list match? */
};
static const struct etag_row etags[] = {
    {"etag: the same", V("\"a\""), V("\"a\""), true, true},
    {"etag: another", V("\"b\""), V("\"a\""), false, false},
    {"etag: any", V("*"), V("\"a\""), true, true},
    {"etag: any, blanks", V(" \t* "), V("\"a\""), true, true},
    {"etag: a quoted asterisk", V("\"*\""), V("\"a\""), false, false},
    {"etag: two asterisks", V("**"), V("\"a\""), false, false},
    {"etag: first of a list", V("\"a\", \"b\""), V("\"a\""), true, true},
    {"etag: last of a list", V("\"b\",\"c\" ,\t\"a\""), V("\"a\""), true, true},
    {"etag: not in a list", V("\"b\", \"c\""), V("\"a\""), false, false},
    {"etag: only commas", V(",, ,"), V("\"a\""), false, false},
    {"etag: empty elements", V(", ,\"a\",,"), V("\"a\""), true, true},
    {"etag: nothing", V(""), V("\"a\""), false, false},
    {"etag: weak in the list", V("W/\"a\""), V("\"a\""), true, false},
    {"etag: weak after others", V("\"b\", W/\"a\""), V("\"a\""), true, false},
    {"etag: the file's tag is weak", V("\"a\""), V("W/\"a\""), true, false},
    {"etag: both weak", V("W/\"a\""), V("W/\"a\""), true, false},
    {"etag: w is not W", V("w/\"a\""), V("\"a\""), false, false},
    {"etag: weak twice", V("W/W/\"a\""), V("\"a\""), false, false},
    {"etag: weak, then strong", V("W/\"a\", \"a\""), V("\"a\""), true, true},
    {"etag: case-sensitive", V("\"A\""), V("\"a\""), false, false},
    {"etag: a prefix", V("\"a"), V("\"a\""), false, false},
    {"etag: longer", V("\"ab\""), V("\"a\""), false, false},
    {"etag: no quotes", V("a"), V("\"a\""), false, false},
    {"etag: inside another", V("\"x\"a\""), V("\"a\""), false, false},
    {"etag: an empty tag", V("\"\""), V("\"\""), true, true},
    {"etag: dashes", V("\"6a2b-1f\""), V("\"6a2b-1f\""), true, true},
    {"etag: NUL in it", V("\"a\0b\""), V("\"a\0c\""), false, false},
};

static void lists_etag(void **state) {
    const struct etag_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        struct view value = guarded(row->value, guard);
        assert_int_equal(http_lists_etag(value, row->etag, HTTP_WEAK),
                         row->weakly);
        assert_int_equal(http_lists_etag(value, row->etag, HTTP_STRONG),
                         row->strongly);
    }
}

/* ---- Ranges: RFC 9110, sections 14.1.2 and 14.2 ---- */

struct range_row {
    const char *name;
    struct view value;
    uint64_t size;
    enum http_range result;
    uint64_t first, last;
};
#define RANGE(value, size, first, last)                                        \
    {"range: " value " of " #size, V(value), size, HTTP_RANGE_OK, first, last}
#define NO_RANGE_OF(value, size)                                               \
    {"no range: " value " of " #size, V(value), size, HTTP_RANGE_NONE, 0, 0}
#define NO_RANGE(value) NO_RANGE_OF(value, 10)
#define AFTER_END(value, size)                                                 \
    {"after the end: " value " of " #size,                                     \
     V(value),                                                                 \
     size,                                                                     \
     HTTP_RANGE_UNSATISFIABLE,                                                 \
     0,                                                                        \
     0}
static const struct range_row ranges[] = {
    RANGE("bytes=0-0", 10, 0, 0),
    RANGE("bytes=0-9", 10, 0, 9),
    RANGE("bytes=3-5", 10, 3, 5),
    RANGE("bytes=9-9", 10, 9, 9),
    RANGE("bytes=0-", 10, 0, 9),
    RANGE("bytes=9-", 10, 9, 9),
    RANGE("bytes=0-10", 10, 0, 9),
    RANGE("bytes=5-1000", 10, 5, 9),
    RANGE("bytes=0-0", 1, 0, 0),
    RANGE("bytes=-1", 10, 9, 9),
    RANGE("bytes=-10", 10, 0, 9),
    RANGE("bytes=-11", 10, 0, 9),
    RANGE("bytes=-18446744073709551615", 10, 0, 9),
    RANGE("bytes=0-18446744073709551615", 10, 0, 9),
    RANGE("bytes=00-009", 100, 0, 9),
    RANGE("BYTES=1-2", 10, 1, 2), /* units ignore case: section 14.1 */
    RANGE("bytes=4294967295-4294967296", 4294967297, 4294967295, 4294967296),
    RANGE("bytes=-1", 18446744073709551615u, 18446744073709551614u,
          18446744073709551614u),

    /* Empty elements of a list do not count: section 5.6.1.2. */
    RANGE("bytes=0-1,", 10, 0, 1),
    RANGE("bytes=,0-1", 10, 0, 1),
    RANGE("bytes= , ,\t3-5 ,,", 10, 3, 5),
    RANGE("bytes=-3,", 10, 7, 9),

    AFTER_END("bytes=10-,", 10),
    AFTER_END("bytes=10-", 10),
    AFTER_END("bytes=10-10", 10),
    AFTER_END("bytes=10-20", 10),
    AFTER_END("bytes=18446744073709551615-", 10),
    AFTER_END("bytes=-0", 10),
    AFTER_END("bytes=-0", 0),
    AFTER_END("bytes=0-", 0),
    AFTER_END("bytes=0-0", 0),

    NO_RANGE_OF("bytes=-1", 0), /* the whole file: section 14.1.2 */
    NO_RANGE_OF("bytes=-18446744073709551616", 0),
    NO_RANGE(""),
    NO_RANGE("bytes"),
    NO_RANGE("bytes="),
    NO_RANGE("bytes=-"),
    NO_RANGE("bytes=--1"),
    NO_RANGE("bytes=5"),
    NO_RANGE("bytes=5-3"),
    NO_RANGE("bytes=15-13"),
    NO_RANGE("bytes=1-2-3"),
    NO_RANGE("bytes=1--2"),
    NO_RANGE("bytes=a-b"),
    NO_RANGE("bytes=0x1-2"),
    NO_RANGE("bytes=+1-2"),
    NO_RANGE("bytes=1-2x"),
    NO_RANGE("bytes=1 -2"),
    NO_RANGE("bytes=1- 2"),
    NO_RANGE("bytes =1-2"),
    NO_RANGE("bytes:1-2"),
    NO_RANGE("octets=1-2"),
    NO_RANGE("1-2"),
    NO_RANGE("bytes=0-1,3-4"),
    NO_RANGE("bytes=0-1, 3-4"),
    NO_RANGE("bytes=0-1,,3-4"),
    NO_RANGE("bytes=,"),
    NO_RANGE("bytes= , ,"),
    NO_RANGE("bytes=,a-b"),
    NO_RANGE("bytes=1-2\0"),
    NO_RANGE("bytes=1-2\r\n"),
};

static void parse_range(void **state) {
    const struct range_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        uint64_t first = 77;
        uint64_t last = 77;
        assert_int_equal(http_parse_range(guarded(row->value, guard), row->size,
                                          &first, &last),
                         row->result);
        if (row->result != HTTP_RANGE_OK)
            continue;
        assert_int_equal(first, row->first);
        assert_int_equal(last, row->last);
    }
}

/* A number that does not fit into 64 bits must not become a small number, which
   would select wrong bytes.  The range must be the whole file or invalid. */
TEST(huge_numbers_do_not_wrap) {
    uint64_t first;
    uint64_t last;

    assert_int_not_equal(http_parse_range(VIEW("bytes=18446744073709551616-"),
                                          10, &first, &last),
                         HTTP_RANGE_OK);
    assert_int_not_equal(http_parse_range(VIEW("bytes=18446744073709551617-5"),
                                          10, &first, &last),
                         HTTP_RANGE_OK);
    if (http_parse_range(VIEW("bytes=-18446744073709551617"), 10, &first,
                         &last) == HTTP_RANGE_OK)
        assert_true(first == 0 && last == 9);
    if (http_parse_range(VIEW("bytes=0-18446744073709551617"), 10, &first,
                         &last) == HTTP_RANGE_OK)
        assert_true(first == 0 && last == 9);
    assert_int_not_equal(http_parse_range(VIEW("bytes=-5"), 0, &first, &last),
                         HTTP_RANGE_OK); /* there is no byte to send */
}

TEST_TABLE(parse_date, dates)
TEST_TABLE(lists_etag, etags)
TEST_TABLE(parse_range, ranges)
