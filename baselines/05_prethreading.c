/* SPDX-License-Identifier: MIT */
/* The baseline of 05_prethreading: --workers threads, created at the start.
   The main thread accepts, as the server's does, and the workers take the
   accepted connections from a queue. */
#include "baseline.h"

#include <pthread.h>

static struct baseline the_baseline;

static struct {
    pthread_mutex_t lock; /* guards the other fields */
    pthread_cond_t filled;
    size_t first, count;
    int clients[DESCRIPTORS_LIMIT]; /* a ring; only used pages take memory */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .filled = PTHREAD_COND_INITIALIZER};

/* There is always room: a process has at most DESCRIPTORS_LIMIT descriptors. */
static void put(int client) {
    pthread_mutex_lock(&queue.lock);
    queue.clients[(queue.first + queue.count++) % DESCRIPTORS_LIMIT] = client;
    pthread_mutex_unlock(&queue.lock);
    pthread_cond_signal(&queue.filled);
}

static int take(void) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0)
        pthread_cond_wait(&queue.filled, &queue.lock);
    int client = queue.clients[queue.first];
    queue.first = (queue.first + 1) % DESCRIPTORS_LIMIT;
    queue.count--;
    pthread_mutex_unlock(&queue.lock);
    return client;
}

__attribute__((noreturn)) static void *work(void *unused) {
    int redis = baseline_connect(&the_baseline.redis);

    (void)unused;
    for (;;)
        baseline_serve(&the_baseline, take(), redis);
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;

    baseline_start(&the_baseline, argc, argv);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    for (size_t i = 0; i < the_baseline.workers; i++)
        if (pthread_create(&thread, &attributes, work, NULL) != 0)
            baseline_fatal("pthread_create");
    for (;;) {
        int client = accept4(the_baseline.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            put(client);
    }
}
