/* SPDX-License-Identifier: MIT */
#include "net/server.h"

#include "app/app.h"
#include "config.h"
#include "net/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the signal handlers know.  One server a process. */
static struct {
    _Atomic bool stopping;
    _Atomic int64_t out_of_time_at;
    pid_t owner; /* of the listening socket: the process that made it */
    int listener;
} stop = {.listener = -1};

static _Atomic bool *ran_out; /* it has been said */

void server_give_up(const char *format, ...) {
    va_list arguments;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

/* ---- Signals ---- */

/* A socket that has been shut down is readable too, but says POLLHUP as well.
 */
bool server_somebody_waits(void) {
    struct pollfd listener = {.fd = stop.listener, .events = POLLIN};

    return poll(&listener, 1, 0) > 0 && listener.revents == POLLIN;
}

/* One worker told to stop must not close the door of the others. */
static void close_door_behind_last(void) {
    if (getpid() == stop.owner && !server_somebody_waits())
        shutdown(stop.listener, SHUT_RD);
}

/* Every call here may be made in a signal handler: signal-safety(7).  setitimer
   is not in its list, but on Linux it is a bare system call as well. */
static void on_stop(int signal_number) {
    int error = errno;
    struct itimerval tick = {.it_interval = {.tv_usec = PAUSE * 1000},
                             .it_value = {.tv_usec = PAUSE * 1000}};

    (void)signal_number;
    if (!stop.stopping)
        stop.out_of_time_at = clock_milliseconds() + STOP_TIMEOUT;
    stop.stopping = true;
    /* Who waits shall be served, and nobody join them: where the backlog is
       full, the kernel drops what asks for a connection. */
    if (getpid() == stop.owner)
        listen(stop.listener, 0);
    close_door_behind_last();
    setitimer(ITIMER_REAL, &tick, NULL);
    errno = error;
}

/* It interrupts the call that sleeps; and in 01 nobody else has the time. */
static void on_tick(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (stop.stopping)
        close_door_behind_last();
    errno = error;
}

static void handle(int signal_number, void (*handler)(int)) {
    /* No SA_RESTART: calls that sleep shall return with EINTR. */
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL); /* fails for no signal used here */
}

bool server_is_stopping(void) {
    return stop.stopping;
}

bool server_is_out_of_time(void) {
    return stop.stopping && clock_milliseconds() >= stop.out_of_time_at;
}

bool server_goes_on(void) {
    return !stop.stopping ||
           (!server_is_out_of_time() && server_somebody_waits());
}

void *server_share(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        server_give_up("no memory to share (%s); allow it more",
                       strerror(errno));
    return memory;
}

void server_is_out_of(const char *what) {
    int error = errno;

    if (!atomic_exchange(ran_out, true))
        dprintf(STDERR_FILENO,
                "%s: out of %s (%s); clients wait, allow it more\n",
                program_invocation_short_name, what, strerror(error));
    errno = error;
}

pid_t server_fork(void) {
    pid_t parent = getpid();
    pid_t child = fork();

    if (child != 0)
        return child;
    /* The kernel kills us when the parent dies; it may have died already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    return 0;
}

void server_wake_parent(void) {
    if (getpid() != stop.owner && getppid() == stop.owner)
        kill(stop.owner, SIGALRM);
}

void server_tell_children(const pid_t *children, size_t count, int number) {
    for (size_t i = 0; i < count; i++)
        if (children[i] > 0)
            kill(children[i], number);
}

void server_end_children(const pid_t *children, size_t count) {
    bool killed = false;
    pid_t ended;

    server_tell_children(children, count, SIGTERM);
    while ((ended = waitpid(-1, NULL, WNOHANG)) >= 0 || errno == EINTR) {
        if (ended == 0)
            poll(NULL, 0, PAUSE);
        if (server_is_out_of_time() && !killed) {
            poll(NULL, 0, 5 * PAUSE); /* they know themselves that it is time */
            server_tell_children(children, count, SIGKILL);
            killed = true;
        }
    }
}

/* ---- The listening socket ---- */

static struct timeval timeval_of(int milliseconds) {
    return (struct timeval){.tv_sec = milliseconds / 1000,
                            .tv_usec = milliseconds % 1000 * 1000};
}

static void set_option(int descriptor, int level, int name, const void *value,
                       socklen_t size, const char *what) {
    if (setsockopt(descriptor, level, name, value, size) < 0)
        server_give_up("cannot set %s: %s", what, strerror(errno));
}

/*
 * TCP_DEFER_ACCEPT: the kernel shows a connection only when its first bytes are
 * there, for so many seconds, rounded up to 1, 3, 7, 15 ...: 10 are 15.  Then
 * it hands the silent one over, which 01 to 05 close at once and 06 and 07 in
 * REQUEST_TIMEOUT.  So silence costs nobody a worker, with one exception.  The
 * kernel has room for as many of them as for the backlog.  What comes beyond is
 * greeted with a SYN cookie (net.ipv4.tcp_syncookies), which means that nothing
 * is remembered of it, not even that it should be deferred; it is accepted
 * before it has said anything.  If it goes on so, it holds a worker of 01, 03
 * or 05 for FIRST_TIMEOUT when others wait.  To see it: --backlog 128 and
 * `ab -c 3000 -n 6000`; for ab ends with up to 3,000 connections open on which
 * it asks for nothing.  It counts those that we close as failed.  Production
 * servers put an event loop in front, for which silence is cheap.
 *
 * On Linux the connections that accept(2) returns inherit the other options,
 * which saves three calls for each of them.  The receive timeout is the
 * listener's own as well: accept then returns every ten seconds, to no harm.
 */
static void set_options(const struct server *server, int descriptor) {
    int on = 1;
    int seconds = server_time(server, REQUEST_TIMEOUT) / 1000;
    struct timeval receive = timeval_of(server_time(server, REQUEST_TIMEOUT));
    struct timeval sending = timeval_of(server_time(server, SEND_LOOK));

    seconds += seconds == 0; /* 0 would not defer at all */

    set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on,
               "SO_REUSEADDR");
    set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on,
               "TCP_NODELAY");
    set_option(descriptor, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds,
               sizeof seconds, "TCP_DEFER_ACCEPT");
    set_option(descriptor, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive,
               "SO_RCVTIMEO");
    set_option(descriptor, SOL_SOCKET, SO_SNDTIMEO, &sending, sizeof sending,
               "SO_SNDTIMEO");
}

static int listen_on(const struct server *server) {
    const struct options *options = &server->options;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE},
                    *found;

    int result = getaddrinfo(options->address, options->port, &hints, &found);
    if (result != 0)
        server_give_up(
            "cannot listen on '%s' (%s); give --address an address of this "
            "machine",
            options->address, gai_strerror(result));
    int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        server_give_up("cannot make a socket: %s", strerror(errno));
    set_options(server, descriptor);
    if (bind(descriptor, found->ai_addr, found->ai_addrlen) < 0 ||
        listen(descriptor, options->backlog) < 0) {
        const char *cure = "give another --address or --port";
        if (errno == EADDRINUSE)
            cure = "stop the program that uses it, or give another --port";
        if (errno == EACCES)
            cure = "ports below 1024 need root; give another --port";
        server_give_up("cannot listen on port %s of %s (%s); %s", options->port,
                       options->address, strerror(errno), cure);
    }
    freeaddrinfo(found);
    return descriptor;
}

static void print_url(const struct server *server) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN], port[8];

    if (getsockname(server->listener, (struct sockaddr *)&address, &length) <
            0 ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host,
                    port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        server_give_up("cannot tell the address of the listening socket");
    bool is_ipv6 = strchr(host, ':') != NULL;
    fprintf(server->notes, "url           http://%s%s%s:%s/\n",
            is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

static void print_confinement(const struct server *server, int calls) {
    static const char *const files[] = {
        "all files and ports (this kernel has no Landlock)",
        "public/, templates/, all ports (this kernel's Landlock knows none)",
        "public/, templates/, the port of Redis",
    };

    if (!server->options.confined)
        fprintf(server->notes, "confined      no\n");
    else if (calls == 0)
        fprintf(server->notes, "confined      to all system calls, %s\n",
                files[server->files_confined]);
    else
        fprintf(server->notes, "confined      to %d system calls, %s\n", calls,
                files[server->files_confined]);
}

static void print_banner(const struct server *server) {
    fprintf(server->notes, "architecture  %s: %s\npid           %d\n",
            server->architecture->name, server->architecture->summary,
            (int)getpid());
    fprintf(server->notes, "workers       %zu\n", server->options.workers);
    print_url(server);
}

/* How many there may be; asked for once, because it costs a system call. */
static size_t descriptors;

/* One descriptor a connection: take as many as we may have. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        server_give_up("cannot ask for the limit of descriptors: %s",
                       strerror(errno));
    if (limit.rlim_max < DESCRIPTORS_LEAST)
        server_give_up("%ju descriptors are too few; allow it %d (ulimit -n)",
                       (uintmax_t)limit.rlim_max, DESCRIPTORS_LEAST);
    limit.rlim_cur =
        limit.rlim_max < DESCRIPTORS_LIMIT ? limit.rlim_max : DESCRIPTORS_LIMIT;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* else we go on with fewer */
    descriptors = (size_t)sysconf(_SC_OPEN_MAX);
}

/* Who started us may have closed them (`>&-`).  The next file or socket would
   then be number 1, and a line of the log would go to a client or to Redis. */
static void open_standard_descriptors(void) {
    int descriptor;

    do {
        descriptor = open("/dev/null", O_RDWR);
    } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor < 0)
        server_give_up("cannot open /dev/null: %s", strerror(errno));
    close(descriptor);
}

int server_time(const struct server *server, int milliseconds) {
    return milliseconds / server->options.time_scale;
}

size_t server_room_for_clients(size_t served, size_t more) {
    size_t reserved = RESERVED_DESCRIPTORS < descriptors / 2
                          ? RESERVED_DESCRIPTORS
                          : descriptors / 2;
    size_t room = descriptors - reserved;

    room =
        room > served * (1 + more) ? room - served * more : room / (1 + more);
    return room > 0 ? room : 1;
}

/* ---- The start ---- */

/* From root to somebody else, who cannot come back. */
static void become(const char *name) {
    const struct passwd *user = getpwnam(name);

    if (user == NULL)
        server_give_up("--user: this system has no user '%s'", name);
    if (initgroups(name, user->pw_gid) < 0 || setgid(user->pw_gid) < 0 ||
        setuid(user->pw_uid) < 0)
        server_give_up("--user: cannot become '%s' (%s); only root can", name,
                       strerror(errno));
}

static void give_up_confinement(void) {
    server_give_up("cannot confine itself (%s); give --no-confinement",
                   strerror(errno));
}

/* The port of Redis; 0 for a Unix socket. */
static int redis_port(const struct redis_server *redis) {
    const struct sockaddr_storage *first = &redis->addresses[0].socket;

    if (first->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)first)->sin6_port);
    if (first->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)first)->sin_port);
    return 0;
}

void server_start(struct server *server,
                  const struct architecture *architecture, int argc,
                  char **argv) {
    char error[2 * PATH_MAX];
    struct options *options = &server->options;

    *server = (struct server){.architecture = architecture};
    open_standard_descriptors();
    options_parse(options, architecture, argc, argv);
    server->notes = options->log ? stderr : stdout;
    raise_descriptor_limit();
    if (redis_parse(&server->redis, options->redis, error, sizeof error) < 0)
        server_give_up("%s", error);
    server->listener = stop.listener = listen_on(server);
    stop.owner = getpid();
    if (options->user != NULL)
        become(options->user);
    if (app_open(&server->app, options->root, error, sizeof error) < 0)
        server_give_up("%s", error);
    server->counters = statistics_create(options->workers);
    if (server->counters == NULL)
        server_give_up("no memory for the statistics: %s", strerror(errno));
    ran_out = server_share(sizeof *ran_out);
    handle(SIGPIPE, SIG_IGN); /* sendfile(2) has no MSG_NOSIGNAL */
    handle(SIGXFSZ, SIG_IGN); /* a log may reach the limit of a file's size */
    handle(SIGALRM, on_tick);
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
    /* The C library reads the time zone when it is first needed: here, once,
       and not in every child. */
    tzset();
    if (options->confined)
        server->files_confined =
            confine_files_and_ports(options->root, redis_port(&server->redis));
    if (server->files_confined < 0)
        give_up_confinement();
}

void server_ready(const struct server *server) {
    int calls = 0;

    print_banner(server); /* beforehand: it needs calls that serving does not */
    if (server->options.confined)
        calls = confine_calls(server->architecture);
    if (calls < 0)
        give_up_confinement();
    fprintf(server->notes, "redis         %s\n", server->redis.text);
    print_confinement(server, calls);
    fflush(server->notes); /* before any fork: a child would print it again */
}

/* ---- Accepting ---- */

static void note_address(struct client *client,
                         const struct sockaddr_storage *from) {
    const void *address =
        from->ss_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)from)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)from)->sin_addr;

    if (inet_ntop(from->ss_family, address, client->address,
                  sizeof client->address) == NULL)
        client->address[0] = '\0';
}

void server_accept_without_waiting(const struct server *server) {
    int flags = fcntl(server->listener, F_GETFL);
    if (fcntl(server->listener, F_SETFL, flags | O_NONBLOCK) < 0)
        server_give_up("cannot make the socket non-blocking: %s",
                       strerror(errno));
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
        /* A client that left while it waited is like one that never came;
           accept(2) lists what a network may do to it. */
        bool short_of_something = errno == EMFILE || errno == ENFILE ||
                                  errno == ENOBUFS || errno == ENOMEM;
        if (!short_of_something) {
            errno = EAGAIN;
            return false;
        }
        server_is_out_of("descriptors or memory");
        if ((flags & SOCK_NONBLOCK) == 0)
            poll(NULL, 0, PAUSE); /* some client will end meanwhile */
        return false;
    }
    if (log)
        note_address(client, &from);
    return true;
}

/* ---- The access log ---- */

/* Only printable ASCII reaches the log: a request line may hold anything. */
static void append_printable(struct buffer *line, struct view text) {
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        char escaped[5];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            buffer_append(line, view_part(text, i, 1));
        } else {
            snprintf(escaped, sizeof escaped, "\\x%02x", byte);
            buffer_append(line, view_of(escaped));
        }
    }
}

/* Written in one piece, so that lines of many workers do not mix, and without
   stdio, whose buffer a fork would double.  A production server hands its log
   to a thread or a pipe: here the reader of a full pipe holds everybody up. */
void server_log(const struct server *server, const struct client *client,
                const struct exchange *exchange) {
    struct view request = exchange->request.line;
    struct buffer line = {0};
    char time[40];
    struct tm tm;

    if (!server->options.log)
        return;
    time_t now = exchange->response.moment->now;
    localtime_r(&now, &tm);
    strftime(time, sizeof time, "%d/%b/%Y:%H:%M:%S %z", &tm);
    buffer_append(&line, view_of(client->address));
    buffer_append(&line, VIEW(" - - ["));
    buffer_append(&line, view_of(time));
    buffer_append(&line, VIEW("] \""));
    append_printable(&line, request.length > 0 ? request : VIEW("-"));
    buffer_append(&line, VIEW("\" "));
    buffer_append_number(&line, exchange->response.status);
    buffer_append(&line, VIEW(" "));
    /* All bytes sent that are not head. */
    uint64_t bytes = exchange->sent - exchange->response.head.length;
    if (bytes > 0)
        buffer_append_number(&line, (int64_t)bytes);
    else
        buffer_append(&line, VIEW("-"));
    buffer_append(&line, VIEW("\n"));
    if (!line.failed &&
        write(STDOUT_FILENO, line.data, line.length) < (ssize_t)line.length) {
        /* Nobody reads the log: no reason not to serve. */
    }
    buffer_free(&line);
}

/* ---- The end ---- */

int server_end(struct server *server) {
    close(server->listener);
    statistics_print(server->counters, server->options.workers,
                     server->architecture->has_workers, server->notes);
    app_close(&server->app);
    return EXIT_SUCCESS;
}
