/* SPDX-License-Identifier: MIT */
/*
 * Parses responses from the bytes that were sent.  It does not use the code
 * that made them.
 */
#ifndef FUZZ_ANSWERS_H
#define FUZZ_ANSWERS_H

#include "proto/bytes.h"

struct answer {
    bool continued;   /* a "100 Continue" came before it */
    int status;       /* of the final response, like all members below */
    bool closes;      /* Connection: close */
    bool keeps;       /* Connection: keep-alive */
    struct view head; /* status line and fields */
    struct view body;
};

/*
 * Reads the only response in the bytes, with an interim response before it.
 * Aborts if there is anything else: RFC 9112, sections 4 and 6, RFC 9110,
 * sections 8.6 and 9.3.2.
 */
struct answer read_answer(struct view bytes, bool is_head);

/* Returns the value of the only field of that name; data == NULL: there is
   none. */
struct view answer_field(const struct answer *answer, struct view name);

bool view_contains(struct view view, struct view part);

#endif
