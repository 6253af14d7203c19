// Page copies, which Tessera counts in /proc/tessera/counters; elsewhere there is no such file.
#pragma once
#include "test.h"

static int counted, failures;

static void fail(const char *what, long got, long wanted) {
    printf("FAILED %s: %ld, expected %ld\n", what, got, wanted);
    failures++;
}

static void expect(const char *what, long got, long wanted) {
    if (got != wanted) fail(what, got, wanted);
}

// Copies since boot, by system calls alone: the caller has written its stack and this buffer.
static char text[4096];
static long copies(void) {
    int fd = open("/proc/tessera/counters", O_RDONLY);
    if (fd < 0) return 0;
    long length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length < 0 ? 0 : length] = 0;
    char *at = strstr(text, "page_copies");
    if (!at) {
        printf("FAILED: /proc/tessera/counters has no page_copies\n");
        _exit(1);
    }
    counted = 1;
    return strtol(at + strlen("page_copies"), NULL, 10);
}

static char *dirty(long count) {
    char *at = pages(count, PROT_READ | PROT_WRITE);
    for (long i = 0; i < count; i++) *(long *)(at + i * PAGE) = i;
    return at;
}
