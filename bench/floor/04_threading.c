/* SPDX-License-Identifier: MIT */
/* The floor of 04_threading: a detached thread for each connection, with the
   server's size of stack. */
#include "floor.h"

#include <pthread.h>
#include <stdint.h>

static struct floor the_floor;

static void *serve(void *client) {
    floor_serve(&the_floor, (int)(intptr_t)client);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;

    floor_start(&the_floor, argc, argv);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int client = accept4(the_floor.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0 && pthread_create(&thread, &attributes, serve,
                                          (void *)(intptr_t)client) != 0)
            close(client); /* out of threads: this client is turned away */
    }
}
