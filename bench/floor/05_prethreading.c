/* SPDX-License-Identifier: MIT */
/* The floor of 05_prethreading: --workers threads, created at the start. */
#include "floor.h"

#include <pthread.h>

static struct floor the_floor;

__attribute__((noreturn)) static void *work(void *unused) {
    (void)unused;
    for (;;) {
        int client = accept4(the_floor.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            floor_serve(&the_floor, client);
    }
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;

    floor_start(&the_floor, argc, argv);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    for (size_t i = 0; i < the_floor.workers; i++)
        if (pthread_create(&thread, &attributes, work, NULL) != 0)
            floor_give_up("pthread_create");
    for (;;)
        pause();
}
