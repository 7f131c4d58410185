/* SPDX-License-Identifier: MIT */
/*
 * Keeps files of one folder open between requests; small ones also in memory,
 * templates only in memory.
 *
 * A hit costs one system call, which checks whether the file is unchanged, at
 * most once in a round (app/response.h).  A miss opens the file.
 *
 * One cache serves all threads of a process.  A lock guards the table, and a
 * file stays open until its last borrower returns it.  At most OPEN_FILES
 * files that are not borrowed stay open, and none if the process runs out of
 * descriptors.
 */
#include "app/file.h"
#include "limits.h"
#include "ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

/* If memory is short, uthash exits by default.  With this setting the file is
   not kept, which is harmless. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

struct entry {
    struct cache *cache;
    struct file *file;
    int borrowed;   /* the lock guards this and the fields below */
    bool listed;    /* in the table; if not, its last borrower frees it */
    unsigned round; /* the round of the last check; 0: none */
    UT_hash_handle hh;
    struct entry *prev, *next; /* in the list of idle files */
    char name[];
};

struct cache {
    int folder;
    bool texts;
    size_t limit; /* of idle files */
    pthread_mutex_t lock;
    struct entry *entries; /* a table of kept files, idle or borrowed */
    struct entry *idle;    /* not borrowed, the longest unused first */
    size_t idle_count;
};

struct cache *cache_create(int folder, bool texts) {
    long descriptors = sysconf(_SC_OPEN_MAX); /* -1: there is no limit */
    struct cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->folder = folder;
    cache->texts = texts;
    cache->limit = OPEN_FILES;
    /* If descriptors are few, most of them are for clients and for Redis. */
    if (!texts && descriptors >= 0)
        cache->limit = MIN(OPEN_FILES, (size_t)descriptors / OPEN_FILES_SHARE);
    pthread_mutex_init(&cache->lock, NULL); /* cannot fail on Linux */
    return cache;
}

static void dispose(struct entry *entry) {
    file_close(entry->file);
    free(entry);
}

static void borrow(struct cache *cache, struct entry *entry) {
    if (entry->listed && entry->borrowed == 0) {
        DL_DELETE(cache->idle, entry); /* NOLINT: the list is not empty */
        cache->idle_count--;
    }
    entry->borrowed++;
}

/* Takes an entry out of the table; its borrowers keep it. */
static void drop(struct cache *cache, struct entry *entry) {
    borrow(cache, entry);
    HASH_DEL(cache->entries, entry); /* NOLINT: it is in the table */
    entry->listed = false;
    if (--entry->borrowed == 0)
        dispose(entry);
}

static void drop_idle(struct cache *cache, size_t limit) {
    while (cache->idle != NULL && cache->idle_count > limit)
        drop(cache, cache->idle); /* NOLINT: a dropped entry is not in it */
}

static void give_back(struct cache *cache, struct entry *entry) {
    if (--entry->borrowed > 0)
        return;
    if (!entry->listed) {
        dispose(entry);
        return;
    }
    DL_APPEND(cache->idle, entry);
    cache->idle_count++;
    drop_idle(cache, cache->limit);
}

void cache_destroy(struct cache *cache) {
    drop_idle(cache, 0);
    close(cache->folder);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* May the file be kept?  Contents in memory may be kept only if a later change
   certainly has a later time.  The clock of a file system may tick once in two
   seconds.  But templates are always kept.  Otherwise, if 02 starts right after
   a change of its template, each child would read it. */
static bool may_be_kept(const struct cache *cache, const struct file *file) {
    return cache->texts || file->text.length == 0 ||
           file->status.st_ctim.tv_sec + FILE_SETTLE_TIME <= time(NULL);
}

/* Borrows a newly opened file.  Drops an older one of that name from the table,
   and adds the new one if it may be kept. */
static void keep(struct cache *cache, struct entry *entry) {
    struct entry *older;

    HASH_FIND_STR(cache->entries, entry->name, older);
    if (older != NULL)
        drop(cache, older);
    if (may_be_kept(cache, entry->file))
        HASH_ADD_STR(cache->entries, name, entry); /* NOLINT: dropped above */
    borrow(cache, entry);
    entry->listed = entry->hh.tbl != NULL;
}

/* Borrows the file of that name, if it is in the table.  *checked: whether this
   round has already checked it for a change. */
static struct entry *borrow_known(struct cache *cache, const char *name,
                                  unsigned round, bool *checked) {
    struct entry *entry;

    pthread_mutex_lock(&cache->lock);
    HASH_FIND_STR(cache->entries, name, entry);
    if (entry != NULL) {
        borrow(cache, entry);
        *checked = round != 0 && entry->round == round;
        entry->round = round;
    }
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

/* Drops a borrowed file that has changed or was deleted. */
static void forget(struct cache *cache, struct entry *entry) {
    int error = errno;

    pthread_mutex_lock(&cache->lock);
    if (entry->listed)
        drop(cache, entry);
    give_back(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    errno = error;
}

/* Opens a file and borrows it.  If no descriptor is left, the unused files are
   closed: then there is a descriptor for this file, and for other uses. */
static struct file *borrow_new(struct cache *cache, const char *name,
                               const struct stat *status) {
    struct file *file = file_open(cache->folder, name, status, cache->texts);
    if (file == NULL && (errno == EMFILE || errno == ENFILE)) {
        pthread_mutex_lock(&cache->lock);
        drop_idle(cache, 0);
        pthread_mutex_unlock(&cache->lock);
        file = file_open(cache->folder, name, status, cache->texts);
    }
    if (file == NULL)
        return NULL;
    struct entry *entry = calloc(1, sizeof *entry + strlen(name) + 1);
    if (entry == NULL) {
        file_close(file);
        errno = ENOMEM;
        return NULL;
    }
    memcpy(entry->name, name, strlen(name) + 1);
    entry->cache = cache;
    entry->file = file;
    file->entry = entry;
    pthread_mutex_lock(&cache->lock);
    keep(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    return file;
}

struct file *cache_borrow(struct cache *cache, const char *name,
                          unsigned round) {
    bool checked = false;
    struct entry *entry = borrow_known(cache, name, round, &checked);
    struct stat status;

    if (checked)
        return entry->file;
    bool exists = fstatat(cache->folder, name, &status, 0) == 0;
    if (exists && entry != NULL && is_same(&entry->file->status, &status))
        return entry->file;
    if (entry != NULL)
        forget(cache, entry);
    return exists ? borrow_new(cache, name, &status) : NULL;
}

void cache_return(struct file *file) {
    struct entry *entry = file->entry;
    struct cache *cache = entry->cache;

    pthread_mutex_lock(&cache->lock);
    give_back(cache, entry);
    pthread_mutex_unlock(&cache->lock);
}
