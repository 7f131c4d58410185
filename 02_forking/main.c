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
 * stops accepting until one ends; the rest wait in the backlog.
 *
 * A lesson of its own: who owns a socket after fork()?  Both.  A child that
 * connected to Redis would take the connection with it when it ends, so the
 * parent, once somebody has asked Redis, connects, without waiting, and lends.
 * A child that ends well says in shared memory how it leaves the connection.
 * One that was killed says nothing, and may have left half a command or an
 * unread reply in it, which the next child would take for its own: such a
 * connection is closed.  So is one that its child found broken; that child
 * connects for itself.
 *
 * What to try: kill -9 a child under load, and see who notices.
 */
#include "config.h"
#include "net/blocking.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct architecture architecture = {
    .name = "forking",
    .summary = "a child process for each connection",
    .requests = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, FORKING_CALLS, CALL(ppoll)},
};

/* How a child leaves the connection that it was lent. */
enum condition {
    SPOILT,    /* also what stands here until it has said otherwise */
    UNTOUCHED, /* as it was lent */
    READY,     /* used, and between two commands */
};

/* What children tell the parent. */
struct notes {
    bool redis_wanted; /* one of them had to connect for itself */
    enum condition left_as[CHILDREN_LIMIT];
};

/* Places for children, each with its connection to Redis. */
struct places {
    pid_t children[CHILDREN_LIMIT]; /* 0: the place is free */
    struct redis_client redis[CHILDREN_LIMIT];
    struct notes *notes; /* in memory shared with the children */
    size_t free[CHILDREN_LIMIT];
    size_t free_count;
};

static struct places places; /* all zero: in no process's way until used */

static void places_init(const struct server *server) {
    places.notes = server_share(sizeof *places.notes);
    /* The last one freed is the first one taken: its connection is warm. */
    for (size_t i = 0; i < CHILDREN_LIMIT; i++) {
        redis_client_init(&places.redis[i], &server->redis);
        places.free[i] = CHILDREN_LIMIT - 1 - i;
    }
    places.free_count = CHILDREN_LIMIT;
}

static void take_back(size_t place) {
    struct redis_client *redis = &places.redis[place];

    places.children[place] = 0;
    places.free[places.free_count++] = place;
    switch (places.notes->left_as[place]) {
    case READY:
        /* Its used_at stays 0 here, so the next child looks before using it. */
        redis->ready = true;
        break;
    case UNTOUCHED:
        break;
    default:
        redis_client_close(redis);
    }
}

/* Waits for all children that have ended, or they would stay as zombies. */
static void reap(void) {
    pid_t child;

    while ((child = waitpid(-1, NULL, WNOHANG)) > 0)
        for (size_t i = 0; i < CHILDREN_LIMIT; i++)
            if (places.children[i] == child) {
                take_back(i);
                break;
            }
}

/* Kept by the parent, so that no child has to make the date of its response
   anew: that would touch pages which the child would have to itself. */
static struct moment moment;

/* A child's whole life. */
static void serve(struct server *server, const struct client *client,
                  size_t place) {
    struct redis_client *redis = &places.redis[place];
    unsigned connections = redis->connections;
    int lent = redis->descriptor;
    struct worker worker = {.server = server,
                            .counters = server->counters,
                            .redis = redis,
                            .moment = moment};
    bool was_ready = redis->ready;

    blocking_serve(&worker, client);
    if (redis->connections > connections)
        places.notes->redis_wanted = true;
    /* Still the connection that was lent?  Then it is READY between two
       commands, or UNTOUCHED if this child never asked.  All else is SPOILT. */
    bool is_the_same =
        redis->connections == connections && redis->descriptor == lent;
    if (is_the_same && redis->ready)
        places.notes->left_as[place] = READY;
    else if (is_the_same && !was_ready)
        places.notes->left_as[place] = UNTOUCHED;
}

/* Begins to connect, unless the connection is there, nobody has asked Redis
   yet, or descriptors are short: what the parent holds, every fork copies and
   every child has to close.  A child that is lent nothing connects for itself.
 */
static void begin_redis(struct redis_client *redis) {
    if (!places.notes->redis_wanted)
        return;
    redis_client_begin(redis);
    if (redis->descriptor >= 0 &&
        (size_t)redis->descriptor >= server_descriptors_for_clients(0))
        redis_client_close(redis);
}

static void fork_for(struct server *server, const struct client *client) {
    size_t place = places.free[--places.free_count];
    pid_t child;

    moment_set(&moment, time(NULL));
    begin_redis(&places.redis[place]);
    places.notes->left_as[place] = SPOILT;
    /* Where processes have run out, some child must end first. */
    while ((child = server_fork()) < 0 && !server_is_out_of_time()) {
        server_is_out_of("processes");
        poll(NULL, 0, PAUSE);
        reap();
    }
    if (child == 0) {
        serve(server, client, place);
        /* Not exit(): what it would tidy is the parent's. */
        _exit(EXIT_SUCCESS);
    }
    close(client->socket); /* the child has its own descriptor of it */
    if (child > 0)
        places.children[place] = child;
    else
        take_back(place);
}

/* SIGCHLD interrupts ppoll(): that is all it is for. */
static void on_child(int signal_number) {
    (void)signal_number;
}

int main(int argc, char **argv) {
    struct server server;
    struct client client;
    struct sigaction action = {.sa_handler = on_child,
                               .sa_flags = SA_NOCLDSTOP};
    sigset_t child_ended, none;
    bool told = false;

    server_start(&server, &architecture, argc, argv);
    server_accept_without_waiting(&server);
    places_init(&server);
    /* The signal is let in only while ppoll() sleeps.  Else a child could end
       between a look for ended children and the sleep, and stay a zombie. */
    sigemptyset(&none);
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, NULL);
    sigaction(SIGCHLD, &action, NULL);

    server_ready(&server);
    while (server_goes_on()) {
        struct pollfd listener = {.fd = server.listener, .events = POLLIN};
        ppoll(&listener, places.free_count > 0 ? 1 : 0, NULL, &none);
        reap();
        if (server_is_stopping() && !told) {
            /* Idle ones make room for who waits.  Later ones know. */
            server_tell_children(places.children, CHILDREN_LIMIT, SIGTERM);
            told = true;
        }
        if (listener.revents != 0 && server_accept(&server, 0, &client))
            fork_for(&server, &client);
    }

    server_end_children(places.children, CHILDREN_LIMIT);
    for (size_t i = 0; i < CHILDREN_LIMIT; i++)
        redis_client_close(&places.redis[i]);
    return server_end(&server);
}
