// futex_waitv, futex_wait, futex_wake, futex_requeue: arguments, who is woken, how waiting ends.
// build: gcc, musl
// link: -pthread
// oracle: linux
// cores: 4
#include "test.h"
#include <pthread.h>
#include <sys/time.h>
#include <time.h>

#define SIZE_32 2
#define PRIVATE 128
struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};
static uint32_t words[200];
static struct waiter all[200];

static long waitv(void *waiters, unsigned count, unsigned flags, void *until, int clock) {
    return syscall(449, waiters, count, flags, until, clock);
}
static long wake(void *at, unsigned long mask, int count, unsigned flags) { return syscall(454, at, mask, count, flags); }
static long wait_for(void *at, unsigned long value, unsigned long mask, unsigned flags, void *until, int clock) {
    return syscall(455, at, value, mask, flags, until, clock);
}
static long requeue(void *waiters, unsigned flags, int wakes, int moves) { return syscall(456, waiters, flags, wakes, moves); }
static struct timespec soon(int clock, long ms) {
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += ms * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000, at.tv_nsec %= 1000000000;
    return at;
}
static void fill(int count) {
    memset(words, 0, sizeof words);
    for (int i = 0; i < count; i++) all[i] = (struct waiter){0, (uintptr_t)&words[i], SIZE_32 | PRIVATE, 0};
}

static void arguments(void) {
    struct timespec later = soon(CLOCK_MONOTONIC, 20), bad = {0, -1}, real = soon(CLOCK_REALTIME, 20);
    fill(200);
    SHOW(waitv(all, 0, 0, NULL, 0));
    SHOW(waitv(all, 129, 0, NULL, 0));
    SHOW(waitv(all, 1, 1, NULL, 0));
    SHOW(waitv(NULL, 1, 0, NULL, 0));
    SHOW(waitv((void *)8, 1, 0, NULL, 0));
    SHOW(waitv(all, 1, 0, &later, 2));
    SHOW(waitv(all, 1, 0, &bad, CLOCK_MONOTONIC));
    SHOW(waitv(all, 1, 0, (void *)8, CLOCK_MONOTONIC));
    SHOW(waitv(all, 2, 0, &later, CLOCK_MONOTONIC));
    SHOW(waitv(all, 2, 0, &real, CLOCK_REALTIME));
    later = soon(CLOCK_MONOTONIC, 20);
    SHOW(waitv(all, 128, 0, &later, CLOCK_MONOTONIC));
    all[1].value = 1;
    SHOW(waitv(all, 2, 0, NULL, 0));
    all[1].value = 1ul << 32;
    SHOW(waitv(all, 2, 0, NULL, 0));
    fill(2), all[1].flags = PRIVATE | 1;
    SHOW(waitv(all, 2, 0, NULL, 0));
    fill(2), all[1].flags = SIZE_32 | 0x40;
    SHOW(waitv(all, 2, 0, NULL, 0));
    fill(2), all[1].reserved = 1;
    SHOW(waitv(all, 2, 0, NULL, 0));
    fill(2), all[1].address++;
    SHOW(waitv(all, 2, 0, NULL, 0));
    fill(2), all[1].address = 8;
    SHOW(waitv(all, 2, 0, NULL, 0));
    fill(1), all[0].value = 5;
    SHOW(waitv(all, 1, 0, NULL, 0));
    SHOW(wake(words, 1, 1, SIZE_32 | PRIVATE));
    SHOW(wake(words, 0, 1, SIZE_32 | PRIVATE));
    SHOW(wake(words, 1, 1, PRIVATE));
    SHOW(wake(words, 1ul << 32, 1, SIZE_32));
    SHOW(wake((char *)words + 1, 1, 1, SIZE_32));
    SHOW(wait_for(words, 1, 1, SIZE_32 | PRIVATE, NULL, 0));
    SHOW(wait_for(words, 0, 0, SIZE_32 | PRIVATE, NULL, 0));
    SHOW(wait_for(words, 0, 1, 1, NULL, 0));
    SHOW(wait_for(words, 1ul << 32, 1, SIZE_32, NULL, 0));
    later = soon(CLOCK_MONOTONIC, 20);
    SHOW(wait_for(words, 0, 1, SIZE_32 | PRIVATE, &later, CLOCK_MONOTONIC));
    SHOW(wait_for(words, 0, 1, SIZE_32 | PRIVATE, &later, 5));
    SHOW(wait_for((void *)8, 0, 1, SIZE_32 | PRIVATE, NULL, 0));
    fill(2);
    SHOW(requeue(all, 0, 1, 1));
    SHOW(requeue(all, 1, 1, 1));
    SHOW(requeue(NULL, 0, 1, 1));
    SHOW(requeue(all, 0, -1, 1));
    all[0].value = 9;
    SHOW(requeue(all, 0, 1, 1));
}

static volatile long told[4];
static void *any(void *number) {
    told[(long)number] = 100 + waitv(all, 5, 0, NULL, 0);
    return NULL;
}
static void *one(void *number) {
    told[(long)number] = 100 + wait_for(&words[(long)number], 0, 1l << (long)number, SIZE_32 | PRIVATE, NULL, 0);
    return NULL;
}

static void woken(void) {
    pthread_t thread;
    for (long i = 0; i < 5; i++) {
        fill(5), told[0] = 0;
        pthread_create(&thread, NULL, any, 0);
        long sum;
        while (!(sum = wake(&words[i], ~0u, 10, SIZE_32 | PRIVATE))) usleep(1000);
        pthread_join(thread, NULL);
        // Nobody is left there.
        for (int n = 0; n < 5; n++) sum += 10 * wake(&words[n], ~0u, 10, SIZE_32 | PRIVATE);
        printf("%ld woken, %ld\n", sum, told[0] - 100);
    }
    // By the old call, too.
    fill(5);
    pthread_create(&thread, NULL, any, 0);
    long woken;
    while (!(woken = syscall(SYS_futex, &words[3], 1 | PRIVATE, 1))) usleep(1000);
    SHOW(woken);
    pthread_join(thread, NULL);
    SHOW(told[0] - 100);
    // Several threads; bits.
    pthread_t threads[4];
    fill(5);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, one, (void *)i);
    usleep(500000);
    SHOW(wake(&words[2], 1, 10, SIZE_32 | PRIVATE));
    SHOW(wake(&words[2], 4, 0, SIZE_32 | PRIVATE));
    SHOW(wake(&words[2], 4, 10, SIZE_32 | PRIVATE));
    SHOW(requeue(&all[0], 0, 0, 10));
    SHOW(wake(&words[1], 3, 10, SIZE_32 | PRIVATE));
    SHOW(wake(&words[3], 8, 10, SIZE_32 | PRIVATE));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%ld %ld %ld %ld\n", told[0], told[1], told[2], told[3]);
}

static void nothing(int signal) { (void)signal; }

static void interrupted(void) {
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval timer = {.it_value.tv_usec = 30000, .it_interval.tv_usec = 30000}, off = {0};
    sigaction(SIGALRM, &action, NULL);
    fill(3);
    setitimer(ITIMER_REAL, &timer, NULL);
    SHOW(waitv(all, 3, 0, NULL, 0));
    setitimer(ITIMER_REAL, &off, NULL);
    // Nothing is left of it.
    SHOW(wake(&words[1], ~0u, 10, SIZE_32 | PRIVATE));
}

// One alone may be shared with a child.
static void shared(void) {
    uint32_t *word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct waiter alone = {0, (uintptr_t)word, SIZE_32, 0};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(10 + waitv(&alone, 1, 0, NULL, 0));
    while (!wake(word, ~0u, 1, SIZE_32)) usleep(1000);
    int status;
    waitpid(child, &status, 0);
    printf("%#x\n", status);
}

int main(void) {
    arguments();
    woken();
    interrupted();
    shared();
    return 0;
}
