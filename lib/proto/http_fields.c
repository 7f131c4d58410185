/* SPDX-License-Identifier: MIT */
#include "proto/http_fields.h"

#include <string.h>
#include <sys/param.h>

void http_format_date(time_t time, char date[HTTP_DATE_SIZE]) {
    struct tm tm;

    /* If the year does not have four digits, the beginning of 1970 is sent.
       Names are English because no program here calls setlocale(3). */
    if (gmtime_r(&time, &tm) == NULL ||
        strftime(date, HTTP_DATE_SIZE, "%a, %d %b %Y %H:%M:%S GMT", &tm) !=
            HTTP_DATE_SIZE - 1)
        memcpy(date, "Thu, 01 Jan 1970 00:00:00 GMT", HTTP_DATE_SIZE);
}

/* Is the text the same when the parsed date is formatted again?  strptime(3)
   accepts a day that does not exist, such as 31 February. */
static bool is_canonical(const char *text, const char *form, time_t time) {
    char again[64];
    struct tm tm;

    return gmtime_r(&time, &tm) != NULL && tm.tm_year >= 0 &&
           strftime(again, sizeof again, form, &tm) > 0 &&
           strcmp(text, again) == 0;
}

bool http_parse_date(struct view value, time_t *time) {
    static const char *const forms[] = {
        "%a, %d %b %Y %H:%M:%S GMT", /* of RFC 9110 itself */
        "%A, %d-%b-%y %H:%M:%S GMT", /* of RFC 850 */
        "%a %b %e %H:%M:%S %Y",      /* of asctime(3) */
    };
    char text[64];

    if (value.length == 0 || value.length >= sizeof text ||
        view_find(value, '\0') < value.length)
        return false;
    memcpy(text, value.data, value.length);
    text[value.length] = '\0';
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm tm = {0};
        if (strptime(text, forms[i], &tm) == NULL)
            continue;
        time_t parsed = timegm(&tm);
        if (is_canonical(text, forms[i], parsed)) {
            *time = parsed;
            return true;
        }
    }
    return false;
}

static struct view without_weakness(struct view etag) {
    return view_starts_with(etag, VIEW("W/")) ? view_skip(etag, 2) : etag;
}

static bool is_same(struct view a, struct view b,
                    enum http_comparison comparison) {
    if (comparison == HTTP_STRONG)
        return view_equal(a, b) && !view_starts_with(a, VIEW("W/"));
    return view_equal(without_weakness(a), without_weakness(b));
}

/* Cuts the list at its commas, also at a comma inside a quoted tag.  The
   server's own tags have no comma, so a tag with a comma matches none. */
bool http_lists_etag(struct view value, struct view etag,
                     enum http_comparison comparison) {
    struct view tag;

    if (view_equal(view_trim(value), VIEW("*")))
        return true;
    while (view_next_element(&value, &tag))
        if (is_same(tag, etag, comparison))
            return true;
    return false;
}

/* Reads a position.  If it is left out, *position is unchanged.  A position may
   have any number of digits: a number that is too large becomes UINT64_MAX. */
static bool parse_position(struct view digits, uint64_t *position) {
    BYTE_SET digit_bytes = {{BYTES('0', '9')}};

    if (view_span(digits, &digit_bytes) < digits.length)
        return false;
    if (digits.length > 0 && !view_number(digits, UINT64_MAX, position))
        *position = UINT64_MAX;
    return true;
}

static bool has_one_element(struct view list, struct view *only) {
    struct view another;

    return view_next_element(&list, only) &&
           !view_next_element(&list, &another);
}

enum http_range http_parse_range(struct view value, uint64_t size,
                                 uint64_t *first, uint64_t *last) {
    static const struct view unit = VIEW_INITIALIZER("bytes=");
    uint64_t low = 0, high = UINT64_MAX;

    if (!view_starts_with_ignoring_case(value, unit) ||
        !has_one_element(view_skip(value, unit.length), &value) ||
        view_find(value, '-') == value.length)
        return HTTP_RANGE_NONE;
    struct view to = value;
    struct view from = view_cut(&to, '-');
    if (from.length + to.length == 0 || !parse_position(from, &low) ||
        !parse_position(to, &high) || high < low)
        return HTTP_RANGE_NONE;
    if (from.length == 0) {        /* "-500": the last 500 bytes */
        if (size == 0 && high > 0) /* no Content-Range can express it */
            return HTTP_RANGE_NONE;
        low = size - MIN(high, size);
        high = UINT64_MAX;
    }
    if (low >= size)
        return HTTP_RANGE_UNSATISFIABLE;
    *first = low;
    *last = high < size ? high : size - 1;
    return HTTP_RANGE_OK;
}
