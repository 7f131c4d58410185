/* SPDX-License-Identifier: MIT */
/* The counters of a server: ops/statistics.c. */
#include "app/exchange.h"
#include "harness.h"
#include "ops.h"

static void count(struct counters *counters, int status) {
    struct exchange exchange = {.response.status = status};

    statistics_count(counters, &exchange);
}

/* Each status is counted in one of the five classes. */
TEST(any_status_has_its_class) {
    struct counters *counters = statistics_create(1);

    assert_non_null(counters);
    for (int digit = 1; digit <= 5; digit++)
        count(counters, digit * 100 + 99);
    for (size_t digit = 1; digit <= 5; digit++)
        assert_int_equal(counters->responses[digit], 1);
    count(counters, 0);
    count(counters, 99);
    count(counters, 600);
    count(counters, 700);
    count(counters, 999);
    count(counters, -1);
    assert_int_equal(counters->responses[0], 0);
    assert_int_equal(counters->responses[5], 7);
    assert_int_equal(counters->bytes, 0);
    assert_int_equal(counters->requests, 11);
}
