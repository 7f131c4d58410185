/* SPDX-License-Identifier: MIT */
/*
 * prethreading: a fixed number of threads, created at the start, each of which
 * serves one connection after another.
 *
 *     clients          kernel               one process
 *
 *     A --------+     +---------+  accept  +-------------+   +-----------+
 *     B --------+---> | backlog | -------> | main thread |-->| queue     |
 *     C --------+     |         |          +-------------+   | D  E  ... |
 *     D, E -----+     +---------+                            +-----------+
 *                                           threads take       |
 *                                           +---+ +---+ +---+  |  +-----+
 *                                           | A | | B | | C |<-+..| 100 |
 *                                           +---+ +---+ +---+     +-----+
 *
 * Who waits, and where?  Each thread for its own client and its own connection
 * to Redis, in recv and send.  Free threads wait for the queue, in
 * pthread_cond_wait().  The main thread waits for clients, in accept(), and
 * hands them on (at the limit of descriptors it sleeps in sem_wait()).
 *
 * Where does a half-done request live?  On the stack of its thread's
 * blocking_serve().  All threads share one memory: the queue and the cache of
 * open files need a lock, and a crash of one is the end of all: nobody is left
 * to start another, as the parent of 03 does.
 *
 * What does it cost?  A thread each, made once: a stack, one connection to
 * Redis, and a switch whenever one waits; cheaper than between processes, for
 * the address space stays.  And one lock for each connection.
 *
 * What happens at the limit?  N threads serve N connections; the next waits in
 * the queue until one ends.  While any waits there, no connection is kept
 * alive; one that is idle already holds its thread until IDLE_TIMEOUT.  The
 * queue is why this server holds more connections than the kernel's backlog
 * (net.core.somaxconn, usually 4,096) has room for.  03_preforking has none,
 * since processes cannot hand a connection on so easily; there each worker
 * accepts for itself.
 *
 * What to try: let each thread call accept(), as the processes of 03 do, and
 * run ab with 15,000 connections.  What becomes of those that find no room?
 */
#include "config.h"
#include "net/blocking.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct architecture architecture = {
    .name = "prethreading",
    .summary = "threads created at the start, one connection each at a time",
    .requests = KEEP_ALIVE_REQUESTS,
    .has_workers = true,
};

struct thread {
    pthread_t id;
    struct worker worker;
};

/* Clients that have been accepted and wait for a thread: a ring, in the order
   of their arrival. */
static struct queue {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    size_t first;
    size_t count;
    struct client clients[DESCRIPTORS_LIMIT]; /* costs what is used of it */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER};

static sem_t room_for_clients;  /* in the queue or with a thread */
static struct redis_pool redis; /* for all threads */

static void queue_put(const struct client *client) {
    pthread_mutex_lock(&queue.lock);
    size_t last = (queue.first + queue.count) % DESCRIPTORS_LIMIT;
    queue.clients[last] = *client;
    queue.count++;
    pthread_mutex_unlock(&queue.lock);
    /* Wakes one thread, and not the whole herd. */
    pthread_cond_signal(&queue.changed);
}

/* Sleeps until there is a client.  False: there is none, and the server
   stops. */
static bool queue_take(struct client *client) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && !server_is_stopping())
        pthread_cond_wait(&queue.changed, &queue.lock);
    bool taken = queue.count > 0;
    if (taken) {
        *client = queue.clients[queue.first];
        queue.first = (queue.first + 1) % DESCRIPTORS_LIMIT;
        queue.count--;
    }
    pthread_mutex_unlock(&queue.lock);
    return taken;
}

/* In the queue; or perhaps in the backlog, where there is no room left. */
static bool others_wait(const struct worker *worker) {
    int room;

    (void)worker;
    sem_getvalue(&room_for_clients, &room);
    pthread_mutex_lock(&queue.lock);
    bool wait = queue.count > 0;
    pthread_mutex_unlock(&queue.lock);
    return wait || room == 0;
}

/* A thread's whole life. */
static void *work(void *context) {
    struct thread *thread = context;
    struct client client;

    while (queue_take(&client)) {
        blocking_serve(&thread->worker, &client);
        sem_post(&room_for_clients);
    }
    return NULL;
}

/* Starts the thread of that number; returns 0 or an error number. */
static int start_thread(struct server *server, struct thread *threads,
                        size_t number) {
    struct thread *thread = &threads[number];
    pthread_attr_t attributes;

    thread->worker = (struct worker){.server = server,
                                     .counters = &server->counters[number],
                                     .redis = &redis,
                                     .others_wait = others_wait};
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    int error = pthread_create(&thread->id, &attributes, work, thread);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Wakes those who sleep, again and again, until all have ended. */
static void end_threads(struct thread *threads, size_t count) {
    for (size_t i = 0; i < count; i++)
        while (pthread_tryjoin_np(threads[i].id, NULL) != 0) {
            pthread_cond_broadcast(&queue.changed);
            for (size_t j = i; j < count; j++)
                pthread_kill(threads[j].id, SIGALRM);
            poll(NULL, 0, PAUSE);
        }
}

int main(int argc, char **argv) {
    static struct thread threads[WORKERS_LIMIT]; /* costs what is used of it */
    struct server server;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    size_t count = server.options.workers;
    redis_pool_init(&redis, &server.redis, true);
    /* Beside its client, a thread needs a connection to Redis and a file. */
    sem_init(&room_for_clients, 0, (unsigned)server_room_for_clients(count, 2));
    for (size_t i = 0; i < count; i++) {
        int error = start_thread(&server, threads, i);
        if (error != 0) {
            fprintf(stderr,
                    "prethreading: cannot create thread %zu (%s); give fewer "
                    "--workers\n",
                    i + 1, strerror(error));
            return EXIT_FAILURE;
        }
    }

    while (!server_is_stopping()) {
        if (sem_wait(&room_for_clients) < 0)
            continue; /* interrupted by a signal */
        if (server_accept(&server, 0, &client))
            queue_put(&client);
        else
            sem_post(&room_for_clients);
    }

    end_threads(threads, count);
    redis_pool_destroy(&redis);
    return server_end(&server);
}
