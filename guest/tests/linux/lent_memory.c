// Memory of other cores: programs, each at home on a core of its own, that need far more than a core's memory server has, in small
// pieces that come from that server and in large ones that are the servers' of files; all of it holds what was stored, again and again
// at another core, several at once, also while they are killed. Then nearly all memory can be had by each of them.
//
// build: gcc
// cores: 4
// kernel: homes=5
// mem: 256M
// timeout: 300
// expect-stdout: one after the other: 8 right\nthree at once: 12 right\nkilled: 12, and the next one right\nmemory is back\n
#include "test.h"
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#define MIB (1l << 20)

/* What is free on all cores. */
static long free_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.freeram * info.mem_unit;
}

/* What the memory servers of all cores have: whatever is lent, it stays the same. */
static long all_memory(void) { return number_in("/proc/tessera/memory", "total %ld"); }

/* In pieces that no memory of files is for, then in one; each page says which it is. */
static int use(long small, long large) {
    enum { PIECES = 200 };
    const long piece = 512 << 10;
    char *at[PIECES + 1];
    long bytes[PIECES + 1];
    int count = 0;
    for (; count < small / piece && count < PIECES; count++) bytes[count] = piece;
    bytes[count++] = large;
    for (int n = 0; n < count; n++) {
        at[n] = mmap(NULL, bytes[n] + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at[n] == MAP_FAILED) return 2;
        /* Apart from the next one. */
        mprotect(at[n] + bytes[n], 4096, PROT_NONE);
        for (long i = 0; i < bytes[n]; i += 4096) *(uint64_t *)(at[n] + i) = (uintptr_t)at[n] + i * getpid();
    }
    for (int n = 0; n < count; n++)
        for (long i = 0; i < bytes[n]; i += 4096)
            if (*(uint64_t *)(at[n] + i) != (uintptr_t)at[n] + i * getpid()) return 3;
    return 0;
}

/* A program of its own, which has another home. */
static pid_t begin(long small, long large) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    char a[24], b[24];
    sprintf(a, "%ld", small);
    sprintf(b, "%ld", large);
    execl("/proc/self/exe", "use", a, b, NULL);
    _exit(4);
}

static int is_right(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What caches and tables of servers keep at one time and not at another, in units of 2 MiB. */
static const long KEPT = 6 * MIB;

enum { ALONE = 8, AT_ONCE = 4, KILLED = 12 };

/* One after the other; how many are right. */
static int alone(void) {
    int right = 0;
    for (int n = 0; n < ALONE; n++) right += is_right(n % 2 ? begin(90 * MIB, 4 * MIB) : begin(8 * MIB, 100 * MIB));
    return right;
}

static int at_once(void) {
    int right = 0;
    for (int n = 0; n < AT_ONCE; n++) {
        pid_t all[] = {begin(40 * MIB, 0), begin(MIB, 40 * MIB), begin(36 * MIB, MIB)};
        for (int i = 0; i < 3; i++) right += is_right(all[i]);
    }
    return right;
}

static int killed(void) {
    int killed = 0;
    for (int n = 0; n < KILLED; n++) {
        pid_t pid = begin(90 * MIB, 20 * MIB);
        usleep(1000 + 9000 * n);
        kill(pid, SIGKILL);
        int status;
        killed += waitpid(pid, &status, 0) == pid;
    }
    return killed;
}

int main(int count, char **args) {
    if (count > 2) return use(atol(args[1]), atol(args[2]));
    printf("one after the other: %d right\n", alone());
    printf("three at once: %d right\n", at_once());
    int gone = killed();
    printf("killed: %d, and the next one %s\n", gone, is_right(begin(90 * MIB, 20 * MIB)) ? "right" : "wrong");
    /* What a core keeps after the first time it keeps for good. What is lost grows. */
    for (int n = 0; n < 2; n++) alone(), killed();
    long before = free_memory(), all = all_memory(), lost = 0;
    for (int n = 0; n < 4; n++) alone(), at_once(), killed();
    for (int n = 0; n < 40; n++) {
        lost = before - free_memory();
        if (lost <= KEPT) break;
        usleep(50000);
    }
    if (all != all_memory() || all == 0) printf("%ld bytes are nobody's\n", all - all_memory());
    else if (lost > KEPT) printf("%ld KiB are lost\n", lost >> 10);
    else printf("memory is back\n");
    return 0;
}
