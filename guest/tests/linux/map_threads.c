// Threads map and unmap memory that nobody has touched, again and again, and in between everything that can be done with it: by
// themselves, by another thread, by a child. What is mapped is there and nothing else is.
// oracle: linux
// cores: 4
// timeout: 300
// build: gcc, musl
// args: 100
// long-args: 3000
//
//   map_threads ROUNDS [SEED]
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { THREADS = 4, MAPPINGS = 8, MOST_PAGES = 8 };

struct mapping {
    char *at;
    size_t pages;
    // What each page holds: 0 if nobody has written to it.
    unsigned char holds[MOST_PAGES];
    int read_only;
};

static struct thread {
    int number;
    uint64_t state;
    struct mapping all[MAPPINGS + 1];
    int count, pipe[2];
} threads[THREADS] __attribute__((aligned(64)));

// What a thread gives to the others, to use and to unmap.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mapping given[THREADS];
static int given_count;
static unsigned long rounds, seed = 1;

__attribute__((noreturn)) static void wrong(struct thread *t, const char *what, const void *at) {
    dprintf(1, "WRONG: thread %d: %s at %p\n", t->number, what, at);
    _exit(1);
}

static uint64_t below(struct thread *t, uint64_t limit) {
    t->state ^= t->state << 13;
    t->state ^= t->state >> 7;
    t->state ^= t->state << 17;
    return (t->state >> 11) % limit;
}

// Can a byte be read, and written?
static int can_read(struct thread *t, char *at) {
    char byte;
    if (write(t->pipe[1], at, 1) != 1) return 0;
    if (read(t->pipe[0], &byte, 1) != 1) wrong(t, "the pipe is empty", at);
    return 1;
}

static int can_write(struct thread *t, char *at) {
    if (write(t->pipe[1], "x", 1) != 1) wrong(t, "the pipe is full", at);
    if (read(t->pipe[0], at, 1) == 1) return 1;
    char byte;
    if (read(t->pipe[0], &byte, 1) != 1) wrong(t, "the pipe is empty", at);
    return 0;
}

static void *map(struct thread *t, size_t pages) {
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) wrong(t, "mmap fails", at);
    for (int i = 0; i < t->count; i++) {
        struct mapping *m = &t->all[i];
        if (at < m->at + m->pages * PAGE && m->at < at + pages * PAGE) wrong(t, "mapped twice", at);
    }
    return at;
}

static void add(struct thread *t, struct mapping m) {
    if (m.pages > 0) t->all[t->count++] = m;
}

static struct mapping part(struct mapping *m, size_t from, size_t to) {
    struct mapping p = {m->at + from * PAGE, to - from, {0}, m->read_only};
    for (size_t i = from; i < to; i++) p.holds[i - from] = m->holds[i];
    return p;
}

static void check(struct thread *t, struct mapping *m) {
    for (size_t i = 0; i < m->pages; i++)
        if ((unsigned char)m->at[i * PAGE] != m->holds[i]) wrong(t, "another byte", m->at + i * PAGE);
}

static void put(struct thread *t, struct mapping *m, size_t page) {
    if (m->read_only) return;
    m->at[page * PAGE] = m->holds[page] = 1 + below(t, 255);
}

static void unmap(struct thread *t, struct mapping *m, size_t from, size_t to) {
    if (munmap(m->at + from * PAGE, (to - from) * PAGE) != 0) wrong(t, "munmap fails", m->at);
}

// In /proc/self/maps it is one of the lines, or part of one.
static void find_line(struct thread *t, struct mapping *m) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[400], rights[5];
    unsigned long from, to;
    int found = 0;
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && from <= (unsigned long)m->at &&
            (unsigned long)m->at + m->pages * PAGE <= to)
            found = rights[0] == 'r' && rights[1] == (m->read_only ? '-' : 'w');
    fclose(maps);
    if (!found) wrong(t, "no such line", m->at);
}

static void in_child(struct thread *t) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < t->count; i++) check(t, &t->all[i]);
        for (int i = 0; i < 20; i++) {
            char *at = map(t, 2);
            if (i % 3 == 0) at[PAGE] = 1;
            if (munmap(at, 2 * PAGE) != 0) wrong(t, "munmap fails", at);
        }
        _exit(7);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) wrong(t, "the child", NULL);
}

static void one_round(struct thread *t) {
    unsigned char there[MOST_PAGES];
    // Mostly what lets a thread do without others.
    for (int n = below(t, 12); n > 0; n--) {
        size_t pages = 1 + below(t, MOST_PAGES);
        char *at = map(t, pages);
        if (munmap(at, pages * PAGE) != 0) wrong(t, "munmap fails", at);
    }
    if (t->count < MAPPINGS - 1) {
        size_t pages = 1 + below(t, MOST_PAGES);
        add(t, (struct mapping){map(t, pages), pages, {0}, 0});
    }
    struct mapping m = t->all[below(t, t->count)];
    int which = 0;
    while (t->all[which].at != m.at) which++;
    struct mapping *p = &t->all[which];
    size_t from = below(t, m.pages), to = from + 1 + below(t, m.pages - from);
    switch (below(t, 16)) {
    case 0 ... 3:
        if (t->count >= MAPPINGS) from = 0, to = m.pages;
        t->all[which] = t->all[--t->count];
        unmap(t, &m, from, to);
        add(t, part(&m, 0, from));
        add(t, part(&m, to, m.pages));
        break;
    case 4:
        put(t, p, from);
        break;
    case 5:
        check(t, p);
        break;
    case 6:
        if (mprotect(m.at, m.pages * PAGE, m.read_only ? PROT_READ | PROT_WRITE : PROT_READ) != 0)
            wrong(t, "mprotect fails", m.at);
        p->read_only = !m.read_only;
        if (can_write(t, m.at) != m.read_only) wrong(t, "rights", m.at);
        if (m.read_only) p->holds[0] = 'x';
        break;
    case 7:
        if (mincore(m.at, m.pages * PAGE, there) != 0) wrong(t, "mincore fails", m.at);
        for (size_t i = 0; i < m.pages; i++)
            if (m.holds[i] && !there[i]) wrong(t, "mincore", m.at + i * PAGE);
        break;
    case 8:
        if (madvise(m.at + from * PAGE, (to - from) * PAGE, MADV_DONTNEED) != 0) wrong(t, "madvise fails", m.at);
        for (size_t i = from; i < to; i++) p->holds[i] = 0;
        break;
    case 9: {
        // Elsewhere, with what it holds.
        char *at = mremap(m.at, m.pages * PAGE, m.pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map(t, m.pages));
        if (at == MAP_FAILED) wrong(t, "mremap fails", m.at);
        p->at = at;
        break;
    }
    case 10:
        if (mmap(m.at, m.pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != m.at)
            wrong(t, "MAP_FIXED fails", m.at);
        *p = (struct mapping){m.at, m.pages, {0}, 0};
        break;
    case 11:
        if (mmap(m.at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED)
            wrong(t, "MAP_FIXED_NOREPLACE", m.at);
        break;
    case 12:
        find_line(t, p);
        break;
    case 13:
        if (!can_read(t, m.at + from * PAGE)) wrong(t, "not to be read", m.at);
        break;
    case 14:
        // Another thread gets it, or this one another's.
        pthread_mutex_lock(&mutex);
        if (given_count < THREADS) {
            given[given_count++] = m;
            t->all[which] = t->all[--t->count];
        } else {
            t->all[which] = given[--given_count];
            given[given_count++] = m;
            check(t, p);
        }
        pthread_mutex_unlock(&mutex);
        break;
    case 15:
        if (below(t, 4) == 0) in_child(t);
        break;
    }
}

static void *work(void *argument) {
    struct thread *t = argument;
    t->state = seed * 1000 + t->number + 1;
    if (pipe(t->pipe) != 0) wrong(t, "pipe fails", NULL);
    for (unsigned long i = 0; i < rounds; i++) one_round(t);
    for (int i = 0; i < t->count; i++) {
        check(t, &t->all[i]);
        unmap(t, &t->all[i], 0, t->all[i].pages);
    }
    return NULL;
}

// One thread alone, as there is another one that does only what it is told: each result is shown.
static sem_t told, done;
static struct order {
    enum { UNMAP, PROTECT, END } what;
    char *at;
    size_t bytes;
    long result;
} order;

static void *other(void *unused) {
    for (;;) {
        sem_wait(&told);
        if (order.what == END) return unused;
        order.result = order.what == UNMAP ? munmap(order.at, order.bytes) : mprotect(order.at, order.bytes, PROT_READ);
        sem_post(&done);
    }
}

static long by_other(int what, char *at, size_t bytes) {
    order = (struct order){what, at, bytes, 0};
    sem_post(&told);
    sem_wait(&done);
    return order.result;
}

static void warm(struct thread *t) {
    for (int i = 0; i < 200; i++) {
        char *at = map(t, 3);
        if (munmap(at, 3 * PAGE) != 0) wrong(t, "munmap fails", at);
    }
}

static void show(const char *what, long result) { printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : ""); }

static void step_by_step(struct thread *t) {
    pthread_t id;
    unsigned char there[8] = {0};
    sem_init(&told, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&id, NULL, other, NULL);
    if (pipe(t->pipe) != 0) wrong(t, "pipe fails", NULL);
    warm(t);
    char *at = map(t, 5);
    show("mincore of untouched pages", mincore(at, 5 * PAGE, there));
    show("munmap in the middle", munmap(at + 2 * PAGE, PAGE));
    show("mincore across the hole", mincore(at, 5 * PAGE, there));
    show("read in the hole", can_read(t, at + 2 * PAGE));
    show("read before it", can_read(t, at + PAGE));
    show("write behind it", can_write(t, at + 3 * PAGE));
    show("mprotect across it", mprotect(at, 5 * PAGE, PROT_READ));
    show("write before it", can_write(t, at));
    show("munmap of all", munmap(at, 5 * PAGE));
    warm(t);
    at = map(t, 2);
    show("munmap again", munmap(at, 2 * PAGE) | munmap(at, 2 * PAGE));
    show("read", can_read(t, at));
    warm(t);
    show("munmap of nothing", munmap(at, 0));
    show("munmap beside a page", munmap(at + 1, PAGE));
    show("munmap of too much", munmap(at, -(size_t)PAGE));
    show("mmap of nothing", (long)mmap(NULL, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    show("mmap, offset", (long)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) > 0);
    show("mmap beside a page",
         syscall(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 1));
    warm(t);
    at = map(t, 4);
    char *moved = mremap(at, 4 * PAGE, 9 * PAGE, MREMAP_MAYMOVE);
    show("mremap", moved != MAP_FAILED && can_write(t, moved + 8 * PAGE));
    warm(t);
    struct rlimit before, none = {0, 0};
    getrlimit(RLIMIT_AS, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_AS, &none);
    char *more = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    show("mmap with a limit", more == MAP_FAILED ? -1 : 0);
    setrlimit(RLIMIT_AS, &before);
    at = map(t, 1);
    *at = 1;
    show("munmap of a page that was touched", munmap(at, PAGE));
    show("read", can_read(t, at));
    warm(t);
    at = map(t, 3);
    show("munmap by another thread", by_other(UNMAP, at + PAGE, PAGE));
    show("read there", can_read(t, at + PAGE));
    show("read behind it", can_read(t, at + 2 * PAGE));
    warm(t);
    at = map(t, 3);
    show("mprotect by another thread", by_other(PROTECT, at + PAGE, PAGE));
    show("write there", can_write(t, at + PAGE));
    show("write behind it", can_write(t, at + 2 * PAGE));
    order.what = END;
    sem_post(&told);
    pthread_join(id, NULL);
}

int main(int arguments, char **argument) {
    pthread_t id[THREADS];
    rounds = strtoul(argument[1], NULL, 0);
    if (arguments > 2) seed = strtoul(argument[2], NULL, 0);
    struct thread first = {0};
    first.state = 1;
    step_by_step(&first);
    for (int i = 0; i < THREADS; i++) {
        threads[i].number = i;
        pthread_create(&id[i], NULL, work, &threads[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
    printf("done\n");
    return 0;
}
