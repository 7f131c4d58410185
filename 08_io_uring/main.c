/* SPDX-License-Identifier: MIT */
/*
 * io_uring: one event loop serves all connections; the kernel makes the calls
 * on their sockets, and reports the results.
 *
 *     clients     kernel                              this process
 *
 *     A ----+    +-----------------------+  submit   +----------------------+
 *     B ----+--> | in flight, for each   | <-------- | for each result:     |
 *     C ----+    | client: accept,       |           | begin the client's   |
 *     Redis +    | receive or send       | --------> | next operation       |
 *                +-----------------------+  complete +----------------------+
 *                  both queues are in shared memory
 *
 * Who waits, and where?  io_uring_enter() waits for all clients: it submits the
 * operations of this loop iteration, and sleeps until one is complete.  In 07
 * the kernel reports a ready socket, and then the server makes a call.  Here
 * the server submits an operation, and then the kernel reports its result.
 *
 * Where does a half-done request live?  In its `struct ring_conn`, on the heap.
 * But while an operation is in flight, its memory belongs to the kernel, even
 * if the client has timed out.  completion.h explains who owns a buffer when.
 *
 * What does it cost?  One system call for each loop iteration; 07 makes one for
 * each step of each request.  (To end a connection, and to send a file, this
 * server makes the calls of 07.)  Each operation also costs an entry in each of
 * the two queues, and an object in the kernel.
 *
 * What happens at the limit?  As in 07.  One multishot operation accepts all
 * clients.  If the limit allows at most COMPLETIONS more connections, each
 * operation accepts only one client.
 *
 * What to try: compare `./io_uring --no-confinement` with epoll, under `strace
 * -c`.  docs/tutorial/book/12-io_uring.md has the figures, and
 * docs/explanation/after-epoll.md explains them.
 *
 * To see it: `strace -e trace=io_uring_enter ./io_uring`: each call submits
 * operations and waits.  For one client each call submits one operation:
 * accept, receive or send.  If many clients are active, a call submits many
 * operations.
 */
#include "completion.h"
#include "config.h"

/* seccomp(2) sees only the call io_uring_enter, and not the operations in the
   ring; ring_restrict() limits these operations. */
static const struct architecture architecture = {
    .name = "io_uring",
    .summary = "one process, one event loop (io_uring)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(io_uring_enter), CALL(getpeername),
              CALL(poll)}, /* to stop, and if memory is short */
};

/* Submits the operations that were begun, sleeps until one is complete, and
   handles all completions. */
static void run_round(struct loop *loop) {
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    ring_wait(&loop->ring, completion_prepare_wait(loop));
    evented_begin_round(&loop->evented);
    io_uring_for_each_cqe(&loop->ring.uring, head, cqe) {
        completion_event(loop, cqe);
        count++;
    }
    io_uring_cq_advance(&loop->ring.uring, count);
    completion_end_round(loop);
}

int main(int argc, char **argv) {
    struct server server;
    struct loop loop;

    server_start(&server, &architecture, argc, argv);
    completion_init(&loop, &server);

    server_ready(&server);
    while (completion_keep_running(&loop))
        run_round(&loop);

    completion_free(&loop);
    return server_end(&server);
}
