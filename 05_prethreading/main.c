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
 * Who waits, and where?  Each thread waits for its own client and for Redis, in
 * recv and send (and in poll, while it connects).  Free threads wait for the
 * queue, in pthread_cond_wait().  The main thread waits for clients, in
 * accept(), and puts them into the queue (at the limit of descriptors it sleeps
 * in sem_wait()).
 *
 * Where does a half-done request live?  On the stack of its thread's
 * blocking_serve().  All threads share one memory: the queue, the cache of open
 * files and the pool of connections to Redis need a lock.  A crash of one
 * thread ends all threads: no process is left that could start a worker, as the
 * parent of 03 does.
 *
 * What does it cost?  A thread for each worker, created once, with a stack of
 * its own.  The kernel switches threads whenever one waits.  A switch is
 * cheaper than between processes, because the address space stays the same.
 * The threads open as many connections to Redis as they use at the same time.
 * Locks cost, too: two for each connection (put, take), and one for each thread
 * that wakes.  A borrowed file costs two locks, and so does a page that asks
 * Redis.  A request after which the connection might be kept costs one.
 *
 * What happens at the limit?  N threads serve N connections; the next
 * connection waits in the queue until a thread is free.  While a connection
 * waits in the queue and no thread is free, no connection is kept alive.  A
 * connection that was already idle holds its thread until IDLE_TIMEOUT.  With
 * the queue this server can hold more connections than the kernel's backlog
 * (net.core.somaxconn, usually 4,096).  03_preforking has no queue, because
 * processes cannot easily pass on a connection: each worker accepts for itself.
 *
 * What to try: start more clients than workers, and see where they wait, here
 * and in 03.  Commands and results: docs/tutorial/book/05-prethreading.md.
 *
 * To see it: `gdb -p $(pgrep -x prethreading) -batch -ex 'print queue.count'`
 * prints 3 with --workers 2 and five clients that have sent half a request.
 */
#include "config.h"
#include "net/blocking.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct architecture architecture = {
    .name = "prethreading",
    .summary = "threads created at the start; each has one client at a time",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .has_workers = true,
    .calls = {BLOCKING_CALLS, THREADED_CALLS},
};

struct thread {
    pthread_t id;
    struct worker worker;
};

/* The accepted clients that wait for a thread, in the order of accept(). */
static struct queue {
    pthread_mutex_t lock; /* guards the fields below, except `free` */
    pthread_cond_t changed;
    struct client *ring; /* with a slot for each client that may wait */
    size_t size;         /* slots */
    size_t first;        /* the slot of the longest waiting client */
    size_t count;        /* clients that wait */
    bool closed;         /* no client will be added any more */
    _Atomic size_t free; /* threads that have no client */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER};

/* Counts the clients that may still be accepted. */
static sem_t room_for_clients;

static void queue_put(const struct client *client) {
    pthread_mutex_lock(&queue.lock);
    /* NOLINTNEXTLINE: there is at least one slot */
    queue.ring[(queue.first + queue.count) % queue.size] = *client;
    queue.count++;
    pthread_mutex_unlock(&queue.lock);
    /* Wakes one thread: waking all would be a thundering herd. */
    pthread_cond_signal(&queue.changed);
}

/* Sleeps while the queue is empty.  Returns false if it is closed and empty. */
static bool queue_take(struct client *client) {
    pthread_mutex_lock(&queue.lock);
    /* `while`, not `if`: before the woken thread gets the lock, another thread
       may take the client. */
    while (queue.count == 0 && !queue.closed)
        pthread_cond_wait(&queue.changed, &queue.lock);
    bool taken = queue.count > 0;
    if (taken) {
        *client = queue.ring[queue.first];
        queue.count--;
        queue.free--;
        /* An empty queue begins again at its first slot, so it uses little
           memory. */
        queue.first = queue.count > 0 ? (queue.first + 1) % queue.size : 0;
    }
    pthread_mutex_unlock(&queue.lock);
    return taken;
}

static void queue_close(void) {
    pthread_mutex_lock(&queue.lock);
    queue.closed = true;
    pthread_mutex_unlock(&queue.lock);
    pthread_cond_broadcast(&queue.changed);
}

/* Does a client wait for which no thread is free?  A client in the queue does
   not prove it: a free thread may not have woken yet.  If the queue is full, a
   client may also wait in the backlog. */
static bool others_wait(const struct worker *worker) {
    int room;

    (void)worker;
    sem_getvalue(&room_for_clients, &room);
    pthread_mutex_lock(&queue.lock);
    bool wait = queue.count > queue.free;
    pthread_mutex_unlock(&queue.lock);
    return wait || room == 0;
}

/* The main function of a thread. */
static void *work(void *context) {
    struct thread *thread = context;
    struct client client;

    while (queue_take(&client)) {
        blocking_serve(&thread->worker, &client);
        queue.free++;
        sem_post(&room_for_clients);
    }
    return NULL;
}

/* Returns false if threads or memory are short. */
static bool start_thread(struct server *server, struct thread *threads,
                         size_t number) {
    struct thread *thread = &threads[number];
    pthread_attr_t attributes;

    queue.free++;
    thread->worker = (struct worker){.server = server,
                                     .counters = &server->counters[number],
                                     .others_wait = others_wait};
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    int error = pthread_create(&thread->id, &attributes, work, thread);
    pthread_attr_destroy(&attributes);
    errno = error;
    return error == 0;
}

/* Wakes the sleeping threads, so that they check whether the server stops.  A
   signal for the process wakes only one thread, so each gets its own signal. */
static void wake_threads(const struct thread *threads, size_t count) {
    for (size_t i = 0; i < count; i++)
        pthread_kill(threads[i].id, SIGALRM);
}

/* The threads serve the clients in the queue, and end.  A thread that waits for
   its client or Redis is woken repeatedly until it has ended. */
static void end_threads(struct thread *threads, size_t count) {
    queue_close();
    for (size_t i = 0; i < count; i++)
        while (pthread_tryjoin_np(threads[i].id, NULL) != 0) {
            wake_threads(threads + i, count - i);
            poll(NULL, 0, WAKE_DELAY); /* or until the next SIGALRM */
        }
}

/* Creates the threads, and a queue with a slot for each client for which there
   are descriptors. */
static struct thread *start_threads(struct server *server, size_t count) {
    /* Each client needs two more descriptors: for Redis and a file. */
    size_t room = limit_by_descriptors(count, 2);

    sem_init(&room_for_clients, 0, (unsigned)room);
    queue.ring = calloc(room, sizeof queue.ring[0]);
    queue.size = room;
    struct thread *threads = calloc(count, sizeof *threads);
    if (queue.ring == NULL || threads == NULL)
        server_fatal("no memory for %zu threads and a queue of %zu clients; "
                     "give fewer --workers, or allow fewer descriptors",
                     count, room);
    size_t most = limit_by_memory(count, THREAD_STACK + THREAD_HEAP, 1);
    if (most < count)
        server_fatal("memory for %zu threads only; give fewer --workers", most);
    for (size_t i = 0; i < count; i++)
        if (!start_thread(server, threads, i))
            server_fatal("cannot create thread %zu (%s); give fewer --workers",
                         i + 1, strerror(errno));
    return threads;
}

int main(int argc, char **argv) {
    struct server server;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    size_t count = server.options.workers;
    struct thread *threads = start_threads(&server, count);

    server_ready(&server);
    while (!server_shut_if_drained()) {
        if (sem_wait(&room_for_clients) < 0) { /* interrupted by a signal */
            if (server_is_stopping())
                wake_threads(threads, count); /* disconnects idle clients */
            continue;
        }
        if (blocking_accept(&server, &client))
            queue_put(&client);
        else
            sem_post(&room_for_clients);
    }

    end_threads(threads, count);
    free(queue.ring);
    free(threads);
    return server_end(&server);
}
