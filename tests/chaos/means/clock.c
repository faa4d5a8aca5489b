/*
 * A wall clock that is ahead by as many nanoseconds as the file says that RINGONCE_TEST_CLOCK names. To be preloaded.
 *
 * The file is mapped, so whoever writes to it makes the clock jump at once. The monotonic clock stays right. Waits that
 * are given a deadline by the wall clock are put back to the kernel's: without that, the waits of librdkafka would be
 * longer or shorter by the whole jump, which no true clock does to them. (libfaketime does, for those of <threads.h>.)
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t nothing = 0;
static const volatile int64_t *ahead = &nothing;

__attribute__((constructor)) static void map_the_file(void) {
    const char *path = getenv("RINGONCE_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        ahead = mapped;
    close(file);
}

static void move(struct timespec *when, int64_t nanoseconds) {
    int64_t total = when->tv_nsec + nanoseconds % SECOND;
    when->tv_sec += nanoseconds / SECOND + (total >= SECOND) - (total < 0);
    when->tv_nsec = total + (total < 0 ? SECOND : total >= SECOND ? -SECOND : 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real ? real(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        move(now, *ahead);
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* No machine has been up for thirty years: so late a deadline is one by the wall clock. */
static struct timespec by_the_kernel(const struct timespec *deadline) {
    struct timespec when = *deadline;
    if (when.tv_sec > SECOND)
        move(&when, -*ahead);
    return when;
}

/* The oldest of the two conditions in glibc for x86-64 would be found without the version. */
static void *condition_wait(void) {
    void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

int pthread_cond_timedwait(pthread_cond_t *restrict on, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict deadline) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))condition_wait();
    struct timespec when = by_the_kernel(deadline);
    return real(on, lock, &when);
}

int cnd_timedwait(cnd_t *restrict on, mtx_t *restrict lock, const struct timespec *restrict deadline) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real)
        real = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec when = by_the_kernel(deadline);
    return real(on, lock, &when);
}

int sem_timedwait(sem_t *restrict on, const struct timespec *restrict deadline) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real)
        real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec when = by_the_kernel(deadline);
    return real(on, &when);
}
