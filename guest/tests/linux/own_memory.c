// Large private memory: what is written to in it is seen by nobody else, whoever forks when; what is given up is zeros when it
// comes again, and its neighbours stay.
// oracle: linux
// build: gcc
#include "must.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

enum { MIB = 1 << 20, SIZE = 24 * MIB, MANY = 100 };

static uint32_t *at(char *p, long page) { return (uint32_t *)(p + page * PAGE); }

static char *large(long bytes) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(p != MAP_FAILED);
    return p;
}

static void fill(char *p, long from, long to, uint32_t salt) {
    for (long page = from; page < to; page++) *at(p, page) = salt + page;
}

// How many pages do not have what they were filled with?
static long wrong(char *p, long from, long to, uint32_t salt) {
    long count = 0;
    for (long page = from; page < to; page++) count += *at(p, page) != salt + page;
    return count;
}

static long others(char *p, long from, long to, uint32_t value) {
    long count = 0;
    for (long page = from; page < to; page++) count += *at(p, page) != value;
    return count;
}

static int ended(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0) == child);
    return status;
}

#define CHILD(body) ({ pid_t child = fork(); MUST(child >= 0); if (!child) { body; _exit(0); } child; })

static void forks(void) {
    char *p = large(SIZE);
    const long pages = SIZE / PAGE;
    fill(p, 0, pages, 1000);
    pid_t child = CHILD({
        long bad = wrong(p, 0, pages, 1000);
        fill(p, 0, pages / 2, 2000);
        pid_t grandchild = CHILD({
            bad = wrong(p, 0, pages / 2, 2000) + wrong(p, pages / 2, pages, 1000);
            fill(p, 0, pages, 3000);
            _exit(bad != 0);
        });
        bad += ended(grandchild);
        bad += wrong(p, 0, pages / 2, 2000) + wrong(p, pages / 2, pages, 1000);
        _exit(bad != 0);
    });
    fill(p, pages / 2, pages, 4000);
    printf("child and grandchild: %d\n", ended(child));
    printf("parent: %ld %ld\n", wrong(p, 0, pages / 2, 1000), wrong(p, pages / 2, pages, 4000));
    // One after the other; each is gone before the next.
    for (int round = 0; round < 5; round++) {
        child = CHILD(_exit(wrong(p, 0, pages / 2, 1000 + round) != 0));
        fill(p, 0, pages / 2, 1001 + round);
        MUST(ended(child) == 0);
    }
    // A page that only the child has written, and one that nobody has.
    char *fresh = large(SIZE);
    *at(fresh, 700) = 1;
    child = CHILD(fill(fresh, 0, 3000, 9); _exit(*at(fresh, 5000) != 0));
    printf("fresh: %d %u %ld\n", ended(child), *at(fresh, 700), others(fresh, 0, 700, 0));
    MUST(munmap(p, SIZE) == 0 && munmap(fresh, SIZE) == 0);
}

static void gives_up(void) {
    char *p = large(SIZE);
    const long pages = SIZE / PAGE;
    fill(p, 0, pages, 50);
    SHOW(madvise(p + 3 * PAGE, 5 * MIB, MADV_DONTNEED));
    long end = 3 + 5 * MIB / PAGE;
    printf("%ld %ld %ld\n", wrong(p, 0, 3, 50), others(p, 3, end, 0), wrong(p, end, pages, 50));
    SHOW(madvise(p + 2000 * PAGE, PAGE, MADV_FREE));
    SHOW(madvise(p, PAGE, MADV_REMOVE));
    // With a child that has the pages, too.
    pid_t child = CHILD({ sleep(1); _exit(wrong(p, 3000, 4000, 50) != 0); });
    SHOW(madvise(p + 3000 * PAGE, 1000 * PAGE, MADV_DONTNEED));
    printf("%ld, child %d\n", others(p, 3000, 4000, 0), ended(child));
    // A hole in the middle, and something else in it.
    SHOW(munmap(p + 1000 * PAGE, 300 * PAGE));
    char *hole = mmap(p + 1000 * PAGE, 300 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("%d %ld %ld\n", hole == p + 1000 * PAGE, others(p, 1000, 1300, 0), wrong(p, 1300, 2000, 50));
    fill(p, 1000, 1300, 60);
    hole = mmap(p + 4000 * PAGE, 10 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    const long behind = 4000 + 10 * MIB / PAGE;
    printf("%ld", others(p, 4000, behind < pages ? behind : pages, 0));
    fill(p, 4000, pages, 70);
    printf(" %ld %ld %ld\n", wrong(p, 1000, 1300, 60), wrong(p, 2001, 3000, 50), wrong(p, 4000, pages, 70));
    MUST(munmap(p, 4000 * PAGE + 10 * MIB) == 0);
}

static void moves(void) {
    char *p = large(SIZE);
    const long pages = SIZE / PAGE;
    fill(p, 0, pages, 80);
    char *q = mremap(p + 100 * PAGE, 12 * MIB, 30 * MIB, MREMAP_MAYMOVE);
    MUST(q != MAP_FAILED);
    long moved = 12 * MIB / PAGE, more = 30 * MIB / PAGE;
    printf("moved: %ld %ld\n", wrong(q, 0, moved, 180), others(q, moved, more, 0));
    fill(q, moved, more, 7);
    printf("left: %ld %ld\n", wrong(p, 0, 100, 80), wrong(p, 100 + moved, pages, 80));
    pid_t child = CHILD(_exit(wrong(q, 0, moved, 180) || wrong(q, moved, more, 7)));
    fill(q, 0, more, 1);
    printf("child: %d\n", ended(child));
    // What it has left behind is there, and empty.
    char *t = mremap(q, 2 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    MUST(t != MAP_FAILED);
    printf("twice: %ld %ld %ld\n", wrong(t, 0, 512, 1), others(q, 0, 512, 0), wrong(q, 512, more, 1));
    fill(q, 0, 512, 2);
    printf("apart: %ld\n", wrong(t, 0, 512, 1));
    SHOW((int)(mremap(q, PAGE, 0, MREMAP_MAYMOVE) == MAP_FAILED));
    MUST(munmap(q, 30 * MIB) == 0 && munmap(t, 2 * MIB) == 0 && munmap(p, SIZE) == 0);
}

static void rights(void) {
    catch_faults();
    char *p = large(SIZE);
    fill(p, 0, SIZE / PAGE, 90);
    SHOW(mprotect(p + PAGE, 9 * MIB, PROT_READ));
    printf("%d %d\n", signal_of(p + PAGE, 1), signal_of(p + PAGE, 0));
    SHOW(mprotect(p + 5 * MIB, 3 * PAGE, PROT_NONE));
    printf("%d %d\n", signal_of(p + 5 * MIB, 0), signal_of(p + 5 * MIB + 3 * PAGE, 0));
    pid_t child = CHILD({
        printf("child: %d %d\n", signal_of(p + PAGE, 1), signal_of(p + 5 * MIB, 0));
        SHOW(mprotect(p, SIZE, PROT_READ | PROT_WRITE));
        fflush(stdout);
        _exit(wrong(p, 0, SIZE / PAGE, 90) != 0);
    });
    printf("%d\n", ended(child));
    SHOW(mprotect(p, SIZE, PROT_READ | PROT_WRITE));
    printf("%ld\n", wrong(p, 0, SIZE / PAGE, 90));
    MUST(munmap(p, SIZE) == 0);
}

static void advice_of_forks(void) {
    char *p = large(SIZE), *q = large(SIZE);
    fill(p, 0, SIZE / PAGE, 5);
    fill(q, 0, SIZE / PAGE, 6);
    SHOW(madvise(p + 4 * MIB, 4 * MIB, MADV_WIPEONFORK));
    SHOW(madvise(q + 4 * MIB, 4 * MIB, MADV_DONTFORK));
    pid_t child = CHILD({
        printf("%ld %ld\n", others(p, 1024, 2048, 0), wrong(p, 0, 1024, 5) + wrong(p, 2048, SIZE / PAGE, 5));
        printf("%d %d %ld\n", signal_of(q + 4 * MIB, 0), signal_of(q + 8 * MIB, 0), wrong(q, 2048, SIZE / PAGE, 6));
        fflush(stdout);
    });
    ended(child);
    printf("%ld %ld\n", wrong(p, 0, SIZE / PAGE, 5), wrong(q, 0, SIZE / PAGE, 6));
    MUST(munmap(p, SIZE) == 0 && munmap(q, SIZE) == 0);
}

// The child of a vfork acts in its parent's memory.
static void vforks(void) {
    char *p = large(SIZE), *q = large(SIZE);
    *at(p, 1) = 1;
    pid_t child = vfork();
    if (!child) {
        fill(p, 0, 3000, 30);
        fill(q, 0, 3000, 31);
        _exit(0);
    }
    printf("%d %ld %ld\n", ended(child), wrong(p, 0, 3000, 30), wrong(q, 0, 3000, 31));
    fill(q, 3000, SIZE / PAGE, 31);
    printf("%ld\n", wrong(q, 0, SIZE / PAGE, 31));
    MUST(munmap(p, SIZE) == 0 && munmap(q, SIZE) == 0);
}

static char *shared_by_threads;

static void *toucher(void *number) {
    long n = (long)number;
    for (long page = n; page < SIZE / PAGE; page += 4) *at(shared_by_threads, page) = 11 + page;
    return NULL;
}

static void threads(void) {
    shared_by_threads = large(SIZE);
    pthread_t all[4];
    for (long n = 0; n < 4; n++) MUST(pthread_create(&all[n], NULL, toucher, (void *)n) == 0);
    pid_t child = CHILD({
        long bad = 0;
        for (long page = 0; page < SIZE / PAGE; page++) {
            uint32_t value = *at(shared_by_threads, page);
            bad += value != 0 && value != 11 + page;
        }
        fill(shared_by_threads, 0, SIZE / PAGE, 99);
        _exit(bad != 0);
    });
    for (int n = 0; n < 4; n++) MUST(pthread_join(all[n], NULL) == 0);
    printf("threads: %d %ld\n", ended(child), wrong(shared_by_threads, 0, SIZE / PAGE, 11));
    MUST(munmap(shared_by_threads, SIZE) == 0);
}

// More of them than there are descriptions for.
static void many(void) {
    static char *p[MANY];
    for (int n = 0; n < MANY; n++) {
        p[n] = large(8 * MIB + n * PAGE);
        *at(p[n], 5) = n;
        *at(p[n], 2048 + n - 1) = n;
    }
    pid_t child = CHILD({
        long bad = 0;
        for (int n = 0; n < MANY; n++) bad += *at(p[n], 5) != (uint32_t)n || *at(p[n], 2048 + n - 1) != (uint32_t)n;
        for (int n = 0; n < MANY; n += 2) *at(p[n], 5) = 1 << 20;
        _exit(bad != 0);
    });
    int status = ended(child);
    long bad = 0;
    for (int n = 0; n < MANY; n++) {
        bad += *at(p[n], 5) != (uint32_t)n;
        MUST(munmap(p[n], 8 * MIB + n * PAGE) == 0);
    }
    printf("many: %d %ld\n", status, bad);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    forks();
    gives_up();
    moves();
    rights();
    advice_of_forks();
    vforks();
    threads();
    many();
    return 0;
}
