/* SPDX-License-Identifier: MIT */
/*
 * Where Redis is, how a connection to it begins, and whether it answers: what
 * the blocking client and the evented pipeline have in common.
 */
#ifndef NET_REDIS_H
#define NET_REDIS_H

#include "proto/bytes.h"

#include <stdatomic.h>
#include <sys/socket.h>

#define REDIS_ADDRESSES 8

/* What all processes of a server know together, so that a hundred workers say
   once, and not a hundred times, that Redis has gone. */
struct redis_shared {
    _Atomic bool down;
    _Atomic bool refusing;
    _Atomic unsigned address; /* the one that answered last */
    _Atomic int64_t retry_at; /* while it is down; clock_milliseconds() */
};

struct redis_server {
    /* All that the host name stands for: "localhost" is ::1 and 127.0.0.1, and
       Redis may listen on one of them only. */
    struct redis_address {
        struct sockaddr_storage socket;
        socklen_t length;
    } addresses[REDIS_ADDRESSES];
    unsigned count;
    char user[128];
    char password[128];
    int database;
    char text[300]; /* the URL without the password, for messages */
    struct redis_shared *shared;
};

/*
 * Reads redis://[[user]:password@]host[:port][/database] or unix:/path and
 * looks the host name up, once: a host that moves wants a restart.  Returns 0,
 * or -1 with a sentence in `error` that says what is wrong.
 */
int redis_parse(struct redis_server *server, const char *url, char *error,
                size_t size);

/* Begins to connect to one of the addresses, without waiting: the descriptor,
   non-blocking, or -1 with errno set. */
int redis_begin(const struct redis_server *server, unsigned address);

/* How a connection that began has come out: 0, or -1 with errno set. */
int redis_outcome(int descriptor);

/* Appends what a new connection must say first (AUTH, SELECT) and returns how
   many replies that brings, each of which must be +OK. */
unsigned redis_append_handshake(const struct redis_server *server,
                                struct buffer *commands);

/* May the caller try Redis now?  While it is down, one of all processes and
   threads may, every REDIS_RETRY; the others need not wait in vain. */
bool redis_may_try(const struct redis_server *server, int64_t now);

/* Say on standard error that Redis is unavailable, that it refuses a command,
   or that it answers: once for each change. */
void redis_is_down(const struct redis_server *server, const char *reason,
                   int64_t now);
void redis_refuses(const struct redis_server *server, struct view reply);
void redis_is_up(const struct redis_server *server);

#endif
