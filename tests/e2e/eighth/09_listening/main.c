/* SPDX-License-Identifier: MIT */
/*
 * 08 once more, but each process listens for itself, all on one port
 * (SO_REUSEPORT): the kernel chooses who gets a connection before anybody
 * accepts, so no two wake for the same one.
 */
#define OWN_LISTENERS true
#define NAME          "listening"
#include "../08_looping/main.c"
