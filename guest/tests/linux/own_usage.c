// Large private memory as others and /proc see it: how much of it there is, in whose it counts, what limits and locks do with it.
// oracle: linux
// build: gcc
#include "must.h"
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MIB = 1 << 20, SIZE = 24 * MIB, PIPE_OF_OTHER = 40 };

// Pages of 4 KiB, so that it is known how much there is.
static char *large(long bytes) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(p != MAP_FAILED);
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

static void touch(char *p, long bytes) {
    for (long at = 0; at < bytes; at += PAGE) p[at] = 1;
}

static char text[1 << 18];

static char *read_all(const char *path) {
    long length = 0, got;
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0);
    while ((got = read(fd, text + length, sizeof text - 1 - length)) > 0) length += got;
    close(fd);
    text[length] = 0;
    return text;
}

static long status_of(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    char *at = strstr(read_all(path), name);
    return at ? atol(at + strlen(name)) : -1;
}

static int about(long kib, long wanted) { return kib >= wanted - 1024 && kib <= wanted + 1024; }

// Lines of `maps` between two addresses: how many, and whether all look like memory that comes from nowhere.
static void maps_of(char *from, char *to) {
    int lines = 0, plain = 1;
    for (char *line = strtok(read_all("/proc/self/maps"), "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end, offset, inode;
        char rights[8], device[16];
        int length = 0;
        MUST(sscanf(line, "%lx-%lx %7s %lx %15s %lu%n", &start, &end, rights, &offset, device, &inode, &length) == 6);
        if (end <= (unsigned long)from || start >= (unsigned long)to) continue;
        lines++;
        plain &= rights[3] == 'p' && offset == 0 && inode == 0 && !strcmp(device, "00:00") && line[length + strspn(line + length, " ")] == 0;
    }
    printf("lines %d, plain %d\n", lines, plain);
}

static int pipe_of[2][2];

static void say(int which) { MUST(write(pipe_of[which][1], "x", 1) == 1); }
static void hear(int which) {
    char byte;
    MUST(read(pipe_of[which][0], &byte, 1) == 1);
}

static void others(void) {
    MUST(pipe(pipe_of[0]) == 0 && pipe(pipe_of[1]) == 0 && dup2(pipe_of[0][1], PIPE_OF_OTHER) == PIPE_OF_OTHER);
    pid_t child = fork();
    if (child == 0) {
        char *p = large(SIZE);
        touch(p, 12 * MIB);
        say(0);
        hear(1);
        touch(p, SIZE);
        say(0);
        hear(1);
        madvise(p + 4 * MIB, 16 * MIB, MADV_DONTNEED);
        say(0);
        hear(1);
        munmap(p, 20 * MIB);
        say(0);
        hear(1);
        pause();
    }
    hear(0);
    long before = status_of(child, "VmRSS:");
    CHECK(about(status_of(child, "RssAnon:"), before - status_of(child, "RssFile:") - status_of(child, "RssShmem:")));
    CHECK(before > 12 * 1024 && before < 20 * 1024);
    say(1);
    hear(0);
    CHECK(about(status_of(child, "VmRSS:") - before, 12 * 1024));
    CHECK(about(status_of(child, "RssAnon:") + status_of(child, "RssFile:") + status_of(child, "RssShmem:"), before + 12 * 1024));
    say(1);
    hear(0);
    CHECK(about(status_of(child, "VmRSS:") - before, -4 * 1024));
    CHECK(about(status_of(child, "VmHWM:") - before, 12 * 1024));
    say(1);
    hear(0);
    CHECK(about(status_of(child, "VmRSS:") - before, -8 * 1024));
    kill(child, SIGKILL);
    struct rusage usage;
    int status;
    MUST(wait4(child, &status, 0, &usage) == child);
    CHECK(about(usage.ru_maxrss - before, 12 * 1024));
}

// The most there was, whoever ends how.
static void most(void) {
    struct rusage usage;
    int status;
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        if (child == 0) {
            char *p = large(48 * MIB);
            touch(p, 48 * MIB);
            if (way == 1) munmap(p, 48 * MIB);
            if (way == 2) kill(getpid(), SIGKILL);
            getrusage(RUSAGE_SELF, &usage);
            _exit(!(usage.ru_maxrss >= 48 * 1024 && usage.ru_maxrss < 60 * 1024));
        }
        MUST(wait4(child, &status, 0, &usage) == child);
        printf("way %d: %d, %d\n", way, status, usage.ru_maxrss >= 48 * 1024 && usage.ru_maxrss < 60 * 1024);
    }
}

// A child has what its parent has, and counts it as its own.
static void children(void) {
    char *p = large(SIZE);
    touch(p, SIZE);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(p[0]);
    }
    CHECK(status_of(child, "VmRSS:") >= 24 * 1024);
    CHECK(status_of(getpid(), "VmRSS:") >= 24 * 1024);
    char *at = strstr(read_all("/proc/self/smaps_rollup"), "Rss:");
    CHECK(at && atol(at + 4) >= 24 * 1024);
    kill(child, SIGKILL);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    MUST(munmap(p, SIZE) == 0);
}

// A program has nothing of the one before it, nor of who made it.
static void programs(void) {
    for (int way = 0; way < 3; way++) {
        char *p = large(SIZE);
        touch(p, SIZE);
        pid_t child = way == 1 ? vfork() : fork();
        if (child == 0) {
            if (way == 2) touch(p, SIZE);
            execl("/proc/self/exe", "own_usage", "other", NULL);
            _exit(9);
        }
        hear(0);
        printf("way %d: %d\n", way, status_of(child, "VmRSS:") < 16 * 1024);
        kill(child, SIGKILL);
        int status;
        MUST(waitpid(child, &status, 0) == child);
        p[0]++;
        MUST(munmap(p, SIZE) == 0);
    }
}

static void looks(void) {
    char *p = large(SIZE);
    touch(p, SIZE);
    // What is around it may be like it.
    MUST(mprotect(p, PAGE, PROT_NONE) == 0 && mprotect(p + SIZE - PAGE, PAGE, PROT_NONE) == 0);
    maps_of(p + PAGE, p + SIZE - PAGE);
    SHOW(mprotect(p + 8 * MIB, MIB, PROT_READ));
    maps_of(p + PAGE, p + SIZE - PAGE);
    SHOW(mprotect(p + 8 * MIB, MIB, PROT_READ | PROT_WRITE));
    maps_of(p + PAGE, p + SIZE - PAGE);
    SHOW(munmap(p + 16 * MIB, 2 * MIB));
    maps_of(p + PAGE, p + SIZE - PAGE);
    MUST(munmap(p, SIZE) == 0);
}

static long resident(char *p, long pages) {
    static unsigned char there[SIZE / PAGE];
    long count = 0;
    MUST(mincore(p, pages * PAGE, there) == 0);
    for (long n = 0; n < pages; n++) count += there[n] & 1;
    return count;
}

static void small_pages(void) {
    char *p = large(SIZE);
    SHOW(resident(p, SIZE / PAGE));
    p[5 * MIB] = 1;
    p[17 * MIB] = 1;
    SHOW(resident(p, SIZE / PAGE));
    // A few pages may be there before they are touched.
    touch(p + 8 * MIB, MIB);
    long some = resident(p, SIZE / PAGE);
    CHECK(some >= 258 && some < 258 + 16);
    SHOW(madvise(p + 8 * MIB, 16 * PAGE, MADV_DONTNEED));
    SHOW(resident(p, SIZE / PAGE) - some);
    MUST(munmap(p, SIZE) == 0);
}

// The same for all of a process, its children and the programs after it.
static void only_small(void) {
    SHOW(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 1));
    SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 1, 0));
    SHOW(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    IN_CHILD("a child", {
        SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
        char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long at = 0; at < SIZE; at += 2 * MIB) p[at] = 1;
        SHOW(resident(p, SIZE / PAGE));
        SHOW(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
    });
    SHOW(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
    SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
}

static void locks(void) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    char *p = large(10 * MIB);
    p[0] = 1;
    SHOW(mlock(p + MIB, 4 * MIB));
    SHOW(resident(p, 10 * MIB / PAGE));
    SHOW(madvise(p + 2 * MIB, MIB, MADV_DONTNEED));
    CHECK(status_of(getpid(), "VmLck:") == 4096);
    SHOW(munlock(p, 10 * MIB));
    SHOW(madvise(p + 2 * MIB, MIB, MADV_DONTNEED));
    SHOW(resident(p, 10 * MIB / PAGE));
    MUST(munmap(p, 10 * MIB) == 0);
    char *q = mmap(NULL, 9 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    SHOW(resident(q, 9 * MIB / PAGE));
    MUST(munmap(q, 9 * MIB) == 0);
}

static void limits(void) {
    char *p = large(SIZE);
    touch(p, SIZE);
    struct rlimit old, limit;
    MUST(getrlimit(RLIMIT_AS, &old) == 0);
    limit = old;
    limit.rlim_cur = status_of(getpid(), "VmSize:") * 1024l + 10 * MIB;
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    SHOW_PTR(mmap(NULL, 12 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW_PTR(mremap(p, SIZE, SIZE + 12 * MIB, MREMAP_MAYMOVE));
    char *q = mremap(p, SIZE, SIZE + 8 * MIB, MREMAP_MAYMOVE);
    printf("%d %d\n", q != MAP_FAILED, q[SIZE - PAGE]);
    MUST(setrlimit(RLIMIT_AS, &old) == 0 && munmap(q, SIZE + 8 * MIB) == 0);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        MUST(write(PIPE_OF_OTHER, "x", 1) == 1);
        pause();
    }
    others();
    most();
    children();
    programs();
    looks();
    small_pages();
    only_small();
    locks();
    limits();
    return 0;
}
