// What threads of one process do at once: each does the same number of operations, so on as many cores as there are
// threads all of it would take as long as with one thread on one core. Or processes of one thread each, which have all been executed.
//
//   threads COUNT OPERATIONS [PART|all [processes]]      OPERATIONS: how often each thread does each, divided by what it costs
//
// Before each part it prints `@cores NAME` and the kernel's counters, with how often a thread has waited for another one in
// the library.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 64, FILE_PAGES = 64, LARGE_PAGES = 4096, SMALL_PAGES = 64, STRIDE = 64 << 20 };

static struct thread {
    int number, file;
    char *memory;
    unsigned word;
    char buffer[PAGE];
} threads[MOST] __attribute__((aligned(4096)));
static int count, scale, file;
static const char *only;
static pthread_barrier_t own_barrier, *barrier = &own_barrier;

static void must(int holds, const char *what) {
    if (holds) return;
    printf("WRONG: %s\n", what);
    exit(1);
}

static void *map(size_t pages) {
    void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

static void compute(struct thread *self, int times) {
    unsigned state = self->number;
    for (int i = 0; i < times * 100; i++) state = state * 1664525 + 1013904223;
    self->word = state & 1;
}

static void parent(struct thread *self, int times) {
    (void)self;
    while (times--) syscall(SYS_getppid);
}

static void clocks(struct thread *self, int times) {
    struct timespec now;
    (void)self;
    while (times--) must(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
}

static void masks(struct thread *self, int times) {
    sigset_t set, old;
    (void)self;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (; times > 0; times -= 2) {
        must(sigprocmask(SIG_BLOCK, &set, &old) == 0, "sigprocmask");
        must(sigprocmask(SIG_SETMASK, &old, NULL) == 0, "sigprocmask");
    }
}

static void seeks(struct thread *self, int times) {
    while (times--) must(lseek(self->file, times % 100, SEEK_SET) == times % 100, "lseek");
}

static void reads(struct thread *self, int times) {
    // All read one open file, each at places of its own.
    while (times--) {
        int page = (self->number * 7 + times) % FILE_PAGES;
        must(pread(file, self->buffer, PAGE, (off_t)page * PAGE) == PAGE, "pread");
        must(self->buffer[0] == page, "what was read");
    }
}

static void reads_in_turn(struct thread *self, int times) {
    // Each with a description of its own.
    while (times > 0) {
        must(lseek(self->file, 0, SEEK_SET) == 0, "lseek");
        for (int page = 0; page < FILE_PAGES && times > 0; page++, times--) {
            must(read(self->file, self->buffer, PAGE) == PAGE, "read");
            must(self->buffer[0] == page, "what was read");
        }
    }
}

static void writes(struct thread *self, int times) {
    memset(self->buffer, 0, PAGE);
    while (times--) {
        int page = (self->number * 7 + times) % FILE_PAGES;
        self->buffer[0] = page;
        must(pwrite(file, self->buffer, PAGE, (off_t)page * PAGE) == PAGE, "pwrite");
    }
}

static void wakes(struct thread *self, int times) {
    // Nobody waits: what giving up a contended lock costs.
    while (times--) must(syscall(SYS_futex, &self->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0, "wake");
}

static void mismatches(struct thread *self, int times) {
    while (times--) must(syscall(SYS_futex, &self->word, FUTEX_WAIT_PRIVATE, 7, NULL, NULL, 0) == -1, "wait");
}

static void small_faults(struct thread *self, int times) {
    for (; times > 0; times -= SMALL_PAGES) {
        char *at = map(SMALL_PAGES);
        for (int i = 0; i < SMALL_PAGES; i++) at[(size_t)i * PAGE] = 1;
        must(munmap(at, SMALL_PAGES * PAGE) == 0, "munmap");
    }
    (void)self;
}

static void large_faults(struct thread *self, int times) {
    for (int i = 0; i < times && i < LARGE_PAGES; i++) self->memory[(size_t)i * PAGE] = 1;
}

// The same, in pages of 4 KiB.
static void large_faults_by_page(struct thread *self, int times) {
    must(munmap(self->memory, LARGE_PAGES * PAGE) == 0, "munmap");
    self->memory = map(LARGE_PAGES);
    must(madvise(self->memory, LARGE_PAGES * PAGE, MADV_NOHUGEPAGE) == 0, "madvise");
    large_faults(self, times);
}

// What glibc's malloc does for each thread: addresses are reserved, and made usable piece by piece.
static void arena_faults(struct thread *self, int times) {
    const size_t piece = 33 * PAGE;
    char *at = mmap(NULL, STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(at != MAP_FAILED, "mmap");
    for (size_t done = 0; times > 0; done += piece) {
        must(mprotect(at + done, piece, PROT_READ | PROT_WRITE) == 0, "mprotect");
        for (size_t i = 0; i < piece && times > 0; i += PAGE, times--) at[done + i] = 1;
    }
    must(munmap(at, STRIDE) == 0, "munmap");
    (void)self;
}

static void maps(struct thread *self, int times) {
    while (times--) must(munmap(map(4), 4 * PAGE) == 0, "munmap");
    (void)self;
}

static void protects(struct thread *self, int times) {
    char *at = map(4);
    at[PAGE] = 1;
    for (; times > 0; times -= 2) {
        must(mprotect(at + PAGE, PAGE, PROT_READ) == 0, "mprotect");
        must(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
    }
    must(munmap(at, 4 * PAGE) == 0, "munmap");
    (void)self;
}

static void allocations(struct thread *self, int times) {
    enum { KEPT = 64 };
    void *kept[KEPT] = {0};
    unsigned state = self->number + 1;
    while (times--) {
        state = state * 1664525 + 1013904223;
        void **place = &kept[state >> 8 & (KEPT - 1)];
        free(*place);
        size_t bytes = 16 + (state >> 16 & 8191);
        *place = malloc(bytes);
        must(*place != NULL, "malloc");
        ((char *)*place)[bytes - 1] = 1;
    }
    for (int i = 0; i < KEPT; i++) free(kept[i]);
}

static const struct part {
    const char *name;
    void (*run)(struct thread *, int);
    int cost;
} parts[] = {
    {"computing", compute, 1},       {"getppid", parent, 1},           {"clock_gettime", clocks, 1},
    {"sigprocmask", masks, 1},       {"lseek", seeks, 1},              {"pread", reads, 4},
    {"read", reads_in_turn, 4},      {"pwrite", writes, 8},            {"futex_wake", wakes, 1},
    {"futex_mismatch", mismatches, 1}, {"faults_of_small", small_faults, 4}, {"faults_of_large", large_faults, 4},
    {"faults_of_large,_by_page", large_faults_by_page, 4},
    {"faults_of_arenas", arena_faults, 4}, {"mmap_munmap", maps, 8},   {"mprotect", protects, 8},
    {"malloc", allocations, 1},
};
enum { PARTS = sizeof parts / sizeof *parts };

static void copy(const char *name) {
    char line[2000];
    FILE *from = fopen(name, "r");
    // Linux has none of them.
    if (from == NULL) return;
    while (fgets(line, sizeof line, from)) fputs(line, stdout);
    fclose(from);
}

static void begin(const char *name) {
    printf("@cores %s\n", name);
    copy("/proc/tessera/cores");
    copy("/proc/self/lock");
    printf("@end\n");
    fflush(stdout);
}

static void *work(void *argument) {
    struct thread *self = argument;
    self->file = open("/tmp/threads", O_RDWR);
    self->memory = map(LARGE_PAGES);
    for (int i = 0; i < PARTS; i++) {
        if (only != NULL && strcmp(only, parts[i].name) != 0) continue;
        pthread_barrier_wait(barrier);
        if (self->number == 0) begin(parts[i].name);
        pthread_barrier_wait(barrier);
        parts[i].run(self, scale / parts[i].cost);
    }
    pthread_barrier_wait(barrier);
    return NULL;
}

// The barrier of processes is in a file that all map.
static void share_barrier(int make) {
    int shared = open("/tmp/barrier", O_RDWR | (make ? O_CREAT | O_TRUNC : 0), 0600);
    must(!make || ftruncate(shared, PAGE) == 0, "ftruncate");
    barrier = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    must(barrier != MAP_FAILED, "the barrier");
    close(shared);
    if (!make) return;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    must(pthread_barrier_init(barrier, &attributes, count) == 0, "barrier");
}

static void run_processes(char **argument) {
    share_barrier(1);
    for (int i = 0; i < count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        pid_t worker = fork();
        must(worker >= 0, "fork");
        if (worker > 0) continue;
        execl(argument[0], argument[0], argument[1], argument[2], argument[3], argument[4], number, NULL);
        must(0, "exec");
    }
    for (int i = 0; i < count; i++) {
        int status;
        must(wait(&status) > 0 && status == 0, "a worker");
    }
    printf("done\n");
}

int main(int arguments, char **argument) {
    must(arguments >= 3 && arguments <= 6, "two to five arguments");
    if (arguments > 3 && strcmp(argument[3], "all") != 0) only = argument[3];
    count = atoi(argument[1]);
    scale = atoi(argument[2]);
    must(count > 0 && count <= MOST, "1 to 64 threads");
    for (int i = 0; i < count; i++) threads[i].number = i;
    if (arguments == 6) {
        // One of the processes that the first one has executed.
        file = open("/tmp/threads", O_RDWR);
        share_barrier(0);
        struct thread *self = &threads[atoi(argument[5]) % MOST];
        work(self);
        if (self->number == 0) begin("end");
        return 0;
    }
    file = open("/tmp/threads", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < FILE_PAGES; i++) {
        char page[PAGE] = {i};
        must(write(file, page, PAGE) == PAGE, "write");
    }
    if (arguments == 5) {
        run_processes(argument);
        return 0;
    }
    must(pthread_barrier_init(barrier, NULL, count) == 0, "barrier");
    pthread_t others[MOST];
    for (int i = 1; i < count; i++) must(pthread_create(&others[i], NULL, work, &threads[i]) == 0, "pthread_create");
    work(&threads[0]);
    begin("end");
    for (int i = 1; i < count; i++) pthread_join(others[i], NULL);
    printf("done\n");
    return 0;
}
