/* SPDX-License-Identifier: MIT */
/*
 * Responses, parsed from the bytes that were sent, by other code than the
 * code that wrote them.
 */
#ifndef FUZZ_ANSWERS_H
#define FUZZ_ANSWERS_H

#include "proto/bytes.h"

struct answer {
    bool continued;   /* a "100 Continue" came before it */
    int status;       /* of the final response, as all that follows */
    bool closes;      /* Connection: close */
    bool keeps;       /* Connection: keep-alive */
    struct view head; /* status line and fields */
    struct view body;
};

/*
 * Reads the only response in the bytes, with the interim one before it; aborts
 * if they hold anything else: RFC 9112, section 4 and 6, RFC 9110, sections 8.6
 * and 9.3.2.
 */
struct answer read_answer(struct view bytes, bool is_head);

/* The value of the only field of that name; data == NULL: there is none. */
struct view answer_field(const struct answer *answer, struct view name);

bool view_contains(struct view view, struct view part);

#endif
