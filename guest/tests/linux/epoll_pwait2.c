// epoll_pwait2: waiting with a time in nanoseconds, and another mask.
// oracle: linux
#include "test.h"
#include <sys/epoll.h>
#include <time.h>

static struct epoll_event found[2];
static volatile int signals;

static int wait2(int set, int max, const struct timespec *time, const void *mask, long bytes) {
    return syscall(441, set, found, max, time, mask, bytes);
}

static long elapsed(int set, const struct timespec *time) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    SHOW(wait2(set, 2, time, NULL, 8));
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
}

static void handler(int signal) { signals++; }

int main(void) {
    int ends[2], set = epoll_create1(0);
    pipe(ends);
    struct epoll_event event = {EPOLLIN, {.u64 = 3}};
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
    struct timespec none = {0, 0}, some = {0, 1500000}, bad = {0, 1000000000}, negative = {-1, 0};
    SHOW(wait2(set, 2, &none, NULL, 8));
    CHECK(elapsed(set, &some) >= 1500000);
    SHOW(wait2(set, 2, &bad, NULL, 8));
    SHOW(wait2(set, 2, &negative, NULL, 8));
    SHOW(wait2(set, 2, (void *)8, NULL, 8));
    SHOW(wait2(set, 0, &none, NULL, 8));
    SHOW(wait2(ends[0], 2, &none, NULL, 8));
    SHOW(wait2(99, 2, &none, NULL, 8));
    write(ends[1], "x", 1);
    SHOW(wait2(set, 2, NULL, NULL, 8));
    printf("%#x %d\n", found[0].events, (int)found[0].data.u64);
    read(ends[0], found, 1);
    // A mask: the signal that waits comes only here.
    signal(SIGUSR1, handler);
    uint64_t usr1 = 1ull << (SIGUSR1 - 1), open = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &usr1, NULL, 8);
    raise(SIGUSR1);
    some.tv_nsec = 20000000;
    SHOW(wait2(set, 2, &some, NULL, 8));
    printf("%d\n", signals);
    SHOW(wait2(set, 2, NULL, &open, 8));
    printf("%d\n", signals);
    SHOW(wait2(set, 2, &none, &open, 7));
    raise(SIGUSR1);
    printf("%d\n", signals);
    return 0;
}
