// Processes that fork without end: fork fails sooner or later, everybody else goes on, and when the
// group is killed everything is as before.
//
// build: gcc
// mem: 128M
// timeout: 180
// keeps: 1048576
// expect-stdout: passed\n
#include "test.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <time.h>

static volatile struct { int forks, errors, wrong; } *count;

static long free_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.freeram * info.mem_unit;
}

static int processes(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.procs;
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Both sides of each fork fork again. On Linux the limit is what ends it.
static void bomb(void) {
    while (count->errors < 50) {
        pid_t pid = fork();
        if (pid >= 0) {
            __atomic_add_fetch(&count->forks, 1, __ATOMIC_RELAXED);
            continue;
        }
        if (errno != EAGAIN && errno != ENOMEM) count->wrong = errno;
        __atomic_add_fetch(&count->errors, 1, __ATOMIC_RELAXED);
    }
    for (;;) pause();
}

static int explode(long most_ms) {
    count->forks = count->errors = 0;
    pid_t pid = fork();
    if (pid < 0) return 0;
    if (pid == 0) {
        setpgid(0, 0);
        struct rlimit limit = {3000, 3000};
        setrlimit(RLIMIT_NPROC, &limit);
        bomb();
    }
    setpgid(pid, pid);
    long end = milliseconds() + most_ms;
    while (count->errors < 50 && milliseconds() < end) usleep(10000);
    int exploded = count->errors > 0;
    // The group grows until the last of it is dead.
    for (int i = 0; i < 1000 && kill(-pid, SIGKILL) == 0; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
        usleep(10000);
    }
    while (waitpid(-1, NULL, 0) > 0) {}
    return exploded;
}

int main(void) {
    count = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sysinfo info;
    sysinfo(&info);
    if (info.totalram > 1l << 30) {
        printf("this test uses up all processes: run it with --mem 128M\n");
        return 77;
    }
    int failures = 0;
    long after_first = 0;
    int count_before = processes();
    for (int round = 0; round < 3; round++) {
        if (!explode(60000)) printf("FAILED: no fork has failed\n"), failures++;
        if (count->wrong) printf("FAILED: fork with errno %d\n", count->wrong), failures++;
        if (count->forks < 20) printf("FAILED: only %d forks\n", count->forks), failures++;
        for (int i = 0; i < 500 && processes() > count_before; i++) usleep(10000);
        if (processes() > count_before) printf("FAILED: %d processes left\n", processes()), failures++;
        if (round == 0) after_first = free_memory();
    }
    long lost = after_first - free_memory();
    // The servers keep tables for as many processes as there once were, and this process has up to
    // 2 MiB of RAM in stock. What the session as a whole keeps is compared to the byte at its end.
    if (lost > 3 << 20) printf("FAILED: %ld bytes lost\n", lost), failures++;
    if (!failures) printf("passed\n");
    return failures != 0;
}
