// The clock is set: who may, what is refused, and that all see it: the caller, threads, children, who computes and who sleeps, files,
// and programs that begin later. (On a Linux this would set the clock of the machine: it is not recorded, and does nothing there.)
// build: gcc, musl
// cores: 4
// expect-stdout: passed\n
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

static int failures;
#undef CHECK
#define CHECK(what) do { if (!(what)) failures++, printf("FAILED %d: %s (errno %d)\n", __LINE__, #what, errno); } while (0)

enum { THEN = 1000000000 + 900000000 };
static time_t vdso(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}
static time_t call(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec;
}
static int near(time_t now, time_t then) { return now >= then && now < then + 20; }
static int set(int clock, time_t seconds, long ns) {
    struct timespec to = {seconds, ns};
    return syscall(SYS_clock_settime, clock, &to);
}

static volatile int stop, seen[3];
// Reads the clock without any call.
static void *computes(void *arg) {
    (void)arg;
    while (!stop) seen[0] = near(vdso(), THEN);
    return 0;
}
static void *sleeps(void *arg) {
    int ends = *(int *)arg;
    char byte;
    if (read(ends, &byte, 1) != 1) return 0;
    seen[1] = near(vdso(), THEN);
    return 0;
}

static void errors(void) {
    time_t now = vdso();
    CHECK(set(CLOCK_MONOTONIC, now, 0) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_BOOTTIME, now, 0) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_REALTIME_COARSE, now, 0) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_PROCESS_CPUTIME_ID, now, 0) == -1 && errno == EPERM);
    CHECK(set(CLOCK_THREAD_CPUTIME_ID, now, 0) == -1 && errno == EPERM);
    CHECK(set(77, now, 0) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_REALTIME, now, 1000000000) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_REALTIME, now, -1) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_REALTIME, -1, 0) == -1 && errno == EINVAL);
    CHECK(set(CLOCK_REALTIME, 0, 0) == -1 && errno == EINVAL); // The machine has run for longer.
    CHECK(syscall(SYS_clock_settime, CLOCK_REALTIME, 8) == -1 && errno == EFAULT);
    struct timeval tv = {now, 1000000};
    CHECK(syscall(SYS_settimeofday, &tv, 0) == -1 && errno == EINVAL);
    struct timezone zone = {2000, 0};
    CHECK(syscall(SYS_settimeofday, 0, &zone) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_settimeofday, 8, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_settimeofday, 0, 0) == 0);
    CHECK(near(vdso(), now));
    pid_t pid = fork();
    if (!pid) {
        if (setresuid(1000, 1000, 1000)) _exit(1);
        CHECK(set(CLOCK_REALTIME, now, 0) == -1 && errno == EPERM);
        tv.tv_usec = 0;
        CHECK(syscall(SYS_settimeofday, &tv, 0) == -1 && errno == EPERM);
        zone.tz_minuteswest = 0;
        CHECK(syscall(SYS_settimeofday, 0, &zone) == -1 && errno == EPERM);
        struct timex x = {.modes = ADJ_SETOFFSET, .time = {1, 0}};
        CHECK(syscall(SYS_adjtimex, &x) == -1 && errno == EPERM);
        _exit(failures != 0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv) {
    if (access("/proc/tessera", F_OK)) return printf("passed\n"), 0;
    if (argc > 1) return near(vdso(), THEN) && near(call(), THEN) ? 0 : 1;
    errors();
    int ends[2], to_child[2], from_child[2];
    if (pipe(ends) || pipe(to_child) || pipe(from_child)) return 1;
    pthread_t threads[2];
    pthread_create(&threads[0], 0, computes, 0);
    pthread_create(&threads[1], 0, sleeps, &ends[0]);
    // Another process computes, too, and a third one sleeps.
    pid_t computing = fork();
    if (!computing) {
        for (long n = 0; !near(vdso(), THEN); n++) if (n > 2000000000) _exit(1);
        _exit(0);
    }
    pid_t sleeping = fork();
    if (!sleeping) {
        char byte;
        if (read(to_child[0], &byte, 1) != 1) _exit(1);
        byte = near(vdso(), THEN);
        if (write(from_child[1], &byte, 1) != 1) _exit(2);
        _exit(0);
    }
    struct timespec before, after, little = {0, 50000000};
    nanosleep(&little, 0);
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK(set(CLOCK_REALTIME, THEN, 5) == 0);
    CHECK(near(vdso(), THEN) && near(call(), THEN) && near(time(0), THEN));
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(after.tv_sec >= before.tv_sec && after.tv_sec < before.tv_sec + 10);
    for (int n = 0; n < 200 && !seen[0]; n++) nanosleep(&little, 0);
    CHECK(seen[0]);
    stop = 1;
    if (write(ends[1], "x", 1) != 1 || write(to_child[1], "x", 1) != 1) return 1;
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    CHECK(seen[1]);
    char byte = 0;
    CHECK(read(from_child[0], &byte, 1) == 1 && byte == 1);
    int status;
    CHECK(waitpid(sleeping, &status, 0) == sleeping && status == 0);
    CHECK(waitpid(computing, &status, 0) == computing && status == 0);
    // What begins now.
    pid_t pid = fork();
    if (!pid) {
        if (!near(vdso(), THEN)) _exit(2);
        execl("/proc/self/exe", "clock_set", "again", (char *)0);
        _exit(3);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    struct stat st;
    int fd = open("/tmp/file", O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && near(st.st_mtime, THEN));
    // By an offset, and by the old call.
    struct timex x = {.modes = ADJ_SETOFFSET, .time = {-100, 0}};
    CHECK(syscall(SYS_adjtimex, &x) >= 0 && near(vdso(), THEN - 100));
    x = (struct timex){.modes = ADJ_SETOFFSET | ADJ_NANO, .time = {99, 999999999}};
    CHECK(syscall(SYS_adjtimex, &x) >= 0 && near(vdso(), THEN - 1));
    x = (struct timex){.modes = ADJ_SETOFFSET, .time = {0, 1000000}};
    CHECK(syscall(SYS_adjtimex, &x) == -1 && errno == EINVAL);
    struct timeval tv = {THEN + 1000, 7};
    CHECK(syscall(SYS_settimeofday, &tv, 0) == 0 && near(vdso(), THEN + 1000));
    if (!failures) printf("passed\n");
    return failures != 0;
}
