/* SPDX-License-Identifier: MIT */
#include "net/server.h"

#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Prints to standard output, or to standard error if --log uses the former. */
static void print(const struct server *server, const char *text,
                  size_t length) {
    output_text(server->options.log ? STDERR_FILENO : STDOUT_FILENO, text,
                length);
}

/* ---- The start ---- */

/* Changes permanently from root to another user. */
static void change_user(const char *name) {
    const struct passwd *user = getpwnam(name);

    if (user == NULL)
        server_fatal("--user: this system has no user '%s'", name);
    if (initgroups(name, user->pw_gid) < 0 || setgid(user->pw_gid) < 0 ||
        setuid(user->pw_uid) < 0)
        server_fatal("--user: cannot become '%s' (%s); only root can", name,
                     strerror(errno));
}

/* Few workers are better than many that the kernel kills. */
static void limit_workers(struct server *server) {
    size_t wanted = server->options.workers;
    size_t room =
        limit_by_memory(wanted, 0, server->architecture->worker_memory);

    server->options.workers = room;
    if (room < wanted)
        log_line(NULL,
                 "memory for %zu of %zu workers only; raise the memory limit, "
                 "or give fewer --workers",
                 room, wanted);
}

/* Opens all listening sockets: later no port may be bound (ops/confine.c). */
static void open_listeners(struct server *server) {
    const struct options *options = &server->options;
    size_t count = options->listener_each ? options->workers : 1;

    server->listeners = calloc(count, sizeof server->listeners[0]);
    if (server->listeners == NULL)
        server_fatal("no memory for %zu listening sockets", count);
    server->listeners[0] = server->listener = listener_open(options);
    for (size_t i = 1; i < count; i++)
        server->listeners[i] = listener_open_another(options, server->listener);
    server->listeners_count = count;
}

void server_start(struct server *server,
                  const struct architecture *architecture, int argc,
                  char **argv) {
    struct options *options = &server->options;

    *server = (struct server){.architecture = architecture};
    options_parse(options, architecture, argc, argv);
    ops_start(architecture->has_workers ? options->workers : CHILDREN_LIMIT,
              options->log);
    redis_parse(&server->redis, options->redis);
    redis_pool_init(&server->redis_pool, &server->redis);
    if (architecture->worker_memory > 0)
        limit_workers(server);
    open_listeners(server);
    if (options->user != NULL)
        change_user(options->user);
    app_open(&server->app, options->root);
    server->refusals = shared_allocate(sizeof *server->refusals);
    server->counters = statistics_create(options->workers);
    signal(SIGPIPE, SIG_IGN); /* sendfile(2) has no MSG_NOSIGNAL */
    signal(SIGXFSZ, SIG_IGN); /* a log may reach the limit of a file's size */
    signal(SIGCHLD, SIG_DFL); /* if ignored, wait(2) reports no child */
    stop_init(server->listeners, &server->listeners_count);
    /* Reads the time zone once; otherwise each child would read it. */
    tzset();
    ops_confine_files(options->confined, options->root, server->redis.port);
}

/* Reads the address first, because ops_confine_calls() forbids getsockname. */
void server_ready(struct server *server) {
    const struct options *options = &server->options;
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN], port[8], banner[1000];

    if (getsockname(server->listener, (struct sockaddr *)&address, &length) <
            0 ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host,
                    port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        server_fatal("cannot read the address of the listening socket");
    bool is_ipv6 = strchr(host, ':') != NULL;
    const char *rights =
        ops_confine_calls(options->confined, server->architecture->calls);
    int size =
        snprintf(banner, sizeof banner,
                 "architecture  %s: %s\npid           %d\nworkers       %zu\n"
                 "url           http://%s%s%s:%s/\nredis         %s\n"
                 "confined      %s\n",
                 server->architecture->name, server->architecture->summary,
                 (int)getpid(), options->workers, is_ipv6 ? "[" : "", host,
                 is_ipv6 ? "]" : "", port, server->redis.text, rights);
    print(server, banner, (size_t)size);
}

/* ---- Accepting ---- */

void server_make_listener_nonblocking(const struct server *server) {
    int flags = fcntl(server->listener, F_GETFL);
    if (fcntl(server->listener, F_SETFL, flags | O_NONBLOCK) < 0)
        server_fatal("cannot make the socket non-blocking: %s",
                     strerror(errno));
}

static void set_client_address(struct client *client,
                               const struct sockaddr_storage *from) {
    const void *address =
        from->ss_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)from)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)from)->sin_addr;

    if (inet_ntop(from->ss_family, address, client->address,
                  sizeof client->address) == NULL)
        client->address[0] = '\0';
}

void server_adopt(const struct server *server, int socket,
                  struct client *client) {
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof from;

    *client = (struct client){.socket = socket};
    if (server->options.log &&
        getpeername(socket, (struct sockaddr *)&from, &length) == 0)
        set_client_address(client, &from);
}

/* Returns whether to pause after this errno of accept4(2).  Sets errno to
   EAGAIN if the next call may succeed, or if the server stops. */
static bool check_accept_error(const struct server *server) {
    int error = errno;

    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        shortage_report("descriptors or memory");
        return true;
    case EINVAL: /* another process has shut the socket down */
        errno = EAGAIN;
        return true;
    case EAGAIN:
    case EINTR:
    case ECONNABORTED: /* a waiting client has left */
        errno = EAGAIN;
        return false;
    default: /* for example, the filter of a container forbids the call */
        log_limited(server->refusals,
                    "cannot accept clients (%s), and tries again",
                    strerror(error));
        errno = error;
        return true;
    }
}

bool server_accept(const struct server *server, int flags,
                   struct client *client) {
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof from;
    bool log = server->options.log;

    client->address[0] = '\0';
    client->socket =
        accept4(server->listener, log ? (struct sockaddr *)&from : NULL,
                log ? &length : NULL, flags | SOCK_CLOEXEC);
    if (client->socket < 0) {
        if (check_accept_error(server) && (flags & SOCK_NONBLOCK) == 0)
            poll(NULL, 0, RETRY_DELAY); /* a client may disconnect meanwhile */
        return false;
    }
    if (log)
        set_client_address(client, &from);
    return true;
}

void server_take_listener(struct server *server, size_t number) {
    if (!server->options.listener_each)
        return;
    for (size_t i = 0; i < server->listeners_count; i++)
        if (i != number)
            close(server->listeners[i]);
    server->listener = server->listeners[0] = server->listeners[number];
    server->listeners_count = 1;
}

/* ---- After each exchange ---- */

/* Escapes ", \ and all bytes that are not printable ASCII. */
static void append_printable(struct buffer *line, struct view text) {
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        char escaped[5];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            buffer_append(line, view_slice(text, i, 1));
        } else {
            snprintf(escaped, sizeof escaped, "\\x%02x", byte);
            buffer_append(line, view_of(escaped));
        }
    }
}

/* Prints a line in the Common Log Format.  With stdio, fork would copy its
   buffer, and the line would appear twice. */
static void log_exchange(const struct client *client,
                         const struct exchange *exchange) {
    struct view request = exchange->request.line;
    struct buffer line = {0};
    char time[40];
    struct tm tm;

    localtime_r(&exchange->response.cached_time->now, &tm);
    strftime(time, sizeof time, " - - [%d/%b/%Y:%H:%M:%S %z] \"", &tm);
    buffer_append(&line, view_of(client->address));
    buffer_append(&line, view_of(time));
    append_printable(&line, request.length > 0 ? request : VIEW("-"));
    buffer_append(&line, VIEW("\" "));
    buffer_append_number(&line, exchange->response.status);
    buffer_append(&line, VIEW(" "));
    /* All bytes sent except the head. */
    uint64_t bytes = exchange->sent - exchange->response.head_length;
    if (bytes > 0)
        buffer_append_number(&line, (int64_t)bytes);
    else
        buffer_append(&line, VIEW("-"));
    buffer_append(&line, VIEW("\n"));
    if (!line.failed)
        output_line(STDOUT_FILENO, line.data, line.length);
    buffer_free(&line);
}

void server_exchange_done(const struct server *server,
                          struct counters *counters,
                          const struct client *client,
                          const struct connection *connection) {
    /* This call also sends bytes that MSG_MORE has kept back (transmit.c).  It
       fails harmlessly if the client has left. */
    if (!connection->keep_alive)
        shutdown(client->socket, SHUT_WR);
    statistics_count(counters, &connection->exchange);
    if (server->options.log)
        log_exchange(client, &connection->exchange);
}

/* ---- The end ---- */

/* The text is collected in memory: stdio would lose lines if their reader is
   slow. */
int server_end(struct server *server) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);

    redis_pool_destroy(&server->redis_pool);
    while (server->listeners_count > 0) /* signal handlers use only open ones */
        close(server->listeners[--server->listeners_count]);
    free(server->listeners);
    if (stream != NULL)
        statistics_print(server, stream);
    if (stream == NULL || fflush(stream) != 0 || ferror(stream) != 0)
        server_fatal("no memory for the text to print: %s", strerror(ENOMEM));
    fclose(stream);
    print(server, text, length);
    free(text);
    ops_end();
    app_close(&server->app);
    return EXIT_SUCCESS;
}
