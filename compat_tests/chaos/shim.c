/* Preloaded into a process of a chaos run: the test changes the process's wall clock and its disk through a control
 * file, which both map. The layout is that of `shim.py`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_offset_ns;
    volatile int64_t sync_delay_ns;
    volatile int64_t sync_error; /* an errno, or 0 */
    volatile int64_t syncs;      /* how many syncs were delayed or failed */
    volatile int64_t clocks;     /* how many times a moved clock was read */
};

static struct control plain;
static struct control *control = &plain;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("MAGNETAR_CHAOS_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED)
        control = mapped;
    close(fd);
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    int64_t offset = control->clock_offset_ns;
    if (result == 0 && offset != 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + offset;
        at->tv_sec = ns / 1000000000;
        at->tv_nsec = ns % 1000000000;
        control->clocks++;
    }
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

static int held_up(void)
{
    int64_t delay = control->sync_delay_ns, error = control->sync_error;
    if (delay > 0) {
        struct timespec wait = {delay / 1000000000, delay % 1000000000};
        control->syncs++;
        nanosleep(&wait, NULL);
    }
    if (error != 0) {
        control->syncs++;
        errno = (int)error;
    }
    return error != 0;
}

int fsync(int fd)
{
    return held_up() ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return held_up() ? -1 : (int)syscall(SYS_fdatasync, fd);
}
