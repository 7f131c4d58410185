/* SPDX-License-Identifier: MIT */
#include "process/slab.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Reports to the address sanitizer which places are free, so that it still
   finds code that uses one. */
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size)   (void)(start)
#define ASAN_UNPOISON_MEMORY_REGION(start, size) (void)(start)
#endif

struct slab_block {
    struct slab_block *next;
    _Alignas(max_align_t) char places[];
};

/* A free place holds a pointer to the next free one. */
struct spare_place {
    struct spare_place *next;
};

void slab_init(struct slab *slab, size_t size, size_t per_block) {
    size_t unit = _Alignof(max_align_t);

    *slab = (struct slab){.size = (size + unit - 1) / unit * unit,
                          .per_block = per_block};
}

void *slab_take(struct slab *slab) {
    struct spare_place *spare = slab->spare;

    if (spare != NULL) {
        ASAN_UNPOISON_MEMORY_REGION(spare, slab->size);
        LL_DELETE(slab->spare, spare);
        return memset(spare, 0, slab->size);
    }
    if (slab->unused == 0) {
        struct slab_block *block =
            calloc(1, sizeof *block + slab->per_block * slab->size);
        if (block == NULL)
            return NULL;
        LL_PREPEND(slab->blocks, block);
        slab->unused = slab->per_block;
    }
    return slab->blocks->places + --slab->unused * slab->size;
}

void slab_give_back(struct slab *slab, void *place) {
    struct spare_place *spare = place;

    LL_PREPEND(slab->spare, spare);
    ASAN_POISON_MEMORY_REGION(spare + 1, slab->size - sizeof *spare);
}

void slab_free(struct slab *slab) {
    struct slab_block *block;

    while ((block = slab->blocks) != NULL) {
        slab->blocks = block->next;
        free(block);
    }
    *slab = (struct slab){.size = slab->size, .per_block = slab->per_block};
}
