// build: gcc, musl
// oracle: linux
// Clocks of processor time: of the process with all its threads, of each thread, by the ids that
// clock_getcpuclockid and pthread_getcpuclockid make.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL

static long long now(clockid_t clock) {
    struct timespec t;
    if (syscall(SYS_clock_gettime, clock, &t)) return -errno;
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static clockid_t make(int id, int kind) { return (clockid_t)(~(unsigned)id << 3 | kind); }

static pthread_barrier_t worked, looked;
static long long by_itself;
static int worker_tid;

static void *work(void *arg) {
    worker_tid = (int)syscall(SYS_gettid);
    while (now(CLOCK_THREAD_CPUTIME_ID) < 60 * MS) { }
    by_itself = now(CLOCK_THREAD_CPUTIME_ID);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&looked);
    return arg;
}

static void say(const char *what, int is) { printf("%s: %s\n", what, is ? "yes" : "no"); }

int main(void) {
    clockid_t clock, own;
    pthread_t thread;
    pthread_barrier_init(&worked, NULL, 2);
    pthread_barrier_init(&looked, NULL, 2);
    printf("getcpuclockid 0: %d\n", clock_getcpuclockid(0, &clock));
    say("read", now(clock) > 0);
    printf("of this process: %d\n", clock_getcpuclockid(getpid(), &clock));
    say("read", now(clock) > 0);
    // The C libraries differ in how they call it.
    int error = clock_getcpuclockid(0x3fffff, &own);
    printf("of nobody: %s\n", error == ESRCH || error == EINVAL ? "an error" : "other");

    long long before = now(CLOCK_PROCESS_CPUTIME_ID), mine = now(CLOCK_THREAD_CPUTIME_ID);
    pthread_create(&thread, NULL, work, NULL);
    pthread_barrier_wait(&worked);
    say("the process has worked as long as its thread", now(CLOCK_PROCESS_CPUTIME_ID) - before >= 60 * MS);
    say("so says the clock by id", now(clock) - before >= 60 * MS);
    say("the first thread has not", now(CLOCK_THREAD_CPUTIME_ID) - mine < 60 * MS);
    printf("of a thread: %d\n", pthread_getcpuclockid(thread, &own));
    say("the id is the known one", own == make(worker_tid, 6));
    say("as it says itself", now(own) >= by_itself);
    say("as many ticks", now(make(worker_tid, 4)) >= 0);
    say("user time is no more than all", now(make(worker_tid, 5)) <= now(own) + 10 * MS);
    pthread_barrier_wait(&looked);
    pthread_join(thread, NULL);
    say("the process still has", now(CLOCK_PROCESS_CPUTIME_ID) - before >= 60 * MS);
    long long gone = now(own);
    // Its end may be a moment behind the join.
    for (int n = 0; n < 1000 && gone >= 0; n++) { usleep(1000); gone = now(own); }
    printf("of a thread that has ended: %s\n", strerror((int)-gone));

    printf("pthread_getcpuclockid of itself: %d\n", pthread_getcpuclockid(pthread_self(), &own));
    say("alike", now(own) >= mine && now(make(0, 6)) >= mine);
    printf("of a descriptor: %s\n", strerror((int)-now(make(3, 3))));
    printf("of no kind: %s\n", strerror((int)-now(make(0, 7))));
    printf("of init's thread as mine: %s\n", strerror((int)-now(make(0x3fffff, 6))));
    struct timespec res;
    printf("getres: %ld", syscall(SYS_clock_getres, make(0, 6), &res));
    printf(" %ld ns\n", res.tv_nsec);
    printf("getres without a place: %ld\n", syscall(SYS_clock_getres, make(0, 2), NULL));
    errno = 0;
    printf("sleep by a thread's clock: %ld", syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &res, NULL));
    printf(" %d\n", errno == EOPNOTSUPP);
    return 0;
}
