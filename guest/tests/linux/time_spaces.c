// Name spaces of times: what the clocks that count from boot say there, in calls and in the vDSO; timers and sleeps until a time of them;
// who may set the offsets, when, and to what; how others get in.
// oracle: linux
// build: gcc, musl
#include "spaces.h"
#include <poll.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <time.h>

enum { DAY = 86400 };
static pid_t parent;
static struct timespec before[2];

static void part(const char *what, void (*body)(void)) {
    printf("--- %s\n", what);
    child(body);
}

static struct timespec now(int clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at;
}

static struct timespec now_by_call(int clock) {
    struct timespec at;
    syscall(SYS_clock_gettime, clock, &at);
    return at;
}

// Days that a clock says more than it did in the beginning, to the next one.
static long days(struct timespec at, struct timespec from) { return (at.tv_sec - from.tv_sec + DAY / 2) / DAY; }

static void clocks(void) {
    static const int all[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME};
    for (int n = 0; n < 4; n++) {
        struct timespec from = before[all[n] == CLOCK_BOOTTIME];
        printf("clock %d: %ld and %ld days more\n", all[n], days(now(all[n]), from), days(now_by_call(all[n]), from));
    }
    struct timespec real = now(CLOCK_REALTIME), by_call = now_by_call(CLOCK_REALTIME);
    CHECK(by_call.tv_sec - real.tv_sec < 2);
    double up = 0;
    FILE *file = fopen("/proc/uptime", "r");
    if (file && fscanf(file, "%lf", &up) == 1) printf("up %ld days more\n", (long)(up - before[1].tv_sec + DAY / 2) / DAY);
    if (file) fclose(file);
    struct sysinfo it;
    sysinfo(&it);
    printf("sysinfo %ld days more\n", (it.uptime - before[1].tv_sec + DAY / 2) / DAY);
}

static void shown(const char *path) {
    char text[256] = "";
    int fd = open(path, O_RDONLY);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    printf("%s: %zd\n%s", path, bytes, text);
    close(fd);
}

static void offsets(void) { shown("/proc/self/timens_offsets"); }

// Milliseconds of a sleep until that many of them from now, by each of the ways to say it.
static void sleeps(void) {
    struct timespec from = now(CLOCK_MONOTONIC), until = from;
    until.tv_nsec += 50000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    struct timespec to = now(CLOCK_MONOTONIC);
    long ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
    CHECK(ms >= 49 && ms < 20000);
    for (int clock = 0; clock < 2; clock++) {
        int which = clock ? CLOCK_BOOTTIME : CLOCK_MONOTONIC, fd = timerfd_create(which, 0);
        struct itimerspec at = {.it_value = now(which)};
        at.it_value.tv_sec += 1;
        SHOW(timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL));
        struct itimerspec left;
        timerfd_gettime(fd, &left);
        CHECK(left.it_value.tv_sec <= 1);
        struct pollfd one = {fd, POLLIN, 0};
        SHOW(poll(&one, 1, 20000));
        // It is shared after that.
        fflush(stdout);
        if (fork() == 0) _exit(0);
        wait_for(-1);
        at.it_value = now(which);
        at.it_value.tv_sec += 1;
        SHOW(timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL));
        SHOW(poll(&one, 1, 20000));
        timer_t timer;
        struct sigevent none = {.sigev_notify = SIGEV_NONE};
        SHOW(timer_create(which, &none, &timer));
        at.it_value = now(which);
        at.it_value.tv_sec += 100;
        SHOW(timer_settime(timer, TIMER_ABSTIME, &at, NULL));
        SHOW(timer_gettime(timer, &left));
        CHECK(left.it_value.tv_sec > 90 && left.it_value.tv_sec <= 100);
    }
    int word = 0;
    until = now(CLOCK_MONOTONIC);
    until.tv_sec += 1;
    SHOW(syscall(SYS_futex, &word, 9, 0, &until, NULL, ~0));
}

static void inside(void) {
    CHECK(in_same("time", parent) == 0);
    clocks();
    sleeps();
    SHOW(put("/proc/self/timens_offsets", "monotonic 1 0\n"));
    // Of those that are born here it is the same.
    child(clocks);
}

static void begins(void) {
    SHOW(unshare(CLONE_NEWTIME));
    CHECK(in_same("time", parent) == 1 && in_same("time_for_children", parent) == 0);
    offsets();
    SHOW(put("/proc/self/timens_offsets", "monotonic 864000 0\nboottime 1728000 5\n"));
    offsets();
    clocks();
    child(inside);
    SHOW(put("/proc/self/timens_offsets", "monotonic 864001 0\n"));
    clocks();
}

static void errors(void) {
    SHOW(put("/proc/self/timens_offsets", "monotonic 1 0\n"));
    SHOW(unshare(CLONE_NEWTIME));
    static const char *const texts[] = {
        "\n", "monotonic\n", "monotonic 1\n", "monotonic 1 1000000000\n", "monotonic 1 -1\n", "tai 1 0\n", "monotonic -86400000 0\n",
        "monotonic 9223372037 0\n", "monotonic 5000000000 0\n", "7 1 0\n", "1 2 0", "boottime 1 0\nmonotonic 1 1\n",
        "boottime 1 0\nmonotonic 1 1\nboottime 2 0\n", "monotonic x 0\n", "0 1 0\n",
    };
    for (unsigned n = 0; n < sizeof texts / sizeof *texts; n++)
        printf("%u: %d\n", n, put("/proc/self/timens_offsets", texts[n]));
    offsets();
}

static void as_child(void) { clocks(); }

static void joins(void) {
    SHOW(unshare(CLONE_NEWTIME));
    SHOW(put("/proc/self/timens_offsets", "monotonic 864000 0\n"));
    int space = open("/proc/self/ns/time_for_children", O_RDONLY), first = open("/proc/self/ns/time", O_RDONLY);
    SHOW(setns(space, CLONE_NEWTIME));
    CHECK(in_same("time", parent) == 0);
    clocks();
    sleeps();
    SHOW(put("/proc/self/timens_offsets", "monotonic 1 0\n"));
    SHOW(setns(first, 0));
    clocks();
    child(as_child);
}

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static void with_threads(void) {
    int space = open("/proc/self/ns/time", O_RDONLY);
    pthread_t one;
    pthread_create(&one, NULL, sleeper, NULL);
    SHOW(setns(space, CLONE_NEWTIME));
}

static void executed(void) {
    SHOW(unshare(CLONE_NEWTIME));
    SHOW(put("/proc/self/timens_offsets", "boottime 864000 0\n"));
    char up[32], *args[] = {"time_spaces", up, NULL};
    snprintf(up, sizeof up, "%ld", (long)before[1].tv_sec);
    fflush(stdout);
    if (vfork() == 0) {
        execv("/proc/self/exe", args);
        _exit(9);
    }
    wait_for(-1);
}

static void users(void) {
    SHOW(as_user(1000));
    SHOW(unshare(CLONE_NEWTIME));
    SHOW(unshare(CLONE_NEWUSER | CLONE_NEWTIME));
    SHOW(put("/proc/self/timens_offsets", "boottime 864000 0\n"));
    child(clocks);
}

static void given(uint64_t flags) {
    (void)flags;
    CHECK(in_same("time", parent) == 0);
    SHOW(put("/proc/self/timens_offsets", "monotonic 1 0\n"));
}

int main(int argc, char **argv) {
    parent = getppid();
    before[0] = now(CLOCK_MONOTONIC), before[1] = now(CLOCK_BOOTTIME);
    if (argc > 1) {
        printf("%ld days more\n", (now(CLOCK_BOOTTIME).tv_sec - atol(argv[1]) + DAY / 2) / DAY);
        return 0;
    }
    parent = getpid();
    part("begins", begins);
    part("errors", errors);
    part("joins", joins);
    part("threads", with_threads);
    part("executed", executed);
    part("users", users);
    SHOW(cloned_for(CLONE_NEWTIME, given));
}
