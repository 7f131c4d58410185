/* SPDX-License-Identifier: MIT */
/*
 * forking: a child process is forked for each connection, serves it, and ends.
 *
 *     clients          kernel               parent          children
 *
 *     A --------+     +---------+  accept  +--------+ fork  +---+
 *     B --------+---> | backlog | -------> | parent | ----> | A |  one for
 *     C --------+     |         |          |        | ----> | B |  each
 *                     +---------+          +--------+ ----> | C |  connection
 *                                             |             +---+
 *                                             +--- lends each a connection
 *                                                  to Redis
 *
 * Who waits, and where?  Each child for its own client and for Redis, in recv
 * and send (and in poll, while it connects).  The parent waits in ppoll() for
 * the next client or a child's end, and for nothing else: it never reads from a
 * client or from Redis.
 *
 * Where does a half-done request live?  On the stack of its child's
 * blocking_serve().  A crash takes one client with it.
 *
 * What does it cost?  A fork, an exit and a wait for each connection: the
 * kernel copies the page tables and throws them away again.  That is more than
 * all the rest of a small request.
 *
 * What happens at the limit?  With CHILDREN_LIMIT children alive the parent
 * stops accepting until one ends; the rest wait in the backlog.  Where the
 * system allows fewer processes, whoever was accepted waits until one ends.
 * Meanwhile no connection is kept alive.
 *
 * A lesson of its own: who owns a socket after fork()?  Both.  A connection to
 * Redis shall outlive the child that uses it, so the parent connects and lends;
 * and somebody must know how each child leaves it: see net/redis/lending.h.
 *
 * What to try: kill -9 a child under load, and see who notices.
 */
#include "config.h"
#include "net/blocking.h"
#include "net/redis/lending.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct architecture architecture = {
    .name = "forking",
    .summary = "a child process for each connection",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, FORKING_CALLS, CALL(ppoll)},
};

/* Places for children; 0: the place is free. */
static pid_t children[CHILDREN_LIMIT];
static _Atomic size_t *alive;        /* how many, in memory that all share */
static struct redis_lending lending; /* to each place */

/* The place of a child; of 0, the first that is free: its connection to Redis
   is warm. */
static size_t place_of(pid_t child) {
    size_t place = 0;

    while (children[place] != child)
        place++;
    return place;
}

/* Waits for all children that have ended, or they would stay as zombies. */
static void reap(void) {
    pid_t child;

    while ((child = waitpid(-1, NULL, WNOHANG)) > 0) {
        size_t place = place_of(child);
        children[place] = 0;
        --*alive;
        redis_lending_take_back(&lending, place);
    }
}

/* What the parent does whenever it has slept. */
static void look_after_children(void) {
    static bool told;

    reap();
    redis_lending_spare(&lending, children);
    if (server_is_stopping() && !told) {
        /* Idle ones make room for who waits.  Later ones know. */
        server_tell_children(children, CHILDREN_LIMIT, SIGTERM);
        told = true;
    }
}

/* Perhaps, in the backlog, when nobody more is let in. */
static bool others_wait(const struct worker *worker) {
    (void)worker;
    return *alive == CHILDREN_LIMIT;
}

/* A child's whole life.  The moment is its parent's: to make the date anew, it
   would touch pages that it would then have to itself. */
static void serve(struct server *server, const struct client *client,
                  size_t place, const struct moment *moment) {
    struct redis_pool redis;
    struct worker worker = {.server = server,
                            .counters = server->counters,
                            .redis = &redis,
                            .moment = *moment,
                            .others_wait = others_wait};

    redis_lending_open(&lending, place, &redis);
    blocking_serve(&worker, client);
    redis_lending_leave(&lending, place, &redis);
}

static void fork_for(struct server *server, const struct client *client) {
    static struct moment moment;
    size_t place = place_of(0);
    pid_t child;

    moment_set(&moment, time(NULL));
    redis_lending_prepare(&lending, place);
    ++*alive; /* before the child could ask */
    /* Where processes have run out, some child must end first. */
    while ((child = server_fork()) < 0 && !server_is_out_of_time()) {
        server_is_out_of("processes");
        poll(NULL, 0, PAUSE);
        look_after_children();
    }
    if (child == 0) {
        serve(server, client, place, &moment);
        /* Not exit(): what it would tidy is the parent's. */
        _exit(EXIT_SUCCESS);
    }
    close(client->socket); /* the child has its own descriptor of it */
    if (child > 0)
        children[place] = child;
    else
        --*alive;
}

/* SIGCHLD interrupts ppoll(): that is all it is for. */
static void on_child(int signal_number) {
    (void)signal_number;
}

/* The signal is let in only while ppoll() sleeps, with the mask returned.  Else
   a child could end between a look for ended children and the sleep, and stay a
   zombie. */
static sigset_t hold_signals_of_children(void) {
    struct sigaction action = {.sa_handler = on_child,
                               .sa_flags = SA_NOCLDSTOP};
    sigset_t child_ended, before;

    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, &before);
    sigaction(SIGCHLD, &action, NULL);
    return before;
}

int main(int argc, char **argv) {
    struct server server;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    server_accept_without_waiting(&server);
    alive = server_share(sizeof *alive);
    redis_lending_init(&lending, &server.redis, CHILDREN_LIMIT);
    sigset_t mask = hold_signals_of_children();

    server_ready(&server);
    while (server_goes_on()) {
        struct pollfd listener = {.fd = server.listener, .events = POLLIN};
        struct timespec time = {.tv_sec = REDIS_IDLE / 1000};
        ppoll(&listener, *alive < CHILDREN_LIMIT ? 1 : 0, &time, &mask);
        look_after_children();
        if (listener.revents != 0 && server_accept(&server, 0, &client))
            fork_for(&server, &client);
    }

    server_end_children(children, CHILDREN_LIMIT);
    redis_lending_close(&lending);
    return server_end(&server);
}
