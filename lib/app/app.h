/* SPDX-License-Identifier: MIT */
/* The data that all requests share.  It does not change after the start. */
#ifndef APP_APP_H
#define APP_APP_H

#include "proto/bytes.h"

#define GUESTBOOK_TEMPLATE "guestbook/index.html"

struct app {
    struct cache *public;
    struct cache *templates;
    struct redirect *redirects; /* a hash table */
};

/* Opens the served files: public/, templates/ and the file `redirects` below
   the root folder.  If something is missing, prints one line and exits 1. */
void app_open(struct app *app, const char *root);
void app_close(struct app *app);

/* Reads a file of lines `path target [status]`; # starts a comment, the status
   is 302 unless given.  A file that does not exist is an empty table.  An error
   prints the file, the line and what to do, and exits 1. */
struct redirect *redirects_load(const char *file);
void redirects_free(struct redirect *redirects);

/* Is this path in the table? */
bool redirect_exists(const struct app *app, struct view path);

#endif
