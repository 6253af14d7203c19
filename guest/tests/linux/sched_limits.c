// What limits allow who has no privilege: nice values and priorities (RLIMIT_NICE, RLIMIT_RTPRIO), and for how long one runs with a priority
// (RLIMIT_RTTIME). What is expected is what Linux's
// kernel/sched/syscalls.c does: the machines on which tests are recorded do not let limits be raised.
// build: gcc, musl
// expect-stdout: passed\n
#include "must.h"
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif
static int set_policy(int policy, int priority) {
    struct sched_param param = { priority };
    return syscall(SYS_sched_setscheduler, 0, policy, &param) ? errno : 0;
}
static int set_attr(int policy, int nice) {
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t times[3]; } a = { 48, policy, 0, nice, 0, { 0 } };
    return syscall(SYS_sched_setattr, 0, &a, 0) ? errno : 0;
}
static int set_nice(int who, int nice) { return setpriority(PRIO_PROCESS, who, nice) ? errno : 0; }
static int limit(int which, long soft, long hard) {
    struct rlimit now = { soft, hard };
    return setrlimit(which, &now) ? errno : 0;
}

static volatile sig_atomic_t told;
static void on_limit(int signal) { told = signal; }

// Who runs with a priority and never waits is told, and ends; who waits in between is not.
static void unbroken(void) {
    struct timespec now;
    MUST(limit(RLIMIT_RTTIME, 200000, 600000) == 0);
    signal(SIGXCPU, on_limit);
    MUST(set_policy(SCHED_FIFO, 5) == 0);
    for (int n = 0; n < 8; n++) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        for (long end = now.tv_nsec / 1000000 + now.tv_sec * 1000 + 50; now.tv_nsec / 1000000 + now.tv_sec * 1000 < end;)
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        usleep(5000);
    }
    MUST(!told);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long begin = now.tv_nsec / 1000000 + now.tv_sec * 1000;
    while (!told) continue;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long used = now.tv_nsec / 1000000 + now.tv_sec * 1000 - begin;
    MUST(used >= 150 && used <= 300);
    for (;;) continue;
}

int main(void) {
    pid_t runner = fork();
    if (runner == 0) unbroken();
    int status;
    MUST(waitpid(runner, &status, 0) == runner && status == SIGKILL);
    MUST(limit(RLIMIT_NICE, 25, 30) == 0 && limit(RLIMIT_RTPRIO, 10, 20) == 0);
    pid_t other = fork();
    if (other == 0)
        for (;;) pause();
    MUST(set_nice(0, 10) == 0);
    MUST(setgid(1000) == 0 && setuid(1000) == 0);
    MUST(set_nice(0, -5) == 0);
    MUST(set_nice(0, -6) == EACCES);
    MUST(set_nice(other, 5) == EPERM);
    MUST(getpriority(PRIO_PROCESS, 0) == -5);
    MUST(set_attr(SCHED_BATCH, -6) == EPERM);
    MUST(set_attr(SCHED_BATCH, -3) == 0);
    MUST(set_attr(SCHED_BATCH, -5) == 0);
    MUST(set_policy(SCHED_IDLE, 0) == 0);
    MUST(set_policy(SCHED_OTHER, 0) == 0);
    MUST(set_policy(SCHED_FIFO, 11) == EPERM);
    MUST(set_policy(SCHED_FIFO, 10) == 0);
    MUST(set_policy(SCHED_RR, 3) == 0);
    MUST(set_policy(SCHED_RR | SCHED_RESET_ON_FORK, 3) == 0);
    MUST(set_policy(SCHED_RR, 3) == EPERM);
    MUST(limit(RLIMIT_RTPRIO, 0, 20) == 0);
    MUST(set_policy(SCHED_RR | SCHED_RESET_ON_FORK, 4) == EPERM);
    MUST(set_policy(SCHED_RR | SCHED_RESET_ON_FORK, 2) == 0);
    MUST(set_policy(SCHED_FIFO | SCHED_RESET_ON_FORK, 2) == EPERM);
    MUST(set_policy(SCHED_OTHER | SCHED_RESET_ON_FORK, 0) == 0);
    MUST(limit(RLIMIT_RTPRIO, 21, 21) == EPERM);
    // What the library keeps of them is not what counts.
    MUST(limit(RLIMIT_NICE, 0, 30) == 0);
    MUST(set_nice(0, 5) == 0);
    MUST(set_nice(0, 4) == EACCES);
    MUST(limit(RLIMIT_NICE, 16, 16) == 0);
    MUST(set_nice(0, 4) == 0);
    MUST(set_policy(SCHED_IDLE | SCHED_RESET_ON_FORK, 0) == 0);
    MUST(limit(RLIMIT_NICE, 0, 0) == 0);
    MUST(set_policy(SCHED_OTHER | SCHED_RESET_ON_FORK, 0) == EPERM);
    // Another's limits do not count, nor are they one's own.
    struct rlimit more = { 40, 40 };
    MUST(prlimit(other, RLIMIT_NICE, &more, NULL) == -1 && errno == EPERM);
    kill(other, SIGKILL);
    printf("passed\n");
    return 0;
}
