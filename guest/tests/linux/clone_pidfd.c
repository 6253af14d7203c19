// CLONE_PIDFD: a child and a descriptor for it, in one call.
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sys/resource.h>

#define PIDFD 0x1000ul
#define VFORK 0x4000ul
#define VM 0x100ul
#define PARENT_SETTID 0x100000ul
#define DETACHED 0x400000ul

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

// In line: behind a vfork the child goes on with its parent's stack.
static inline __attribute__((always_inline)) long call(long number, long a, long b, long c) {
    long result;
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static long clone3_(struct arguments *arguments) {
    return call(SYS_clone3, (long)arguments, sizeof *arguments, 0);
}

static int highest(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

static void end_of(const char *what, int fd, pid_t child) {
    struct pollfd one = {fd, POLLIN, 0};
    int ready = poll(&one, 1, 5000);
    siginfo_t info = {0};
    int result = waitid(P_PIDFD, fd, &info, WEXITED);
    printf("%s: %d, waited %d, status %d, the child %d, flags %d %#x\n", what, ready, result, info.si_status,
           info.si_pid == child, fcntl(fd, F_GETFD), fcntl(fd, F_GETFL));
    close(fd);
}

static void forks(void) {
    int fd = -1, first = highest();
    pid_t child = call(SYS_clone, PIDFD | SIGCHLD, 0, (long)&fd);
    if (child == 0) {
        // It has neither the descriptor nor its number.
        _exit(fd == -1 && fcntl(first, F_GETFD) == -1 ? 5 : 6);
    }
    CHECK(fd == first);
    end_of("clone", fd, child);
    pid_t told = 0;
    struct arguments arguments = {PIDFD | PARENT_SETTID, (long)&fd, 0, (long)&told, SIGCHLD, 0, 0, 0};
    child = clone3_(&arguments);
    if (child == 0) _exit(7);
    CHECK(told == child);
    end_of("clone3", fd, child);
    // Other children have it, as any descriptor, but for those that are called with it.
    child = call(SYS_clone, PIDFD | SIGCHLD, 0, (long)&fd);
    if (child == 0) for (;;) pause();
    IN_CHILD("sibling", SHOW(syscall(424, fd, SIGTERM, NULL, 0)));
    end_of("killed", fd, child);
    CHECK(highest() == first);
}

static volatile int shared;
static int volatile number;

static void vforks(void) {
    int first = highest();
    for (int i = 0; i < 3; i++) {
        shared = 0;
        pid_t child = call(SYS_clone, PIDFD | VFORK | VM | SIGCHLD, 0, (long)&number);
        if (child == 0) {
            // The memory is its parent's, the descriptors are its own.
            shared = call(SYS_fcntl, number, F_GETFD, 0);
            call(SYS_close, 0, 0, 0);
            call(SYS_exit_group, 8 + i, 0, 0);
        }
        printf("in the child %d, the first %d, input open %d\n", shared, number == first, fcntl(0, F_GETFD) == 0);
        end_of("vfork", number, child);
    }
    // The child's memory, to execute a program with.
    static char *words[] = {"sh", "-c", "exit 11", NULL};
    pid_t child = call(SYS_clone, PIDFD | VFORK | VM | SIGCHLD, 0, (long)&number);
    if (child == 0) {
        call(SYS_execve, (long)"/bin/sh", (long)words, (long)(words + 3));
        call(SYS_exit_group, 127, 0, 0);
    }
    end_of("program", number, child);
    CHECK(highest() == first);
}

static void refused(void) {
    int fd = 77, first = highest();
    struct arguments same = {PIDFD | PARENT_SETTID, (long)&fd, 0, (long)&fd, SIGCHLD, 0, 0, 0};
    struct arguments nowhere = {PIDFD, 8, 0, 0, SIGCHLD, 0, 0, 0};
    struct arguments detached = {DETACHED, 0, 0, 0, SIGCHLD, 0, 0, 0};
    SHOW(call(SYS_clone, PIDFD | PARENT_SETTID | SIGCHLD, 0, (long)&fd));
    SHOW(call(SYS_clone, PIDFD | DETACHED | SIGCHLD, 0, (long)&fd));
    SHOW(clone3_(&same));
    SHOW(clone3_(&nowhere));
    SHOW(clone3_(&detached));
    SHOW(call(SYS_clone, PIDFD | SIGCHLD, 0, 0));
    SHOW(call(SYS_clone, PIDFD | SIGCHLD, 0, 8));
    SHOW(call(SYS_clone, PIDFD | VFORK | VM | SIGCHLD, 0, 8));
    struct rlimit limit, none = {first, first};
    getrlimit(RLIMIT_NOFILE, &limit);
    none.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &none);
    SHOW(call(SYS_clone, PIDFD | SIGCHLD, 0, (long)&fd));
    SHOW(call(SYS_clone, PIDFD | VFORK | VM | SIGCHLD, 0, (long)&fd));
    setrlimit(RLIMIT_NOFILE, &limit);
    printf("%d\n", fd);
    // There is neither a descriptor nor a child.
    CHECK(highest() == first);
    SHOW(waitpid(-1, NULL, 0));
}

int main(void) {
    forks();
    vforks();
    refused();
    forks();
    return 0;
}
