// What the tests share: each prints what it sees, and the output is compared with Linux's.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul

// Prints an expression, its value and, if that is -1, errno.
#define SHOW(e)                                                        \
    do {                                                               \
        errno = 0;                                                     \
        long value_ = (long)(e);                                       \
        printf("%s = %ld", #e, value_);                                \
        if (value_ == -1) printf(", errno %d", errno);                 \
        printf("\n");                                                  \
    } while (0)

// The same for calls that return an address: only whether it is one.
#define SHOW_PTR(e)                                                    \
    do {                                                               \
        errno = 0;                                                     \
        void *value_ = (void *)(e);                                    \
        printf("%s: %s", #e, value_ == (void *)-1 ? "failed" : "ok");  \
        if (value_ == (void *)-1) printf(", errno %d", errno);         \
        printf("\n");                                                  \
    } while (0)

// Says that something must hold; the program goes on either way.
#define CHECK(e) printf("%s: %s\n", #e, (e) ? "yes" : "NO")

// Line by line, so that nothing is written twice after a fork.
__attribute__((constructor)) static void line_buffered(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

static inline void *pages(size_t count, int protection) {
    void *at = mmap(NULL, count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(99);
    }
    return at;
}

// Up to three signals; 0 is none.
static inline sigset_t set_of(int a, int b, int c) {
    sigset_t set;
    sigemptyset(&set);
    if (a) sigaddset(&set, a);
    if (b) sigaddset(&set, b);
    if (c) sigaddset(&set, c);
    return set;
}

// The number in the first line of a file that has this form; 0: there is none.
static inline long number_in(const char *path, const char *form) {
    char line[256];
    long number = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, form, &number) != 1) continue;
    if (file) fclose(file);
    return number;
}

// Runs the statements in a child and shows how that ended.
#define IN_CHILD(what, ...)                                            \
    do {                                                               \
        fflush(stdout);                                                \
        pid_t child_ = fork();                                         \
        if (child_ == 0) {                                             \
            __VA_ARGS__;                                               \
            fflush(stdout);                                            \
            _exit(0);                                                  \
        }                                                              \
        int status_ = -1;                                              \
        waitpid(child_, &status_, 0);                                  \
        printf("%s: status %#x\n", what, status_);                     \
    } while (0)
