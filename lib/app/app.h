/* SPDX-License-Identifier: MIT */
/* The application as a whole: opened once, at the start. */
#ifndef APP_APP_H
#define APP_APP_H

#include "app/page.h"

/*
 * Opens what is served: public/, templates/ and the file `redirects` below
 * the root folder.  Returns 0, or -1 with a sentence in `error` that says what
 * is missing and what to do.
 */
int app_open(struct app *app, const char *root, char *error, size_t size);
void app_close(struct app *app);

#endif
