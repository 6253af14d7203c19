// Threads map memory of one size, write to it and unmap it, again and again, as allocators do, while others look at it in all the ways there are, unmap it
// for them, map something else in its place, fork: it is zero whenever it is mapped, keeps what was written until then, and nobody can use it
// when it is unmapped.
// oracle: linux
// cores: 4
// timeout: 300
// args: 12
// long-args: 150
//
//   kept_threads ROUNDS [SEED]
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <sys/uio.h>

enum { THREADS = 4, BURST = 12, RW = PROT_READ | PROT_WRITE };

static struct thread {
    int number;
    uint64_t state;
    int pipe[2];
    // Memory to which others write at bytes of their own, if there is some.
    _Atomic(volatile char *) shown;
    // Memory that the next thread is to unmap.
    _Atomic(char *) given;
    size_t given_pages;
} threads[THREADS] __attribute__((aligned(64)));

#include "trying.h"

static unsigned long rounds, seed = 1;
static _Atomic int ended;
// Who maps something has it to read; who finds out whether there is nothing, to write.
static pthread_rwlock_t places = PTHREAD_RWLOCK_INITIALIZER;
// The same of who writes to others' memory.
static pthread_rwlock_t stores = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t forks = PTHREAD_MUTEX_INITIALIZER;

static char *map(struct thread *t, size_t pages) {
    pthread_rwlock_rdlock(&places);
    char *at = mmap(NULL, pages * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_rwlock_unlock(&places);
    if (at == MAP_FAILED) wrong(t, "mmap", NULL);
    return at;
}

static void unmap(struct thread *t, char *at, size_t pages) {
    if (munmap(at, pages * PAGE) != 0) wrong(t, "munmap", at);
}

static uint64_t word_of(struct thread *t, unsigned round, size_t page) {
    return ((uint64_t)t->number << 48 | (uint64_t)round << 32 | page) * 0x9e3779b97f4a7c15 | 1;
}

// The first bytes of a page are for others to write to.
enum { OWN = 8, LAST = 511 };

static void fill(struct thread *t, char *at, size_t from, size_t to, unsigned round) {
    for (size_t page = from; page < to; page++) {
        uint64_t *words = (uint64_t *)(at + page * PAGE);
        if (words[0] != 0 || words[OWN] != 0 || words[LAST] != 0) wrong(t, "not zero", words);
        words[OWN] = words[LAST] = word_of(t, round, page);
    }
}

static void check(struct thread *t, char *at, size_t from, size_t to, unsigned round, const char *what) {
    for (size_t page = from; page < to; page++) {
        uint64_t *words = (uint64_t *)(at + page * PAGE);
        if (words[OWN] != word_of(t, round, page) || words[LAST] != words[OWN]) wrong(t, what, words);
    }
}

// Others write to its first page meanwhile, whether it has been unmapped or not.
static void show(struct thread *t, char *at) {
    t->shown = at;
}

static void hide(struct thread *t) {
    t->shown = NULL;
    pthread_rwlock_wrlock(&stores);
    pthread_rwlock_unlock(&stores);
}

static void poke(struct thread *t) {
    pthread_rwlock_rdlock(&stores);
    struct thread *other = &threads[below(t, THREADS)];
    volatile char *at = other->shown;
    if (at != NULL && other != t) try_store(at + t->number, 1);
    pthread_rwlock_unlock(&stores);
}

// Nothing is there once it is unmapped: nobody maps anything meanwhile.
static void unmap_and_look(struct thread *t, char *at, size_t pages) {
    pthread_rwlock_wrlock(&places);
    unmap(t, at, pages);
    size_t page = below(t, pages);
    if (try_load(at + page * PAGE) || try_store(at + page * PAGE, 1)) wrong(t, "it is there still", at + page * PAGE);
    char byte;
    if (write(t->pipe[1], at + page * PAGE, 1) != -1) wrong(t, "it can be written from", at);
    struct iovec own = {&byte, 1}, theirs = {at + page * PAGE, 1};
    if (process_vm_readv(getpid(), &own, 1, &theirs, 1, 0) != -1) wrong(t, "it can be copied from", at);
    pthread_rwlock_unlock(&places);
}

static void find_line(struct thread *t, char *at, size_t pages) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[400], rights[5];
    unsigned long from, to, first = (unsigned long)at, last = first + (pages - 1) * PAGE;
    int found = 0;
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3) continue;
        found += from <= first && first < to && strcmp(rights, "rw-p") == 0;
        found += from <= last && last < to && strcmp(rights, "rw-p") == 0;
    }
    fclose(maps);
    if (found != 2) wrong(t, "not in maps", at);
}

static void in_child(struct thread *t, char *at, size_t pages, unsigned round) {
    pthread_mutex_lock(&forks);
    pid_t child = fork();
    if (child == 0) {
        check(t, at, 0, pages, round, "the child's");
        unmap(t, at, pages);
        at = mmap(NULL, pages * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fill(t, at, 0, pages, round + 1);
        check(t, at, 0, pages, round + 1, "the child's own");
        _exit(7);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 7 << 8) wrong(t, "a child", at);
    pthread_mutex_unlock(&forks);
    check(t, at, 0, pages, round, "the parent's");
}

// What the thread does with memory that it has mapped and filled, before it unmaps it.
static void use(struct thread *t, char *at, size_t pages, unsigned round) {
    size_t from = below(t, pages), to = from + 1 + below(t, pages - from);
    char *middle = at + from * PAGE;
    size_t bytes = (to - from) * PAGE;
    switch (below(t, 24)) {
    case 0:
        find_line(t, at, pages);
        break;
    case 1:
        if (madvise(middle, bytes, MADV_DONTNEED) != 0) wrong(t, "madvise", at);
        fill(t, at, from, to, round);
        break;
    case 2:
        if (mprotect(middle, bytes, PROT_READ) != 0) wrong(t, "mprotect", at);
        if (try_store(middle, 1)) wrong(t, "a store", middle);
        if (mprotect(middle, bytes, RW) != 0) wrong(t, "mprotect", at);
        break;
    case 3:
        if (mmap(middle, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != middle) wrong(t, "mmap", middle);
        fill(t, at, from, to, round);
        break;
    case 4:
        if (below(t, 4) == 0) in_child(t, at, pages, round);
        break;
    case 5: {
        uint64_t word;
        if (write(t->pipe[1], middle + 8 * OWN, 8) != 8 || read(t->pipe[0], &word, 8) != 8) wrong(t, "a pipe", at);
        if (word != word_of(t, round, from)) wrong(t, "other bytes", middle);
        break;
    }
    case 6: {
        unsigned char there[512];
        if (mincore(at, pages * PAGE, there) != 0) wrong(t, "mincore", at);
        for (size_t i = 0; i < pages; i++)
            if (!(there[i] & 1)) wrong(t, "not in memory", at + i * PAGE);
        break;
    }
    case 7: {
        // Something else right behind it.
        char *behind = at + pages * PAGE;
        pthread_rwlock_rdlock(&places);
        if (mmap(behind, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == behind) {
            if (behind[0] != 0) wrong(t, "not zero", behind);
            behind[0] = 1;
            check(t, at, 0, pages, round, "beside something");
            unmap(t, behind, 1);
        }
        pthread_rwlock_unlock(&places);
        break;
    }
    case 8: {
        uint64_t word = 0;
        struct iovec own = {&word, 8}, theirs = {middle + 8 * LAST, 8};
        if (process_vm_readv(getpid(), &own, 1, &theirs, 1, 0) != 8) wrong(t, "process_vm_readv", middle);
        if (word != word_of(t, round, from)) wrong(t, "other bytes", middle);
        break;
    }
    default:
        break;
    }
}

static void burst(struct thread *t) {
    static const size_t sizes[] = {64, 40, 512, 100, 33, 300};
    size_t pages = sizes[below(t, sizeof sizes / sizeof *sizes)];
    for (unsigned round = 0; round < BURST; round++) {
        char *at = map(t, pages);
        if (below(t, 8) != 0) {
            show(t, at);
            // Others write to the first page only after the thread has seen that it was zero: they have bytes of their own.
            uint64_t *words = (uint64_t *)at;
            if (words[OWN] != 0 || words[LAST] != 0) wrong(t, "not zero", words);
            words[OWN] = words[LAST] = word_of(t, round, 0);
            fill(t, at, 1, pages, round);
            check(t, at, 0, pages, round, "what was written");
            if (below(t, 2) == 0) poke(t);
            hide(t);
            memset(at, 0, PAGE);
            fill(t, at, 0, 1, round);
            use(t, at, pages, round);
            check(t, at, 0, pages, round, "what was used");
        }
        switch (below(t, 12)) {
        case 0:
            unmap_and_look(t, at, pages);
            break;
        case 1: {
            // In two parts.
            size_t first = 1 + below(t, pages - 1);
            unmap(t, at + first * PAGE, pages - first);
            unmap(t, at, first);
            break;
        }
        case 2:
            // Another thread does it.
            if (t->given == NULL) {
                t->given_pages = pages;
                t->given = at;
                break;
            }
            // fall through
        default:
            unmap(t, at, pages);
        }
        struct thread *before = &threads[(t->number + THREADS - 1) % THREADS];
        char *given = before->given;
        if (given != NULL) {
            unmap(t, given, before->given_pages);
            before->given = NULL;
        }
    }
}

static void *work(void *argument) {
    struct thread *t = argument;
    for (unsigned long round = 0; round < rounds; round++) burst(t);
    ended++;
    return NULL;
}

int main(int arguments, char **argument) {
    rounds = arguments > 1 ? strtoul(argument[1], NULL, 0) : 10;
    if (arguments > 2) seed = strtoul(argument[2], NULL, 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i].number = i;
        threads[i].state = seed * 7919 + (uint64_t)i * 104729 + 1;
        if (pipe(threads[i].pipe) != 0) wrong(&threads[i], "pipe", NULL);
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&ids[i], NULL, work, &threads[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (threads[i].given != NULL) unmap(&threads[i], threads[i].given, threads[i].given_pages);
    long size = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (fscanf(statm, "%ld %ld", &size, &resident) != 2) wrong(threads, "statm", NULL);
    fclose(statm);
    if (resident >= 3000) wrong(threads, "much is left in memory", (void *)resident);
    printf("all as it should be\n");
    return 0;
}
