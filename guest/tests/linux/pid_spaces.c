// Name spaces of process ids: what numbers processes have inside and outside, the first process and its end, who gets in, and signals.
// oracle: linux
// build: gcc, musl
#include "spaces.h"
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int tell[2];

static void part(const char *what) {
    printf("--- %s\n", what);
    fflush(stdout);
}

// What /proc says of the numbers of a process, as far as these are the same everywhere.
static void status_lines(void) {
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "NSpid", 5) || !strncmp(line, "PPid", 4) || !strncmp(line, "Tgid", 4)) printf("%s", line);
    if (file) fclose(file);
}

static void numbers(uint64_t flags) {
    printf("pid %d, parent %d, tid %ld, group %d, session %d\n", getpid(), getppid(), syscall(SYS_gettid), getpgrp(), getsid(0));
    fflush(stdout);
    pid_t first = fork();
    if (first == 0) _exit(getpid() * 10 + getppid());
    int status;
    printf("waits for %d", waitpid(first, &status, 0) == first);
    printf(": %d, status %x\n", first, status);
    printf("setsid %d", setsid());
    printf(", group %d\n", getpgid(0));
    printf("kill of nobody %d\n", kill(999, 0) ? -errno : 0);
    printf("kill of all %d\n", kill(-1, SIGTERM) ? -errno : 0);
    printf("signals of its own: %d %d\n", kill(1, SIGTERM), kill(1, SIGKILL));
    raise(SIGSTOP);
    printf("goes on\n");
}

static void orphans(uint64_t flags) {
    int pair[2];
    char byte;
    pipe(pair);
    if (fork() == 0) {
        if (fork() == 0) {
            while (getppid() != 1) usleep(1000);
            write(pair[1], "x", 1);
            _exit(7);
        }
        _exit(0);
    }
    read(pair[0], &byte, 1);
    int status, ended = 0, sum = 0;
    pid_t pid;
    while ((pid = wait(&status)) > 0) ended++, sum += pid * 100 + WEXITSTATUS(status);
    printf("%d ended, %d\n", ended, sum);
}

// Leaves children that never end by themselves.
static void leaves(uint64_t flags) {
    for (int n = 0; n < 5; n++)
        if (fork() == 0) {
            if (n % 2) setsid();
            write(tell[1], "x", 1);
            for (;;) pause();
        }
    char byte;
    for (int n = 0; n < 5; n++) read(tell[0], &byte, 1);
}

static void shows(uint64_t flags) {
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    printf("mount %d\n", mount("proc", "/proc", "proc", 0, NULL) ? -errno : 0);
    char link[32] = "";
    printf("self %zd", readlink("/proc/self", link, sizeof link - 1));
    printf(" %s\n", link);
    printf("others %d %d\n", access("/proc/2", F_OK) ? -errno : 0, access("/proc/1/status", F_OK) ? -errno : 0);
    status_lines();
}

static void nested(uint64_t flags) {
    printf("inner %d %d\n", getpid(), getppid());
    fflush(stdout);
    printf("status %x\n", cloned_for(CLONE_NEWPID, numbers));
}

static void deep(uint64_t level) {
    struct clone_args args = {.flags = CLONE_NEWPID, .exit_signal = SIGCHLD};
    int depth = level >> 56;
    for (;;) {
        long pid = syscall(435, &args, sizeof args);
        if (pid < 0) {
            printf("%d deep: %d\n", depth, -errno);
            fflush(stdout);
            _exit(0);
        }
        if (pid > 0) {
            waitpid(pid, NULL, 0);
            _exit(0);
        }
        depth++;
    }
}

int main(void) {
    pipe(tell);
    part("numbers");
    printf("status %x\n", cloned_for(CLONE_NEWPID, numbers));
    part("flags");
    printf("thread %d\n", cloned_for(CLONE_NEWPID | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, numbers));
    part("orphans");
    printf("status %x\n", cloned_for(CLONE_NEWPID, orphans));
    part("the end");
    printf("status %x\n", cloned_for(CLONE_NEWPID, leaves));
    part("proc");
    printf("status %x\n", cloned_for(CLONE_NEWPID | CLONE_NEWNS, shows));
    part("nested");
    printf("status %x\n", cloned_for(CLONE_NEWPID, nested));
    part("deep");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) deep(0);
    waitpid(pid, NULL, 0);
    part("unshare");
    if (fork() == 0) {
        printf("unshare %d", unshare(CLONE_NEWPID));
        printf(", again %d, pid stays %d\n", unshare(CLONE_NEWPID) ? -errno : 0, getpid() > 2);
        char link[64];
        printf("for children %d\n", readlink("/proc/self/ns/pid_for_children", link, sizeof link) < 0 ? -errno : 0);
        fflush(stdout);
        int status, pair[2], said[2];
        pipe(pair);
        pipe(said);
        char byte = 0;
        pid_t init = fork();
        if (init == 0) {
            printf("first %d %d\n", getpid(), getppid());
            fflush(stdout);
            write(said[1], &byte, 1);
            read(pair[0], &byte, 1);
            for (;;) pause();
        }
        // The second one ends it.
        read(said[0], &byte, 1);
        pid_t second = fork();
        if (second == 0) {
            int outer = open("/proc/self/ns/pid", O_RDONLY);
            printf("second %d %d, same %d\n", getpid(), getppid(), setns(outer, CLONE_NEWPID));
            printf("end of the first %d\n", kill(1, SIGKILL));
            fflush(stdout);
            _exit(3);
        }
        printf("waits %d", waitpid(second, &status, 0) == second);
        printf(" %x\n", status);
        kill(init, SIGTERM);
        printf("goes on %d\n", waitpid(init, &status, WNOHANG));
        kill(init, SIGKILL);
        printf("waits %d", waitpid(init, &status, 0) == init);
        printf(" %x\n", status);
        fflush(stdout);
        pid_t none = fork();
        printf("no more %d\n", none < 0 ? -errno : 0);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    part("users");
    if (fork() == 0) {
        setgid(1000);
        setuid(1000);
        printf("alone %d\n", unshare(CLONE_NEWPID) ? -errno : 0);
        fflush(stdout);
        printf("status %x\n", cloned_for(CLONE_NEWPID | CLONE_NEWUSER, orphans));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
