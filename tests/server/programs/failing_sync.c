// This library is preloaded into a server. While the file $FAIL_SYNC_OF exists, fsync and fdatasync fail with EIO for
// all files whose paths match the pattern (fnmatch) in it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(int fd) {
    char pattern[256], link[64], path[4096];
    int before = errno, control = open(getenv("FAIL_SYNC_OF"), O_RDONLY | O_CLOEXEC);
    if (control < 0) {
        errno = before;
        return 0;
    }
    ssize_t size = read(control, pattern, sizeof pattern - 1);
    close(control);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (size <= 0 || length <= 0) return 0;
    pattern[size] = path[length] = 0;
    return fnmatch(pattern, path, 0) == 0;
}

static int sync_by(const char *name, int fd) {
    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return sync_by("fsync", fd); }
int fdatasync(int fd) { return sync_by("fdatasync", fd); }
