/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "limits.h"
#include "ops.h"
#include "process/log.h"
#include "process/shared.h"

#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- The limits of the memory ---- */

/* Lowers *least to the number in the file, if it exists and has a number. */
static void read_limit(const char *folder, const char *name, uint64_t *least) {
    char path[PATH_MAX];
    uint64_t limit;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fscanf(file, "%" SCNu64, &limit) == 1 && limit < *least)
        *least = limit;
    fclose(file);
}

/* The limits of all groups above a group also apply to it.  In a container the
   path may be the host's, and may not exist.  Then only the limits at the top
   are read: the limits of the container. */
static void read_limits(const char *root, const char *hierarchy, char *group,
                        uint64_t *least) {
    char folder[PATH_MAX];

    for (;;) {
        if (snprintf(folder, sizeof folder, "%s%s%s", root, hierarchy, group) >=
            PATH_MAX)
            return;
        read_limit(folder, "memory.max", least);            /* version 2 */
        read_limit(folder, "memory.high", least);           /* version 2 */
        read_limit(folder, "memory.limit_in_bytes", least); /* version 1 */
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup is number:controllers:path (cgroups(7)).  Lines
   of version 2 have the number 0 and name no controller. */
static void read_group(const char *root, char *line, uint64_t *least) {
    char *rest = line;
    const char *number = strsep(&rest, ":");
    char *controllers = strsep(&rest, ":");
    char *controller;

    if (rest == NULL)
        return;
    rest[strcspn(rest, "\n")] = '\0';
    if (strcmp(number, "0") == 0 && *controllers == '\0')
        read_limits(root, "/sys/fs/cgroup", rest, least);
    while ((controller = strsep(&controllers, ",")) != NULL)
        if (strcmp(controller, "memory") == 0)
            read_limits(root, "/sys/fs/cgroup/memory", rest, least);
}

uint64_t memory_granted(const char *root) {
    uint64_t least =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char path[PATH_MAX], line[PATH_MAX + 256];

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return least;
    while (fgets(line, sizeof line, file) != NULL)
        read_group(root, line, &least);
    fclose(file);
    return least;
}

/* Returns the lower of RLIMIT_AS and RLIMIT_DATA, which limit each process. */
static size_t memory_of_process(void) {
    size_t least = SIZE_MAX;
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) == 0)
        least = (size_t)MIN(least, limit.rlim_cur);
    if (getrlimit(RLIMIT_DATA, &limit) == 0)
        least = (size_t)MIN(least, limit.rlim_cur);
    return least;
}

/* ---- The clients for which there is memory ---- */

/* Allocates memory as a test; memory that is not touched costs nothing. */
static bool try_to_allocate(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    munmap(memory, size);
    return true;
}

/* If memory is limited (ulimit -v, -d), all threads share one heap
   (M_ARENA_MAX): otherwise glibc would reserve 64 MB of addresses for each
   further heap.  A large block makes this heap grow now, by M_TOP_PAD more. */
static void reserve_heap(void) {
#if defined(M_ARENA_MAX) && defined(M_TOP_PAD)
    if (memory_of_process() == SIZE_MAX) /* no limit */
        return;
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TOP_PAD, RESERVED_MEMORY);
    void *volatile block = malloc(HEAP_BLOCK); /* volatile: the compiler keeps
                                                  both calls */
    free(block);
#endif
}

/* The granted memory: read once, because a confined server cannot read it. */
static uint64_t granted;

void memory_init(size_t workers) {
    granted = memory_granted("");
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
#endif
    budget_init((size_t)MIN(granted, SIZE_MAX) / MEMORY_SHARE,
                memory_of_process() / MEMORY_SHARE,
                shared_allocate(workers * sizeof(_Atomic size_t)), workers);
}

void memory_require(size_t size) {
    if (!try_to_allocate(size + RESERVED_MEMORY))
        server_fatal("cannot allocate the %zu bytes that one client and "
                     "the reserve need; raise the limit (ulimit -v, -d)",
                     size + RESERVED_MEMORY);
}

/* All clients together may take half of the memory. */
size_t limit_by_memory(size_t most, size_t each, size_t real) {
    uint64_t own = each > 0 ? memory_of_process() : granted;
    uint64_t clients = MIN(own, granted) / 2 / real;

    most = (size_t)MIN(most, MAX(clients, 1));
    while (each > 0 && most > 1 &&
           !try_to_allocate(most * each + RESERVED_MEMORY))
        most -= most / 32 + 1;
    memory_require(each);
    reserve_heap();
    return most;
}

/* ---- Memory that is returned to the kernel ---- */

/* Of the heap, free(3) returns only the unused end to the kernel;
   malloc_trim(3) also returns free pages elsewhere.  musl keeps few pages. */
int64_t memory_trim(unsigned *exchanges, bool busy, int64_t now) {
    static int64_t next_at; /* the earliest time of the next trim */

    if (*exchanges < TRIM_AFTER || busy)
        return INT64_MAX;
    if (now < next_at)
        return next_at;
#ifdef __GLIBC__
    malloc_trim(TRIM_PAD);
#endif
    *exchanges = 0;
    next_at = now + TRIM_INTERVAL;
    return INT64_MAX;
}
