// Memory is taken away from threads that use it: no access that begins after the call has returned may
// succeed, see what was there before, or be lost.
// oracle: linux
// cores: 4
// timeout: 300
// build: gcc, musl
// args: 26
// long-args: 3000
//
// Threads on every core read and write pages without a pause while the first one, now on this core and
// now on that, unmaps, protects, replaces, moves, truncates and forks. What they may find is written
// beside each page (struct target): the call's number once reads or writes must fail, and the *epoch*
// of its contents. A thread notes both, uses the page, and looks whether they are still the same; only
// then it judges. Every thread has a word of its own in each page, which it counts up, and says what it
// has written; all others must find that or more, until the epoch changes.
//
//   race ROUNDS [SEED [WAYS [say]]]      WAYS: a set of bits, to take those ways only
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <ucontext.h>

enum { SMALL = 16, LARGE = 1024, MOST_THREADS = 16, TARGETS = 9 };
// How often a thread that shows no life is looked at before it is given up.
#define PATIENCE 800000ul
#define FILE_WORD 0xf11ef11ef11ef11eul
#define OTHER_WORD 0x07e707e707e707e7ul

// Atomics with the machine's own order: loads stay in order, and so do stores.
#define GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define PUT(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

enum kind { ANON, BIG, SHARED };
static struct region {
    size_t pages;
    char *at;
} regions[] = {[ANON] = {SMALL}, [BIG] = {LARGE}, [SHARED] = {SMALL}};

struct target {
    enum kind kind;
    size_t page;
    // Number of the call that forbade it, once it has returned; or 0.
    uint64_t no_read, no_write;
    // Of the contents; 0 while they change. With each, what is in the page's first word.
    uint64_t epoch, word;
    // What each thread has written to its own word.
    uint64_t noted[MOST_THREADS];
} __attribute__((aligned(64)));

static struct target targets[TARGETS] = {
    {ANON, 0}, {ANON, 3}, {ANON, 9}, {ANON, 15}, {BIG, 0}, {BIG, 511}, {BIG, 1023}, {SHARED, 2}, {SHARED, 15},
};

static struct thread {
    pthread_t id;
    uint64_t passes, reads, writes, faults;
} __attribute__((aligned(64))) threads[MOST_THREADS];

static int cores, count_of_threads, stop;
static uint64_t round_number, last_epoch, random_state;
static const char *way_name = "none";

static uint64_t below(uint64_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % limit;
}

static uint64_t *address(struct target *t) { return (uint64_t *)(regions[t->kind].at + t->page * PAGE); }
static uint64_t *own_word(struct target *t, int thread) { return address(t) + 8 + thread; }

__attribute__((noreturn)) static void wrong(const char *what, int thread, struct target *t, uint64_t a, uint64_t b) {
    dprintf(1, "WRONG: %s: thread %d, target %d, call %lu (%s): %lx %lx\n", what, thread, (int)(t - targets),
            (unsigned long)round_number, way_name, (unsigned long)a, (unsigned long)b);
    _exit(1);
}

// Accesses that may fail: the handler goes on where r10 says.
static int load(uint64_t *from, uint64_t *value) {
    uint64_t got, done;
    asm volatile("xor %k[done], %k[done]\n\tlea 1f(%%rip), %%r10\n\tmov (%[from]), %[got]\n\tmov $1, %k[done]\n1:"
                 : [got] "=&r"(got), [done] "=&r"(done) : [from] "r"(from) : "r10", "memory", "cc");
    *value = got;
    return done;
}

static int store(uint64_t *to, uint64_t value) {
    uint64_t done;
    asm volatile("xor %k[done], %k[done]\n\tlea 1f(%%rip), %%r10\n\tmov %[value], (%[to])\n\tmov $1, %k[done]\n1:"
                 : [done] "=&r"(done) : [to] "r"(to), [value] "r"(value) : "r10", "memory", "cc");
    return done;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *at = info->si_addr;
    for (int i = 0; i < 3; i++)
        if (at >= regions[i].at && at < regions[i].at + regions[i].pages * PAGE) {
            registers[REG_RIP] = registers[REG_R10];
            return;
        }
    dprintf(1, "WRONG: signal %d at %p\n", signal, (void *)at);
    _exit(1);
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set)) perror("sched_setaffinity"), exit(99);
}

static void try_read(struct target *t, int self) {
    uint64_t epoch = GET(t->epoch), word = GET(t->word), forbidden = GET(t->no_read), got;
    if (!load(address(t), &got)) {
        threads[self].faults++;
        return;
    }
    threads[self].reads++;
    if (forbidden && forbidden == GET(t->no_read)) wrong("a read after the call", self, t, got, 0);
    if (epoch && epoch == GET(t->epoch) && got != word) wrong("another page is read", self, t, got, word);
}

// What thread `of` has written must be there.
static void try_find(struct target *t, int self, int of) {
    uint64_t epoch = GET(t->epoch), noted = GET(t->noted[of]), got;
    if (!epoch || noted >> 32 != epoch || !load(own_word(t, of), &got)) return;
    if (epoch == GET(t->epoch) && got < noted) wrong("a write is lost", self, t, got, noted);
}

static void try_write(struct target *t, int self, uint64_t count) {
    uint64_t epoch = GET(t->epoch), forbidden = GET(t->no_write), value = epoch << 32 | count;
    if (!store(own_word(t, self), value)) {
        threads[self].faults++;
        return;
    }
    threads[self].writes++;
    if (forbidden && forbidden == GET(t->no_write)) wrong("a write after the call", self, t, value, 0);
    if (epoch) PUT(t->noted[self], value);
}

static void *use(void *argument) {
    int self = (long)argument;
    uint32_t count = 0;
    pin(self % cores);
    while (!GET(stop)) {
        count++;
        for (int i = 0; i < TARGETS; i++) {
            try_read(&targets[i], self);
            try_write(&targets[i], self, count);
            try_find(&targets[i], self, (self + count) % count_of_threads);
        }
        PUT(threads[self].passes, threads[self].passes + 1);
    }
    return NULL;
}

// Lets every thread use every page twice: what it had begun before is over then.
static void go_round(void) {
    for (int i = 0; i < count_of_threads; i++) {
        uint64_t start = GET(threads[i].passes);
        for (unsigned long tries = 0; GET(threads[i].passes) < start + 2; tries++) {
            if (tries > PATIENCE) wrong("a thread stands still", i, targets, start, 0);
            usleep(50);
        }
    }
}

static int file, spare_file;
static char *spare;
// Shared with a child: the parent's threads have gone round.
static int *gone_round;

// What a call takes from the pages `first..first + count` of a region: nothing, the right to write, all
// rights, the mapping, what is mapped, or only what was in it: then `word` is read instead.
enum loss { NOTHING, WRITES, RIGHTS, MAPPING, FILE_END, CONTENTS };
struct lost {
    enum kind kind;
    enum loss loss;
    size_t first, count;
    uint64_t word;
};

static int is_lost(struct target *t, struct lost *lost) {
    return t->kind == lost->kind && t->page >= lost->first && t->page < lost->first + lost->count;
}

// The contents of these pages become others.
static void begin_change(struct lost *lost) {
    for (int i = 0; i < TARGETS; i++)
        if (is_lost(&targets[i], lost)) PUT(targets[i].epoch, 0);
}

static void end_change(struct lost *lost) {
    for (int i = 0; i < TARGETS; i++)
        if (is_lost(&targets[i], lost)) {
            PUT(targets[i].word, lost->word);
            PUT(targets[i].epoch, last_epoch);
        }
}

static void *must(void *result) {
    if (result == MAP_FAILED) printf("WRONG: %s: %s\n", way_name, strerror(errno)), exit(1);
    return result;
}
static void must_be(int expected, int result) {
    if (result != expected) printf("WRONG: %s: %d, %s\n", way_name, result, strerror(errno)), exit(1);
}

#define RW (PROT_READ | PROT_WRITE)
static void *map_anon(void *at, size_t count, int rights, int flags) {
    return must(mmap(at, count * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0));
}

static void allow(void) {
    for (int i = 0; i < TARGETS; i++) PUT(targets[i].no_read, 0), PUT(targets[i].no_write, 0);
}

static void forbid(struct lost *lost) {
    for (int i = 0; i < TARGETS; i++)
        if (is_lost(&targets[i], lost)) {
            PUT(targets[i].no_write, round_number);
            if (lost->loss != WRITES) PUT(targets[i].no_read, round_number);
        }
}

// Everything is there again, with all rights: with what was in it, or something new.
static void restore(struct lost *lost) {
    char *at = regions[lost->kind].at + lost->first * PAGE;
    allow();
    if (lost->loss == NOTHING) return;
    if (lost->loss == WRITES || lost->loss == RIGHTS) {
        must_be(0, mprotect(at, lost->count * PAGE, RW));
        return;
    }
    begin_change(lost);
    lost->word = ++last_epoch << 8;
    if (lost->kind != SHARED) map_anon(at, lost->count, RW, MAP_FIXED);
    else if (lost->loss == FILE_END) must_be(0, ftruncate(file, SMALL * PAGE));
    else must(mmap(at, lost->count * PAGE, RW, MAP_SHARED | MAP_FIXED, file, lost->first * PAGE));
    for (int i = 0; i < TARGETS; i++)
        if (is_lost(&targets[i], lost)) *(volatile uint64_t *)address(&targets[i]) = lost->word;
    end_change(lost);
}

static void renew(enum kind kind) {
    struct lost all = {.kind = kind, .loss = MAPPING, .count = regions[kind].pages};
    restore(&all);
}

// What each thread is known to have written to the pages, as they are now.
struct notes {
    uint64_t of[TARGETS][MOST_THREADS];
};

static void take_notes(struct notes *notes) {
    for (int i = 0; i < TARGETS; i++)
        for (int j = 0; j < count_of_threads; j++) {
            uint64_t noted = GET(targets[i].noted[j]);
            notes->of[i][j] = noted >> 32 == targets[i].epoch ? noted : 0;
        }
}

// Nobody writes to what a child sees, and nobody sees what it writes.
static void be_child(struct notes *notes) {
    struct notes seen;
    for (int i = 0; i < TARGETS; i++)
        for (int j = 0; j < count_of_threads; j++) {
            uint64_t got = seen.of[i][j] = *own_word(&targets[i], j);
            if (got < notes->of[i][j]) wrong("a write is lost for a child", j, &targets[i], got, notes->of[i][j]);
        }
    while (!GET(*gone_round)) usleep(100);
    for (struct target *t = targets; t < targets + TARGETS; t++) {
        if (t->kind == SHARED) continue;
        for (int j = 0; j < count_of_threads; j++) {
            uint64_t got = *own_word(t, j), before = seen.of[t - targets][j];
            if (got != before) wrong("a write to a child's page", j, t, got, before);
            *own_word(t, j) = ~0ul;
        }
        if (*address(t) != t->word) wrong("a child reads another page", 0, t, *address(t), t->word);
        *address(t) = ~0ul;
    }
    _exit(0);
}

static void make_child(void) {
    struct notes notes;
    take_notes(&notes);
    PUT(*gone_round, 0);
    pid_t child = fork();
    if (child == 0) be_child(&notes);
    if (child < 0) must_be(0, child);
    go_round();
    PUT(*gone_round, 1);
    int status = -1;
    waitpid(child, &status, 0);
    must_be(0, status);
}

// Moves pages to where nothing is, and back. What was written before is there, and nobody writes more.
static void move_away(char *at, struct lost *lost) {
    struct notes notes, seen;
    size_t bytes = lost->count * PAGE;
    take_notes(&notes);
    must(mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, spare));
    forbid(lost);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < TARGETS; i++)
            for (int j = 0; j < count_of_threads && is_lost(&targets[i], lost); j++) {
                uint64_t got = *(uint64_t *)((char *)own_word(&targets[i], j) - at + spare);
                if (got < notes.of[i][j]) wrong("a write is lost by a move", j, &targets[i], got, notes.of[i][j]);
                if (turn && got != seen.of[i][j]) wrong("a write to what was moved", j, &targets[i], got, seen.of[i][j]);
                seen.of[i][j] = got;
            }
        if (turn == 0) go_round();
    }
    allow();
    must(mremap(spare, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at));
}

static const char *const WAYS[] = {
    "munmap", "mprotect to reading", "mprotect to nothing", "madvise DONTNEED", "mmap over it", "mmap of nothing over it",
    "mmap of a file over it", "mremap over it", "mremap away", "mremap that leaves it", "mremap to less",
    "ftruncate", "fork",
};
enum { MUNMAP, READ_ONLY, NO_ACCESS, DONT_NEED, OVER, OVER_NOTHING, OVER_FILE, MOVE_OVER, MOVE, MOVE_LEAVE, SHRINK,
       TRUNCATE, FORK, COUNT };

// What a call takes that goes this way, before it is done.
static struct lost choose(int way) {
    static const enum loss losses[COUNT] = {
        [MUNMAP] = MAPPING, [READ_ONLY] = WRITES, [NO_ACCESS] = RIGHTS, [DONT_NEED] = CONTENTS, [OVER] = CONTENTS,
        [OVER_NOTHING] = MAPPING, [OVER_FILE] = CONTENTS, [MOVE_OVER] = CONTENTS, [MOVE] = NOTHING,
        [MOVE_LEAVE] = CONTENTS, [SHRINK] = MAPPING, [TRUNCATE] = FILE_END,
    };
    struct lost lost = {.kind = way >= TRUNCATE ? SHARED : below(way >= DONT_NEED ? 2 : 3), .loss = losses[way]};
    size_t pages = regions[lost.kind].pages;
    if (below(4)) lost.first = below(pages);
    lost.count = below(2) ? 1 + below(pages - lost.first) : pages - lost.first;
    if (way == SHRINK) lost.first = 1 + below(pages - 1);
    if (way >= SHRINK) lost.count = pages - lost.first;
    if (way == OVER_FILE) lost.word = FILE_WORD;
    if (way == MOVE_OVER) lost.word = OTHER_WORD;
    return lost;
}

static void take(int way, struct lost *lost) {
    const int move = MREMAP_MAYMOVE | MREMAP_FIXED;
    struct region *region = &regions[lost->kind];
    char *at = region->at + lost->first * PAGE;
    size_t bytes = lost->count * PAGE;
    switch (way) {
    case MUNMAP: must_be(0, munmap(at, bytes)); break;
    case READ_ONLY: must_be(0, mprotect(at, bytes, PROT_READ)); break;
    case NO_ACCESS: must_be(0, mprotect(at, bytes, PROT_NONE)); break;
    case DONT_NEED: must_be(0, madvise(at, bytes, MADV_DONTNEED)); break;
    case OVER: map_anon(at, lost->count, RW, MAP_FIXED); break;
    case OVER_NOTHING: map_anon(at, lost->count, PROT_NONE, MAP_FIXED); break;
    case OVER_FILE: must(mmap(at, bytes, RW, MAP_PRIVATE | MAP_FIXED, spare_file, 0)); break;
    case MOVE_OVER:
        map_anon(spare, lost->count, RW, MAP_FIXED);
        for (size_t i = 0; i < lost->count; i++) *(uint64_t *)(spare + i * PAGE) = OTHER_WORD;
        must(mremap(spare, bytes, bytes, move, at));
        break;
    case MOVE: move_away(at, lost); break;
    case MOVE_LEAVE: must(mremap(at, bytes, bytes, move | MREMAP_DONTUNMAP, spare)); break;
    case SHRINK: must(mremap(region->at, region->pages * PAGE, lost->first * PAGE, 0)); break;
    case TRUNCATE: must_be(0, ftruncate(file, lost->first * PAGE)); break;
    case FORK: make_child();
    }
}

static void one_round(int way) {
    struct lost lost = choose(way);
    // Linux moves what is one mapping.
    if (way >= MOVE && way <= SHRINK) renew(lost.kind);
    go_round();
    if (lost.loss == CONTENTS || lost.loss == FILE_END) begin_change(&lost), last_epoch++;
    take(way, &lost);
    if (lost.loss == CONTENTS) end_change(&lost);
    else if (lost.loss != NOTHING) forbid(&lost);
    go_round();
    restore(&lost);
}

// All ways of a set, one after the other, in an order that is another each time.
static int next_way(uint64_t set) {
    static uint64_t left;
    if (!left) left = set & ((1ul << COUNT) - 1);
    int way;
    do way = below(COUNT);
    while (!(left >> way & 1));
    left &= ~(1ul << way);
    return way;
}

static int new_file(size_t count, uint64_t word) {
    int made = memfd_create("race", 0);
    for (size_t i = 0; i < count && word; i++) pwrite(made, &word, 8, i * PAGE);
    must_be(0, ftruncate(made, count * PAGE));
    return made;
}

// The regions, far enough apart to grow into nothing; the large one has tables of its own.
static void make_regions(void) {
    const size_t distance = 16ul << 20, large = 2ul << 20;
    char *base = map_anon(NULL, 5 * distance / PAGE, PROT_NONE, 0);
    base += large - (uintptr_t)base % large;
    for (int i = 0; i < 3; i++) regions[i].at = base + i * distance;
    spare = base + 3 * distance;
    file = new_file(SMALL, 0);
    spare_file = new_file(LARGE, FILE_WORD);
    gone_round = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) renew(i);
}

// A counter of Tessera's kernel. Linux has none of that name, and nothing to prove.
static long counter(const char *name) {
    FILE *counters = fopen("/proc/tessera/counters", "r");
    char line[200];
    long value = -1;
    while (counters && fgets(line, sizeof line, counters))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ' ') value = atol(line + strlen(name));
    if (counters) fclose(counters);
    return value;
}

int main(int arguments, char **argument) {
    uint64_t rounds = arguments > 1 ? strtoul(argument[1], NULL, 0) : 100;
    random_state = (arguments > 2 ? strtoul(argument[2], NULL, 0) : 1) * 0x9e3779b97f4a7c15ul | 1;
    uint64_t ways = arguments > 3 ? strtoul(argument[3], NULL, 0) : ~0ul;
    if (!(ways & ((1ul << COUNT) - 1))) return 2;
    int taken[COUNT] = {0}, all = 1, lively = 1;
    cores = sysconf(_SC_NPROCESSORS_ONLN);
    count_of_threads = cores < 2 ? 2 : cores > MOST_THREADS ? MOST_THREADS : cores;
    make_regions();
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    long before = counter("shootdown_requests");
    for (long i = 0; i < count_of_threads; i++) pthread_create(&threads[i].id, NULL, use, (void *)i);
    for (round_number = 1; round_number <= rounds; round_number++) {
        if (round_number % 16 == 1) pin(round_number / 16 % cores);
        int way = next_way(ways);
        way_name = WAYS[way];
        taken[way]++;
        one_round(way);
    }
    PUT(stop, 1);
    for (int i = 0; i < count_of_threads; i++) {
        pthread_join(threads[i].id, NULL);
        lively &= threads[i].reads > rounds && threads[i].writes > rounds;
        lively &= threads[i].faults > rounds / 4 || ~ways & ((1ul << COUNT) - 1);
        if (arguments > 4)
            printf("thread %d: %lu passes, %lu reads, %lu writes, %lu faults\n", i, (unsigned long)threads[i].passes,
                   (unsigned long)threads[i].reads, (unsigned long)threads[i].writes, (unsigned long)threads[i].faults);
    }
    for (int i = 0; i < COUNT; i++) {
        all &= taken[i] || !(ways >> i & 1);
        if (arguments > 4) printf("%s: %d\n", WAYS[i], taken[i]);
    }
    long asked = counter("shootdown_requests") - before;
    if (arguments > 4) printf("asked other cores: %ld\n", asked);
    CHECK(all);
    CHECK(lively);
    CHECK(before < 0 || cores == 1 || asked > (long)rounds / 2);
    printf("nothing was wrong\n");
    return 0;
}
