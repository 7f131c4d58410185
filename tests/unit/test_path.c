/* SPDX-License-Identifier: MIT */
/* Paths, decoded and made safe: lib/proto/path.c. */
#include "config.h"
#include "harness.h"
#include "proto/encoding.h"

#include <string.h>

struct row {
    const char *name;
    struct view encoded;
    int result;
    struct view path;
};
#define IS(encoded, path)          {encoded, V(encoded), 0, V(path)}
#define NAMED(name, encoded, path) {name, V(encoded), 0, V(path)}
#define BAD(encoded)               {"bad: " encoded, V(encoded), -400, V("")}
static const struct row rows[] = {
    IS("/", "/"),
    IS("/a", "/a"),
    IS("/a/", "/a/"),
    IS("/a/b.html", "/a/b.html"),
    IS("/a/b/", "/a/b/"),
    IS("//", "/"),
    IS("//a", "/a"),
    IS("///a//b///c", "/a/b/c"),
    IS("/a//", "/a/"),
    IS("/a///", "/a/"),
    /* Dot segments: RFC 3986, section 5.2.4. */
    IS("/.", "/"),
    IS("/./", "/"),
    IS("/./.", "/"),
    IS("/./a", "/a"),
    IS("/a/.", "/a/"),
    IS("/a/./", "/a/"),
    IS("/a/./b", "/a/b"),
    IS("/a/..", "/"),
    IS("/a/../", "/"),
    IS("/a/../b", "/b"),
    IS("/a/b/..", "/a/"),
    IS("/a/b/../", "/a/"),
    IS("/a/b/../..", "/"),
    IS("/a/b/../../c", "/c"),
    IS("/a/b/c/./../../g", "/a/g"),
    IS("/mid/content=5/../6", "/mid/6"),
    IS("/a//../b", "/b"),
    IS("/a/..//b", "/b"),
    /* Segments that only look like a dot segment. */
    IS("/...", "/..."),
    IS("/.../a", "/.../a"),
    IS("/....", "/...."),
    IS("/.a", "/.a"),
    IS("/..a", "/..a"),
    IS("/a.", "/a."),
    IS("/a..", "/a.."),
    IS("/a../b", "/a../b"),
    IS("/.a/..b/.c.", "/.a/..b/.c."),
    IS("/. ./a", "/. ./a"),
    IS("/..;/a", "/..;/a"),
    IS("/..\\..\\a", "/..\\..\\a"),
    IS("/~/a", "/~/a"),
    IS("/a+b", "/a+b"),
    IS("/a:b@c!$&'()*,;=", "/a:b@c!$&'()*,;="),
    /* Escapes: RFC 3986, section 2.1. */
    IS("/%61", "/a"),
    IS("/a%20b", "/a b"),
    IS("/%c3%A9", "/\xc3\xa9"),
    IS("/%ff", "/\xff"),
    IS("/%0a", "/\n"),
    IS("/%3F", "/?"),
    IS("/%23", "/#"),
    NAMED("raw bytes above ASCII", "/\xc3\xa9", "/\xc3\xa9"),
    IS("%2F", "/"),
    IS("%2Fa", "/a"),
    IS("/a%2Fb", "/a/b"),
    IS("/a%2f", "/a/"),
    IS("/a%2F%2Fb", "/a/b"),
    IS("/a/%2e%2e/b", "/b"),
    IS("/a/%2E./b", "/b"),
    IS("/a/.%2e/b", "/b"),
    IS("/a/%2e/b", "/a/b"),
    IS("/a%2F..%2Fb", "/b"),
    IS("/a%2F%2E%2E", "/"),
    IS("/a%5C..", "/a\\.."),
    /* The path is decoded once: an escaped percent sign is text. */
    IS("/%2561", "/%61"),
    IS("/%252e%252e/a", "/%2e%2e/a"),
    IS("/%252F", "/%2F"),
    IS("/%25", "/%"),
    IS("/%2500", "/%00"),
    IS("/%25252e", "/%252e"),
    NAMED("overlong dots are no dots", "/%c0%ae%c0%ae/a",
          "/\xc0\xae\xc0\xae/a"),
    NAMED("an overlong slash is no slash", "/..%c0%afa",
          "/..\xc0\xaf"
          "a"),
    /* Above the root. */
    BAD("/.."),
    BAD("/../"),
    BAD("/../a"),
    BAD("/../../../../etc/passwd"),
    BAD("//.."),
    BAD("///../a"),
    BAD("/./.."),
    BAD("/./../a"),
    BAD("/a/../.."),
    BAD("/a/../../a"),
    BAD("/a/b/../../../c"),
    BAD("/a/./../../b"),
    BAD("/a//../.."),
    BAD("/%2e%2e/etc/passwd"),
    BAD("/%2E%2e"),
    BAD("/.%2e/a"),
    BAD("/%2e./a"),
    BAD("/..%2Fa"),
    BAD("/..%2f..%2fetc%2fpasswd"),
    BAD("/%2F..%2Fa"),
    BAD("/%2e%2e%2fa"),
    BAD("/a%2F..%2F..%2Fb"),
    BAD("%2F.."),
    BAD("%2F%2E%2E%2F"),
    /* NUL and bad escapes. */
    BAD("/%00"),
    BAD("/a%00.html"),
    BAD("/a%00/../../b"),
    {"bad: NUL", V("/\0"), -400, V("")},
    {"bad: NUL in a name", V("/a\0b"), -400, V("")},
    BAD("/%"),
    BAD("/%4"),
    BAD("/%%"),
    BAD("/%%41"),
    BAD("/%g1"),
    BAD("/%1g"),
    BAD("/% 1"),
    BAD("/%+1"),
    BAD("/%-1"),
    BAD("/%u002e"),
    BAD("/a%2/b"),
    BAD("/a%"),
    /* No slash. */
    {"bad: nothing", V(""), -400, V("")},
    BAD("a"),
    BAD("."),
    BAD(".."),
    BAD("../a"),
    BAD("*"),
    BAD("%2e%2e/a"),
    BAD("\\a"),
};

/* Asserts the properties of any decoded path. */
static void assert_safe(const struct buffer *path) {
    struct view left = buffer_view(path);
    struct view segment = view_cut(&left, '/');

    assert_true(path->length >= 1 && path->length < PATH_SIZE);
    assert_int_equal(strlen(path->data), path->length);
    assert_int_equal(segment.length, 0); /* the path begins with a slash */
    while (left.length > 0) {
        segment = view_cut(&left, '/');
        assert_true(segment.length > 0);
        assert_false(view_equal(segment, VIEW(".")));
        assert_false(view_equal(segment, VIEW("..")));
    }
}

static void decode(void **state) {
    const struct row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        struct buffer path = {0};
        assert_int_equal(path_decode(guarded(row->encoded, guard), &path),
                         row->result);
        if (row->result == 0) {
            assert_view_equal(buffer_view(&path), row->path);
            assert_safe(&path);
        }
        buffer_free(&path);
    }
}

/* ---- Paths of up to six pieces, compared with the definition ---- */

/* Normalises a path with a stack of segments.  Returns false for a path
   above the root. */
static bool reference(struct view decoded, struct buffer *path) {
    struct view stack[16];
    size_t depth = 0;
    bool folder = true;

    buffer_clear(path);
    struct view rest = view_skip(decoded, 1);
    while (rest.length > 0) {
        size_t before = rest.length;
        struct view segment = view_cut(&rest, '/');
        bool dots = view_equal(segment, VIEW(".."));
        bool nothing = segment.length == 0 || view_equal(segment, VIEW("."));
        if (dots && depth-- == 0)
            return false;
        if (!dots && !nothing)
            stack[depth++] = segment;
        folder = dots || nothing || before > segment.length;
    }
    for (size_t i = 0; i < depth; i++) {
        buffer_append(path, VIEW("/"));
        buffer_append(path, stack[i]);
    }
    buffer_append(path, folder ? VIEW("/") : VIEW(""));
    return true;
}

TEST(all_short_paths) {
    static const struct view pieces[][2] = {
        {V("/"), V("/")},   {V("."), V(".")},   {V(".."), V("..")},
        {V("%2e"), V(".")}, {V("%2F"), V("/")}, {V("a"), V("a")},
        {V("%25"), V("%")},
    };
    struct buffer encoded = {0};
    struct buffer decoded = {0};
    struct buffer expected = {0};
    struct buffer path = {0};

    /* Bijective base 7: one number for each sequence of up to six pieces. */
    for (size_t number = 0; number <= 7 + 49 + 343 + 2401 + 16807 + 117649;
         number++) {
        buffer_clear(&encoded);
        buffer_clear(&decoded);
        buffer_append(&encoded, VIEW("/"));
        buffer_append(&decoded, VIEW("/"));
        for (size_t rest = number; rest > 0; rest = (rest - 1) / 7) {
            buffer_append(&encoded, pieces[(rest - 1) % 7][0]);
            buffer_append(&decoded, pieces[(rest - 1) % 7][1]);
        }
        bool good = reference(buffer_view(&decoded), &expected);
        int result = path_decode(buffer_view(&encoded), &path);
        if (result != (good ? 0 : -400))
            fail_msg("%.*s: %d", (int)encoded.length, encoded.data, result);
        if (!good)
            continue;
        assert_view_equal(buffer_view(&path), buffer_view(&expected));
        assert_safe(&path);
    }
    buffer_free(&encoded);
    buffer_free(&decoded);
    buffer_free(&expected);
    buffer_free(&path);
}

/* Decoding a decoded path without a % again does not change the path. */
TEST(decoding_twice_changes_nothing) {
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct buffer path = {0};
        struct buffer again = {0};
        if (rows[i].result != 0 ||
            view_find(rows[i].path, '%') < rows[i].path.length)
            continue;
        assert_int_equal(path_decode(rows[i].encoded, &path), 0);
        assert_int_equal(path_decode(buffer_view(&path), &again), 0);
        assert_view_equal(buffer_view(&again), buffer_view(&path));
        buffer_free(&path);
        buffer_free(&again);
    }
}

/* ---- PATH_SIZE, which counts the NUL ---- */

static void expect_long(struct view piece, size_t pieces, struct view tail,
                        int expected, size_t length) {
    struct buffer encoded = {0};
    struct buffer path = {0};

    buffer_append(&encoded, VIEW("/"));
    append_times(&encoded, piece, pieces);
    buffer_append(&encoded, tail);
    assert_int_equal(
        path_decode(guarded(buffer_view(&encoded), GUARD_AFTER), &path),
        expected);
    if (expected == 0) {
        assert_int_equal(path.length, length);
        assert_safe(&path);
    }
    buffer_free(&encoded);
    buffer_free(&path);
}

TEST(paths_at_the_limit) {
    size_t most = PATH_SIZE - 1;

    expect_long(VIEW("a"), most - 1, VIEW(""), 0, most);
    expect_long(VIEW("a"), most, VIEW(""), -414, 0);
    expect_long(VIEW("a"), most - 2, VIEW("/"), 0, most);
    expect_long(VIEW("a"), most - 1, VIEW("/"), -414, 0);
    expect_long(VIEW("%61"), most - 1, VIEW(""), 0, most);
    expect_long(VIEW("%61"), most, VIEW(""), -414, 0);
    expect_long(VIEW("a"), most - 4, VIEW("/.."), 0, 1);
    expect_long(VIEW("a/"), most / 2, VIEW(""), 0, most);
    expect_long(VIEW("/"), most - 1, VIEW(""), 0, 1);
    expect_long(VIEW("a"), 100000, VIEW(""), -414, 0);
}

TEST_TABLE(decode, rows)
