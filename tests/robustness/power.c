/* Preloaded into a process, it keeps what a file in POWER_FOLDER held before each write that is not synced yet, in a file
 * beside it that ends in .undo: offset, length and former size of the file, and the former bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct record { int64_t offset, length, size; };

static int find_undo(int fd, char *undo) {
    char link[64];
    const char *folder = getenv("POWER_FOLDER");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, undo, PATH_MAX - 1);
    if (folder == NULL || length <= 0) return 0;
    undo[length] = 0;
    if (strncmp(undo, folder, strlen(folder)) != 0 || strstr(undo, "-shm") != NULL) return 0;
    strcat(undo, ".undo");
    return 1;
}

/* 0, or -1 with errno where the disk is full: then the write may not happen either. */
static int keep(int fd, off_t offset, size_t length) {
    char undo[PATH_MAX + 8];
    struct stat status;
    if (!find_undo(fd, undo) || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    struct record head = {offset, 0, status.st_size};
    if (offset < status.st_size) {
        head.length = status.st_size - offset < (off_t)length ? status.st_size - offset : (off_t)length;
    }
    char *record = malloc(sizeof head + head.length);
    if (record == NULL || (head.length && pread(fd, record + sizeof head, head.length, offset) != head.length)) abort();
    memcpy(record, &head, sizeof head);
    /* The process may be killed in here: the write that is kept has not happened then. */
    int file = open(undo, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) abort();
    off_t end = lseek(file, 0, SEEK_END);
    int failed = write(file, record, sizeof head + head.length) != (ssize_t)(sizeof head + head.length);
    int because = errno ? errno : ENOSPC;
    if (failed && truncate(undo, end) != 0) abort();
    close(file);
    free(record);
    if (failed) errno = because;
    return failed ? -1 : 0;
}

static int forget(int fd, int result) {
    char undo[PATH_MAX + 8];
    if (result == 0 && find_undo(fd, undo)) (void)!truncate(undo, 0);
    return result;
}

#define REAL(name, type) static type real; if (real == NULL) real = (type)dlsym(RTLD_NEXT, name)

typedef ssize_t (*write_at)(int, const void *, size_t, off_t);
typedef int (*cut)(int, off_t);
typedef int (*sync_file)(int);

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    REAL("pwrite", write_at);
    return keep(fd, offset, length) == 0 ? real(fd, bytes, length, offset) : -1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) { return pwrite(fd, bytes, length, offset); }

int ftruncate(int fd, off_t size) {
    REAL("ftruncate", cut);
    return keep(fd, size, SSIZE_MAX) == 0 ? real(fd, size) : -1;
}

int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int fsync(int fd) {
    REAL("fsync", sync_file);
    return forget(fd, real(fd));
}

int fdatasync(int fd) {
    REAL("fdatasync", sync_file);
    return forget(fd, real(fd));
}
