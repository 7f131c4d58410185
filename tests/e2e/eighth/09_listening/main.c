/* SPDX-License-Identifier: MIT */
/*
 * The server of 08, but each process has its own listening socket on the port
 * (SO_REUSEPORT): the kernel assigns each connection to one process before
 * accept(), so a connection never wakes two of them.
 */
#define OWN_LISTENERS true
#define NAME          "listening"
#include "../08_looping/main.c"
