/* SPDX-License-Identifier: MIT */
#include "net/options.h"

#include "config.h"
#include "ops.h"
#include "process/log.h"
#include "proto/bytes.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef VERSION /* the Makefile reads it from pyproject.toml */
#define VERSION "unknown"
#endif

/* Sanitizers read /proc and make more system calls: no confinement. */
#ifdef SANITIZED
#define CONFINED false
#else
#define CONFINED true
#endif

enum {
    OPTION_HELP = 'h',
    OPTION_VERSION = 'V',
    OPTION_NO_CONFINEMENT = 256,
    OPTION_PRINT_SYSCALLS,
    OPTION_EACH_WORKER,
    OPTION_LISTENER_EACH
};

static const char help[] =
    "usage: %s [OPTIONS] [PORT [REDIS_HOST]]\n"
    "\n"
    "%s: %s.\n"
    "\n"
    "  -p, --port N        listen on this TCP port; 0: any free port (%d)\n"
    "  -a, --address A     listen on this address or host name (127.0.0.1)\n"
    "  -r, --redis URL     redis://[user:password@]host:port/db or unix:/path\n"
    "                      (redis://127.0.0.1:6379)\n"
    "  -w, --workers N     processes of preforking and multicore, threads of\n"
    "                      prethreading (%zu); the other servers ignore it\n"
    "  --listener-each     give each process of multicore its own listening "
    "socket\n"
    "                      (default: one for all); the other servers reject "
    "it\n"
    "  -d, --root DIR      the folder that holds public/, templates/ and the\n"
    "                      file redirects (the folder of this program)\n"
    "  -b, --backlog N     connections that may wait to be accepted (%d);\n"
    "                      net.core.somaxconn also limits them\n"
    "  -t, --time-scale N  divide the time limits of clients by N (%d): for "
    "tests\n"
    "  -l, --log           write an access log (Common Log Format) to "
    "standard\n"
    "                      output, and all other lines to standard error\n"
    "  --each-worker       print the requests of each worker at the end, not "
    "only\n"
    "                      least, median and most\n"
    "  -u, --user NAME     run as this user after the port is bound (root "
    "only)\n"
    "  --no-confinement    allow all system calls, files and ports: for gdb "
    "and\n"
    "                      valgrind\n"
    "  --print-syscalls    print the system calls that are allowed, and exit\n"
    "  -h, --help          print this help and exit\n"
    "  -V, --version       print the version and exit\n"
    "\n"
    "After SIGINT, SIGTERM or SIGHUP the server answers the requests in "
    "progress,\n"
    "prints statistics and exits.\n";

/* Counts only the cores that taskset(1) or a container allows; ignores a CPU
   quota.  The call sched_getaffinity(2) fails above 1,024 cores. */
static size_t default_workers(const struct architecture *architecture) {
    cpu_set_t cores;

    if (!architecture->worker_per_core)
        return DEFAULT_WORKERS;
    return sched_getaffinity(0, sizeof cores, &cores) == 0
               ? (size_t)CPU_COUNT(&cores)
               : 1;
}

/* The options in the form that getopt(3) requires. */
#define LETTERS  ":p:a:r:w:d:b:t:u:lhV"
/* Appended to each error message of this file. */
#define SEE_HELP "; try --help"

static uint64_t parse_number(const char *what, const char *text,
                             uint64_t lowest, uint64_t highest) {
    uint64_t number;

    if (!view_number(view_of(text), highest, &number) || number < lowest)
        server_fatal("%s must be a number from %ju to %ju, not '%s'" SEE_HELP,
                     what, (uintmax_t)lowest, (uintmax_t)highest, text);
    return number;
}

static void set_port(struct options *options, const char *text) {
    snprintf(options->port, sizeof options->port, "%ju",
             (uintmax_t)parse_number("the port", text, 0, 65535));
}

/* By default the root is the program's folder, not the current folder. */
static void set_default_root(struct options *options) {
    ssize_t length =
        readlink("/proc/self/exe", options->root, sizeof options->root - 1);
    if (length <= 0) {
        memcpy(options->root, ".", 2);
        return;
    }
    options->root[length] = '\0';
    *strrchr(options->root, '/') = '\0';
}

static void set_root(struct options *options, const char *text) {
    if (strlen(text) >= sizeof options->root)
        server_fatal("the root folder's name is too long" SEE_HELP);
    memcpy(options->root, text, strlen(text) + 1);
}

/* Reads the short form: PORT, and HOST or HOST:PORT of Redis. */
static void parse_positional(struct options *options, int count, char **words) {
    static char url[300];

    if (count > 2)
        server_fatal("'%s' is not expected here" SEE_HELP, words[2]);
    if (count > 0)
        set_port(options, words[0]);
    if (count > 1) {
        const char *colon = strchr(words[1], ':');
        bool bare_ipv6 = words[1][0] != '[' && colon != NULL &&
                         strchr(colon + 1, ':') != NULL;
        if (strlen(words[1]) > 255 || words[1][0] == '\0')
            server_fatal("'%s' is not a host name" SEE_HELP, words[1]);
        snprintf(url, sizeof url, bare_ipv6 ? "redis://[%s]" : "redis://%s",
                 words[1]);
        options->redis = url;
    }
}

static const struct option known[] = {
    {"port", required_argument, NULL, 'p'},
    {"address", required_argument, NULL, 'a'},
    {"redis", required_argument, NULL, 'r'},
    {"workers", required_argument, NULL, 'w'},
    {"root", required_argument, NULL, 'd'},
    {"backlog", required_argument, NULL, 'b'},
    {"time-scale", required_argument, NULL, 't'},
    {"log", no_argument, NULL, 'l'},
    {"listener-each", no_argument, NULL, OPTION_LISTENER_EACH},
    {"each-worker", no_argument, NULL, OPTION_EACH_WORKER},
    {"user", required_argument, NULL, 'u'},
    {"no-confinement", no_argument, NULL, OPTION_NO_CONFINEMENT},
    {"print-syscalls", no_argument, NULL, OPTION_PRINT_SYSCALLS},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* Handles the options that print something instead of starting the server. */
static void print_and_exit(const struct architecture *architecture,
                           int letter) {
    if (letter == OPTION_PRINT_SYSCALLS)
        ops_print_calls(architecture->calls);
    if (letter == OPTION_HELP)
        printf(help, architecture->name, architecture->name,
               architecture->summary, DEFAULT_PORT,
               default_workers(architecture), DEFAULT_BACKLOG,
               DEFAULT_TIME_SCALE);
    if (letter == OPTION_VERSION)
        printf("%s (ZeroHTTPd Seven) %s\n", architecture->name, VERSION);
    exit(EXIT_SUCCESS);
}

/* Reports an unknown option, or one with a missing or superfluous value. */
__attribute__((noreturn)) static void reject(int letter, char **argv) {
    if (letter == ':')
        server_fatal("the option %s needs a value" SEE_HELP, argv[optind - 1]);
    /* Names only the unknown letter: its word may have more letters (-xl). */
    if (optopt > 0 && optopt < 256 && strchr(LETTERS, optopt) == NULL)
        server_fatal("'-%c' is not understood" SEE_HELP, optopt);
    server_fatal("'%s' is not understood" SEE_HELP, argv[optind - 1]);
}

/* Returns false for an option that print_and_exit() handles. */
static bool set_option(struct options *options, int letter) {
    switch (letter) {
    case 'p':
        set_port(options, optarg);
        return true;
    case 'a':
        options->address = optarg;
        return true;
    case 'r':
        options->redis = optarg;
        return true;
    case 'w':
        options->workers =
            (size_t)parse_number("--workers", optarg, 1, WORKERS_LIMIT);
        return true;
    case 'd':
        set_root(options, optarg);
        return true;
    case 'b':
        options->backlog = (int)parse_number("--backlog", optarg, 1, 1000000);
        return true;
    case 't':
        options->time_scale =
            (int)parse_number("--time-scale", optarg, 1, TIME_SCALE_LIMIT);
        return true;
    case 'l':
        return options->log = true;
    case 'u':
        options->user = optarg;
        return true;
    case OPTION_LISTENER_EACH:
        return options->listener_each = true;
    case OPTION_EACH_WORKER:
        return options->each_worker = true;
    case OPTION_NO_CONFINEMENT:
        options->confined = false;
        return true;
    default:
        return false;
    }
}

void options_parse(struct options *options,
                   const struct architecture *architecture, int argc,
                   char **argv) {
    int letter;

    *options = (struct options){.address = "127.0.0.1",
                                .redis = "redis://127.0.0.1:6379",
                                .workers = default_workers(architecture),
                                .listener_each =
                                    architecture->listeners == LISTENER_EACH,
                                .backlog = DEFAULT_BACKLOG,
                                .time_scale = DEFAULT_TIME_SCALE,
                                .confined = CONFINED};
    snprintf(options->port, sizeof options->port, "%d", DEFAULT_PORT);
    set_default_root(options);
    opterr = 0; /* reject() prints the message, in one line */
    while ((letter = getopt_long(argc, argv, LETTERS, known, NULL)) != -1) {
        if (letter == ':' || letter == '?')
            reject(letter, argv);
        if (!set_option(options, letter))
            print_and_exit(architecture, letter);
    }
    parse_positional(options, argc - optind, argv + optind);
    if (!architecture->has_workers)
        options->workers = 1;
    if (options->listener_each && architecture->listeners == LISTENER_SHARED)
        server_fatal(
            "--listener-each is not possible: this server has one listening "
            "socket" SEE_HELP);
}

int options_time(const struct options *options, int milliseconds) {
    return milliseconds / options->time_scale;
}
