/* SPDX-License-Identifier: MIT */
#include "app/routes.h"

#include "app/files.h"
#include "app/guestbook.h"
#include "app/redirect.h"
#include "app/sorted.h"

struct route {
    struct view path; /* if it ends in a slash, it matches all paths below it */
    page_handler *get;
    page_handler *post;
};

const struct view routes_methods = VIEW_INITIALIZER("GET, HEAD, POST, OPTIONS");

/* The first row that matches is used.  All other paths are files. */
static const struct route routes[] = {
    {VIEW_INITIALIZER("/guestbook"), guestbook_show, guestbook_sign},
    {VIEW_INITIALIZER("/sorted"), sorted_page, NULL},
    {VIEW_INITIALIZER("/go/"), link_page, NULL},
    {VIEW_INITIALIZER("/"), files_page, NULL},
};

static const struct route redirected = {VIEW_INITIALIZER("/"), redirect_page,
                                        redirect_page};

static bool fits(const struct route *route, struct view path) {
    if (route->path.data[route->path.length - 1] == '/')
        return view_starts_with(path, route->path);
    return view_equal(path, route->path);
}

static const struct route *find(const struct app *app,
                                const struct path *path) {
    const struct route *route = routes;

    if (redirect_exists(app, path))
        return &redirected;
    while (!fits(route, path_view(path)))
        route++; /* ends at the row for "/", with which every path starts */
    return route;
}

page_handler *routes_find(const struct app *app, enum http_method method,
                          const struct path *path, struct view *allowed) {
    const struct route *route = find(app, path);

    *allowed =
        route->post == NULL ? VIEW("GET, HEAD, OPTIONS") : routes_methods;
    switch (method) {
    case HTTP_GET:
    case HTTP_HEAD:
        return route->get;
    case HTTP_POST:
        return route->post;
    case HTTP_OPTIONS:
    case HTTP_OTHER:
        return NULL;
    case HTTP_UNKNOWN:
        break;
    }
    *allowed = VIEW("");
    return NULL;
}
