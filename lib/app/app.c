/* SPDX-License-Identifier: MIT */
#include "app/app.h"

#include "app/guestbook.h"
#include "app/redirect.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct cache *open_folder(const char *root, const char *name, bool texts,
                                 char *error, size_t size) {
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s/%s", root, name);
    struct cache *cache = cache_create(folder, texts);
    if (cache == NULL)
        snprintf(error, size,
                 "cannot open the folder %s (%s); give --root the folder that "
                 "holds public/ and templates/",
                 folder, strerror(errno));
    return cache;
}

/* Reads the template now: a server that cannot show the guestbook must not
   start, and a forked child finds it in memory. */
static int check_template(struct app *app, const char *root, char *error,
                          size_t size) {
    struct file *file = cache_borrow(app->templates, GUESTBOOK_TEMPLATE, 0);

    /* openat2(2) itself never returns EPERM for a file that may not be read. */
    if (file == NULL && (errno == ENOSYS || errno == EPERM)) {
        snprintf(
            error, size,
            "openat2(2), which opens all files, is refused (%s); use Linux "
            "5.6 or newer, and allow it in the container's seccomp profile",
            strerror(errno));
        return -1;
    }
    if (file == NULL) {
        snprintf(error, size,
                 "cannot read the template %s/templates/%s (%s); put it there, "
                 "or give another --root",
                 root, GUESTBOOK_TEMPLATE, strerror(errno));
        return -1;
    }
    cache_return(app->templates, file);
    return 0;
}

int app_open(struct app *app, const char *root, char *error, size_t size) {
    char redirects[PATH_MAX];

    *app = (struct app){0};
    app->public = open_folder(root, "public", false, error, size);
    if (app->public == NULL)
        return -1;
    app->templates = open_folder(root, "templates", true, error, size);
    snprintf(redirects, sizeof redirects, "%s/redirects", root);
    if (app->templates == NULL || check_template(app, root, error, size) < 0 ||
        redirects_load(redirects, &app->redirects, error, size) < 0) {
        app_close(app);
        return -1;
    }
    return 0;
}

void app_close(struct app *app) {
    redirects_free(app->redirects);
    if (app->templates != NULL)
        cache_destroy(app->templates);
    if (app->public != NULL)
        cache_destroy(app->public);
    *app = (struct app){0};
}
