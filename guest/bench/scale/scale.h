// What the programs of the scale set share, beside what they have in common with the standard set.
//
// Each asks what an operation costs beside things that are idle, in growing number. With BENCH_SMALL in
// the environment the numbers stay small, so that the test of the set takes seconds.
#ifndef SCALE_H
#define SCALE_H
#include "../micro/bench.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>

static int is_small(void) { return getenv("BENCH_SMALL") != NULL; }

// Is a size to be measured? In a small run those up to `most` are.
static inline int wanted(size_t size, size_t most) { return !is_small() || size <= most; }

// Makes a child that does nothing until it is killed, and waits until it does nothing.
static inline pid_t idle_child(void) {
    int ready[2];
    expect("pipe", pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ready[0]);
        close(ready[1]);
        for (;;) pause();
    }
    expect("fork failed", child < 0, 0);
    close(ready[1]);
    char byte;
    expect("end of file", read(ready[0], &byte, 1), 0);
    close(ready[0]);
    return child;
}

// Ends such children.
static inline void end_children(const pid_t *children, int count) {
    for (int i = 0; i < count; i++) expect("kill", kill(children[i], SIGKILL), 0);
    for (int i = 0; i < count; i++) {
        int status = -1;
        expect("waitpid", waitpid(children[i], &status, 0), children[i]);
        expect("killed by", status & 0x7f, SIGKILL);
    }
}

// As many open files as the system allows.
static inline void raise_file_limit(void) {
    struct rlimit limit;
    expect("getrlimit", getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    expect("setrlimit", setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// Bytes that nobody uses.
static inline double free_bytes(void) {
    struct sysinfo info;
    expect("sysinfo", sysinfo(&info), 0);
    return (double)info.freeram * info.mem_unit;
}

// Prints one amount of memory.
static inline void report_bytes(const char *name, double bytes, const char *more) {
    printf("bench %s %.0f unit=bytes %s\n", name, bytes, more);
    fflush(stdout);
}
#endif
