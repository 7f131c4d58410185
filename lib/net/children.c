/* SPDX-License-Identifier: MIT */
#include "net/children.h"

#include "config.h"
#include "process/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

/* Does nothing: only signals with a handler interrupt ppoll(). */
static void on_child(int signal_number) {
    (void)signal_number;
}

/* SIGCHLD is blocked, except during the sleep in ppoll(2) (since Linux 2.6.16).
   Otherwise a child could end between a check for ended children and the sleep,
   and stay a zombie until another event. */
void children_init(struct children *children, struct server *server,
                   size_t limit, bool lends) {
    struct sigaction action = {.sa_handler = on_child,
                               .sa_flags = SA_NOCLDSTOP};
    sigset_t child_ended;

    /* The slots are in shared memory.  So children can report, and the kernel
       need not copy the page when the parent writes a process id. */
    *children = (struct children){
        .server = server,
        .slots = shared_allocate(limit * sizeof(struct child)),
        .limit = limit,
        .alive = shared_allocate(sizeof *children->alive),
        .lends = lends};
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, &children->mask);
    sigaction(SIGCHLD, &action, NULL);
}

bool children_are_complete(const struct children *children) {
    return *children->alive == children->limit;
}

/* Returns the slot of this child; for child 0, the first free slot.  Returns
   the limit if there is no such slot. */
static size_t slot_of(const struct children *children, pid_t child) {
    size_t slot = 0;

    while (slot < children->limit && children->slots[slot].pid != child)
        slot++;
    return slot;
}

static void send_signal(const struct children *children, int signal_number) {
    for (size_t i = 0; i < children->limit; i++)
        if (children->slots[i].pid > 0)
            kill(children->slots[i].pid, signal_number);
}

/* ---- Connections to Redis that are lent ---- */

/* Returns a connection to lend; NULL for example if Redis has never answered,
   is down or has no free connection.  Then children connect themselves. */
static struct redis_client *connect_to_lend(const struct redis_server *server) {
    const struct redis_shared *shared = server->shared;
    bool answers = shared->replied_at != 0 && !shared->down;
    int64_t now = clock_milliseconds();

    if (!answers || redis_is_scarce(now))
        return NULL;
    struct redis_client *client = redis_client_create(server);
    if (client == NULL)
        return NULL;
    client->used_at = now;
    client->lent = true;
    redis_pipeline_connect(&client->pipeline, now);
    if (redis_client_is_open(client) &&
        (size_t)client->pipeline.source.descriptor < limit_by_descriptors(0, 0))
        return client;
    redis_client_destroy(client);
    return NULL;
}

static void take_back(struct redis_pool *pool, struct child *child) {
    struct redis_client *client = child->client;

    child->client = NULL;
    if (client == NULL)
        return;
    if (child->final_state == PIPELINE_CLOSED)
        redis_client_close(client);
    if (child->final_state == PIPELINE_OPEN) {
        redis_pipeline_set_idle(&client->pipeline);
        client->used_at = clock_milliseconds();
        redis_client_check_before_use(client); /* when the next child uses it */
    }
    redis_pool_return(pool, client);
}

/* Closes idle connections to Redis.  If such connections are scarce, wakes the
   children, so that they close idle connections, too. */
static void close_idle(struct children *children) {
    struct redis_pool *pool = &children->server->redis_pool;
    int64_t now = clock_milliseconds();

    bool scarce = redis_is_scarce(now);
    if (now - pool->checked_at < (scarce ? REDIS_RETRY : REDIS_IDLE))
        return;
    redis_pool_close_idle(pool);
    if (scarce)
        send_signal(children, SIGALRM);
}

/* ---- A child's life ---- */

pid_t children_fork(struct children *children, size_t *slot) {
    struct redis_pool *pool = &children->server->redis_pool;

    *slot = slot_of(children, 0);
    children->slots[*slot].final_state = PIPELINE_CLOSED;
    if (children->lends && pool->idle == NULL)
        pool->idle = connect_to_lend(pool->server);
    ++*children->alive; /* before the fork: the child may read it */
    pid_t child = fork();
    if (child > 0) {
        children->slots[*slot].pid = child;
        /* The parent has only one thread, so it needs no lock of the pool. */
        children->slots[*slot].client = pool->idle;
        if (pool->idle != NULL)
            pool->idle = pool->idle->next;
    }
    if (child < 0)
        --*children->alive;
    if (child != 0)
        return child;
    /* The kernel kills this process when the parent ends; the parent may have
       ended already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!stop_parent_is_alive())
        _exit(EXIT_FAILURE);
    budget_set_slot(*slot);
    if (pool->idle != NULL)
        pool->idle->next = NULL; /* only the first connection is lent */
    return 0;
}

void children_exit(struct children *children, size_t slot) {
    struct redis_pool *pool = &children->server->redis_pool;
    const struct redis_client *client = pool->idle;

    if (!children->lends)
        redis_pool_destroy(pool);
    else if (client != NULL && client->lent)
        children->slots[slot].final_state = client->pipeline.state;
    _exit(EXIT_SUCCESS);
}

/* Logs that a signal has ended a child, except when time is up: then the parent
   itself kills the children. */
static void log_crash(pid_t child, int status) {
    static struct log_limit crashes;

    if (!WIFSIGNALED(status) || server_is_out_of_time())
        return;
    const char *reason = strsignal(WTERMSIG(status));
    /* The process ID makes each text new, so only the reasons are compared. */
    if (log_count_message(&crashes, reason))
        log_line(&crashes,
                 "child %d was ended by signal %d (%s); the kernel's log may "
                 "show the reason (dmesg)",
                 (int)child, WTERMSIG(status), reason);
}

bool children_reap(struct children *children, bool wait, size_t *slot) {
    int status = 0;
    pid_t child;

    /* If a shell became this program by exec, its children have no slot. */
    do {
        child = waitpid(-1, &status, wait ? 0 : WNOHANG);
        *slot = child > 0 ? slot_of(children, child) : children->limit;
    } while (child > 0 && *slot == children->limit);
    if (child > 0) {
        log_crash(child, status);
        children->slots[*slot].pid = 0;
        --*children->alive;
        take_back(&children->server->redis_pool, &children->slots[*slot]);
        budget_reset(*slot);
    }
    close_idle(children);
    return child > 0;
}

bool children_sleep(const struct children *children, int listener,
                    int milliseconds) {
    bool room = !children_are_complete(children);
    struct pollfd entry = {.fd = listener, .events = POLLIN};
    struct timespec time = {.tv_sec = milliseconds / 1000,
                            .tv_nsec = milliseconds % 1000 * 1000000L};

    ppoll(&entry, room ? 1 : 0, &time, &children->mask);
    return entry.revents != 0;
}

void children_stop(struct children *children) {
    if (!children->stopped)
        send_signal(children, SIGTERM);
    children->stopped = true;
}

void children_end(struct children *children) {
    bool killed = false;
    size_t slot;

    send_signal(children, SIGTERM);
    while (*children->alive > 0) {
        if (children_reap(children, false, &slot))
            continue;
        poll(NULL, 0, RETRY_DELAY);
        if (server_is_out_of_time() && !killed) {
            poll(NULL, 0, 5 * RETRY_DELAY); /* children may still end */
            send_signal(children, SIGKILL);
            killed = true;
        }
    }
}
