/* SPDX-License-Identifier: MIT */
/*
 * A page that computes and never waits: 1,001 pseudo-random strings, sorted.
 * In an event loop all other clients wait meanwhile.
 */
#include "app/routes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define STRINGS         1001
#define WORDS_IN_FIRST  1000
#define WORDS_IN_OTHERS 10
#define LONGEST_WORD    10
#define LONGEST_FIRST   (WORDS_IN_FIRST * (LONGEST_WORD + 1))
#define LONGEST_OTHER   (WORDS_IN_OTHERS * (LONGEST_WORD + 1))
#define ROOM            (LONGEST_FIRST + STRINGS * LONGEST_OTHER)
#define SEED            20090401u

/* A linear congruential generator with the constants of the book "Numerical
   Recipes": equal on all machines, so that all servers do the same work. */
static uint32_t next_random(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below; /* the low bits are less random */
}

/* Appends words of one random length, with spaces between them. */
static void append_string(struct buffer *text, uint32_t *state, int words) {
    uint32_t length = 1 + next_random(state, LONGEST_WORD);

    for (int word = 0; word < words; word++) {
        char letters[LONGEST_WORD + 1];
        for (uint32_t i = 0; i < length; i++)
            letters[i] = (char)('a' + next_random(state, 26));
        letters[length] = ' ';
        buffer_append(
            text, (struct view){letters, length + (word + 1 < words ? 1 : 0)});
    }
}

static int compare(const void *a, const void *b) {
    const struct view *left = a;
    const struct view *right = b;
    size_t shorter = MIN(left->length, right->length);
    int order = memcmp(left->data, right->data, shorter);

    if (order != 0)
        return order;
    return (left->length > right->length) - (left->length < right->length);
}

void sorted_page(struct exchange *exchange) {
    struct view strings[STRINGS];
    struct buffer *text = &exchange->kept;
    struct buffer *body = &exchange->response.body;
    uint32_t state = SEED;

    if (!exchange_reserve(exchange, 2 * ROOM))
        return;
    /* If the buffer grew later, its bytes could move away from the views. */
    if (buffer_reserve(text, ROOM) == NULL) {
        buffer_clear(text); /* the response does not need the failed buffer */
        response_error(&exchange->response, 503, "Out of memory.");
        return;
    }
    for (size_t i = 0; i < STRINGS; i++) {
        size_t start = text->length;
        append_string(text, &state, i == 0 ? WORDS_IN_FIRST : WORDS_IN_OTHERS);
        strings[i] = view_slice(buffer_view(text), start, text->length - start);
    }
    qsort(strings, STRINGS, sizeof strings[0], compare);

    response_start(&exchange->response, 200);
    response_page(&exchange->response, VIEW("Sorted strings"));
    buffer_append(body, VIEW("<ol>\n"));
    for (size_t i = 0; i < STRINGS; i++) {
        buffer_append(body, VIEW("<li>"));
        buffer_append(body, strings[i]); /* letters and spaces only */
        buffer_append(body, VIEW("</li>\n"));
    }
    buffer_append(body, VIEW("</ol>\n</html>\n"));
    buffer_free(text);
    (void)exchange_reserve(exchange, body->capacity); /* at most 2*ROOM */
}
