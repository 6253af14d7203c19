// What the kernel's ephemeral mappings come to while something runs: the counters of all cores, from
// /proc/tessera/cores. In a kernel with a direct map all are zero.
#ifndef COUNTS_H
#define COUNTS_H
#include "../micro/bench.h"

enum { COUNTERS = 4 };
static const char *const counter_names[COUNTERS] = {"hits", "misses", "local", "remote"};

struct counts {
    uint64_t time;
    long long of[COUNTERS];
};

static long long sum_of_cores(const char *text, const char *name) {
    char line[64];
    snprintf(line, sizeof line, "ephemeral_%s ", name);
    const char *at = strstr(text, line);
    if (at == NULL) return 0;
    long long sum = 0;
    char *rest = (char *)at + strlen(line) - 1;
    while (*rest == ' ') sum += strtoll(rest, &rest, 10);
    return sum;
}

static struct counts count_now(void) {
    static char text[65536];
    struct counts now = {0};
    int file = open("/proc/tessera/cores", O_RDONLY);
    long length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length < 0 ? 0 : length] = 0;
    for (int i = 0; i < COUNTERS; i++) now.of[i] = sum_of_cores(text, counter_names[i]);
    now.time = ticks();
    return now;
}

// Prints what has come since: first the time, then mappings and invalidations.
static void report_since(const char *name, struct counts from) {
    uint64_t until = ticks();
    struct counts now = count_now();
    sample(until - from.time);
    report(name, 1, "");
    for (int i = 0; i < COUNTERS; i++)
        printf("bench %s,_%s %lld unit=%s\n", name, counter_names[i], now.of[i] - from.of[i],
               i < 2 ? "mappings" : "invalidations");
    fflush(stdout);
}
#endif
