// Private memory of threads that is mapped, made usable piece by piece, grown, moved, given up and forked by all of them at once:
// everywhere are zeros first, what was written stays, and nothing can be used that is not mapped, however near it is.
// oracle: linux
// cores: 4
// timeout: 300
// build: gcc, musl
// args: 12
// long-args: 120
//
//   own_threads ROUNDS
#include "test.h"
#include <pthread.h>
#include <setjmp.h>

enum { THREADS = 4, PIECE = 33, PIECES = 20, RESERVED = 64 << 20 };

static __thread sigjmp_buf *volatile refused;
static __thread volatile int refusal;
static int rounds;
static pthread_mutex_t forks = PTHREAD_MUTEX_INITIALIZER;

static void must(int holds, const char *what, size_t at) {
    if (holds) return;
    printf("WRONG: %s at %zu\n", what, at);
    fflush(stdout);
    _exit(1);
}

static void on_fault(int signal) {
    if (refused == NULL) {
        printf("WRONG: a fault\n");
        fflush(stdout);
        _exit(1);
    }
    refusal = signal;
    siglongjmp(*refused, 1);
}

// The signal that an access to a byte ends with; 0 for none.
static int refusal_of(volatile char *at, int writes) {
    sigjmp_buf here;
    refusal = 0;
    if (sigsetjmp(here, 1) == 0) {
        refused = &here;
        if (writes) *at = 1;
        else (void)*at;
    }
    refused = NULL;
    return refusal;
}

static uint64_t word_of(int thread, int round, size_t page) {
    return ((uint64_t)thread << 48 | (uint64_t)round << 32 | page) * 0x9e3779b97f4a7c15 | 1;
}

static void fill(char *at, size_t from, size_t to, int thread, int round) {
    for (size_t page = from; page < to; page++) {
        uint64_t *words = (uint64_t *)(at + page * PAGE);
        must(words[0] == 0 && words[511] == 0, "not zero", page);
        words[0] = words[511] = word_of(thread, round, page);
    }
}

static void check(char *at, size_t from, size_t to, int thread, int round, const char *what) {
    for (size_t page = from; page < to; page++) {
        uint64_t *words = (uint64_t *)(at + page * PAGE);
        must(words[0] == word_of(thread, round, page) && words[511] == words[0], what, page);
    }
}

static char *map(size_t pages, int prot) {
    char *at = mmap(NULL, pages * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(at != MAP_FAILED, "mmap", pages);
    return at;
}

// Between two pages that cannot be used, as what is behind the end of a mapping may be somebody else's.
static void walled(int thread, int round, size_t pages) {
    char *all = map(pages + 2, PROT_NONE);
    char *at = all + PAGE;
    must(mprotect(at, pages * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect", pages);
    fill(at, 0, pages, thread, round);
    must(refusal_of(at - 1, 1) == SIGSEGV, "in front", pages);
    must(refusal_of(at + pages * PAGE, 0) == SIGSEGV, "behind", pages);
    must(mprotect(at, pages / 2 * PAGE, PROT_READ) == 0, "mprotect", pages);
    must(refusal_of(at + PAGE, 1) == SIGSEGV, "written", pages);
    check(at, 0, pages, thread, round, "protected");
    must(munmap(all, (pages + 2) * PAGE) == 0, "munmap", pages);
}

// The end goes, then the middle, and what is left is as it was.
static void cut(int thread, int round) {
    enum { PAGES = 200 };
    char *at = map(PAGES, PROT_READ | PROT_WRITE);
    fill(at, 0, PAGES, thread, round);
    must(mprotect(at + 150 * PAGE, 50 * PAGE, PROT_NONE) == 0, "mprotect", 150);
    must(refusal_of(at + 150 * PAGE, 0) == SIGSEGV, "the end", 150);
    must(mprotect(at + 40 * PAGE, 20 * PAGE, PROT_NONE) == 0, "mprotect", 40);
    must(refusal_of(at + 59 * PAGE, 0) == SIGSEGV, "the middle", 59);
    check(at, 0, 40, thread, round, "the beginning");
    check(at, 60, 150, thread, round, "behind the middle");
    must(madvise(at + 60 * PAGE, 10 * PAGE, MADV_DONTNEED) == 0, "madvise", 60);
    fill(at, 60, 70, thread, round);
    must(mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect", 0);
    check(at, 0, PAGES, thread, round, "all of it");
    must(munmap(at, PAGES * PAGE) == 0, "munmap", 0);
}

// What `malloc` does for a thread: reserved at once, usable piece by piece, given back from the end.
static void arena(int thread, int round) {
    char *at = map(RESERVED / PAGE, PROT_NONE);
    for (int piece = 0; piece < PIECES; piece++) {
        char *from = at + (size_t)piece * PIECE * PAGE;
        must(refusal_of(from, 1) == SIGSEGV, "not yet", piece);
        must(mprotect(from, PIECE * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect", piece);
        // Some are read first.
        if (piece % 3 == 2) must(from[PAGE] == 0, "read first", piece);
        fill(at, (size_t)piece * PIECE, (size_t)(piece + 1) * PIECE, thread, round);
        must(refusal_of(from + PIECE * PAGE, 0) == SIGSEGV, "behind", piece);
    }
    check(at, 0, PIECE * PIECES, thread, round, "arena");
    char *half = at + (size_t)PIECES / 2 * PIECE * PAGE;
    size_t rest = (size_t)(PIECES - PIECES / 2) * PIECE * PAGE;
    must(mmap(half, rest, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == half, "mmap", 0);
    must(refusal_of(half, 0) == SIGSEGV, "given back", 0);
    must(mprotect(half, rest, PROT_READ | PROT_WRITE) == 0, "mprotect", 0);
    check(at, 0, PIECES / 2 * PIECE, thread, round, "what stays");
    fill(at, PIECES / 2 * PIECE, PIECES * PIECE, thread, round);
    check(at, 0, PIECE * PIECES, thread, round, "arena, again");
    must(munmap(at, RESERVED) == 0, "munmap", 0);
}

// Longer and longer, here or elsewhere.
static void grown(int thread, int round) {
    size_t pages = 40;
    char *at = map(pages, PROT_READ | PROT_WRITE);
    fill(at, 0, pages, thread, round);
    for (int step = 0; step < 5; step++) {
        size_t more = pages + 30 + 100 * (step % 2);
        char *to = mremap(at, pages * PAGE, more * PAGE, MREMAP_MAYMOVE);
        must(to != MAP_FAILED, "mremap", more);
        fill(to, pages, more, thread, round);
        check(to, 0, more, thread, round, "grown");
        at = to;
        pages = more;
    }
    must(mremap(at, pages * PAGE, 10 * PAGE, 0) == at, "mremap", 10);
    check(at, 0, 10, thread, round, "shrunk");
    must(munmap(at, 10 * PAGE) == 0, "munmap", 10);
}

// Each has its own afterwards.
static void forked(int thread, int round) {
    enum { PAGES = 100 };
    char *at = map(PAGES, PROT_READ | PROT_WRITE);
    fill(at, 0, PAGES, thread, round);
    pthread_mutex_lock(&forks);
    pid_t child = fork();
    must(child >= 0, "fork", 0);
    if (child == 0) {
        check(at, 0, PAGES, thread, round, "the child's");
        memset(at, 0, PAGES * PAGE);
        fill(at, 0, PAGES, thread, round + 1);
        check(at, 0, PAGES, thread, round + 1, "the child's own");
        _exit(7);
    }
    memset(at + PAGE, 0, PAGE);
    fill(at, 1, 2, thread, round);
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 7 << 8, "the child", status);
    pthread_mutex_unlock(&forks);
    check(at, 0, PAGES, thread, round, "the parent's");
    must(munmap(at, PAGES * PAGE) == 0, "munmap", 0);
}

static void made_usable(char *at, int piece, int thread, int round) {
    char *from = at + (size_t)piece * PIECE * PAGE;
    must(refusal_of(from, 1) == SIGSEGV, "not yet", piece);
    must(mprotect(from, PIECE * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect", piece);
    fill(at, (size_t)piece * PIECE, (size_t)(piece + 1) * PIECE, thread, round);
    must(refusal_of(from + PIECE * PAGE, 0) == SIGSEGV, "behind", piece);
}

// Of memory that goes on piece by piece each has pieces of its own after a fork, and what the one has made usable is not the other's.
static void forked_arena(int thread, int round) {
    char *at = map(RESERVED / PAGE, PROT_NONE);
    for (int piece = 0; piece < 3; piece++) made_usable(at, piece, thread, round);
    pthread_mutex_lock(&forks);
    pid_t child = fork();
    must(child >= 0, "fork", 0);
    if (child == 0) {
        for (int piece = 3; piece < 20; piece++) made_usable(at, piece, thread, round);
        check(at, 0, 20 * PIECE, thread, round, "the child's arena");
        _exit(7);
    }
    for (int piece = 3; piece < 8; piece++) made_usable(at, piece, thread, round);
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 7 << 8, "the child", status);
    pthread_mutex_unlock(&forks);
    must(refusal_of(at + 8 * PIECE * PAGE, 1) == SIGSEGV, "the child's", 8);
    for (int piece = 8; piece < 20; piece++) made_usable(at, piece, thread, round);
    // The end is given back, and usable again without contents.
    char *end = at + (size_t)17 * PIECE * PAGE;
    must(madvise(end, 3 * PIECE * PAGE, MADV_DONTNEED) == 0, "madvise", 17);
    fill(at, 17 * PIECE, 20 * PIECE, thread, round);
    must(munmap(end, 3 * PIECE * PAGE) == 0, "munmap", 17);
    must(refusal_of(end, 0) == SIGSEGV, "unmapped", 17);
    must(mmap(end, 3 * PIECE * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == end, "mmap", 17);
    for (int piece = 17; piece < 22; piece++) made_usable(at, piece, thread, round);
    check(at, 0, 22 * PIECE, thread, round, "the arena");
    must(munmap(at, RESERVED) == 0, "munmap", 0);
}

static void *work(void *argument) {
    int thread = (int)(size_t)argument;
    for (int round = 0; round < rounds; round++) {
        walled(thread, round, 40 + 30 * (size_t)(round % 4));
        cut(thread, round);
        arena(thread, round);
        grown(thread, round);
        if (round % 4 == thread) forked(thread, round);
        if (round % 4 == (thread + 2) % 4) forked_arena(thread, round);
    }
    return NULL;
}

int main(int arguments, char **argument) {
    rounds = arguments > 1 ? atoi(argument[1]) : 4;
    struct sigaction action = {.sa_handler = on_fault};
    must(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0, "sigaction", 0);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "pthread_create", i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    // All that was mapped is gone, but for what the C library keeps.
    FILE *statm = fopen("/proc/self/statm", "r");
    long size = 0, resident = 0;
    must(fscanf(statm, "%ld %ld", &size, &resident) == 2, "statm", 0);
    fclose(statm);
    must(resident < 3000, "resident", resident);
    printf("all as it should be\n");
    return 0;
}
