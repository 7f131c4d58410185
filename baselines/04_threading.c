/* SPDX-License-Identifier: MIT */
/* The baseline of 04_threading: a detached thread for each connection, with the
   server's stack size.

   Connections to Redis outlive the threads, in a pool: the connection returned
   last is lent first. */
#include "baseline.h"

#include <pthread.h>
#include <stdint.h>

static struct baseline the_baseline;

static struct {
    pthread_mutex_t lock; /* guards the other fields */
    size_t count;
    int connections[DESCRIPTORS_LIMIT]; /* only used pages take memory */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int borrow(void) {
    int connection = -1;

    pthread_mutex_lock(&pool.lock);
    if (pool.count > 0)
        connection = pool.connections[--pool.count];
    pthread_mutex_unlock(&pool.lock);
    return connection >= 0 ? connection : baseline_connect(&the_baseline.redis);
}

static void give_back(int connection) {
    pthread_mutex_lock(&pool.lock);
    pool.connections[pool.count++] = connection;
    pthread_mutex_unlock(&pool.lock);
}

static void *serve(void *client) {
    bool asks = the_baseline.redis.asks.count > 0;
    int redis = asks ? borrow() : -1;

    baseline_serve(&the_baseline, (int)(intptr_t)client, redis);
    if (asks)
        give_back(redis);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;

    baseline_start(&the_baseline, argc, argv);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int client = accept4(the_baseline.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0 && pthread_create(&thread, &attributes, serve,
                                          (void *)(intptr_t)client) != 0)
            close(client); /* out of threads: this client is rejected */
    }
}
