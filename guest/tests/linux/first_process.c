// The first process by its number: who asks how it is scheduled, for its limits and its clock, or opens it, is answered as of any
// process of another user. Values are only looked at as far as they are the same everywhere. Nothing here may change it, as where this is
// recorded it is somebody's: what would is in proc_init, which is for the guest alone.
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#define CLOCK_OF(pid) ((clockid_t)(~(unsigned)(pid) << 3 | 2))

// As the kernel has it: C libraries without its headers do not.
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void of(int pid, const char *who) {
    printf("--- %s\n", who);
    struct sched_param param = {77};
    struct attributes attributes = {0};
    struct timespec time = {-1, -1};
    struct rlimit limit = {1, 0};
    cpu_set_t cores;
    CPU_ZERO(&cores);
    SHOW(syscall(SYS_sched_getscheduler, pid) & 0xff);
    SHOW(syscall(SYS_sched_getparam, pid, &param));
    CHECK(param.sched_priority == 0);
    SHOW(syscall(314 + 1, pid, &attributes, sizeof attributes, 0));
    CHECK(attributes.size >= 48 && attributes.policy == 0 && attributes.priority == 0);
    SHOW(syscall(SYS_sched_rr_get_interval, pid, &time));
    CHECK(time.tv_sec == 0 && time.tv_nsec >= 0);
    SHOW(sched_getaffinity(pid, sizeof cores, &cores));
    CHECK(CPU_COUNT(&cores) >= 1);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, pid) <= 19 && errno == 0);
    SHOW(syscall(SYS_ioprio_get, 1, pid) >= 0);
    errno = 0;
    SHOW(prlimit(pid, RLIMIT_NOFILE, NULL, &limit));
    if (limit.rlim_cur == 1 && limit.rlim_max == 0) printf("no limit told\n");
    else CHECK(limit.rlim_cur <= limit.rlim_max);
    SHOW(prlimit(pid, 16, NULL, &limit));
    SHOW(prlimit(pid, RLIMIT_NOFILE, NULL, NULL));
    SHOW(prlimit(pid, RLIMIT_NOFILE, (void *)1, NULL));
    SHOW(clock_gettime(CLOCK_OF(pid), &time));
    CHECK(time.tv_sec >= 0 && time.tv_nsec >= 0);
    SHOW(clock_getres(CLOCK_OF(pid), &time));
    clockid_t clock = 0;
    SHOW(clock_getcpuclockid(pid, &clock));
    CHECK(clock == CLOCK_OF(pid));
    SHOW(clock_gettime(CLOCK_OF(pid) | 4, &time));
    SHOW(syscall(SYS_kcmp, pid, 0x3fffff, 1, 0, 0));
    SHOW(syscall(SYS_kcmp, 0x3fffff, pid, 1, 0, 0));
    int fd = syscall(434, pid, 0);
    CHECK(fd >= 0);
    struct pollfd one = {fd, POLLIN, 0};
    SHOW(poll(&one, 1, 0));
    SHOW(syscall(424, fd, 0, NULL, 0));
    SHOW(syscall(424, fd, 65, NULL, 0));
    siginfo_t info;
    SHOW(waitid(3 /* P_PIDFD */, fd, &info, WEXITED | WNOHANG));
    SHOW(close(fd));
    SHOW(syscall(SYS_tkill, pid, 0));
    SHOW(syscall(SYS_tkill, pid, 65));
    SHOW(syscall(SYS_tgkill, pid, pid, 0));
    SHOW(syscall(SYS_tgkill, getpid(), pid, 0));
    SHOW(kill(pid, 0));
}

static void as_user(void) {
    if (setgid(12) || setuid(12)) _exit(1);
    of(1, "the first process, as a user");
    SHOW(syscall(SYS_kcmp, 1, 1, 1, 0, 0));
    SHOW(syscall(SYS_kcmp, 1, 1, 99, 0, 0));
    SHOW(syscall(SYS_kcmp, 1, getpid(), 1, 0, 0));
}

int main(void) {
    of(1, "the first process");
    errno = 0;
    CHECK(getpriority(PRIO_USER, 0) <= 0 && errno == 0);

    // Any other one is asked in the same way, by who has its ids.
    int ends[2];
    if (pipe(ends)) return 1;
    pid_t other = fork();
    if (other == 0) {
        struct rlimit limit = {100, 200};
        setrlimit(RLIMIT_NOFILE, &limit), setrlimit(RLIMIT_FSIZE, &limit);
        if (write(ends[1], "x", 1) != 1) _exit(1);
        for (volatile long n = 0; n < 3000000; n++) continue;
        // Nothing is read here: it could be what was just written.
        for (;;) pause();
    }
    char byte;
    if (read(ends[0], &byte, 1) != 1) return 2;
    struct rlimit files = {0}, sizes = {0};
    SHOW(prlimit(other, RLIMIT_NOFILE, NULL, &files));
    SHOW(prlimit(other, RLIMIT_FSIZE, NULL, &sizes));
    printf("%ld %ld %ld %ld\n", (long)files.rlim_cur, (long)files.rlim_max, (long)sizes.rlim_cur, (long)sizes.rlim_max);
    struct timespec used = {0};
    do SHOW_PTR(clock_gettime(CLOCK_OF(other), &used) ? (void *)-1 : NULL);
    while (0);
    while (used.tv_sec == 0 && used.tv_nsec == 0) clock_gettime(CLOCK_OF(other), &used);
    CHECK(used.tv_sec < 60);
    IN_CHILD("another user", {
        if (setgid(12) || setuid(12)) _exit(1);
        struct rlimit limit;
        SHOW(prlimit(other, RLIMIT_NOFILE, NULL, &limit));
        SHOW(prlimit(other, 16, NULL, &limit));
        SHOW(prlimit(0x3fffff, 16, NULL, &limit));
        SHOW(clock_gettime(CLOCK_OF(other), &used));
    });
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    SHOW(clock_gettime(CLOCK_OF(other), &used));
    SHOW(prlimit(other, RLIMIT_NOFILE, NULL, &files));

    fflush(stdout);
    pid_t user = fork();
    if (user == 0) {
        as_user();
        return 0;
    }
    int status;
    waitpid(user, &status, 0);
    return status != 0;
}
