/* SPDX-License-Identifier: MIT */
/*
 * Which handler answers which path.  A new page is one handler and one row in
 * the table of routes.c.
 */
#ifndef APP_ROUTES_H
#define APP_ROUTES_H

#include "app/page.h"

/*
 * Returns the handler for that method and path; HEAD is handled as GET.  NULL
 * if there is none: *allowed is then the value of the Allow field, or empty if
 * the method is unknown.
 */
page_handler *routes_find(const struct app *app, enum http_method method,
                          const struct path *path, struct view *allowed);

/* The methods that some path allows: the answer to OPTIONS *. */
extern const struct view routes_methods;

#endif
