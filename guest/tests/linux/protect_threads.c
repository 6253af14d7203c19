// Threads take rights from pages and give them back again and again, while others write there all the time: nobody writes to a page
// after `mprotect` has returned that forbids it, and whoever may write can. In between everything that looks at such pages: system calls, other threads'
// `mprotect` and `munmap`, children, /proc/self/maps.
// oracle: linux
// cores: 4
// timeout: 300
// args: 60
// long-args: 1500
//
//   protect_threads ROUNDS [SEED]
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 4, MOST_PAGES = 6, LARGE_PAGES = 40, BURST = 40 };
enum { R = PROT_READ, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC };

static struct thread {
    int number;
    uint64_t state;
    // Memory of the thread, and what the program may do with each page of it.
    char *at;
    size_t pages;
    int rights[LARGE_PAGES];
    int pipe[2];
    // The page that others write to meanwhile, if there is one.
    _Atomic(volatile char *) shown;
} threads[THREADS] __attribute__((aligned(64)));

#include "trying.h"

static unsigned long rounds, seed = 1;
static _Atomic int ended, stores;
static pthread_rwlock_t mapped = PTHREAD_RWLOCK_INITIALIZER;

// The same by a system call.
static int try_read_to(struct thread *t, char *at) {
    char byte = 'x';
    if (write(t->pipe[1], &byte, 1) != 1) wrong(t, "the pipe is full", at);
    if (read(t->pipe[0], at, 1) == 1) return 1;
    if (read(t->pipe[0], &byte, 1) != 1) wrong(t, "the pipe is empty", at);
    return 0;
}

static void protect(struct thread *t, size_t from, size_t to, int rights) {
    if (mprotect(t->at + from * PAGE, (to - from) * PAGE, rights) != 0) wrong(t, "mprotect fails", t->at);
    for (size_t i = from; i < to; i++) t->rights[i] = rights;
}

static void check_page(struct thread *t, size_t page) {
    int writable = (t->rights[page] & PROT_WRITE) != 0;
    char *at = t->at + page * PAGE + 8 * t->number + 1;
    if (try_store(at, 1) != writable) wrong(t, writable ? "no store" : "a store", at);
    if (try_read_to(t, at) != writable) wrong(t, writable ? "no read to it" : "a read to it", at);
}

static void check(struct thread *t) {
    for (size_t i = 0; i < t->pages; i++) check_page(t, i);
}

static void find_lines(struct thread *t) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[400], rights[5];
    unsigned long from, to;
    size_t found = 0;
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3) continue;
        for (size_t i = 0; i < t->pages; i++) {
            unsigned long page = (unsigned long)t->at + i * PAGE;
            if (page < from || to <= page) continue;
            int is = (rights[0] == 'r') * PROT_READ | (rights[1] == 'w') * PROT_WRITE | (rights[2] == 'x') * PROT_EXEC;
            if (is != t->rights[i]) wrong(t, "other rights in maps", (void *)page);
            found++;
        }
    }
    fclose(maps);
    if (found != t->pages) wrong(t, "pages that are not in maps", t->at);
}

static void in_child(struct thread *t) {
    pid_t child = fork();
    if (child == 0) {
        check(t);
        protect(t, 0, t->pages, RW);
        memset(t->at, 7, t->pages * PAGE);
        check(t);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) wrong(t, "a child", t->at);
    check(t);
}

// Others write to the first page of it while its rights go and come.
static void burst(struct thread *t, size_t from, size_t to) {
    volatile char *at = t->at + from * PAGE;
    int away = below(t, 4) == 0 ? RX : R;
    protect(t, from, to, RW);
    t->shown = at;
    for (unsigned i = 0; i < BURST; i++) {
        protect(t, from, to, away);
        char before = at[0];
        for (unsigned spin = below(t, 200); spin > 0; spin--) __asm__ volatile("" ::: "memory");
        if (at[0] != before) wrong(t, "somebody has written", at);
        if (i % 16 == 5) check_page(t, from);
        protect(t, from, to, RW);
        at[8 * t->number + 1] = i;
        if (i % 16 == 9) check_page(t, to - 1);
    }
    t->shown = NULL;
    // Whoever has seen it has written, or faulted, before it may become something else.
    pthread_rwlock_wrlock(&mapped);
    pthread_rwlock_unlock(&mapped);
    if (below(t, 2)) protect(t, from, to, away);
}

static void step(struct thread *t) {
    size_t from = below(t, t->pages), to = from + 1 + below(t, t->pages - from);
    switch (below(t, 10)) {
    case 0: case 1: case 2: case 3: burst(t, from, to); break;
    case 4: protect(t, from, to, below(t, 2) ? R : RW); break;
    case 5: check(t); break;
    case 6:
        if (madvise(t->at + from * PAGE, (to - from) * PAGE, MADV_DONTNEED) != 0) wrong(t, "madvise", t->at);
        for (size_t i = from; i < to; i++)
            if (t->at[i * PAGE] != 0) wrong(t, "not zero", t->at + i * PAGE);
        break;
    case 7:
        if (below(t, 8) == 0) in_child(t);
        break;
    case 8:
        if (below(t, 4) == 0) find_lines(t);
        break;
    case 9:
        // Another mapping in its place.
        if (mmap(t->at + from * PAGE, (to - from) * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            wrong(t, "mmap", t->at);
        for (size_t i = from; i < to; i++) t->rights[i] = RW;
        break;
    }
}

// Writes where others show something, all the time.
static void poke(struct thread *t) {
    for (int i = 0; i < 20; i++) {
        pthread_rwlock_rdlock(&mapped);
        volatile char *at = threads[below(t, THREADS)].shown;
        if (at != NULL) {
            stores += try_store(at, below(t, 256));
        }
        pthread_rwlock_unlock(&mapped);
    }
}

static void *work(void *argument) {
    struct thread *t = argument;
    // The last one does nothing but write.
    if (t->number == THREADS - 1) {
        while (ended < THREADS - 1) poke(t);
        return NULL;
    }
    for (unsigned long round = 0; round < rounds; round++) {
        if (round % 32 == 0) {
            if (t->at != NULL && munmap(t->at, t->pages * PAGE) != 0) wrong(t, "munmap", t->at);
            t->pages = below(t, 4) == 0 ? LARGE_PAGES : 1 + below(t, MOST_PAGES);
            t->at = mmap(NULL, t->pages * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (t->at == MAP_FAILED) wrong(t, "mmap", t->at);
            for (size_t i = 0; i < t->pages; i++) t->rights[i] = RW;
            if (below(t, 2)) memset(t->at, 3, t->pages * PAGE);
        }
        step(t);
        poke(t);
    }
    check(t);
    ended++;
    return NULL;
}

int main(int count, char **argument) {
    rounds = strtoul(argument[1], NULL, 0);
    if (count > 2) seed = strtoul(argument[2], NULL, 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    pthread_t all[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i].number = i;
        threads[i].state = seed * 1000003 + i * 7919 + 1;
        CHECK(pipe(threads[i].pipe) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&all[i], NULL, work, &threads[i]) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    printf("%s\n", stores > 0 ? "done" : "nobody has written");
    return 0;
}
