/* SPDX-License-Identifier: MIT */
/*
 * Memory for many things of one size that live long.
 *
 * If each had its own piece of the heap, it would lie next to things that live
 * for one request only.  After a crowd one would remain on every page, and no
 * page could go back to the kernel: 15,000 idle connections held 2 KB each, of
 * which they used 0.8.  So such things come in blocks, apart from the rest, and
 * the blocks stay until the end.  (The name and the idea: Jeff Bonwick, "The
 * Slab Allocator", USENIX Summer 1994.)
 */
#ifndef PROCESS_SLAB_H
#define PROCESS_SLAB_H

#include <stddef.h>

struct slab {
    size_t size;               /* of one place, in bytes */
    size_t per_block;          /* how many come at once */
    struct slab_block *blocks; /* the newest first */
    size_t unused;             /* how many of the newest were never taken */
    struct spare_place *spare; /* used ones that are free again */
};

void slab_init(struct slab *slab, size_t size, size_t per_block);

/* Takes a place, all zero; NULL: there is no memory. */
void *slab_take(struct slab *slab);

/* The place must not be used any more. */
void slab_give_back(struct slab *slab, void *place);

/* Frees all places, taken or not. */
void slab_free(struct slab *slab);

#endif
