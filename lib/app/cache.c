/* SPDX-License-Identifier: MIT */
#include "app/cache.h"

#include "config.h"
#include "proto/http_fields.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* If memory is short, uthash would exit by default.  With this setting it only
   does not keep the file, which does no harm. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* How often open_beneath() tries.  A try may fail because a file is renamed
   meanwhile: about one in twenty if a process does nothing but rename. */
#define OPEN_TRIES 32

/* A file and what only the cache knows of it.  The file is the first member, so
   that a pointer to it is a pointer to its entry. */
struct entry {
    struct file file;
    int borrowed;   /* under the lock, as all that follows */
    bool listed;    /* in the table; else its last borrower frees it */
    unsigned round; /* in which it was last checked; 0: none */
    UT_hash_handle hh;
    struct entry *prev, *next; /* in the list of the idle */
    char name[];
};

struct cache {
    int folder;
    bool texts;
    size_t limit; /* the most idle files */
    pthread_mutex_t lock;
    struct entry *entries; /* a table of the idle and the borrowed */
    struct entry *idle;    /* not borrowed, the longest unused first */
    size_t idle_count;
};

/* If descriptors are few, most of them are for clients and for Redis. */
static size_t limit_of(bool texts) {
    long descriptors = sysconf(_SC_OPEN_MAX); /* -1: there is no limit */

    if (texts || descriptors < 0 ||
        descriptors / OPEN_FILES_SHARE >= OPEN_FILES)
        return OPEN_FILES;
    return (size_t)(descriptors / OPEN_FILES_SHARE);
}

struct cache *cache_create(const char *folder, bool texts) {
    struct cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (cache->folder < 0) {
        free(cache);
        return NULL;
    }
    cache->texts = texts;
    cache->limit = limit_of(texts);
    pthread_mutex_init(&cache->lock, NULL); /* cannot fail on Linux */
    return cache;
}

static void dispose(struct entry *entry) {
    if (entry->file.descriptor >= 0)
        close(entry->file.descriptor);
    buffer_free(&entry->file.text);
    free(entry);
}

static void borrow(struct cache *cache, struct entry *entry) {
    if (entry->listed && entry->borrowed == 0) {
        DL_DELETE(cache->idle, entry); /* NOLINT: the list is not empty */
        cache->idle_count--;
    }
    entry->borrowed++;
}

/* Takes it out of the table; its borrowers keep it. */
static void drop(struct cache *cache, struct entry *entry) {
    borrow(cache, entry);
    HASH_DEL(cache->entries, entry); /* NOLINT: it is in the table */
    entry->listed = false;
    if (--entry->borrowed == 0)
        dispose(entry);
}

static void drop_idle(struct cache *cache, size_t limit) {
    while (cache->idle != NULL && cache->idle_count > limit)
        drop(cache, cache->idle); /* NOLINT: what is dropped has left it */
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

/* openat2(2) exists since Linux 5.6; glibc has a function for it only since
   2.43.  A link with ".." in it is followed only if nothing was renamed
   meanwhile, anywhere on this host: otherwise the call returns EAGAIN, and may
   be repeated. */
static int open_beneath(int folder, const char *name, uint64_t flags) {
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int tries = OPEN_TRIES;
    int descriptor;

    do
        descriptor = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    while (descriptor < 0 && errno == EAGAIN && --tries > 0);
    return descriptor;
}

/* If no descriptor is left, the unused files are closed: then there is one for
   this file, and for other uses. */
static int open_file(struct cache *cache, const char *name, uint64_t flags) {
    int descriptor = open_beneath(cache->folder, name, flags);

    if (descriptor >= 0 || (errno != EMFILE && errno != ENFILE))
        return descriptor;
    pthread_mutex_lock(&cache->lock);
    drop_idle(cache, 0);
    pthread_mutex_unlock(&cache->lock);
    return open_beneath(cache->folder, name, flags);
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Reads the whole file into memory, if it is small. */
static int read_text(struct cache *cache, struct file *file) {
    off_t limit = cache->texts ? TEMPLATE_LIMIT : SMALL_FILE;

    if (file->status.st_size > limit) {
        errno = EFBIG;
        return cache->texts ? -1 : 0;
    }
    size_t size = (size_t)file->status.st_size;
    char *text = buffer_reserve(&file->text, size);
    if (text == NULL)
        return -1;
    ssize_t count = read(file->descriptor, text, size);
    if (count != (ssize_t)size) {
        errno = count < 0 ? errno : EAGAIN; /* it is being changed */
        return -1;
    }
    file->text.length = size;
    if (cache->texts) {
        close(file->descriptor);
        file->descriptor = -1;
    }
    return 0;
}

/* May the file be kept?  Its descriptor, yes.  Its text only if a later change
   is certain to have another time than the last one.  Files are dated by a
   clock that may tick only 100 times a second, on some file systems once in two
   seconds: a second change within a tick is not seen.  (A write through a
   mapping, mmap(2), is dated when it begins, and not with each byte.) Templates
   are kept in any case: otherwise 02, started right after a change, would read
   one in each child. */
static bool may_be_kept(const struct cache *cache, const struct file *file) {
    return cache->texts || file->text.length == 0 ||
           file->status.st_ctim.tv_sec + FILE_SETTLES <= time(NULL);
}

/* Done once for a file: it takes longer than the rest of a response's head. */
static void write_validators(struct file *file) {
    const struct stat *status = &file->status;
    time_t now = time(NULL);
    char date[HTTP_DATE_SIZE];

    file->modified =
        status->st_mtim.tv_sec < now ? status->st_mtim.tv_sec : now;
    http_format_date(file->modified, date);
    int length =
        snprintf(file->validators_text, sizeof file->validators_text,
                 "Last-Modified: %s\r\nETag: \"%jx-%jx-%jx%08lx\"\r\n", date,
                 (uintmax_t)status->st_ino, (uintmax_t)status->st_size,
                 (uintmax_t)status->st_mtim.tv_sec,
                 (unsigned long)status->st_mtim.tv_nsec);
    file->validators = (struct view){file->validators_text, (size_t)length};
    size_t etag = view_find(file->validators, '"');
    file->etag = view_slice(file->validators, etag,
                            (size_t)length - etag - strlen("\r\n"));
}

static struct entry *open_entry(struct cache *cache, const char *name) {
    struct entry *entry = calloc(1, sizeof *entry + strlen(name) + 1);
    if (entry == NULL)
        return NULL;
    struct file *file = &entry->file;
    memcpy(entry->name, name, strlen(name) + 1);
    /* O_NONBLOCK: opening a named pipe would wait for its writer. */
    file->descriptor = open_file(cache, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (file->descriptor < 0 || fstat(file->descriptor, &file->status) < 0 ||
        (S_ISREG(file->status.st_mode) && read_text(cache, file) < 0)) {
        int error = errno;
        dispose(entry);
        errno = error;
        return NULL;
    }
    if (!S_ISREG(file->status.st_mode)) {
        dispose(entry);
        errno = EACCES;
        return NULL;
    }
    write_validators(file);
    return entry;
}

/* Puts a newly opened file into the table, in place of an older one of that
   name, and borrows it; or the same one, if another thread was faster.  A file
   that may change unseen is for this borrower only. */
static struct entry *keep(struct cache *cache, struct entry *entry) {
    struct entry *older;

    HASH_FIND_STR(cache->entries, entry->name, older);
    if (older != NULL && is_same(&older->file.status, &entry->file.status)) {
        dispose(entry);
        entry = older;
    } else {
        if (older != NULL)
            drop(cache, older);
        if (may_be_kept(cache, &entry->file))
            HASH_ADD_STR(cache->entries, name, entry); /* NOLINT: it has left */
    }
    borrow(cache, entry);
    entry->listed = entry->hh.tbl != NULL;
    return entry;
}

/* Returns why a folder cannot be borrowed: EISDIR.  But EXDEV if a link leads
   to it, out of our folder: the client must not learn that it exists. */
static int folder_error(struct cache *cache, const char *name) {
    int descriptor = open_file(cache, name, O_PATH | O_DIRECTORY);
    if (descriptor < 0)
        return errno;
    close(descriptor);
    return EISDIR;
}

/* Borrows the known file of that name if its status shows that it is unchanged,
   or if it was checked in this loop iteration.  Returns NULL if not. */
static struct entry *borrow_known(struct cache *cache, const char *name,
                                  const struct stat *status, unsigned round) {
    struct entry *entry;

    pthread_mutex_lock(&cache->lock);
    HASH_FIND_STR(cache->entries, name, entry);
    bool hit = entry != NULL &&
               (status == NULL ? entry->round == round
                               : is_same(&entry->file.status, status));
    if (hit) {
        borrow(cache, entry);
        entry->round = round;
    }
    pthread_mutex_unlock(&cache->lock);
    return hit ? entry : NULL;
}

/* Forgets the name together with the file: kept open, a deleted file would use
   the disk until the server ends.  (A file that is not requested again does,
   until others have pushed it out.) Returns NULL, with that errno. */
static struct file *forget(struct cache *cache, const char *name, int error) {
    struct entry *entry;

    pthread_mutex_lock(&cache->lock);
    HASH_FIND_STR(cache->entries, name, entry);
    if (entry != NULL)
        drop(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    errno = error;
    return NULL;
}

struct file *cache_borrow(struct cache *cache, const char *name,
                          unsigned round) {
    struct stat status;
    struct entry *entry;

    if (round != 0 && (entry = borrow_known(cache, name, NULL, round)) != NULL)
        return &entry->file;
    if (fstatat(cache->folder, name, &status, 0) < 0)
        return forget(cache, name, errno);
    if (!S_ISREG(status.st_mode))
        return forget(cache, name,
                      S_ISDIR(status.st_mode) ? folder_error(cache, name)
                                              : EACCES);
    entry = borrow_known(cache, name, &status, round);
    if (entry != NULL)
        return &entry->file;

    entry = open_entry(cache, name);
    if (entry == NULL)
        return forget(cache, name, errno);
    pthread_mutex_lock(&cache->lock);
    entry = keep(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    return &entry->file;
}

void cache_return(struct cache *cache, struct file *file) {
    pthread_mutex_lock(&cache->lock);
    give_back(cache, (struct entry *)file);
    pthread_mutex_unlock(&cache->lock);
}
