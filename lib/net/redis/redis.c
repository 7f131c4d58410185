/* SPDX-License-Identifier: MIT */
#include "net/redis/redis.h"

#include "config.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/shared.h"
#include "proto/encoding.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- The URL ---- */

__attribute__((noreturn)) static void reject_url(const char *reason) {
    server_fatal("--redis: %s; write redis://[user:password@]host:port/db or "
                 "unix:/path",
                 reason);
}

/* Copies the text, percent-decoded, as a string. */
static void copy_decoded(char *string, size_t size, struct view text,
                         const char *too_long) {
    size_t length = 0;

    while (text.length > 0) {
        int decoded = percent_decode(text);
        if (length + 1 >= size)
            reject_url(too_long);
        string[length++] = decoded > 0 ? (char)decoded : text.data[0];
        text = view_skip(text, decoded > 0 ? 3 : 1);
    }
    string[length] = '\0';
}

static void parse_unix(struct redis_server *server, struct view path) {
    struct sockaddr_un *address =
        (struct sockaddr_un *)&server->addresses[0].socket;

    if (path.length == 0 || path.data[0] != '/' ||
        path.length >= sizeof address->sun_path)
        reject_url("the path of the socket must start with "
                   "a slash and be shorter than 108 bytes");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path.data, path.length);
    server->addresses[0].length = sizeof *address;
    server->count = 1;
    snprintf(server->text, sizeof server->text, "unix:%s", address->sun_path);
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

static void look_up(struct redis_server *server, const char *host,
                    const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *one;

    int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0)
        server_fatal("--redis: cannot find the host %s (%s); check its name",
                     host, gai_strerror(result));
    for (one = found; one != NULL && server->count < REDIS_ADDRESSES;
         one = one->ai_next) {
        struct redis_address *address = &server->addresses[server->count++];
        memcpy(&address->socket, one->ai_addr, one->ai_addrlen);
        address->length = one->ai_addrlen;
    }
    freeaddrinfo(found);
}

/* Parses "user:password"; the user, or both, may be missing. */
static void parse_credentials(struct redis_server *server, struct view text) {
    static const char too_long[] = "user or password is too long";
    struct view user = view_cut(&text, ':');

    copy_decoded(server->user, sizeof server->user, user, too_long);
    copy_decoded(server->password, sizeof server->password, text, too_long);
    if (server->user[0] != '\0' && server->password[0] == '\0')
        reject_url("a user needs a password");
}

static void parse_tcp(struct redis_server *server, struct view rest) {
    struct view authority = view_cut(&rest, '/');
    struct view host_text, port_text;
    char host[256], port[8];
    uint64_t number = 0, database = 0;

    size_t at = authority.length; /* a password may hold an @ */
    while (at > 0 && authority.data[at - 1] != '@')
        at--;
    if (at > 0)
        parse_credentials(server, view_slice(authority, 0, at - 1));
    if (!split_port(view_skip(authority, at), &host_text, &port_text))
        reject_url("it contains no valid host");
    copy_decoded(host, sizeof host, host_text, "it contains no valid host");
    if (!view_number(port_text, 65535, &number) || number == 0)
        reject_url("the port must be 1 to 65535");
    copy_decoded(port, sizeof port, port_text, "the port must be 1 to 65535");
    if (rest.length > 0 && !view_number(rest, 1000000, &database))
        reject_url("the database must be a number");
    server->port = (int)number;
    server->database = (int)database;
    snprintf(server->text, sizeof server->text, "redis://%s%s%s:%s/%d",
             strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "",
             port, server->database);
    look_up(server, host, port);
}

void redis_parse(struct redis_server *server, const char *url) {
    struct view text = view_of(url);

    *server = (struct redis_server){0};
    server->shared = shared_allocate(sizeof *server->shared);
    if (view_starts_with(text, VIEW("unix:")))
        parse_unix(server, view_skip(text, 5));
    else if (view_starts_with(text, VIEW("redis://")))
        parse_tcp(server, view_skip(text, 8));
    else
        reject_url("this is not the URL of a Redis server");
}

/* ---- The beginning of a connection ---- */

int redis_connect_start(const struct redis_server *server, unsigned address) {
    const struct redis_address *to = &server->addresses[address];
    int on = 1;
    int descriptor = socket(to->socket.ss_family,
                            SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (descriptor < 0)
        return -1;
    /* net/listener.c explains this option.  A Unix socket does not have it. */
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

unsigned redis_append_handshake(const struct redis_server *server,
                                struct buffer *commands) {
    unsigned replies = 0;
    char database[16];

    if (server->password[0] != '\0') {
        struct view words[3] = {VIEW("AUTH")};
        size_t count = 1;
        if (server->user[0] != '\0')
            words[count++] = view_of(server->user);
        words[count++] = view_of(server->password);
        resp_append_command(commands, words, count);
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

/* Returns how much of a text is logged, in bytes, for "%.*s" of printf(3). */
static int length_of(struct view text) {
    return (int)MIN(text.length, 200);
}

bool redis_claim_attempt(const struct redis_server *server, int64_t now) {
    return !atomic_load_explicit(&server->shared->down, memory_order_relaxed) ||
           clock_claim(&server->shared->retry_at, now, REDIS_RETRY);
}

void redis_report_failure(const struct redis_server *server, struct view reason,
                          int64_t now) {
    atomic_store(&server->shared->failed_at, now);
    log_limited(&server->shared->failure,
                "Redis at %s failed on one connection: %.*s", server->text,
                length_of(reason), reason.data);
}

/* Called at each failed attempt.  A message that comes too soon after the last
   one (REDIS_LOG_INTERVAL) is logged by a later call. */
bool redis_report_down(const struct redis_server *server, struct view reason,
                       int64_t since, int64_t now) {
    struct redis_shared *shared = server->shared;
    int64_t replied_at = atomic_load(&shared->replied_at);

    /* The clock is coarse: the reply and `now` may have the same time. */
    if (replied_at > since || replied_at >= now) {
        redis_report_failure(server, reason, now);
        return false;
    }
    atomic_store(&shared->retry_at, now + REDIS_RETRY);
    if (!atomic_exchange(&shared->down, true))
        atomic_fetch_add(&shared->unavailable.suppressed, 1);
    if (!atomic_load(&shared->logged_down) &&
        clock_claim(&shared->unavailable.next_at, now, REDIS_LOG_INTERVAL)) {
        atomic_store(&shared->logged_down, true);
        log_line(&shared->unavailable, "Redis at %s is unavailable: %.*s",
                 server->text, length_of(reason), reason.data);
    }
    return true;
}

void redis_report_unexpected(const struct redis_server *server,
                             const struct resp_reply *reply) {
    struct view text =
        reply->type == RESP_ERROR ? reply->text : VIEW("of another type");

    log_limited(&server->shared->unexpected,
                "Redis at %s gives an unexpected reply: %.*s", server->text,
                length_of(text), text.data);
}

void redis_count_missed(const struct redis_server *server, size_t requests) {
    if (requests > 0)
        atomic_fetch_add(&server->shared->unanswered, requests);
}

/* Called for each reply; the second and third condition are rarely true. */
void redis_report_reply(const struct redis_server *server, int64_t now) {
    struct redis_shared *shared = server->shared;

    if (atomic_load_explicit(&shared->replied_at, memory_order_relaxed) < now)
        atomic_store_explicit(&shared->replied_at, now, memory_order_relaxed);
    if (atomic_load_explicit(&shared->down, memory_order_relaxed))
        atomic_store(&shared->down, false);
    if (atomic_load_explicit(&shared->logged_down, memory_order_relaxed) &&
        clock_claim(&shared->log_back_at, now, REDIS_LOG_INTERVAL) &&
        atomic_exchange(&shared->logged_down, false))
        log_line(NULL,
                 "Redis at %s is back; %zu requests were answered without it",
                 server->text, atomic_exchange(&shared->unanswered, 0));
}
