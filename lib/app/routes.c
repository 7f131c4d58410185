/* SPDX-License-Identifier: MIT */
#include "app/routes.h"

#include "app/app.h"
#include "config.h"
#include "proto/path.h"

struct route {
    struct view path; /* if it ends in a slash, it matches all paths below it */
    handler *get;
    handler *post;
};

/* The methods that some path allows. */
static const struct view all_methods =
    VIEW_INITIALIZER("GET, HEAD, POST, OPTIONS");

/* The first row that matches is used.  All other paths are files. */
static const struct route routes[] = {
    {VIEW_INITIALIZER("/guestbook"), guestbook_show, guestbook_sign},
    {VIEW_INITIALIZER("/sorted"), sorted_page, NULL},
    {VIEW_INITIALIZER("/go/"), link_page, NULL},
    {VIEW_INITIALIZER("/"), files_page, NULL},
};

static const struct route redirected = {VIEW_INITIALIZER("/"), redirect_page,
                                        redirect_page};

static bool route_matches(const struct route *route, struct view path) {
    if (route->path.data[route->path.length - 1] == '/')
        return view_starts_with(path, route->path);
    return view_equal(path, route->path);
}

static const struct route *find_route(const struct app *app, struct view path) {
    const struct route *route = routes;

    if (redirect_exists(app, path))
        return &redirected;
    while (!route_matches(route, path))
        route++; /* ends at the row for "/", with which every path starts */
    return route;
}

/* Returns the handler for that method and path; HEAD is handled as GET.  NULL
   if there is none: *allowed is then the value of the Allow field, or empty if
   the method is unknown. */
static handler *find_handler(const struct app *app, enum http_method method,
                             struct view path, struct view *allowed) {
    const struct route *route = find_route(app, path);

    *allowed = route->post == NULL ? VIEW("GET, HEAD, OPTIONS") : all_methods;
    if (method == HTTP_UNKNOWN)
        *allowed = VIEW("");
    if (method == HTTP_GET || method == HTTP_HEAD)
        return route->get;
    return method == HTTP_POST ? route->post : NULL;
}

/* Makes the response if there is no handler: to OPTIONS, which asks what is
   allowed, and to methods that are not allowed or not known.  The server does
   not wait for a body, because it would not be used. */
static void answer_without_handler(struct exchange *exchange,
                                   struct view allowed) {
    struct response *response = &exchange->response;

    if (exchange->request.method == HTTP_OPTIONS)
        response_start(response, 204);
    else if (allowed.length > 0)
        response_error(response, 405,
                       "This method is not allowed for this address.");
    else
        response_error(response, 501, "This server does not know this method.");
    if (allowed.length > 0)
        response_field(response, VIEW("Allow"), allowed);
    exchange->unread = exchange->request.body != HTTP_NO_BODY;
}

bool routes_choose(struct exchange *exchange) {
    const struct http_request *request = &exchange->request;
    struct view allowed;

    if (view_equal(request->path, VIEW("*"))) {
        answer_without_handler(exchange, all_methods);
        return false;
    }
    int result = path_decode(request->path, &exchange->path);
    if (result < 0) {
        exchange_reject(exchange, -result,
                        result == -414   ? "The path is too long."
                        : result == -503 ? "The server is short of memory."
                                         : "The path is malformed.");
        return false;
    }
    exchange->handler = find_handler(exchange->app, request->method,
                                     buffer_view(&exchange->path), &allowed);
    if (exchange->handler == NULL) {
        answer_without_handler(exchange, allowed);
        return false;
    }
    if (request->body == HTTP_LENGTH_BODY &&
        request->content_length > BODY_LIMIT) {
        exchange_reject(exchange, 413, "The request's body is too long.");
        return false;
    }
    return true;
}
