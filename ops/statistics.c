/* SPDX-License-Identifier: MIT */
/* Counts requests, for all processes of a server, and prints the sums. */
#include "net/server.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Opened at the start, because a confined server cannot open this file. */
static int own_status = -1;

struct counters *statistics_create(size_t workers) {
    own_status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    return shared_allocate_pages(workers * sizeof(struct counters));
}

static void add(_Atomic uint64_t *counter, uint64_t count) {
    atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

/* Returns the first digit of a status.  RFC 9110, section 15: a status outside
   of 100 to 599 counts as 500, as clients count it. */
static size_t class_of(int status) {
    return status >= 100 && status <= 599 ? (size_t)status / 100 : 5;
}

void statistics_count(struct counters *counters,
                      const struct exchange *exchange) {
    add(&counters->requests, 1);
    add(&counters->responses[class_of(exchange->response.status)], 1);
    add(&counters->bytes, exchange->sent);
    if (exchange->continued) {
        add(&counters->responses[1], 1);
        add(&counters->bytes, exchange_continue.length);
    }
}

static double seconds(struct timeval a, struct timeval b) {
    return (double)(a.tv_sec + b.tv_sec) +
           (double)(a.tv_usec + b.tv_usec) / 1e6;
}

/* Returns the peak memory of this process, in KiB.  The value of getrusage(2)
   also includes the program that called exec. */
static long peak_memory(void) {
    char text[4096];
    ssize_t length = pread(own_status, text, sizeof text - 1, 0);

    text[length > 0 ? length : 0] = '\0';
    const char *peak = strstr(text, "VmHWM:");
    return peak == NULL ? 0 : strtol(peak + 6, NULL, 10);
}

static void print_resources(uint64_t requests, FILE *stream) {
    struct rusage self, children;

    /* A child's time counts only after wait().  The sum of user and system time
       is exact; many kernels only estimate each of them, at clock ticks. */
    if (getrusage(RUSAGE_SELF, &self) < 0 ||
        getrusage(RUSAGE_CHILDREN, &children) < 0)
        return;
    double user = seconds(self.ru_utime, children.ru_utime);
    double system = seconds(self.ru_stime, children.ru_stime);
    long peak = peak_memory();
    if (peak < children.ru_maxrss)
        peak = children.ru_maxrss;
    fprintf(stream, "cpu           user %.3f s  system %.3f s\n", user, system);
    if (requests > 0)
        fprintf(stream, "cpu/request   %.1f us\n",
                (user + system) * 1e6 / (double)requests);
    fprintf(stream, "peak memory   %.1f MB (largest process)\n",
            (double)peak / 1024);
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* Prints the distribution of requests over the workers. */
static void print_workers(const struct counters *counters, size_t workers,
                          FILE *stream) {
    uint64_t *requests = malloc(workers * sizeof requests[0]);
    size_t idle = 0;

    if (requests == NULL)
        return;
    for (size_t i = 0; i < workers; i++)
        requests[i] = counters[i].requests;
    qsort(requests, workers, sizeof requests[0], compare);
    while (idle < workers && requests[idle] == 0)
        idle++;
    fprintf(stream,
            "per worker    least %" PRIu64 "  median %" PRIu64 "  most %" PRIu64
            "  idle %zu\n",
            requests[0], requests[workers / 2], requests[workers - 1], idle);
    free(requests);
}

void statistics_print(const struct server *server, FILE *stream) {
    const struct counters *counters = server->counters;
    size_t workers = server->options.workers;
    uint64_t requests = 0, bytes = 0, responses[6] = {0};

    for (size_t i = 0; i < workers; i++) {
        requests += counters[i].requests;
        bytes += counters[i].bytes;
        for (size_t digit = 1; digit < 6; digit++)
            responses[digit] += counters[i].responses[digit];
    }
    fprintf(stream, "requests      %" PRIu64 "\nresponses   ", requests);
    for (size_t digit = 1; digit < 6; digit++)
        fprintf(stream, "  %zuxx %" PRIu64, digit, responses[digit]);
    fprintf(stream, "\nbytes         %" PRIu64 "\n", bytes);
    print_resources(requests, stream);
    if (!server->architecture->has_workers)
        return;
    print_workers(counters, workers, stream);
    for (size_t i = 0; server->options.each_worker && i < workers; i++)
        fprintf(stream, "worker %-5zu  %" PRIu64 "\n", i + 1,
                counters[i].requests);
}
