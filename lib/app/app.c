/* SPDX-License-Identifier: MIT */
#include "app/app.h"

#include "ops.h"
#include "process/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct cache *open_folder(const char *root, const char *name,
                                 bool texts) {
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s/%s", root, name);
    int descriptor = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct cache *cache =
        descriptor < 0 ? NULL : cache_create(descriptor, texts);
    if (cache == NULL)
        server_fatal("cannot open the folder %s (%s); give --root the folder "
                     "that holds public/ and templates/",
                     folder, strerror(errno));
    return cache;
}

/* Reads the template when the server starts.  A server that cannot show the
   guestbook must not start.  Forked children inherit the template in memory. */
static void check_template(struct app *app, const char *root) {
    struct file *file = cache_borrow(app->templates, GUESTBOOK_TEMPLATE, 0);

    /* EPERM means that a filter of system calls rejected the call.  For an
       unreadable file openat2(2) returns EACCES. */
    if (file == NULL && (errno == ENOSYS || errno == EPERM))
        server_fatal(
            "openat2(2), which opens all files, is refused (%s); use Linux "
            "5.6 or newer, and allow it in the container's seccomp profile",
            strerror(errno));
    if (file == NULL)
        server_fatal("cannot read the template %s/templates/%s (%s); put it "
                     "there, or give another --root",
                     root, GUESTBOOK_TEMPLATE, strerror(errno));
    cache_return(file);
}

void app_open(struct app *app, const char *root) {
    char redirects[PATH_MAX];

    app->public = open_folder(root, "public", false);
    app->templates = open_folder(root, "templates", true);
    check_template(app, root);
    snprintf(redirects, sizeof redirects, "%s/redirects", root);
    app->redirects = redirects_load(redirects);
}

void app_close(struct app *app) {
    redirects_free(app->redirects);
    cache_destroy(app->templates);
    cache_destroy(app->public);
}
