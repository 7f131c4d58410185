/* SPDX-License-Identifier: MIT */
#include "app/file.h"

#include "config.h"
#include "proto/http_fields.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The number of attempts of open_beneath().  If a process renames files all the
   time, about one attempt in twenty fails. */
#define OPEN_TRIES 32

/* openat2(2) exists since Linux 5.6; glibc has a function for it only since
   2.43.  openat2(2) returns EAGAIN if a link contains ".." and something was
   renamed meanwhile, anywhere on this host.  So the call is repeated. */
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

/* Returns the error for a folder: EISDIR, or for example EXDEV if a link leads
   out of the served folder.  The client must not see that the target exists. */
static int folder_error(int folder, const char *name) {
    int descriptor = open_beneath(folder, name, O_PATH | O_DIRECTORY);
    if (descriptor < 0)
        return errno;
    close(descriptor);
    return EISDIR;
}

/* Reads the whole file into memory, if it is small or a template. */
static int read_text(struct file *file, bool texts) {
    off_t limit = texts ? TEMPLATE_LIMIT : SMALL_FILE;

    if (!S_ISREG(file->status.st_mode)) {
        errno = EACCES;
        return -1;
    }
    if (file->status.st_size > limit) {
        errno = EFBIG;
        return texts ? -1 : 0;
    }
    size_t size = (size_t)file->status.st_size;
    char *text = buffer_reserve(&file->text, size);
    if (text == NULL)
        return -1;
    ssize_t count = read(file->descriptor, text, size);
    if (count != (ssize_t)size) {
        errno = count < 0 ? errno : EAGAIN; /* the file is being changed */
        return -1;
    }
    file->text.length = size;
    if (texts) {
        close(file->descriptor);
        file->descriptor = -1;
    }
    return 0;
}

static void write_validators(struct file *file) {
    const struct stat *status = &file->status;
    time_t now = time(NULL);
    char date[HTTP_DATE_SIZE];

    file->modified = MIN(status->st_mtim.tv_sec, now);
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

void file_close(struct file *file) {
    if (file->descriptor >= 0)
        close(file->descriptor);
    buffer_free(&file->text);
    free(file);
}

struct file *file_open(int folder, const char *name, const struct stat *status,
                       bool texts) {
    if (!S_ISREG(status->st_mode)) {
        errno = S_ISDIR(status->st_mode) ? folder_error(folder, name) : EACCES;
        return NULL;
    }
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    /* Without O_NONBLOCK, opening a named pipe would wait for its writer.  The
       file may have become a pipe since the caller checked. */
    file->descriptor =
        open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (file->descriptor < 0 || fstat(file->descriptor, &file->status) < 0 ||
        read_text(file, texts) < 0) {
        int error = errno;
        file_close(file);
        errno = error;
        return NULL;
    }
    write_validators(file);
    return file;
}
