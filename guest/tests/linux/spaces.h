// Name spaces: who is in the same one, and children that do something in another.
#pragma once
#include "test.h"
#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

// As the kernel has it: C libraries without its headers do not.
struct clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static void child(void (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status) printf("status %x\n", status);
}

// The status of a child that was made with these flags and has done that, or the error.
static int cloned_for(uint64_t flags, void (*body)(uint64_t flags)) {
    struct clone_args args = {.flags = flags, .exit_signal = flags & CLONE_THREAD ? 0 : SIGCHLD};
    fflush(stdout);
    long pid = syscall(435, &args, sizeof args);
    if (pid == 0) {
        body(flags);
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0) return -errno;
    int status;
    waitpid(pid, &status, 0);
    return status;
}

static int put(const char *path, const char *what) {
    int fd = open(path, O_WRONLY);
    if (fd < 0) return -errno;
    ssize_t bytes = write(fd, what, strlen(what));
    int error = errno;
    close(fd);
    return bytes < 0 ? -error : 0;
}

static int in_same(const char *kind, pid_t other) {
    char own[64], theirs[64];
    struct stat a, b;
    snprintf(own, sizeof own, "/proc/self/ns/%s", kind);
    snprintf(theirs, sizeof theirs, "/proc/%d/ns/%s", other, kind);
    if (stat(own, &a) || stat(theirs, &b)) return -errno;
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static int wait_for(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static unsigned long free_pages(void) {
    struct sysinfo it;
    sysinfo(&it);
    return it.freeram / 4096 * it.mem_unit;
}

// Nobody but this user any more.
static int as_user(int id) { return setgid(id) || setuid(id); }
