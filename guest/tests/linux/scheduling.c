// How processes say they are to be scheduled: nice values, policies, priorities, of others too, and who may (getpriority, setpriority,
// sched_getparam, sched_getscheduler, sched_get_priority_max, sched_get_priority_min, sched_rr_get_interval, sched_setattr, sched_getattr, ioprio_get, ioprio_set).
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <sched.h>
#include <sys/resource.h>

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t least, most;
};
static long get(int which, int who) {
    long found = syscall(SYS_getpriority, which, who);
    return found;
}
static long set_policy(int pid, int policy, int priority) {
    struct sched_param param = {priority};
    return syscall(SYS_sched_setscheduler, pid, policy, &param);
}
static long policy(int pid) { return syscall(SYS_sched_getscheduler, pid); }
static long set_priority(int pid, int priority) {
    struct sched_param param = {priority};
    return syscall(SYS_sched_setparam, pid, &param);
}
static long priority(int pid) {
    struct sched_param param = {-1};
    long result = syscall(SYS_sched_getparam, pid, &param);
    return result ? result : param.sched_priority;
}
static long attr(int pid, struct attributes *a, unsigned size, unsigned flags) {
    return syscall(SYS_sched_getattr, pid, a, size, flags);
}
static long set_attr(int pid, struct attributes *a, unsigned flags) { return syscall(SYS_sched_setattr, pid, a, flags); }
static void show(int pid) {
    struct attributes a;
    if (attr(pid, &a, sizeof a, 0)) printf("errno %d\n", errno);
    else printf("size %u, policy %u, flags %lu, nice %d, priority %u\n", a.size, a.policy, (long)a.flags, a.nice, a.priority);
}

static pid_t sleeper(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    return child;
}

static void shown(void) {
    char text[1000], *at;
    FILE *file = fopen("/proc/self/stat", "r");
    fgets(text, sizeof text, file), fclose(file);
    at = strrchr(text, ')');
    long field = 2, priority = 0, nice = 0, timed = 0, policy = 0;
    for (char *word = strtok(at + 1, " "); word; word = strtok(NULL, " ")) {
        field++;
        if (field == 18) priority = atol(word);
        if (field == 19) nice = atol(word);
        if (field == 40) timed = atol(word);
        if (field == 41) policy = atol(word);
    }
    printf("priority %ld, nice %ld, %ld, policy %ld\n", priority, nice, timed, policy);
}

static void nice_values(void) {
    pid_t child = sleeper();
    SHOW(get(PRIO_PROCESS, 0));
    SHOW(get(3, 0));
    SHOW(get(-1, 0));
    SHOW(get(PRIO_PROCESS, 999999));
    SHOW(get(PRIO_PROCESS, -1));
    SHOW(get(PRIO_PGRP, 999999));
    SHOW(setpriority(PRIO_PROCESS, 0, 5));
    SHOW(get(PRIO_PROCESS, 0));
    SHOW(get(PRIO_PROCESS, child));
    SHOW(setpriority(PRIO_PROCESS, child, 7));
    SHOW(get(PRIO_PROCESS, child));
    SHOW(setpriority(PRIO_PROCESS, child, 100));
    SHOW(get(PRIO_PROCESS, child));
    SHOW(setpriority(PRIO_PROCESS, child, -100));
    SHOW(get(PRIO_PROCESS, child));
    shown();
    setpgid(child, child);
    SHOW(setpriority(PRIO_PGRP, child, 3));
    SHOW(get(PRIO_PGRP, child));
    SHOW(get(PRIO_PROCESS, child));
    SHOW(setpriority(PRIO_PROCESS, 999999, 1));
    SHOW(setpriority(3, 0, 1));
    IN_CHILD("inherited", { SHOW(get(PRIO_PROCESS, 0)); });
    SHOW(setpriority(PRIO_PROCESS, 0, 0));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        SHOW(setpriority(PRIO_PROCESS, 0, 4));
        SHOW(setpriority(PRIO_PROCESS, 0, 3));
        SHOW(setpriority(PRIO_PROCESS, 0, 6));
        SHOW(setpriority(PRIO_PROCESS, child, 19));
        SHOW(get(PRIO_PROCESS, child));
        SHOW(get(PRIO_USER, 1000));
        SHOW(get(PRIO_USER, 54321));
        SHOW(setpriority(PRIO_USER, 1000, 8));
        SHOW(get(PRIO_PROCESS, 0));
    });
    kill(child, SIGKILL), waitpid(child, NULL, 0);
    SHOW(setpriority(PRIO_PROCESS, child, 1));
}

static void policies(void) {
    for (int i = -1; i < 9; i++)
        printf("%d: %d to %d\n", i, (int)syscall(SYS_sched_get_priority_min, i), (int)syscall(SYS_sched_get_priority_max, i));
    SHOW(policy(0));
    SHOW(policy(-1));
    SHOW(policy(999999));
    SHOW(set_policy(0, 77, 0));
    SHOW(set_policy(-1, SCHED_OTHER, 0));
    SHOW(set_policy(0, SCHED_OTHER, 1));
    SHOW(set_policy(0, SCHED_FIFO, 0));
    SHOW(set_policy(0, SCHED_FIFO, 100));
    SHOW(set_policy(0, SCHED_FIFO, -1));
    SHOW(set_policy(0, 6, 0));
    SHOW(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, NULL));
    SHOW(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, (void *)8));
    SHOW(syscall(SYS_sched_getparam, 0, NULL));
    SHOW(syscall(SYS_sched_getparam, 0, (void *)8));
    SHOW(syscall(SYS_sched_setparam, 0, NULL));
    SHOW(set_priority(0, 1));
    SHOW(set_priority(0, 0));
    SHOW(set_priority(999999, 0));
    pid_t child = sleeper();
    SHOW(set_policy(child, SCHED_FIFO, 10));
    SHOW(policy(child));
    SHOW(priority(child));
    SHOW(set_priority(child, 20));
    SHOW(set_priority(child, 0));
    SHOW(priority(child));
    show(child);
    struct timespec slice = {-1, -1};
    SHOW(syscall(SYS_sched_rr_get_interval, child, &slice));
    printf("%ld %ld\n", (long)slice.tv_sec, slice.tv_nsec);
    SHOW(syscall(SYS_sched_rr_get_interval, -1, &slice));
    SHOW(syscall(SYS_sched_rr_get_interval, 999999, &slice));
    SHOW(syscall(SYS_sched_rr_get_interval, 0, (void *)8));
    SHOW(set_policy(child, SCHED_BATCH, 0));
    SHOW(policy(child));
    SHOW(set_policy(child, SCHED_IDLE, 0));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        SHOW(set_policy(child, SCHED_OTHER, 0));
        SHOW(set_policy(0, SCHED_FIFO, 1));
        SHOW(set_policy(0, SCHED_RR, 1));
        SHOW(set_policy(0, SCHED_BATCH, 0));
        SHOW(set_policy(0, SCHED_OTHER, 0));
        SHOW(set_policy(0, SCHED_IDLE, 0));
        SHOW(set_policy(0, SCHED_OTHER, 0));
        SHOW(policy(0));
        SHOW(policy(child));
    });
    kill(child, SIGKILL), waitpid(child, NULL, 0);
    // What children have.
    IN_CHILD("inherits", {
        SHOW(set_policy(0, SCHED_RR, 5));
        shown();
        IN_CHILD("grandchild", { SHOW(policy(0)); SHOW(priority(0)); });
        SHOW(set_policy(0, SCHED_RR | 0x40000000, 5));
        SHOW(policy(0));
        IN_CHILD("grandchild", { SHOW(policy(0)); SHOW(priority(0)); });
        SHOW(set_policy(0, SCHED_OTHER, 0));
    });
}

static void attributes(void) {
    struct attributes a = {0};
    SHOW(attr(0, NULL, sizeof a, 0));
    SHOW(attr(0, &a, 47, 0));
    SHOW(attr(0, &a, 4097, 0));
    SHOW(attr(0, &a, sizeof a, 1));
    SHOW(attr(-1, &a, sizeof a, 0));
    SHOW(attr(999999, &a, sizeof a, 0));
    SHOW(attr(0, (void *)8, sizeof a, 0));
    SHOW(attr(0, &a, 48, 0));
    SHOW(a.size);
    show(0);
    a = (struct attributes){.size = sizeof a, .policy = SCHED_OTHER, .nice = 6};
    SHOW(set_attr(0, &a, 0));
    show(0);
    a.nice = 100;
    SHOW(set_attr(0, &a, 0));
    show(0);
    a.nice = 0, a.size = 0;
    SHOW(set_attr(0, &a, 0));
    a.size = 47;
    SHOW(set_attr(0, &a, 0));
    SHOW(a.size);
    char large[100] = {0};
    a.size = sizeof large, memcpy(large, &a, sizeof a);
    SHOW(set_attr(0, (void *)large, 0));
    large[99] = 1;
    SHOW(set_attr(0, (void *)large, 0));
    SHOW(set_attr(0, NULL, 0));
    SHOW(set_attr(0, (void *)8, 0));
    a.size = sizeof a;
    SHOW(set_attr(0, &a, 1));
    SHOW(set_attr(-1, &a, 0));
    SHOW(set_attr(999999, &a, 0));
    a.policy = 77;
    SHOW(set_attr(0, &a, 0));
    a.policy = SCHED_FIFO;
    SHOW(set_attr(0, &a, 0));
    a.priority = 3;
    SHOW(set_attr(0, &a, 0));
    show(0);
    a.policy = SCHED_OTHER, a.priority = 0, a.flags = 1 << 8;
    SHOW(set_attr(0, &a, 0));
    a.flags = 1;
    SHOW(set_attr(0, &a, 0));
    show(0);
    a.flags = 0;
    SHOW(set_attr(0, &a, 0));
    show(0);
    a = (struct attributes){.size = sizeof a, .policy = 6};
    SHOW(set_attr(0, &a, 0));
    a.runtime = 10, a.deadline = 100;
    SHOW(set_attr(0, &a, 0));
    a.runtime = 20000000, a.deadline = 10000000;
    SHOW(set_attr(0, &a, 0));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        a.runtime = 1000000;
        SHOW(set_attr(0, &a, 0));
        a = (struct attributes){.size = sizeof a, .nice = -1};
        SHOW(set_attr(0, &a, 0));
        SHOW(set_attr(getppid(), &a, 0));
        a.nice = 2;
        SHOW(set_attr(0, &a, 0));
        show(0);
        show(getppid());
    });
}

static void io(void) {
    SHOW(syscall(SYS_ioprio_get, 0, 0));
    SHOW(syscall(SYS_ioprio_get, 4, 0));
    SHOW(syscall(SYS_ioprio_get, 1, 999999));
    SHOW(syscall(SYS_ioprio_set, 0, 0, 0));
    SHOW(syscall(SYS_ioprio_set, 1, 0, 4 << 13));
    SHOW(syscall(SYS_ioprio_set, 1, 0, 1));
    SHOW(syscall(SYS_ioprio_set, 1, 999999, 2 << 13));
    SHOW(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 7));
    SHOW(syscall(SYS_ioprio_get, 1, 0));
    SHOW(syscall(SYS_ioprio_set, 1, 0, 1 << 13 | 2));
    SHOW(syscall(SYS_ioprio_get, 1, 0));
    SHOW(syscall(SYS_ioprio_get, 1, getpid()));
    IN_CHILD("inherited", { SHOW(syscall(SYS_ioprio_get, 1, 0)); });
    SHOW(syscall(SYS_ioprio_set, 1, 0, 3 << 13));
    SHOW(syscall(SYS_ioprio_get, 1, 0));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        SHOW(syscall(SYS_ioprio_set, 1, 0, 1 << 13));
        SHOW(syscall(SYS_ioprio_set, 1, 0, 2 << 13));
        SHOW(syscall(SYS_ioprio_set, 1, getppid(), 2 << 13));
        SHOW(syscall(SYS_ioprio_get, 1, 0));
        SHOW(syscall(SYS_ioprio_get, 1, getppid()));
    });
}

int main(void) {
    nice_values();
    policies();
    attributes();
    io();
    return 0;
}
