// What the programs of the standard set share: the clock, samples, and the lines that ./x reads
// (tools/xtask/src/results/line.rs).
//
// The clock is the time-stamp counter. With BENCH_CLOCK=wall in the environment, values are
// nanoseconds; else they are instructions, for an emulator in which the counter goes on by a fixed
// amount for each (-icount shift=0). A program checks what it measures: `expect` ends it if a result
// is wrong anywhere, `check` prints one that must be the same on every system.
#ifndef BENCH_H
#define BENCH_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, MOST_SAMPLES = 256 };

static double ticks_per_unit = 1;
static double samples[MOST_SAMPLES];
static int taken;

static inline uint64_t ticks(void) { return __builtin_ia32_rdtsc(); }

static int counts_instructions(void) {
    const char *clock = getenv("BENCH_CLOCK");
    return clock == NULL || strcmp(clock, "wall") != 0;
}

// Keeps a time in ticks.
static inline void sample(uint64_t ticks) {
    if (taken < MOST_SAMPLES) samples[taken++] = ticks;
}

// Prints and forgets the samples: one line for `name`, each sample divided by `parts`. `more` (with
// its arguments) is what else belongs to the line, such as "at=16:pages".
static inline void report(const char *name, double parts, const char *more, ...) {
    printf("bench %s", name);
    for (int i = 0; i < taken; i++) printf(" %.1f", samples[i] / ticks_per_unit / parts);
    if (taken == 0) printf(" not-supported");
    taken = 0;
    va_list rest;
    va_start(rest, more);
    putchar(' ');
    vprintf(more, rest);
    va_end(rest);
    putchar('\n');
    fflush(stdout);
}

// A result that has to be the same on every system.
static inline void check(const char *name, long long value) {
    printf("check %s %lld\n", name, value);
    fflush(stdout);
}

// Ends the program unless a value is what it must be.
static inline void expect(const char *what, long long value, long long expected) {
    if (value == expected) return;
    printf("WRONG: %s is %lld, not %lld (errno %d)\n", what, value, expected, errno);
    exit(1);
}

// Finds out what a tick is. First in every program.
static inline void calibrate(void) {
    struct timespec from, to;
    uint64_t begun, now;
    if (counts_instructions()) {
        const uint64_t turns = 1000000;
        // The least of several, since a timer's tick may fall into one.
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < 7; i++) {
            uint64_t left = turns;
            begun = ticks();
            __asm__ volatile("1: dec %0; jnz 1b" : "+r"(left)::"cc");
            now = ticks();
            if (now - begun < least) least = now - begun;
        }
        ticks_per_unit = (double)least / (2 * turns);
        return;
    }
    double nanoseconds;
    clock_gettime(CLOCK_MONOTONIC, &from);
    begun = ticks();
    do {
        clock_gettime(CLOCK_MONOTONIC, &to);
        now = ticks();
        nanoseconds = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    } while (nanoseconds < 5e7);
    ticks_per_unit = (now - begun) / nanoseconds;
}

// Private anonymous memory.
static inline char *map(size_t pages) {
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect("mmap failed", at == MAP_FAILED, 0);
    return at;
}

static inline void unmap(void *at, size_t pages) { expect("munmap", munmap(at, pages * PAGE), 0); }

// Waits for a child, which must exit with status 0.
static inline void wait_for(pid_t child) {
    int status = -1;
    expect("waitpid", waitpid(child, &status, 0), child);
    expect("status of a child", status, 0);
}
#endif
