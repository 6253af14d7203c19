// SCHED_DEADLINE: who may have it, what is promised, and what is told of it.
// oracle: linux
// cores: 2
#include "test.h"
#include "must.h"
#include <sched.h>
#include <time.h>

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t least, most;
};
enum { DEADLINE = 6, RESET = 1, RECLAIM = 2, OVERRUN = 4, KEEP_POLICY = 8, KEEP_PARAMS = 16 };
#define MS 1000000ull

static long set(pid_t pid, struct attributes a) {
    a.size = sizeof a;
    long result = syscall(SYS_sched_setattr, pid, &a, 0);
    return result < 0 ? -errno : result;
}
static struct attributes budget(uint64_t runtime, uint64_t deadline, uint64_t period, uint64_t flags) {
    return (struct attributes){.policy = DEADLINE, .flags = flags, .runtime = runtime, .deadline = deadline, .period = period};
}
static void show(pid_t pid) {
    struct attributes a = {0};
    long result = syscall(SYS_sched_getattr, pid, &a, sizeof a, 0);
    printf("%ld: policy %u flags %lu nice %d priority %u", result, a.policy, a.flags, a.nice, a.priority);
    if (a.policy == DEADLINE) printf(" %lu %lu %lu", a.runtime, a.deadline, a.period);
    printf("\n");
}
#define SET(...) printf("%s: %ld\n", #__VA_ARGS__, set(0, budget(__VA_ARGS__)))

// Fields 18 and 41 of /proc/self/stat.
static void shown(void) {
    char text[2000];
    int fd = open("/proc/self/stat", O_RDONLY);
    long bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    char *at = strrchr(text, ')') + 2;
    for (int field = 3; field <= 41; field++) {
        if (field == 18 || field == 40 || field == 41) printf("field %d: %ld\n", field, strtol(at, NULL, 10));
        at = strchr(at, ' ') + 1;
    }
}

static void arguments(void) {
    SET(0, 0, 0, 0);
    SET(10 * MS, 0, 0, 0);
    SET(1023, 10 * MS, 0, 0);
    SET(10 * MS, 9 * MS, 0, 0);
    SET(MS, 10 * MS, 9 * MS, 0);
    SET(50000, 99999, 0, 0);
    SET(MS, 10 * MS, 4194304001ull, 0);
    SET(MS, 1ull << 63, 0, 0);
    SET(MS, 10 * MS, 1ull << 63, 0);
    SET(MS, 10 * MS, 0, 1 << 9);
    struct attributes a = budget(MS, 10 * MS, 0, 0);
    a.priority = 1;
    printf("with a priority: %ld\n", set(0, a));
    printf("of nobody: %ld\n", set(999999, budget(MS, 10 * MS, 0, 0)));
    show(0);
}

static void promised(void) {
    SET(1024, 100000, 0, 0);
    show(0);
    SET(MS, 10 * MS, 4194304000ull, RECLAIM);
    show(0);
    SET(MS, 10 * MS, 20 * MS, RESET | OVERRUN);
    show(0);
    shown();
    struct timespec slice = {7, 7};
    SHOW(sched_rr_get_interval(0, &slice));
    printf("slice %ld %ld\n", (long)slice.tv_sec, slice.tv_nsec);
    SHOW(syscall(SYS_sched_getscheduler, 0));
    int priority = 9;
    SHOW(syscall(SYS_sched_getparam, 0, &priority));
    printf("priority %d\n", priority);
    priority = 0;
    SHOW(syscall(SYS_sched_setscheduler, 0, DEADLINE, &priority));
    struct attributes kept = {.flags = KEEP_PARAMS, .policy = DEADLINE};
    printf("kept: %ld\n", set(0, kept));
    show(0);
    kept = budget(2 * MS, 10 * MS, 0, KEEP_POLICY);
    kept.policy = 0;
    printf("another one: %ld\n", set(0, kept));
    show(0);
    // Nobody has it by being made.
    fflush(stdout);
    errno = 0;
    pid_t child = fork();
    if (child == 0) _exit(0);
    printf("fork: %d, errno %d\n", child > 0 ? 1 : child, errno);
    SET(MS, 10 * MS, 20 * MS, RESET);
    IN_CHILD("a child", show(0));
    unsigned long all = ~0ul, one = 1;
    SHOW(syscall(SYS_sched_setaffinity, 0, sizeof all, &all) > 0);
    SHOW(sched_yield());
    struct attributes usual = {.nice = 3};
    printf("usual: %ld\n", set(0, usual));
    show(0);
    SHOW(syscall(SYS_sched_setaffinity, 0, sizeof one, &one));
    SET(MS, 10 * MS, 0, 0);
    show(0);
}

static void users(void) {
    setgid(1000), setuid(1000);
    SET(MS, 10 * MS, 0, 0);
    SET(0, 0, 0, 0);
    show(0);
}

// One works within its budget, and the rest of the machine goes on.
static void works(void) {
    int ends[2];
    MUST(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (set(0, budget(2 * MS, 20 * MS, 20 * MS, 0)) != 0) _exit(1);
        for (int i = 0; i < 20; i++) {
            struct timespec step = {0, 5 * MS};
            clock_nanosleep(CLOCK_MONOTONIC, 0, &step, NULL);
            if (write(ends[1], "x", 1) != 1) _exit(2);
        }
        _exit(0);
    }
    close(ends[1]);
    char byte;
    int count = 0, status;
    while (read(ends[0], &byte, 1) == 1) count++;
    waitpid(child, &status, 0);
    printf("%d steps, status %#x\n", count, status);
}

int main(void) {
    IN_CHILD("arguments", arguments());
    IN_CHILD("promised", promised());
    IN_CHILD("users", users());
    works();
    return 0;
}
