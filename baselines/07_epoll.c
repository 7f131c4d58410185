/* SPDX-License-Identifier: MIT */
/* The baseline of 07_epoll: one loop for all connections, with epoll_wait(). */
#include "epoll.h"

int main(int argc, char **argv) {
    loop_start(argc, argv);
    loop_run();
}
