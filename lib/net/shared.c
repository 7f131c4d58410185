/* SPDX-License-Identifier: MIT */
#include "net/shared.h"

#include <sys/mman.h>

void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    return memory;
}
