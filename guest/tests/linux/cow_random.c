// Random changes of memory in a tree of processes, each checked against its own list of what every
// page must hold. Arguments: seed, operations.
//
// args: 1 1500
// build: gcc, musl
// expect-stdout: passed\n
#include "test.h"

enum { PAGES = 192, DEPTH = 5, ABSENT = -1, FORBIDDEN = 1, READABLE = 2, WRITABLE = 3 };

// What must be there: a value that stands in several places of the page, and how it may be used.
static struct { long value; int rights; } model[PAGES];
static char *base;
static unsigned long seed, number;
static int depth;
static long operations;

static unsigned random_below(unsigned bound) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (seed >> 11) % bound;
}

static void die(const char *what, int page, long got) {
    printf("FAILED at operation %ld, depth %d: %s of page %d: has %ld, must have %ld\n", operations,
           depth, what, page, got, model[page].value);
    fflush(stdout);
    _exit(1);
}

static volatile long *word(int page, int at) { return (long *)(base + page * PAGE) + at * 100; }

static void check(int page) {
    if (model[page].rights < READABLE) return;
    for (int at = 0; at < 5; at++)
        if (*word(page, at) != model[page].value) die("contents", page, *word(page, at));
}

static void write_page(int page) {
    if (model[page].rights != WRITABLE) return;
    check(page);
    model[page].value = ++number * 64 + depth;
    for (int at = 0; at < 5; at++) *word(page, at) = model[page].value;
}

static int protection(int rights) {
    return rights == WRITABLE ? PROT_READ | PROT_WRITE : rights == READABLE ? PROT_READ : PROT_NONE;
}

static void expect_zero(long result, const char *what) {
    if (result) {
        printf("FAILED: %s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static void map_anew(int first, int count, int rights) {
    void *at = mmap(base + first * PAGE, count * PAGE, protection(rights),
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    expect_zero(at != base + first * PAGE, "mmap");
    for (int i = first; i < first + count; i++) model[i].value = 0, model[i].rights = rights;
}

// mprotect, but only where everything is mapped.
static void protect(int first, int count, int rights) {
    for (int i = first; i < first + count; i++)
        if (model[i].rights == ABSENT) return;
    expect_zero(mprotect(base + first * PAGE, count * PAGE, protection(rights)), "mprotect");
    for (int i = first; i < first + count; i++) model[i].rights = rights;
}

static void unmap(int first, int count) {
    expect_zero(munmap(base + first * PAGE, count * PAGE), "munmap");
    for (int i = first; i < first + count; i++) model[i].rights = ABSENT;
}

static void discard(int first, int count) {
    for (int i = first; i < first + count; i++)
        if (model[i].rights == ABSENT) return;
    expect_zero(madvise(base + first * PAGE, count * PAGE, MADV_DONTNEED), "madvise");
    for (int i = first; i < first + count; i++) model[i].value = 0;
}

// Moves pages of equal rights over others.
static void move(int from, int to, int count) {
    if (from < to + count && to < from + count) return;
    for (int i = 0; i < count; i++)
        if (model[from + i].rights != WRITABLE) return;
    // One entry of the map: made so by giving it the same rights at once.
    void *at = mremap(base + from * PAGE, count * PAGE, count * PAGE,
                      MREMAP_MAYMOVE | MREMAP_FIXED, base + to * PAGE);
    // Linux refuses to move what consists of several mappings: nothing has changed but the target.
    if (at == MAP_FAILED) {
        expect_zero(errno != EFAULT, "mremap");
        map_anew(to, count, WRITABLE);
        return;
    }
    for (int i = 0; i < count; i++) {
        model[to + i] = model[from + i];
        model[from + i].rights = ABSENT;
    }
}

static void run(long count);

// A child goes on for itself, and the parent either with it or after its end.
static void branch(long left) {
    if (depth >= DEPTH) return;
    fflush(stdout);
    unsigned long child_seed = seed * 31 + 7;
    int together = random_below(2);
    long steps = random_below(left / 4 + 1);
    pid_t pid = fork();
    if (pid < 0) return;
    if (pid == 0) {
        depth++;
        seed = child_seed;
        run(steps);
        _exit(0);
    }
    if (together) run(left / 8);
    int status;
    expect_zero(waitpid(pid, &status, 0) != pid, "waitpid");
    if (status) {
        printf("FAILED: a child at depth %d ended with status %#x\n", depth + 1, status);
        _exit(1);
    }
}

static void step(long left) {
    int first = random_below(PAGES), count = 1 + random_below(PAGES - first < 24 ? PAGES - first : 24);
    switch (random_below(20)) {
    case 0: map_anew(first, count, WRITABLE); break;
    case 1: protect(first, count, READABLE); break;
    case 2: case 3: protect(first, count, WRITABLE); break;
    case 4: protect(first, count, FORBIDDEN); break;
    case 5: unmap(first, count); break;
    case 6: discard(first, count); break;
    case 7: move(first, random_below(PAGES - count + 1), count); break;
    case 8: branch(left); break;
    case 9: for (int i = 0; i < PAGES; i++) check(i); break;
    case 10: for (int i = first; i < first + count; i++) if (model[i].rights == ABSENT) map_anew(i, 1, WRITABLE); break;
    default: for (int i = first; i < first + count; i++) write_page(i);
    }
}

static void run(long count) {
    while (count-- > 0) operations++, step(count);
    for (int i = 0; i < PAGES; i++) check(i);
}

int main(int argc, char **argv) {
    seed = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) * 0x9e3779b97f4a7c15 + 1;
    // Room around it, so that a last-level table is shared with nothing and one boundary is inside.
    base = mmap((void *)(0x700000000000 + 0x200000 - PAGES / 2 * PAGE), PAGES * PAGE,
                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    expect_zero(base == MAP_FAILED, "mmap");
    for (int i = 0; i < PAGES; i++) model[i].rights = WRITABLE;
    run(argc > 2 ? atol(argv[2]) : 1500);
    printf("passed\n");
    return 0;
}
