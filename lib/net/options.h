/* SPDX-License-Identifier: MIT */
/* The command line, which all servers have in common. */
#pragma once

#include "calls.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The listening sockets of the workers: one for all, one for each if
   --listener-each is given, or always one for each.  Workers with their own
   socket call server_take_listener(). */
enum listeners { LISTENER_SHARED, LISTENER_OPTION, LISTENER_EACH };

struct architecture {
    const char *name;            /* of the program, such as "epoll" */
    const char *summary;         /* half a line: processes, threads, loops */
    int requests_per_connection; /* then the server closes the connection */
    bool has_workers;            /* their number is fixed: --workers sets it */
    bool worker_per_core;        /* default of --workers: one per core */
    size_t worker_memory; /* bytes, if each worker is a process; else 0 */
    enum listeners listeners;
    /* System calls after the start that not all servers need: see calls.h. */
    struct call calls[CALLS_LIMIT];
};

struct options {
    char port[8];
    const char *address; /* an IP address or a host name */
    const char *redis;
    size_t workers;
    char root[PATH_MAX];
    int backlog;
    int time_scale; /* divides the timeouts of clients */
    bool log;
    bool listener_each; /* each worker has its own socket */
    bool each_worker;   /* at the end, print the requests of each worker */
    const char *user;   /* the user to change to, or NULL */
    bool confined;
};

/* Reads the command line.  --help, --version and --print-syscalls print and
   exit 0; an error prints one line with what to do, and exits 1. */
void options_parse(struct options *options,
                   const struct architecture *architecture, int argc,
                   char **argv);

/* Returns a client's timeout, in milliseconds, divided by --time-scale. */
int options_time(const struct options *options, int milliseconds);
