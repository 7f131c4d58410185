/* SPDX-License-Identifier: MIT */
/*
 * Parses the bytes of responses, independently of the code that made them.
 */
#pragma once

#include "proto/bytes.h"

struct answer {
    bool continued;   /* a "100 Continue" came before the final response */
    int status;       /* this and all members below: of the final response */
    bool closes;      /* Connection: close */
    bool keeps;       /* Connection: keep-alive */
    struct view head; /* status line and fields */
    struct view body;
};

/*
 * Returns the only response in the bytes, perhaps after an interim response.
 * Aborts if the bytes are anything else (RFC 9112, sections 4 and 6; RFC 9110,
 * sections 8.6 and 9.3.2).
 */
struct answer read_answer(struct view bytes, bool is_head);

/* Returns the value of a field, which must not occur twice; data == NULL: there
   is no such field. */
struct view answer_field(const struct answer *answer, struct view name);

bool view_contains(struct view view, struct view part);
