/* SPDX-License-Identifier: MIT */
/* Redirects: a table from a file, and short links from Redis. */
#ifndef APP_REDIRECT_H
#define APP_REDIRECT_H

#include "app/page.h"

/*
 * Reads a file of lines `path target [status]`; # starts a comment, the status
 * is 302 unless given.  A file that does not exist is an empty table.  Returns
 * 0, or -1 with a sentence in `error`: the file, the line and what to do.
 */
int redirects_load(const char *file, struct redirect **redirects, char *error,
                   size_t size);
void redirects_free(struct redirect *redirects);

/* Is this path in the table? */
bool redirect_exists(const struct app *app, const struct path *path);

page_handler redirect_page; /* a path in the table */
page_handler link_page;     /* GET /go/NAME: the target is at link:NAME */

#endif
