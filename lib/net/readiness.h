/* SPDX-License-Identifier: MIT */
/*
 * Serves many connections at once, with calls that never sleep.  06 and 07
 * differ in the one call that sleeps for all connections, and in how they pass
 * the watched descriptors to that call.
 *
 * Regular files are the exception in every event loop: poll always reports them
 * as ready, epoll rejects them (EPERM).  A read may sleep until the disk has
 * answered, while all clients wait.  A server of large uncached files would use
 * threads, or io_uring.
 */
#pragma once

#include "net/evented.h"

void readiness_init(struct evented *evented, struct server *server,
                    struct event_loop loop);

/* Handles an event: the source is READABLE, WRITABLE or BROKEN.  Does nothing
   if the source was closed earlier in the same loop iteration. */
void readiness_event(struct evented *evented, struct event_source *source,
                     unsigned readiness);

/* Call this function right before the loop sleeps: watches the listening socket
   while there is room for a client.  Returns evented_timeout(). */
int readiness_prepare_wait(struct evented *evented);

/* Call this function at the end of a loop iteration, which begins with
   evented_begin_round().  If the server stops, closes idle connections. */
void readiness_end_round(struct evented *evented);

/* After a stop, returns false when no client is left, or time is up. */
bool readiness_keep_running(const struct evented *evented);

void readiness_free(struct evented *evented);
