// How threads are scheduled, each for itself: policies, nice values, what children take over, whom a call means,
// and what /proc says (setpriority, getpriority, sched_setscheduler, sched_setattr, ioprio_set).
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};
static long get(int which, int who) { return syscall(SYS_getpriority, which, who); }
static long set_policy(int tid, int policy, int priority) {
    struct sched_param param = { priority };
    return syscall(SYS_sched_setscheduler, tid, policy, &param);
}
static long policy(int tid) { return syscall(SYS_sched_getscheduler, tid); }
static long set_attr(int tid, int policy, int nice, int priority, int flags) {
    struct attributes a = { sizeof a, policy, flags, nice, priority, 0, 0, 0 };
    return syscall(SYS_sched_setattr, tid, &a, 0);
}
static void limit(int which, long soft, long hard) {
    struct rlimit now = { soft, hard };
    SHOW(setrlimit(which, &now));
}

static void stat_of(const char *path) {
    char text[1000];
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file)) { printf("no file\n"); return; }
    fclose(file);
    long field = 2, values[4] = { 0 };
    for (char *word = strtok(strrchr(text, ')') + 1, " "); word; word = strtok(NULL, " ")) {
        field++;
        if (field == 18 || field == 19) values[field - 18] = atol(word);
        if (field == 40 || field == 41) values[field - 38] = atol(word);
    }
    printf("priority %ld, nice %ld, %ld, policy %ld\n", values[0], values[1], values[2], values[3]);
}
static void stat_thread(pid_t tid) {
    char path[100];
    sprintf(path, "/proc/self/task/%d/stat", tid);
    stat_of(path);
}

static pthread_barrier_t ready, over;
static volatile pid_t other, third;
static void *nested(void *argument) {
    third = syscall(SYS_gettid);
    pthread_barrier_wait(&ready), pthread_barrier_wait(&over);
    return argument;
}
static void *thread(void *argument) {
    other = syscall(SYS_gettid);
    pthread_t it;
    setpriority(PRIO_PROCESS, 0, 4);
    pthread_create(&it, NULL, nested, NULL);
    pthread_barrier_wait(&ready), pthread_barrier_wait(&over);
    pthread_join(it, NULL);
    return argument;
}

static void threads(void) {
    pthread_t it;
    pthread_barrier_init(&ready, NULL, 3), pthread_barrier_init(&over, NULL, 3);
    pthread_create(&it, NULL, thread, NULL);
    pthread_barrier_wait(&ready);
    SHOW(get(PRIO_PROCESS, 0));
    SHOW(get(PRIO_PROCESS, other));
    SHOW(get(PRIO_PROCESS, third));
    SHOW(setpriority(PRIO_PROCESS, other, 9));
    SHOW(get(PRIO_PROCESS, getpid()));
    SHOW(get(PRIO_PROCESS, other));
    SHOW(set_policy(third, SCHED_RR, 7));
    SHOW(policy(third));
    SHOW(policy(other));
    SHOW(policy(0));
    stat_of("/proc/self/stat");
    stat_thread(other), stat_thread(third);
    SHOW(syscall(SYS_ioprio_set, 1, other, 3 << 13 | 0));
    SHOW(syscall(SYS_ioprio_get, 1, other));
    SHOW(syscall(SYS_ioprio_get, 1, 0));
    // Of a group: every thread.
    SHOW(setpgid(0, 0));
    SHOW(setpriority(PRIO_PGRP, 0, 11));
    SHOW(get(PRIO_PROCESS, other));
    SHOW(get(PRIO_PROCESS, third));
    SHOW(get(PRIO_PGRP, getpid()));
    SHOW(setpriority(PRIO_PROCESS, 0, 0));
    SHOW(get(PRIO_PGRP, 0));
    pthread_barrier_wait(&over);
    pthread_join(it, NULL);
}

static void inheritance(void) {
    SHOW(set_policy(0, SCHED_FIFO | SCHED_RESET_ON_FORK, 5));
    SHOW(policy(0));
    IN_CHILD("reset", { SHOW(policy(0)); stat_of("/proc/self/stat"); });
    SHOW(set_policy(0, SCHED_FIFO, 5));
    IN_CHILD("not reset", { SHOW(policy(0)); stat_of("/proc/self/stat"); });
    SHOW(set_attr(0, SCHED_OTHER, -5, 0, 1));
    SHOW(policy(0));
    IN_CHILD("a negative value", { SHOW(get(PRIO_PROCESS, 0)); SHOW(policy(0)); });
    SHOW(set_attr(0, SCHED_BATCH, 5, 0, 1));
    IN_CHILD("a positive one", { SHOW(get(PRIO_PROCESS, 0)); SHOW(policy(0)); });
    SHOW(set_attr(0, SCHED_OTHER, 0, 0, 0));
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        setpriority(PRIO_PROCESS, 0, 6);
        set_policy(0, SCHED_BATCH, 0);
        execl("/proc/self/exe", "sched_threads", "shown", (char *)NULL);
        _exit(9);
    }
    waitpid(child, NULL, 0);
    stat_of("/proc/self/stat");
}

static void user(void) {
    SHOW(setgid(1000));
    SHOW(setuid(1000));
    SHOW(setpriority(PRIO_PROCESS, 0, -1));
    SHOW(set_attr(0, SCHED_OTHER, -1, 0, 0));
    SHOW(set_policy(0, SCHED_FIFO, 1));
    SHOW(set_policy(0, SCHED_BATCH, 0));
    SHOW(set_policy(0, SCHED_IDLE, 0));
    SHOW(set_policy(0, SCHED_OTHER, 0));
    SHOW(setpriority(PRIO_PROCESS, 1, 5));
    SHOW(set_policy(1, SCHED_BATCH, 0));
    SHOW(setpriority(PRIO_PROCESS, getppid(), 5));
    SHOW(set_policy(getppid(), SCHED_OTHER, 0));
    SHOW(syscall(SYS_ioprio_set, 1, getppid(), 2 << 13 | 7));
    limit(RLIMIT_NICE, 1, 1);
    limit(RLIMIT_RTPRIO, 1, 1);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "shown")) {
        stat_of("/proc/self/stat");
        return 0;
    }
    IN_CHILD("threads", threads());
    inheritance();
    IN_CHILD("a user", user());
    return 0;
}
