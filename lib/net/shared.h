/* SPDX-License-Identifier: MIT */
#ifndef NET_SHARED_H
#define NET_SHARED_H

#include <stddef.h>

/* Memory, all zero, that is shared with every process forked later: what one
   writes, all see.  NULL with errno set when there is none.  It is never freed:
   it is needed to the end. */
void *shared_memory(size_t size);

#endif
