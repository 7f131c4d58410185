/* SPDX-License-Identifier: MIT */
#include "process/descriptors.h"

#include "config.h"
#include "process/trouble.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* How many there may be; asked for once, because it costs a system call. */
static size_t descriptors;

/* Any descriptor will do. One with O_PATH can neither be read nor written
   (EBADF), and "/" is there also where a container has no /dev/null. */
void descriptors_open_standard(void) {
    int descriptor;

    do {
        descriptor = open("/", O_PATH);
    } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor < 0)
        server_give_up("cannot open a descriptor (%s); allow more (ulimit -n)",
                       strerror(errno));
    close(descriptor);
}

void descriptors_raise_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        server_give_up("cannot ask for the limit of descriptors: %s",
                       strerror(errno));
    if (limit.rlim_max < DESCRIPTORS_LEAST)
        server_give_up("%ju descriptors are too few; allow it %d (ulimit -n)",
                       (uintmax_t)limit.rlim_max, DESCRIPTORS_LEAST);
    limit.rlim_cur =
        limit.rlim_max < DESCRIPTORS_LIMIT ? limit.rlim_max : DESCRIPTORS_LIMIT;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* else we go on with fewer */
    descriptors = (size_t)sysconf(_SC_OPEN_MAX);
}

size_t server_room_for_clients(size_t served, size_t more) {
    size_t reserved = RESERVED_DESCRIPTORS < descriptors / 2
                          ? RESERVED_DESCRIPTORS
                          : descriptors / 2;
    size_t room = descriptors - reserved;

    room =
        room > served * (1 + more) ? room - served * more : room / (1 + more);
    return room > 0 ? room : 1;
}

/* Memory that is not touched costs nothing, so one may ask for all at once. */
static bool is_there(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    munmap(memory, size);
    return true;
}

/* Where memory is limited (ulimit -v, -d), two habits of glibc would leave none
   for the requests.

   It makes heaps for threads, up to eight a processor, of 64 MB of addresses
   each.  With M_ARENA_MAX all threads share one.

   And it keeps the stacks of threads that have ended, up to 40 MB of them.
   These may be more than we counted: some threads are still ending when others
   have begun in their places.  So the heap takes its part at the start.  We
   allocate and free one block larger than the heap's free rest, so the heap
   grows now, by M_TOP_PAD more, and keeps that memory.  To set M_TOP_PAD also
   switches off glibc's dynamic threshold: the size from which a block gets a
   mapping of its own then stays at 128 KB (mallopt(3)). */
static void keep_memory_for_requests(void) {
#if defined(M_ARENA_MAX) && defined(M_TOP_PAD)
    struct rlimit addresses;
    struct rlimit data;

    if (getrlimit(RLIMIT_AS, &addresses) < 0 ||
        getrlimit(RLIMIT_DATA, &data) < 0 ||
        (addresses.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY))
        return;
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TOP_PAD, RESERVED_MEMORY);
    void *volatile block = malloc(HEAP_BLOCK); /* or it would be left out */
    free(block);
#endif
}

size_t server_room_in_memory(size_t most, size_t each) {
    while (most > 1 && !is_there(most * each + RESERVED_MEMORY))
        most -= most / 32 + 1;
    keep_memory_for_requests();
    return most > 0 ? most : 1;
}
