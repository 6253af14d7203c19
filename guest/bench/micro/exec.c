// What does it cost to start a program and wait for its end, in the three ways of doing so, and by what
// the program is linked with?
// beside: exec/tiny.c nolibc musl gcc
#include "bench.h"
#include <spawn.h>

extern char **environ;
enum { STATUS = 37 };

static pid_t by_fork(char **arguments) {
    pid_t child = fork();
    if (child == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    return child;
}

static pid_t by_vfork(char **arguments) {
    pid_t child = vfork();
    if (child == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    return child;
}

static pid_t by_spawn(char **arguments) {
    pid_t child;
    expect("posix_spawn", posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ), 0);
    return child;
}

static void measure(const char *name, pid_t (*start)(char **), char *self) {
    char *arguments[] = {self, "exit", NULL};
    for (int i = 0; i < 11; i++) {
        int status;
        uint64_t from = ticks();
        pid_t child = start(arguments);
        pid_t ended = waitpid(child, &status, 0);
        sample(ticks() - from);
        expect("waitpid", ended, child);
        expect("status", status, STATUS << 8);
    }
    report(name, 1, "");
}

int main(int count, char **arguments) {
    if (count > 1) _exit(STATUS);
    calibrate();
    measure("by_fork,_with_exit_and_wait", by_fork, arguments[0]);
    measure("by_vfork,_with_exit_and_wait", by_vfork, arguments[0]);
    measure("by_posix__spawn,_with_exit_and_wait", by_spawn, arguments[0]);
    measure("by_fork,_a_program_without_libc", by_fork, "/root/tiny.nolibc");
    measure("by_fork,_a_program_with_musl", by_fork, "/root/tiny.musl");
    measure("by_fork,_a_program_with_glibc", by_fork, "/root/tiny.gcc");
}
