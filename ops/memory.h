/* SPDX-License-Identifier: MIT */
/* The memory that this server may use. */
#ifndef OPS_MEMORY_H
#define OPS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The memory that all processes of the server together may use, in bytes.  It
 * is the least of the machine's memory and the limits of the control group
 * (versions 1 and 2) and its parents.  `root` is put before each path that is
 * read: "" except in a test.
 */
uint64_t memory_granted(const char *root);

/* The limit of each process: the lower of RLIMIT_AS and RLIMIT_DATA. */
size_t memory_of_process(void);

/* Reads and returns the granted memory, before the server confines itself.

   From now on the C library returns each block of LARGE_BLOCK bytes or more to
   the kernel as soon as it is freed.  By default it returns only the first such
   blocks, and keeps later ones of the same size (mallopt(3),
   M_MMAP_THRESHOLD). */
size_t memory_init(void);

/* If there is no room for so many bytes and RESERVED_MEMORY, prints that and
   exits 1: a server that starts can answer. */
void memory_need(size_t size);

#endif
