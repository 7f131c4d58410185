/* SPDX-License-Identifier: MIT */
/*
 * The functions of ops.h in their simplest form, for `make plain`: a server
 * without ops/.  The heading of each section says what differs from ops/.
 */
#include "ops.h"
#include "net/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Many of these functions do not use their parameters. */
/* NOLINTBEGIN(misc-unused-parameters) */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* ---- The start: no rights are dropped, no limit is raised ---- */

void ops_start(size_t workers, bool log) {
}

void ops_confine_files(bool confined, const char *root, int redis_port) {
}

const char *ops_confine_calls(bool confined, const struct call *calls) {
    return "no (make plain)";
}

void ops_print_calls(const struct call *calls) {
    puts("all");
}

void ops_end(void) {
}

/* ---- Limits: only of descriptors; memory counts as unlimited ---- */

size_t limit_by_descriptors(size_t served, size_t more) {
    size_t room = (size_t)sysconf(_SC_OPEN_MAX) / 2;
    return room > more + 1 ? room / (more + 1) : 1;
}

size_t limit_by_memory(size_t most, size_t each, size_t real) {
    return most;
}

void shortage_report(const char *what) {
    int error = errno;

    log_line(NULL, "out of %s (%s)", what, strerror(error));
    errno = error;
}

bool shortage_is_recent(void) {
    return false;
}

/* ---- Memory: no budget, and no malloc_trim(3) ---- */

bool budget_change(size_t old, size_t new) {
    return true;
}

void budget_set_slot(size_t slot) {
}

void budget_reset(size_t slot) {
}

int64_t memory_trim(unsigned *exchanges, bool busy, int64_t now) {
    return INT64_MAX;
}

/* ---- Files: opened and read for each request ---- */

struct cache {
    int folder;
    bool texts;
};

struct cache *cache_create(int folder, bool texts) {
    struct cache *cache = malloc(sizeof *cache);

    if (cache != NULL)
        *cache = (struct cache){folder, texts};
    return cache;
}

void cache_destroy(struct cache *cache) {
    close(cache->folder);
    free(cache);
}

struct file *cache_borrow(struct cache *cache, const char *name,
                          unsigned round) {
    struct stat status;

    if (fstatat(cache->folder, name, &status, 0) < 0)
        return NULL;
    return file_open(cache->folder, name, &status, cache->texts);
}

void cache_return(struct file *file) {
    file_close(file);
}

/* ---- Printing: the server waits for a slow reader ---- */

void output_line(int descriptor, const char *line, size_t length) {
    output_text(descriptor, line, length);
}

void output_text(int descriptor, const char *text, size_t length) {
    while (length > 0) {
        ssize_t count = write(descriptor, text, length);
        if (count < 0 && errno != EINTR)
            return;
        if (count > 0) {
            text += count;
            length -= (size_t)count;
        }
    }
}

/* ---- Statistics: requests only ---- */

struct counters *statistics_create(size_t workers) {
    return shared_allocate(workers * sizeof(struct counters));
}

void statistics_count(struct counters *counters,
                      const struct exchange *exchange) {
    atomic_fetch_add_explicit(&counters->requests, 1, memory_order_relaxed);
}

void statistics_print(const struct server *server, FILE *stream) {
    uint64_t requests = 0;

    for (size_t i = 0; i < server->options.workers; i++)
        requests += server->counters[i].requests;
    fprintf(stream, "requests      %" PRIu64 "\n", requests);
}

/* ---- Redis has no free connection: an error like any other ---- */

bool redis_report_rejection(const struct redis_server *server,
                            const struct resp_reply *reply, int64_t now) {
    return false;
}

bool redis_report_shortage(const struct redis_server *server, int64_t now) {
    return false;
}

bool redis_is_scarce(int64_t now) {
    return false;
}

/* NOLINTEND(misc-unused-parameters) */
