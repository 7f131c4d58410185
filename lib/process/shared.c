/* SPDX-License-Identifier: MIT */
#include "process/shared.h"

#include <sys/mman.h>

/* Each piece begins at the beginning of a cache line: cores that write to the
   same line take it away from each other. */
#define CACHE_LINE 64

/* Enough for all that a server shares, unless it has thousands of workers.
   Only the pages that are used take memory. */
#define ROOM 65536

void *shared_pages(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    return memory;
}

void *shared_memory(size_t size) {
    static char *room;
    static size_t used;

    size = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    if (size > ROOM)
        return shared_pages(size);
    if (room == NULL || size > ROOM - used) {
        room = shared_pages(ROOM);
        used = 0;
    }
    if (room == NULL)
        return NULL;
    used += size;
    return room + used - size;
}
