/* SPDX-License-Identifier: MIT */
/* The table of paths and their handlers.  A new page needs a handler (see
   exchange.h), and a row in the table of routes.c. */
#pragma once

#include "app/exchange.h"

handler files_page;     /* a file below public/ */
handler guestbook_show; /* GET: three replies of Redis */
handler guestbook_sign; /* POST: one reply; three to show the form again */
handler link_page;      /* GET /go/NAME: the target is at link:NAME in Redis */
handler redirect_page;  /* a path in the table of redirects */
handler sorted_page;    /* computes, and never waits */

/* Chooses the handler when the head of the request has come.  Returns false if
   it has made the response itself, so that no handler must be called. */
bool routes_choose(struct exchange *exchange);
