/* SPDX-License-Identifier: MIT */
/*
 * Redis for the baselines: sends fixed commands, and finds the end of a reply.
 *
 * Each --ask is one round trip: the command is sent, the whole reply is read
 * and dropped, and only then the next command is sent.  Each --greet is sent
 * once, when a connection is made ("AUTH password"), and must succeed.
 *
 * Simplifications: a baseline ends when its connection to Redis breaks.  An
 * error is a reply like any other: after a measurement, check in Redis that the
 * right commands were executed.
 */
#pragma once

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define COMMANDS_LIMIT 8
/* A reply must fit: the buffer is ten times as long as 50 remarks of the usual
   length. */
#define REPLY_SIZE     65536

struct commands {
    struct command {
        char *bytes;
        size_t length;
    } list[COMMANDS_LIMIT];
    size_t count;
};

struct baseline_redis {
    struct sockaddr_storage address;
    socklen_t address_length; /* 0: there is no Redis */
    struct commands greetings;
    struct commands asks;
};

__attribute__((noreturn)) static inline void baseline_fatal(const char *what) {
    perror(what);
    exit(EXIT_FAILURE);
}

__attribute__((noreturn)) static inline void
baseline_refuse(const char *what, const char *value) {
    fprintf(stderr, "%s: '%s' %s\n", program_invocation_short_name, value,
            what);
    exit(EXIT_FAILURE);
}

/* ---- The start ---- */

/* Parses HOST:PORT or unix:PATH. */
static inline void baseline_find_redis(struct baseline_redis *redis,
                                       char *where) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct addrinfo *found, wanted = {.ai_socktype = SOCK_STREAM};
    char *port = strrchr(where, ':');

    if (strncmp(where, "unix:", 5) == 0) {
        snprintf(local.sun_path, sizeof local.sun_path, "%s", where + 5);
        memcpy(&redis->address, &local, sizeof local);
        redis->address_length = sizeof local;
        return;
    }
    if (port == NULL)
        baseline_refuse("is not HOST:PORT", where);
    *port++ = '\0';
    if (getaddrinfo(where, port, &wanted, &found) != 0)
        baseline_refuse("is not a known host", where);
    memcpy(&redis->address, found->ai_addr, found->ai_addrlen);
    redis->address_length = found->ai_addrlen;
    freeaddrinfo(found);
}

/* Encodes a command for Redis (RESP) and adds it.  `words`: the command, with
   one blank between two words. */
static inline void baseline_add_command(struct commands *commands,
                                        char *words) {
    size_t count = 1;
    char *word;

    if (commands->count == COMMANDS_LIMIT)
        baseline_refuse("is one command too many", words);
    struct command *command = &commands->list[commands->count++];
    for (const char *at = words; *at != '\0'; at++)
        count += *at == ' ';
    FILE *memory = open_memstream(&command->bytes, &command->length);
    if (memory == NULL)
        baseline_fatal("open_memstream");
    fprintf(memory, "*%zu\r\n", count);
    while ((word = strsep(&words, " ")) != NULL)
        fprintf(memory, "$%zu\r\n%s\r\n", strlen(word), word);
    if (fclose(memory) != 0)
        baseline_fatal("open_memstream");
}

/* ---- Asking ---- */

/* Returns the length of the reply at `from`; 0: the reply is incomplete. */
static inline size_t baseline_reply_length(const char *from, size_t length) {
    size_t at = 0;

    for (long due = 1; due > 0; due--) {
        const char *end = memchr(from + at, '\n', length - at);
        if (end == NULL)
            return 0;
        long number = strtol(from + at + 1, NULL, 10); /* stops at the CR */
        char type = from[at];
        at = (size_t)(end - from) + 1;
        if (type == '*' && number > 0)
            due += number;
        else if (type == '$' && number >= 0)
            at += (size_t)number + 2;
        if (at > length)
            return 0;
    }
    return at;
}

/* Makes one round trip: sleeps until the reply is complete.  Returns true
   unless the reply is an error. */
static inline bool baseline_round_trip(int redis,
                                       const struct command *command) {
    char reply[REPLY_SIZE];
    size_t length = 0;

    if (send(redis, command->bytes, command->length, 0) < 0)
        baseline_fatal("Redis");
    do {
        ssize_t count = recv(redis, reply + length, sizeof reply - length, 0);
        if (count <= 0)
            baseline_fatal("Redis");
        length += (size_t)count;
    } while (baseline_reply_length(reply, length) == 0);
    return reply[0] != '-';
}

/* Connects and greets (--greet).  Returns -1 if no --ask was given. */
static inline int baseline_connect(const struct baseline_redis *redis) {
    const struct sockaddr *address = (const struct sockaddr *)&redis->address;
    int on = 1;

    if (redis->asks.count == 0)
        return -1;
    int connection = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 ||
        connect(connection, address, redis->address_length) < 0)
        baseline_fatal("Redis");
    /* Fails on a Unix socket, which needs no such option. */
    (void)setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (size_t i = 0; i < redis->greetings.count; i++)
        if (!baseline_round_trip(connection, &redis->greetings.list[i]))
            baseline_refuse("refused the greeting", "Redis");
    return connection;
}

/* Sends all commands of one request, one after another. */
static inline void baseline_ask(const struct baseline_redis *redis,
                                int connection) {
    for (size_t i = 0; i < redis->asks.count; i++)
        baseline_round_trip(connection, &redis->asks.list[i]);
}
