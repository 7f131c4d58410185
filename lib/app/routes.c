/* SPDX-License-Identifier: MIT */
#include "app/routes.h"

#include "app/app.h"
#include "config.h"
#include "proto/encoding.h"

struct route {
    struct view path; /* if it ends in a slash, it matches all paths below it */
    handler *get;
    handler *post;
};

/* The first row that matches is used.  The last one matches every path. */
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
        route++; /* ends at the row "/", which matches every path */
    return route;
}

/* Makes the response to OPTIONS, which asks for the allowed methods, and to
   methods that are not allowed or unknown.  The server does not wait for a
   body.  If the route is NULL, the request is about the whole server. */
static void answer_without_handler(struct exchange *exchange,
                                   const struct route *route) {
    struct response *response = &exchange->response;
    enum http_method method = exchange->request.method;

    exchange->unread = exchange->request.body != HTTP_NO_BODY;
    if (method == HTTP_UNKNOWN) {
        response_error(response, 501, "This server does not know this method.");
        return;
    }
    if (method == HTTP_OPTIONS)
        response_start(response, 204);
    else
        response_error(response, 405,
                       "This method is not allowed for this address.");
    response_field(response, VIEW("Allow"),
                   route == NULL || route->post != NULL
                       ? VIEW("GET, HEAD, POST, OPTIONS")
                       : VIEW("GET, HEAD, OPTIONS"));
}

/* Returns the handler for that method; NULL: the route does not allow it. */
static handler *handler_for(const struct route *route,
                            enum http_method method) {
    if (method == HTTP_GET || method == HTTP_HEAD)
        return route->get;
    return method == HTTP_POST ? route->post : NULL;
}

bool routes_choose(struct exchange *exchange) {
    const struct http_request *request = &exchange->request;

    if (view_equal(request->path, VIEW("*"))) {
        answer_without_handler(exchange, NULL);
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
    const struct route *route =
        find_route(exchange->app, buffer_view(&exchange->path));
    exchange->handler = handler_for(route, request->method);
    if (exchange->handler == NULL) {
        answer_without_handler(exchange, route);
        return false;
    }
    if (request->body == HTTP_LENGTH_BODY &&
        request->content_length > BODY_LIMIT) {
        exchange_reject(exchange, 413, "The request's body is too long.");
        return false;
    }
    return true;
}
