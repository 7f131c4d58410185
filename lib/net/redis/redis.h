/* SPDX-License-Identifier: MIT */
/* The address of Redis, connecting to it, and whether Redis answers. */
#pragma once

#include "ops.h"
#include "process/log.h"
#include "proto/bytes.h"
#include "proto/resp.h"

#include <stdatomic.h>
#include <sys/socket.h>

#define REDIS_ADDRESSES 8

/* State that all processes of a server share.  So if Redis is down, a hundred
   workers log that only once.  Times are those of clock_milliseconds(). */
struct redis_shared {
    _Atomic bool down;
    _Atomic bool logged_down;   /* the last message was "is unavailable" */
    _Atomic size_t unanswered;  /* answered without Redis, not logged yet */
    _Atomic unsigned address;   /* the last address that answered */
    _Atomic int64_t retry_at;   /* the next attempt while Redis is down */
    _Atomic int64_t replied_at; /* the last reply to any process; 0: none yet */
    _Atomic int64_t failed_at;  /* the last failure of one connection */
    _Atomic int64_t log_back_at; /* when "is back" may be logged again */
    struct log_limit unavailable, failure, unexpected; /* messages */
};

struct redis_server {
    /* The first addresses of the host name: "localhost" is ::1 and 127.0.0.1,
       and Redis may listen on one of them only. */
    struct redis_address {
        struct sockaddr_storage socket;
        socklen_t length;
    } addresses[REDIS_ADDRESSES];
    unsigned count;
    char user[128];
    char password[128];
    int port; /* 0: a Unix socket */
    int database;
    char text[300]; /* the URL without user and password, for messages */
    struct redis_shared *shared;
};

/* Reads redis://[[user]:password@]host[:port][/database] or unix:/path and
   looks the host name up, once: if the address changes, restart the server.  An
   error prints one line and exits 1. */
void redis_parse(struct redis_server *server, const char *url);

/* Begins to connect to one of the addresses, without waiting.  Returns the
   descriptor, non-blocking, or -1 with errno set. */
int redis_connect_start(const struct redis_server *server, unsigned address);

/* Appends the commands that a new connection must send first (AUTH, SELECT).
   Returns the number of their replies, each of which must be a status (+OK). */
unsigned redis_append_handshake(const struct redis_server *server,
                                struct buffer *commands);

/* Returns whether the caller may try to reach Redis now.  While Redis is
   down, this is true for one process or thread in each REDIS_RETRY. */
bool redis_claim_attempt(const struct redis_server *server, int64_t now);

/* The next functions report an event to all processes, to the log, or to both.
   redis_report_down(): Redis is down, because a call could not connect, lost
   its new connection, or had no reply in time.  Returns false if Redis is not
   down: it has replied to any process after `since`. */
bool redis_report_down(const struct redis_server *server, struct view reason,
                       int64_t since, int64_t now);
/* Only the requests on one connection have failed. */
void redis_report_failure(const struct redis_server *server, struct view reason,
                          int64_t now);
/* Redis has rejected a command, or its reply cannot be used. */
void redis_report_unexpected(const struct redis_server *server,
                             const struct resp_reply *reply);
/* Counts requests that were answered without Redis, for the log. */
void redis_count_missed(const struct redis_server *server, size_t requests);
/* Reports that Redis has replied. */
void redis_report_reply(const struct redis_server *server, int64_t now);
