/* SPDX-License-Identifier: MIT */
/* Memory for objects of one size: ops/slab.c. */
#include "harness.h"
#include "ops.h"

#include <stdint.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { SIZE = 24, PER_BLOCK = 4, PLACES = 11 }; /* not all of the last block */

static void fill(struct slab *slab, char *places[PLACES]) {
    for (int i = 0; i < PLACES; i++) {
        places[i] = slab_take(slab);
        assert_non_null(places[i]);
        assert_int_equal((uintptr_t)places[i] % _Alignof(max_align_t), 0);
        for (int byte = 0; byte < SIZE; byte++)
            assert_int_equal(places[i][byte], 0);
        memset(places[i], i + 1, SIZE);
    }
}

TEST(slots_do_not_overlap) {
    char *places[PLACES];
    struct slab slab;

    slab_init(&slab, SIZE, PER_BLOCK);
    fill(&slab, places);
    for (int i = 0; i < PLACES; i++)
        for (int byte = 0; byte < SIZE; byte++)
            assert_int_equal(places[i][byte], i + 1);
    slab_free(&slab);
}

/* Returned slots are used again, all zero, before a new block is allocated. */
TEST(places_are_used_again) {
    char *places[PLACES], *again[PLACES];
    struct slab slab;

    slab_init(&slab, SIZE, PER_BLOCK);
    fill(&slab, places);
    const struct slab_block *newest = slab.blocks;
    size_t unused = slab.unused;
    for (int i = 0; i < PLACES; i++)
        slab_give_back(&slab, places[i]);
    fill(&slab, again);
    for (int i = 0; i < PLACES; i++)
        assert_ptr_equal(again[PLACES - 1 - i], places[i]);
    assert_ptr_equal(slab.blocks, newest);
    assert_int_equal(slab.unused, unused);
    slab_free(&slab);
}

/* Only in a build for the address sanitizer; otherwise there is no check. */
TEST(a_free_place_is_poisoned) {
#ifdef __SANITIZE_ADDRESS__
    struct slab slab;

    slab_init(&slab, SIZE, PER_BLOCK);
    char *place = slab_take(&slab);
    assert_false(__asan_address_is_poisoned(place + SIZE - 1));
    slab_give_back(&slab, place);
    assert_true(__asan_address_is_poisoned(place + SIZE - 1));
    slab_free(&slab);
#else
    skip();
#endif
}

/* The slab can be used again after slab_free(). */
TEST(after_the_end_it_is_as_at_the_start) {
    char *places[PLACES];
    struct slab slab;

    slab_init(&slab, SIZE, PER_BLOCK);
    slab_free(&slab);
    fill(&slab, places);
    slab_give_back(&slab, places[0]);
    slab_free(&slab);
    fill(&slab, places);
    slab_free(&slab);
}
