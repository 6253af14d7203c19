// Clocks, sleeping, timers, identity, limits, random numbers: whatever has no exact value is
// checked for sense.
// oracle: linux
#include "test.h"
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static volatile int alarms;
static void on_alarm(int signal) { (void)signal, alarms++; }

int main(void) {
    double start = seconds(CLOCK_MONOTONIC);
    struct timespec delay = {0, 50000000}, left;
    SHOW(nanosleep(&delay, &left));
    double slept = seconds(CLOCK_MONOTONIC) - start;
    CHECK(slept >= 0.05 && slept < 5);
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL));
    SHOW(nanosleep(&(struct timespec){0, 1000000000}, NULL));
    SHOW(nanosleep(&(struct timespec){-1, 0}, NULL));
    CHECK(seconds(CLOCK_REALTIME) > 1600000000.0);
    CHECK(labs(time(NULL) - (long)seconds(CLOCK_REALTIME)) <= 1);
    double last = 0;
    int backwards = 0;
    for (int i = 0; i < 1000; i++) {
        double now = seconds(CLOCK_MONOTONIC);
        backwards += now < last;
        last = now;
    }
    SHOW(backwards);
    struct timespec resolution;
    SHOW(clock_getres(CLOCK_MONOTONIC, &resolution));
    SHOW(clock_gettime(99, &resolution));
    CHECK(seconds(CLOCK_PROCESS_CPUTIME_ID) >= 0);
    struct tms tms;
    CHECK(times(&tms) != -1);

    signal(SIGALRM, on_alarm);
    struct itimerval timer = {{0, 20000}, {0, 20000}}, old;
    SHOW(setitimer(ITIMER_REAL, &timer, NULL));
    while (alarms < 3) pause();
    SHOW(setitimer(ITIMER_REAL, &(struct itimerval){0}, &old));
    printf("interval %ld\n", (long)old.it_interval.tv_usec);
    SHOW(setitimer(99, &timer, NULL));
    SHOW(alarm(100));
    CHECK(alarm(0) > 98);
    delay = (struct timespec){5, 0};
    timer = (struct itimerval){{0, 0}, {0, 30000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    SHOW(nanosleep(&delay, &left));
    CHECK(left.tv_sec == 4);

    unsigned char random[64] = {0}, other[64] = {0};
    SHOW(getrandom(random, sizeof random, 0));
    SHOW(getrandom(other, sizeof other, 0));
    CHECK(memcmp(random, other, sizeof random) != 0);
    SHOW(getrandom(random, 1, 0x100));
    struct utsname name;
    SHOW(uname(&name));
    puts(name.sysname);
    puts(name.machine);
    CHECK(getpid() > 0 && getppid() >= 0 && syscall(SYS_gettid) == getpid());
    SHOW(getuid());
    SHOW(geteuid());
    SHOW(getgid());
    SHOW(getegid());
    struct rlimit limit;
    SHOW(getrlimit(RLIMIT_STACK, &limit));
    CHECK(limit.rlim_cur >= 1 << 20);
    SHOW(getrlimit(99, &limit));
    struct rusage usage;
    SHOW(getrusage(RUSAGE_SELF, &usage));
    SHOW(getrusage(99, &usage));
    struct sysinfo info;
    SHOW(sysinfo(&info));
    CHECK(info.totalram > 0 && info.freeram > 0 && info.freeram <= info.totalram && info.mem_unit == 1);
    CHECK(info.freeswap <= info.totalswap && info.procs > 0);
    SHOW(sched_yield());
    SHOW(syscall(9999));
    return 0;
}
