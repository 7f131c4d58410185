/* SPDX-License-Identifier: MIT */
/* The memory of an event loop's connections: lib/net/evented.c. */
#include "harness.h"
#include "net/evented.h"

#include <sys/socket.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* A server may have data of its own in each slot. */
struct own_conn {
    struct event_conn base;
    uint64_t own;
};

static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    return context == NULL || source == NULL || interest == 0;
}

/* A reused slot is all zero.  Until a reuse, the address sanitizer reports
   code that accesses the closed connection. */
TEST(a_slot_is_used_again) {
    static const struct architecture architecture = {.name = "test"};
    static struct server server = {.architecture = &architecture,
                                   .options = {.workers = 1, .time_scale = 1}};
    static const struct client client = {.socket = -1};
    struct evented evented;

    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    evented_init(&evented, &server, (struct event_loop){watch, NULL},
                 sizeof(struct own_conn));
    struct event_conn *conn = evented_adopt(&evented, &client);
    ((struct own_conn *)conn)->own = 1;
    evented_forget(&evented, conn);
#ifdef __SANITIZE_ADDRESS__
    assert_true(__asan_address_is_poisoned(&conn->connection));
#endif
    assert_ptr_equal(evented_adopt(&evented, &client), conn);
    assert_int_equal(((struct own_conn *)conn)->own, 0);
    assert_int_equal(evented.count, 1);
    evented_forget(&evented, conn);
    evented_free(&evented);
    close(server.listener);
}
