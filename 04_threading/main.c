/* SPDX-License-Identifier: MIT */
/*
 * threading: a thread is created for each connection, serves it, and ends.
 *
 *     clients          kernel               one process
 *
 *     A --------+     +---------+  accept  +-------------+ create +---+
 *     B --------+---> | backlog | -------> | main thread | -----> | A | one
 *     C --------+     |         |          |             | -----> | B | for
 *                     +---------+          +-------------+ -----> | C | each
 *                                          | pool of connections  +---+
 *                                          | to Redis: lent while used
 *                                          +-------------------------------
 *
 * Who waits, and where?  Each thread waits for its own client and for Redis, in
 * recv and send (and in poll, while it connects).  The main thread waits in
 * accept() for the next client.
 *
 * Where does a half-done request live?  On the stack of its thread's
 * blocking_serve().  All threads share one memory.  Data that several threads
 * use (the pool, the cache of open files) needs a lock.  A crash of one thread
 * ends all threads.
 *
 * What does it cost?  A thread is created and ended for each connection.  A
 * thread has a stack and a record in the kernel, but no new address space, so
 * it is far cheaper than a fork.
 *
 * What happens at the limit?  CHILDREN_LIMIT, the descriptors and the memory
 * limit the number of threads.  At the limit the main thread sleeps in
 * sem_wait() until a thread ends; other clients wait in the backlog.  If the
 * system allows fewer threads, an accepted client waits, and the main thread
 * retries.  At both limits no connection is kept alive.
 *
 * A connection to Redis outlives the thread, which returns it to a pool.  A
 * lock guards the pool (net/redis/pool.h).  In 02_forking no lock is needed,
 * but returning a connection to the parent is difficult.
 *
 * What to try: compare the cost of a request here and in 02.  The commands, and
 * what to expect: docs/tutorial/book/04-threading.md.
 *
 * To see it: `gdb -p $(pgrep -x threading) -batch -ex 'thread apply all bt'`,
 * while a client has sent half a request.  The main thread sleeps in accept4,
 * the client's thread sleeps in recv, which blocking_serve has called.
 */
#include "config.h"
#include "net/blocking.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

static const struct architecture architecture = {
    .name = "threading",
    .summary = "a thread for each connection",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, THREADED_CALLS, THREAD_CREATING_CALLS},
};

/* A thread, from its creation to its end. */
struct thread {
    pthread_t id;
    struct client client;
    struct worker worker;
    struct thread *prev, *next; /* in the list of running threads */
};

/* The lock guards the list; the semaphore counts threads that may be
   created. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *alive;
static sem_t room_for_threads;

/* When all slots are taken, a client may be waiting in the backlog. */
static bool others_wait(const struct worker *worker) {
    int room;

    (void)worker;
    sem_getvalue(&room_for_threads, &room);
    return room == 0;
}

/* Removes the thread from the list of running threads, and frees it. */
static void forget(struct thread *thread) {
    pthread_mutex_lock(&lock);
    DL_DELETE(alive, thread);
    pthread_mutex_unlock(&lock);
    free(thread);
}

/* The main function of a thread. */
static void *serve(void *context) {
    struct thread *thread = context;

    blocking_serve(&thread->worker, &thread->client);
    forget(thread);
    sem_post(&room_for_threads);
    return NULL;
}

/* Returns false if threads or memory are short.  The threads are detached, so
   none is joined: the memory of a detached thread is freed at its end. */
static bool create_thread(struct server *server, const struct client *client,
                          const pthread_attr_t *attributes) {
    /* The date, formatted at most once a second; each thread gets a copy. */
    static struct cached_time cached_time;
    struct thread *thread = calloc(1, sizeof *thread);

    if (thread == NULL)
        return false;
    cached_time_set(&cached_time, time(NULL));
    thread->client = *client;
    thread->worker = (struct worker){.server = server,
                                     .counters = server->counters,
                                     .cached_time = cached_time,
                                     .others_wait = others_wait};
    /* The thread needs the lock to leave the list.  So it cannot end, and free
       its memory, before pthread_create() has written the id. */
    pthread_mutex_lock(&lock);
    DL_APPEND(alive, thread);
    int error = pthread_create(&thread->id, attributes, serve, thread);
    pthread_mutex_unlock(&lock);
    if (error != 0)
        forget(thread);
    errno = error;
    return error == 0;
}

/* Wakes the sleeping threads, so that they check whether the server stops.  A
   signal for the process wakes only one thread, so each thread gets its own
   signal.  Returns false when no thread is left. */
static bool wake_threads(void) {
    struct thread *thread;

    pthread_mutex_lock(&lock);
    DL_FOREACH (alive, thread)
        pthread_kill(thread->id, SIGALRM);
    bool any = alive != NULL;
    pthread_mutex_unlock(&lock);
    return any;
}

/* While threads or memory are short, retries, and the client waits.  When
   STOP_TIMEOUT is over, closes the connection instead. */
static void create_thread_for(struct server *server,
                              const struct client *client,
                              const pthread_attr_t *attributes) {
    while (!create_thread(server, client, attributes)) {
        if (server_is_out_of_time()) {
            close(client->socket);
            sem_post(&room_for_threads);
            return;
        }
        shortage_report("threads or memory");
        poll(NULL, 0, RETRY_DELAY);
        if (server_is_stopping())
            wake_threads(); /* disconnects idle clients */
    }
}

int main(int argc, char **argv) {
    struct server server;
    struct client client;
    pthread_attr_t attributes;

    server_start(&server, &architecture, argc, argv);
    /* Each client needs two more descriptors: for Redis and a file. */
    size_t room = limit_by_descriptors(CHILDREN_LIMIT, 2);
    if (room > CHILDREN_LIMIT)
        room = CHILDREN_LIMIT;
    room = limit_by_memory(room, THREAD_STACK + THREAD_HEAP, THREAD_MEMORY);
    sem_init(&room_for_threads, 0, (unsigned)room);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);

    server_ready(&server);
    while (!server_shut_if_drained()) {
        if (sem_wait(&room_for_threads) < 0) { /* interrupted by a signal */
            if (server_is_stopping())
                wake_threads(); /* disconnects idle clients */
            continue;
        }
        if (blocking_accept(&server, &client))
            create_thread_for(&server, &client, &attributes);
        else
            sem_post(&room_for_threads);
    }

    while (wake_threads())
        poll(NULL, 0, WAKE_DELAY); /* or until the next SIGALRM */
    pthread_attr_destroy(&attributes);
    return server_end(&server);
}
