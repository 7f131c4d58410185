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
 * stops accepting until one ends; the rest wait in the backlog.  Whoever takes
 * the last place is not kept alive.
 *
 * A lesson of its own: who owns a socket after fork()?  Both.  A connection to
 * Redis shall outlive the child that uses it, so the parent connects and lends;
 * and somebody must know how each child leaves it: see net/redis_lending.h.
 *
 * What to try: kill -9 a child under load, and see who notices.
 */
#include "config.h"
#include "net/blocking.h"
#include "net/redis_lending.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct architecture architecture = {
    .name = "forking",
    .summary = "a child process for each connection",
    .requests = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, FORKING_CALLS, CALL(ppoll)},
};

/* Places for children.  The last one freed is the first one taken: what it has
   of Redis is warm. */
static struct {
    pid_t children[CHILDREN_LIMIT]; /* 0: the place is free */
    size_t free[CHILDREN_LIMIT];
    size_t free_count;
    struct redis_lending redis;
} places;

static void places_init(const struct server *server) {
    redis_lending_init(&places.redis, &server->redis, CHILDREN_LIMIT);
    for (size_t i = CHILDREN_LIMIT; i-- > 0;)
        places.free[places.free_count++] = i;
}

static void free_place(size_t place) {
    redis_lending_take_back(&places.redis, place);
    places.children[place] = 0;
    places.free[places.free_count++] = place;
}

/* Waits for all children that have ended, or they would stay as zombies. */
static void reap(void) {
    pid_t child;

    while ((child = waitpid(-1, NULL, WNOHANG)) > 0)
        for (size_t i = 0; i < CHILDREN_LIMIT; i++)
            if (places.children[i] == child) {
                free_place(i);
                break;
            }
}

/* Was this the last place?  Its copy tells a child how it was at the fork. */
static bool others_wait(const struct worker *worker) {
    (void)worker;
    return places.free_count == 0;
}

/* A child's whole life. */
static void serve(struct server *server, const struct client *client,
                  size_t place, const struct moment *moment) {
    struct redis_pool redis;
    struct worker worker = {.server = server,
                            .counters = server->counters,
                            .redis = &redis,
                            .moment = *moment,
                            .others_wait = others_wait};

    redis_lending_open(&places.redis, place, &redis);
    blocking_serve(&worker, client);
    redis_lending_leave(&places.redis, place, &redis);
}

static void fork_for(struct server *server, const struct client *client) {
    /* Kept by the parent, so that no child has to make the date of its response
       anew: that would touch pages which the child would have to itself. */
    static struct moment moment;
    size_t place = places.free[--places.free_count];
    pid_t child;

    moment_set(&moment, time(NULL));
    redis_lending_prepare(&places.redis, place);
    /* Where processes have run out, some child must end first. */
    while ((child = server_fork()) < 0 && !server_is_out_of_time()) {
        server_is_out_of("processes");
        poll(NULL, 0, PAUSE);
        reap();
    }
    if (child == 0) {
        serve(server, client, place, &moment);
        /* Not exit(): what it would tidy is the parent's. */
        _exit(EXIT_SUCCESS);
    }
    close(client->socket); /* the child has its own descriptor of it */
    if (child > 0)
        places.children[place] = child;
    else
        free_place(place);
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
    bool told = false;

    server_start(&server, &architecture, argc, argv);
    server_accept_without_waiting(&server);
    places_init(&server);
    sigset_t mask = hold_signals_of_children();

    server_ready(&server);
    while (server_goes_on()) {
        struct pollfd listener = {.fd = server.listener, .events = POLLIN};
        struct timespec time = {.tv_sec = REDIS_IDLE / 1000};
        ppoll(&listener, places.free_count > 0 ? 1 : 0, &time, &mask);
        reap();
        redis_lending_spare(&places.redis, places.children);
        if (server_is_stopping() && !told) {
            /* Idle ones make room for who waits.  Later ones know. */
            server_tell_children(places.children, CHILDREN_LIMIT, SIGTERM);
            told = true;
        }
        if (listener.revents != 0 && server_accept(&server, 0, &client))
            fork_for(&server, &client);
    }

    server_end_children(places.children, CHILDREN_LIMIT);
    redis_lending_close(&places.redis);
    return server_end(&server);
}
