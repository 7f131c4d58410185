/* SPDX-License-Identifier: MIT */
#include "process/shared.h"

#include "process/log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Each piece begins at a cache line: writes of several cores to one line are
   slow (false sharing). */
#define CACHE_LINE 64

/* Enough for the shared data of a server with a thousand workers.  Only
   the used pages take memory. */
#define ROOM 65536

void *shared_allocate_pages(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        server_fatal("no shared memory (%s); raise the limit", strerror(errno));
    return memory;
}

void *shared_allocate(size_t size) {
    static char *room;
    static size_t used;

    size = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    if (size > ROOM)
        return shared_allocate_pages(size);
    if (room == NULL || size > ROOM - used) {
        room = shared_allocate_pages(ROOM);
        used = 0;
    }
    used += size;
    return room + used - size;
}
