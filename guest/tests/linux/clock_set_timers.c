// Timers that are set to a time of day go by the clock when that is set; others do not; and timerfds tell it, if that is wanted.
// (On a Linux this would set the clock of the machine: it is not recorded, and does nothing there.)
// build: gcc, musl
// cores: 4
// expect-stdout: passed\n
#define _GNU_SOURCE
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

static int failures;
#undef CHECK
#define CHECK(what) do { if (!(what)) failures++, printf("FAILED %d: %s (errno %d)\n", __LINE__, #what, errno); } while (0)

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET 2
#endif
#define SIGNAL 40

static time_t day(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec;
}
static void move(long seconds) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    now.tv_sec += seconds;
    CHECK(syscall(SYS_clock_settime, CLOCK_REALTIME, &now) == 0);
}
static int is_ready(int fd) {
    struct pollfd look = {fd, POLLIN, 0};
    return poll(&look, 1, 0) == 1;
}
static int becomes_ready(int fd) {
    struct pollfd look = {fd, POLLIN, 0};
    return poll(&look, 1, 20000) == 1;
}
static int has_come(void) {
    sigset_t set;
    siginfo_t info;
    struct timespec none = {0, 0};
    sigemptyset(&set), sigaddset(&set, SIGNAL);
    return syscall(SYS_rt_sigtimedwait, &set, &info, &none, 8) == SIGNAL;
}
static int comes(void) {
    sigset_t set;
    siginfo_t info;
    struct timespec long_time = {20, 0};
    sigemptyset(&set), sigaddset(&set, SIGNAL);
    return syscall(SYS_rt_sigtimedwait, &set, &info, &long_time, 8) == SIGNAL;
}
static int make(int clock) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGNAL};
    int id = -1;
    CHECK(syscall(SYS_timer_create, clock, &event, &id) == 0);
    return id;
}
static struct itimerspec at(time_t seconds, long period) { return (struct itimerspec){{period, 0}, {seconds, 0}}; }

// Of a program: by the clock only if it is that of the day, and the time an absolute one.
static void of_program(void) {
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGNAL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};
    int flags[] = {TIMER_ABSTIME, TIMER_ABSTIME, 0, TIMER_ABSTIME};
    for (int i = 0; i < 4; i++) {
        int id = make(clocks[i]);
        struct timespec now;
        clock_gettime(clocks[i], &now);
        struct itimerspec later = at(flags[i] ? now.tv_sec + 1000 : 1000, 0), left;
        CHECK(syscall(SYS_timer_settime, id, flags[i], &later, NULL) == 0);
        move(500);
        CHECK(syscall(SYS_timer_gettime, id, &left) == 0);
        if (i == 0) CHECK(left.it_value.tv_sec > 400 && left.it_value.tv_sec <= 500);
        else CHECK(left.it_value.tv_sec > 900);
        move(-2000);
        CHECK(syscall(SYS_timer_gettime, id, &left) == 0);
        if (i == 0) CHECK(left.it_value.tv_sec > 2400 && left.it_value.tv_sec <= 2500);
        else CHECK(left.it_value.tv_sec > 900);
        CHECK(!has_come());
        move(3000);
        if (i == 0) CHECK(comes());
        else CHECK(!has_come());
        CHECK(syscall(SYS_timer_delete, id) == 0);
        move(-1500);
    }
    // A period goes on from there: those that were passed over are counted.
    int id = make(CLOCK_REALTIME);
    struct itimerspec every = at(day() + 100, 10), left;
    CHECK(syscall(SYS_timer_settime, id, TIMER_ABSTIME, &every, NULL) == 0);
    move(155);
    CHECK(comes());
    long over = syscall(SYS_timer_getoverrun, id);
    CHECK(over >= 4 && over <= 7);
    CHECK(syscall(SYS_timer_gettime, id, &left) == 0 && left.it_value.tv_sec <= 10 && left.it_interval.tv_sec == 10);
    // Many at once.
    enum { MANY = 200 };
    int ids[MANY];
    for (int i = 0; i < MANY; i++) {
        ids[i] = make(CLOCK_REALTIME);
        struct itimerspec later = at(day() + 500 + i, 0);
        CHECK(syscall(SYS_timer_settime, ids[i], TIMER_ABSTIME, &later, NULL) == 0);
    }
    CHECK(syscall(SYS_timer_delete, id) == 0);
    move(1000);
    int came = 0;
    while (came < MANY && comes()) came++;
    CHECK(came == MANY && !has_come());
    for (int i = 0; i < MANY; i++) CHECK(syscall(SYS_timer_delete, ids[i]) == 0);
    move(-1155);
}

static void of_files(void) {
    uint64_t count = 0;
    struct itimerspec later = at(day() + 1000, 0), off = {{0, 0}, {0, 0}}, left;
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), plain = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    int relative = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), other = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &later, NULL) == 0);
    CHECK(timerfd_settime(plain, TFD_TIMER_ABSTIME, &later, NULL) == 0);
    // Without an absolute time, or of another clock, the flag says nothing.
    struct itimerspec soon = at(1000, 0);
    CHECK(timerfd_settime(relative, TFD_TIMER_CANCEL_ON_SET, &soon, NULL) == 0);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct itimerspec then = at(now.tv_sec + 1000, 0);
    CHECK(timerfd_settime(other, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &then, NULL) == 0);
    CHECK(timerfd_settime(fd, 4, &later, NULL) == -1 && errno == EINVAL);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, got;
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(epoll_wait(set, &got, 1, 0) == 0);
    CHECK(!is_ready(fd) && read(fd, &count, 8) == -1 && errno == EAGAIN);
    move(10);
    CHECK(is_ready(fd) && epoll_wait(set, &got, 1, 0) == 1);
    CHECK(read(fd, &count, 8) == -1 && errno == ECANCELED);
    CHECK(!is_ready(fd) && read(fd, &count, 8) == -1 && errno == EAGAIN);
    CHECK(timerfd_gettime(fd, &left) == 0 && left.it_value.tv_sec > 900 && left.it_value.tv_sec <= 990);
    CHECK(!is_ready(plain) && timerfd_gettime(plain, &left) == 0 && left.it_value.tv_sec > 900 && left.it_value.tv_sec <= 990);
    CHECK(!is_ready(relative) && timerfd_gettime(relative, &left) == 0 && left.it_value.tv_sec >= 990);
    CHECK(!is_ready(other) && timerfd_gettime(other, &left) == 0 && left.it_value.tv_sec >= 990);
    // Setting it anew tells that, too, and sets it.
    move(10);
    later = at(day() + 2000, 0);
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &later, NULL) == -1 && errno == ECANCELED);
    CHECK(timerfd_gettime(fd, &left) == 0 && left.it_value.tv_sec > 1900);
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &later, NULL) == 0);
    move(10);
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &later, NULL) == 0);
    move(10);
    CHECK(!is_ready(fd) && read(fd, &count, 8) == -1 && errno == EAGAIN);
    CHECK(timerfd_settime(fd, 0, &off, NULL) == 0);
    // It comes when the clock says so.
    move(2000);
    CHECK(becomes_ready(plain) && read(plain, &count, 8) == 8 && count == 1);
    CHECK(!is_ready(relative) && !is_ready(other));
    // What has come stays, although the clock is set back.
    later = at(day() - 5, 0);
    CHECK(timerfd_settime(plain, TFD_TIMER_ABSTIME, &later, NULL) == 0 && becomes_ready(plain));
    move(-1000);
    CHECK(is_ready(plain) && read(plain, &count, 8) == 8 && count == 1);
    later = at(day() + 50, 10);
    CHECK(timerfd_settime(plain, TFD_TIMER_ABSTIME, &later, NULL) == 0);
    move(85);
    CHECK(becomes_ready(plain) && read(plain, &count, 8) == 8 && count == 4);
    CHECK(timerfd_gettime(plain, &left) == 0 && left.it_value.tv_sec < 10 && left.it_interval.tv_sec == 10);
    close(set), close(fd), close(plain), close(relative), close(other);
}

static int blocking;
static volatile int answer;
static void *reads(void *arg) {
    uint64_t count;
    (void)arg;
    answer = read(blocking, &count, 8) == -1 ? errno : 1;
    return 0;
}
// Who waits is told, in this process, in another, and behind execve.
static void who_waits(void) {
    blocking = timerfd_create(CLOCK_REALTIME, 0);
    struct itimerspec later = at(day() + 1000, 0);
    CHECK(timerfd_settime(blocking, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &later, NULL) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, reads, NULL);
    usleep(50000);
    move(7);
    pthread_join(thread, NULL);
    CHECK(answer == ECANCELED);
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    if (!pid) {
        char name[16];
        snprintf(name, sizeof name, "%d", blocking);
        CHECK(write(ends[1], "x", 1) == 1);
        execl("/proc/self/exe", "clock_set_timers", name, (char *)0);
        _exit(9);
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    usleep(50000);
    move(7);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(blocking);
}

int main(int argc, char **argv) {
    if (access("/proc/tessera", F_OK)) return printf("passed\n"), 0;
    if (argc > 1) {
        // The clock of a timer that was inherited is still that of the day.
        int fd = atoi(argv[1]);
        uint64_t count;
        struct itimerspec left, later;
        if (read(fd, &count, 8) != -1 || errno != ECANCELED) return 1;
        later = at(day() + 300, 0);
        if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &later, NULL) || timerfd_gettime(fd, &left)) return 2;
        return left.it_value.tv_sec > 200 && left.it_value.tv_sec <= 300 ? 0 : 3;
    }
    of_program();
    of_files();
    who_waits();
    if (!failures) printf("passed\n");
    return failures != 0;
}
