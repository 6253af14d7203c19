// Users who make name spaces of process ids by the thousand, whose first processes are killed while those in them fork on four cores; who try
// every number that somebody outside could have; and who are handed another one's. When the first process is waited for, nobody is left: who
// reads the pipe that all of them have open finds its end. Afterwards there is as much memory as before. The library passes numbers on as
// they are, so that these are the requests of whoever forges some.
// build: gcc
// cores: 4
// mem: 512M
// timeout: 300
// expect-stdout: refused at last: 28\nnot too early: yes\nall ended with the first: yes\nhit by number: 0\nentered: -1 -22 -1\nthousands: yes\nlistening: yes\nmemory is back: yes\n
#include "spaces.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { USERS = 2, ROUNDS = 100, MANY = 3000, NUMBERS = 4000 };

static pid_t in_new(uint64_t flags) {
    struct clone_args args = {.flags = CLONE_NEWPID | flags, .exit_signal = SIGCHLD};
    fflush(stdout);
    return syscall(435, &args, sizeof args);
}

// Forks for ever: children that end, that stay, that leave their group, and orphans.
static void forks(void) {
    for (unsigned n = 0;; n++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (n % 3 == 0) setsid();
            if (n % 4 == 1 && fork() == 0) for (;;) pause();
            if (n % 2) _exit(0);
            for (;;) pause();
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (n % 20 == 19) kill(-1, SIGKILL);
    }
}

// 0, or what was wrong.
static int killed_in_the_middle(unsigned turn) {
    int alive[2];
    if (pipe(alive)) return 1;
    pid_t init = in_new(CLONE_NEWUSER);
    if (init < 0) return 2;
    if (init == 0) {
        close(alive[0]);
        // One in four has others in an inner one.
        if (turn % 4 == 3) {
            pid_t inner = in_new(0);
            if (inner == 0) forks();
        }
        forks();
    }
    close(alive[1]);
    usleep(turn * 7919 % 20000);
    kill(init, SIGKILL);
    if (wait_for(init) != SIGKILL) return 3;
    char byte;
    struct pollfd end = {alive[0], POLLIN, 0};
    if (poll(&end, 1, 0) != 1 || read(alive[0], &byte, 1) != 0) return 4;
    close(alive[0]);
    return 0;
}

// How many calls did something to somebody by a number.
static int tries(void) {
    int hits = 0, own = getpid(), child = 0;
    for (int n = 2; n < NUMBERS; n++) {
        if (n == own || n == child) continue;
        struct rlimit limit = {10, 10};
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(0, &cores);
        hits += kill(n, SIGKILL) == 0;
        hits += kill(-n, SIGKILL) == 0;
        hits += syscall(SYS_tgkill, n, n, SIGKILL) == 0;
        hits += syscall(SYS_tkill, n, SIGKILL) == 0;
        hits += syscall(SYS_pidfd_open, n, 0) >= 0;
        hits += prlimit(n, RLIMIT_NOFILE, &limit, NULL) == 0;
        hits += sched_setaffinity(n, sizeof cores, &cores) == 0;
        hits += setpriority(PRIO_PROCESS, n, 19) == 0;
        hits += getpgid(n) >= 0;
        hits += getsid(n) >= 0;
        hits += setpgid(0, n) == 0;
        hits += ptrace(PTRACE_ATTACH, n, 0, 0) == 0;
        hits += waitpid(n, NULL, WNOHANG) >= 0;
    }
    return hits;
}

// As many as there may be at once.
static void hold(void) {
    int made = 0, error = 0, gate[2];
    if (pipe(gate)) return;
    if (unshare(CLONE_NEWUSER)) return;
    for (; made < 3000; made++) {
        pid_t pid = in_new(0);
        if (pid < 0) {
            error = errno;
            break;
        }
        if (pid > 0) continue;
        // Kept by who waits in it.
        close(gate[1]);
        char byte;
        _exit(read(gate[0], &byte, 1) != 0);
    }
    printf("refused at last: %d\nnot too early: %s\n", error, made > 900 ? "yes" : "NO");
    fflush(stdout);
    close(gate[1]);
    while (wait(NULL) > 0) continue;
}

int main(void) {
    pid_t user = fork();
    if (user == 0) {
        if (as_user(1000)) _exit(1);
        hold();
        _exit(0);
    }
    if (wait_for(user)) return 1;

    unsigned long before = 0;
    int wrong = 0;
    for (int turn = 0; turn < 2; turn++) {
        pid_t users[USERS];
        for (int n = 0; n < USERS; n++)
            if ((users[n] = fork()) == 0) {
                if (as_user(1000 + n)) _exit(1);
                for (int at = 0; at < (turn ? ROUNDS : 4); at++) {
                    int what = killed_in_the_middle(at * USERS + n);
                    if (what) _exit(10 + what);
                }
                _exit(0);
            }
        for (int n = 0; n < USERS; n++) {
            int status = wait_for(users[n]);
            if (status) wrong = status;
        }
        if (turn == 0) before = free_pages();
    }
    printf("all ended with the first: %s\n", wrong ? "NO" : "yes");
    if (wrong) printf("%x\n", wrong);

    // Somebody who is to be there afterwards, and who listens.
    int to[2], from[2], count[2];
    if (pipe(to) || pipe(from) || pipe(count)) return 2;
    pid_t other = fork();
    if (other == 0) {
        char byte;
        while (read(to[0], &byte, 1) == 1)
            if (write(from[1], &byte, 1) != 1) break;
        _exit(0);
    }
    pid_t init = in_new(0);
    if (init == 0) {
        int hits = tries();
        if (write(count[1], &hits, sizeof hits) != sizeof hits) _exit(1);
        for (;;) pause();
    }
    int hits = -1;
    if (read(count[0], &hits, sizeof hits) != sizeof hits) return 3;
    printf("hit by number: %d\n", hits);

    // Handed on to who has no right in it; out of one's own; into another one's.
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", init);
    int inner = open(path, O_RDONLY), outer = open("/proc/self/ns/pid", O_RDONLY), entered[2] = {0, 0};
    user = fork();
    if (user == 0) {
        if (as_user(1001)) _exit(99);
        _exit(setns(inner, CLONE_NEWPID) ? errno : 0);
    }
    entered[0] = wait_for(user) >> 8 & 0xff;
    user = in_new(0);
    if (user == 0) _exit(setns(outer, CLONE_NEWPID) ? errno : 0);
    entered[1] = wait_for(user) >> 8 & 0xff;
    user = fork();
    if (user == 0) {
        if (as_user(1001) || unshare(CLONE_NEWUSER)) _exit(99);
        _exit(setns(inner, CLONE_NEWPID) ? errno : 0);
    }
    printf("entered: %d %d %d\n", -entered[0], -entered[1], -(wait_for(user) >> 8 & 0xff));
    kill(init, SIGKILL);
    wait_for(init);
    close(inner), close(outer);

    int failed = 0;
    for (int n = 0; n < MANY && !failed; n++) {
        pid_t pid = in_new(0);
        if (pid == 0) {
            if (fork() == 0) _exit(getpid() != 2);
            int status = -1;
            wait(&status);
            _exit(status != 0 || getpid() != 1);
        }
        failed = pid < 0 || wait_for(pid) != 0;
    }
    printf("thousands: %s\n", failed ? "NO" : "yes");
    char byte = 'x';
    printf("listening: %s\n", write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1 ? "yes" : "NO");
    kill(other, SIGKILL);
    wait_for(other);
    // What is freed aside comes back soon. What servers keep at one time and not at another comes in units of 512 pages.
    int is_back = 0;
    for (int n = 0; n < 200 && !(is_back = free_pages() + 1536 >= before); n++) usleep(20000);
    printf("memory is back: %s\n", is_back ? "yes" : "NO");
    if (!is_back) printf("%ld pages less\n", (long)before - (long)free_pages());
    return 0;
}
