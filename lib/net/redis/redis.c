/* SPDX-License-Identifier: MIT */
#include "net/redis/redis.h"

#include "config.h"
#include "process/clock.h"
#include "process/shared.h"
#include "proto/encoding.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- The URL ---- */

static int complain(char *error, size_t size, const char *what) {
    snprintf(error, size,
             "--redis: %s; write redis://[user:password@]host:port/db or "
             "unix:/path",
             what);
    return -1;
}

/* Copies the text, percent-decoded, as a string.  False if it does not fit. */
static bool copy_decoded(char *string, size_t size, struct view text) {
    size_t length = 0;

    while (text.length > 0) {
        int decoded = percent_decode(text);
        if (length + 1 >= size)
            return false;
        string[length++] = decoded > 0 ? (char)decoded : text.data[0];
        text = view_skip(text, decoded > 0 ? 3 : 1);
    }
    string[length] = '\0';
    return true;
}

static int parse_unix(struct redis_server *server, struct view path,
                      char *error, size_t size) {
    struct sockaddr_un *address =
        (struct sockaddr_un *)&server->addresses[0].socket;

    if (path.length == 0 || path.data[0] != '/' ||
        path.length >= sizeof address->sun_path)
        return complain(error, size,
                        "the path of the socket must start with "
                        "a slash and be shorter than 108 bytes");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path.data, path.length);
    server->addresses[0].length = sizeof *address;
    server->count = 1;
    snprintf(server->text, sizeof server->text, "unix:%s", address->sun_path);
    return 0;
}

/* Splits "host:port" or "[::1]:port". */
static bool split_port(struct view authority, struct view *host,
                       struct view *port) {
    bool bracketed = view_starts_with(authority, VIEW("["));
    size_t end = view_find(authority, bracketed ? ']' : ':');

    if (bracketed && end == authority.length)
        return false;
    *host = view_slice(authority, bracketed, end - bracketed);
    struct view rest = view_skip(authority, end + bracketed);
    if (rest.length > 0 && rest.data[0] != ':')
        return false;
    *port = rest.length > 0 ? view_skip(rest, 1) : VIEW("6379");
    return host->length > 0;
}

static int look_up(struct redis_server *server, const char *host,
                   const char *port, char *error, size_t size) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *one;

    int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0) {
        snprintf(error, size,
                 "--redis: cannot find the host %s (%s); check its name", host,
                 gai_strerror(result));
        return -1;
    }
    for (one = found; one != NULL && server->count < REDIS_ADDRESSES;
         one = one->ai_next) {
        struct redis_address *address = &server->addresses[server->count++];
        memcpy(&address->socket, one->ai_addr, one->ai_addrlen);
        address->length = one->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

static int parse_tcp(struct redis_server *server, struct view rest, char *error,
                     size_t size) {
    struct view credentials = {0}, host_text, port_text;
    struct view authority = view_cut(&rest, '/');
    struct view database = rest;
    char host[256], port[8];
    uint64_t number = 0;

    size_t at = authority.length; /* a password may hold an @ */
    while (at > 0 && authority.data[at - 1] != '@')
        at--;
    if (at > 0) {
        credentials = view_slice(authority, 0, at - 1);
        authority = view_skip(authority, at);
        struct view user = view_cut(&credentials, ':');
        if (!copy_decoded(server->user, sizeof server->user, user) ||
            !copy_decoded(server->password, sizeof server->password,
                          credentials))
            return complain(error, size, "user or password is too long");
        if (server->user[0] != '\0' && server->password[0] == '\0')
            return complain(error, size, "a user needs a password");
    }
    if (!split_port(authority, &host_text, &port_text) ||
        !copy_decoded(host, sizeof host, host_text))
        return complain(error, size, "there is no host in it");
    if (!view_number(port_text, 65535, &number) || number == 0 ||
        !copy_decoded(port, sizeof port, port_text))
        return complain(error, size, "the port must be 1 to 65535");
    number = 0;
    if (database.length > 0 && !view_number(database, 1000000, &number))
        return complain(error, size, "the database must be a number");
    server->database = (int)number;
    snprintf(server->text, sizeof server->text, "redis://%s%s%s:%s/%d",
             strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "",
             port, server->database);
    return look_up(server, host, port, error, size);
}

int redis_parse(struct redis_server *server, const char *url, char *error,
                size_t size) {
    struct view text = view_of(url);

    *server = (struct redis_server){0};
    server->shared = shared_memory(sizeof *server->shared);
    if (server->shared == NULL) {
        snprintf(error, size, "no memory to share (%s); allow it more",
                 strerror(errno));
        return -1;
    }
    if (view_starts_with(text, VIEW("unix:")))
        return parse_unix(server, view_skip(text, 5), error, size);
    if (view_starts_with(text, VIEW("redis://")))
        return parse_tcp(server, view_skip(text, 8), error, size);
    return complain(error, size, "this is no URL of a Redis server");
}

/* ---- The beginning of a connection ---- */

int redis_connect_start(const struct redis_server *server, unsigned address) {
    const struct redis_address *to = &server->addresses[address];
    int on = 1;
    int descriptor = socket(to->socket.ss_family,
                            SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (descriptor < 0)
        return -1;
    /* Since Linux 1.0.  Without it, the second of two small writes waits until
       the host of Redis has acknowledged the first (Nagle's algorithm), which
       may take 40 ms.  A Unix socket has no such option, and needs none. */
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(descriptor, (const struct sockaddr *)&to->socket, to->length) <
            0 &&
        errno != EINPROGRESS) {
        int error = errno;
        close(descriptor);
        errno = error;
        return -1;
    }
    return descriptor;
}

int redis_connect_time(const struct redis_server *server) {
    return REDIS_CONNECT_TIMEOUT / (int)server->count;
}

int redis_connect_result(int descriptor) {
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        return -1;
    errno = error;
    return error == 0 ? 0 : -1;
}

unsigned redis_append_handshake(const struct redis_server *server,
                                struct buffer *commands) {
    unsigned replies = 0;
    char database[16];

    if (server->password[0] != '\0') {
        struct view words[] = {VIEW("AUTH"), view_of(server->user),
                               view_of(server->password)};
        if (server->user[0] != '\0') {
            resp_append_command(commands, words, 3);
        } else {
            words[1] = words[2];
            resp_append_command(commands, words, 2);
        }
        replies++;
    }
    if (server->database != 0) {
        snprintf(database, sizeof database, "%d", server->database);
        resp_append_command(
            commands, (struct view[]){VIEW("SELECT"), view_of(database)}, 2);
        replies++;
    }
    return replies;
}

/* ---- The state that all processes share, and the log ---- */

static void say(const struct redis_server *server, struct log_limit *limit,
                const char *what, struct view why) {
    log_limited(limit, "Redis at %s %s: %.*s", server->text, what,
                (int)(why.length < 200 ? why.length : 200), why.data);
}

void redis_log(const struct redis_server *server, struct log_limit *limit,
               const char *what, struct view why, int64_t now) {
    atomic_fetch_add(&limit->untold, 1);
    if (log_limit_claim(limit, now, LOG_INTERVAL))
        say(server, limit, what, why);
}

bool redis_claim_try(const struct redis_server *server, int64_t now) {
    int64_t retry_at = atomic_load(&server->shared->retry_at);

    if (!atomic_load_explicit(&server->shared->down, memory_order_relaxed))
        return true;
    /* Of all that come at once, one can set the new time: that one tries. */
    return now >= retry_at &&
           atomic_compare_exchange_strong(&server->shared->retry_at, &retry_at,
                                          now + REDIS_RETRY);
}

bool redis_answers(const struct redis_server *server, int64_t begun) {
    int64_t answered_at = atomic_load(&server->shared->answered_at);
    return answered_at != 0 && begun - answered_at < REDIS_RETRY;
}

void redis_report_failure(const struct redis_server *server, const char *reason,
                          int64_t now) {
    redis_log(server, &server->shared->failure, "failed on one connection",
              view_of(reason), now);
}

/* Called at each failed try.  So a later call logs what came too soon after the
   last message (REDIS_LOG_INTERVAL). */
bool redis_report_down(const struct redis_server *server, const char *reason,
                       int64_t since, int64_t now) {
    struct redis_shared *shared = server->shared;

    int64_t answered_at = atomic_load(&shared->answered_at);

    /* The clock's steps have some milliseconds: a call that begins and fails in
       one step may have seen a reply to another call in between. */
    if (answered_at > since || answered_at >= now) {
        redis_report_failure(server, reason, now);
        return false;
    }
    atomic_store(&shared->retry_at, now + REDIS_RETRY);
    if (!atomic_exchange(&shared->down, true))
        atomic_fetch_add(&shared->gone.untold, 1);
    if (!atomic_load(&shared->told_down) &&
        log_limit_claim(&shared->gone, now, REDIS_LOG_INTERVAL)) {
        atomic_store(&shared->told_down, true);
        say(server, &shared->gone, "is unavailable", view_of(reason));
    }
    return true;
}

void redis_report_nonsense(const struct redis_server *server,
                           const struct resp_reply *reply) {
    redis_log(server, &server->shared->nonsense, "gives an unexpected reply",
              reply->type == RESP_ERROR ? reply->text : VIEW("of another type"),
              clock_milliseconds());
}

void redis_count_missed(const struct redis_server *server, size_t requests) {
    if (requests > 0)
        atomic_fetch_add(&server->shared->unanswered, requests);
}

/* Called for each reply, so all but the first check is for the rare case. */
void redis_report_answer(const struct redis_server *server, int64_t now) {
    struct redis_shared *shared = server->shared;

    if (atomic_load_explicit(&shared->answered_at, memory_order_relaxed) < now)
        atomic_store_explicit(&shared->answered_at, now, memory_order_relaxed);
    if (atomic_load_explicit(&shared->down, memory_order_relaxed))
        atomic_store(&shared->down, false);
    if (atomic_load_explicit(&shared->told_down, memory_order_relaxed) &&
        log_limit_claim(&shared->back, now, REDIS_LOG_INTERVAL) &&
        atomic_exchange(&shared->told_down, false))
        log_limited(&shared->back,
                    "Redis at %s is back; %zu requests have done without it",
                    server->text, atomic_exchange(&shared->unanswered, 0));
}
