/* SPDX-License-Identifier: MIT */
/* Data that all requests share; the fields do not change after the start. */
#pragma once

#include "proto/bytes.h"

#define GUESTBOOK_TEMPLATE "guestbook/index.html"

struct app {
    struct cache *public;
    struct cache *templates;
    struct redirect *redirects; /* a hash table */
};

/* Opens the folders public/ and templates/ below the root folder, and reads the
   file `redirects`, if it exists.  An error prints one line and exits 1. */
void app_open(struct app *app, const char *root);
void app_close(struct app *app);

/* Reads a file of lines `path target [status]`; # starts a comment; the default
   status is 302.  If the file does not exist, the table is empty.  After an
   error, prints the file, the line and the reason, and exits 1. */
struct redirect *redirects_load(const char *file);
void redirects_free(struct redirect *redirects);

/* Is this path in the table of redirects? */
bool redirect_exists(const struct app *app, struct view path);
