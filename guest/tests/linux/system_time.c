// Processor time of the program and of the system: what calculates is the first, what calls is the second; no part
// ever becomes less; getrusage, times, wait4 and /proc say the same.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <time.h>

// Microseconds.
struct used {
    long user, system;
};

static long us(struct timeval time) { return time.tv_sec * 1000000 + time.tv_usec; }
static struct used of(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (struct used){us(usage.ru_utime), us(usage.ru_stime)};
}
static struct used since(struct used before) {
    struct used now = of(RUSAGE_SELF);
    return (struct used){now.user - before.user, now.system - before.system};
}

// Until the process has used so much; `calls` or calculates. So long at a time that to ask how much it was counts for nothing, even of another core.
static struct used use(long wanted, int calls) {
    struct used before = of(RUSAGE_SELF), now;
    do {
        for (volatile int i = 0; i < 3000000 && !calls; i++) {}
        for (int i = 0; i < 3000 && calls; i++) syscall(SYS_getppid);
        now = since(before);
    } while (now.user + now.system < wanted);
    return now;
}

static const char *what(struct used used) {
    return used.user > 4 * used.system ? "the program" : used.system > used.user / 4 ? "the system" : "neither";
}

static void never_less(void) {
    struct used last = of(RUSAGE_SELF);
    for (int i = 0; i < 3000; i++) {
        for (volatile int k = 0; k < i % 7 * 300; k++) {}
        struct used now = of(RUSAGE_SELF);
        if (now.user < last.user || now.system < last.system)
            printf("%ld %ld after %ld %ld\n", now.user, now.system, last.user, last.system);
        last = now;
    }
}

// Of a process, from its line in /proc, in clock ticks.
static struct used in_proc(void) {
    char line[1024] = "";
    int fd = open("/proc/self/stat", O_RDONLY);
    ssize_t got = read(fd, line, sizeof line - 1);
    close(fd);
    struct used used = {-1, -1};
    if (got > 0 && strrchr(line, ')'))
        sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &used.user, &used.system);
    return used;
}

static int about(long a, long b) { return labs(a - b) <= 3; }

static void *calculate(void *none) {
    for (volatile int i = 0; i < 60000000; i++) {}
    return none;
}

int main(void) {
    printf("calculating: %s\n", what(use(300000, 0)));
    printf("calling: %s\n", what(use(300000, 1)));
    never_less();

    struct tms times_now;
    long tick = 1000000 / sysconf(_SC_CLK_TCK);
    struct used self = of(RUSAGE_SELF), proc = in_proc();
    times(&times_now);
    printf("proc %d %d\n", about(proc.user, self.user / tick), about(proc.system, self.system / tick));
    printf("times %d %d\n", about(times_now.tms_utime, self.user / tick),
           about(times_now.tms_stime, self.system / tick));

    if (fork() == 0) {
        use(300000, 1);
        _exit(0);
    }
    struct rusage child;
    wait4(-1, NULL, 0, &child);
    struct used of_child = {us(child.ru_utime), us(child.ru_stime)}, children = of(RUSAGE_CHILDREN);
    printf("child: %s, %s\n", of_child.user + of_child.system >= 300000 ? "all" : "too little", what(of_child));
    printf("children %d %d\n", children.user == of_child.user, children.system == of_child.system);
    times(&times_now);
    printf("times %d %d\n", about(times_now.tms_cutime, of_child.user / tick),
           about(times_now.tms_cstime, of_child.system / tick));

    // Those of all threads, of which this one only waits.
    struct used before = of(RUSAGE_SELF), thread_before = of(RUSAGE_THREAD);
    pthread_t thread;
    pthread_create(&thread, NULL, calculate, NULL);
    pthread_join(thread, NULL);
    struct used used = since(before), thread_now = of(RUSAGE_THREAD);
    long own = thread_now.user + thread_now.system - thread_before.user - thread_before.system;
    printf("threads: %s, %d\n", what(used), own * 4 < used.user);
}
