// Files are read by all threads at once while their descriptors, offsets, sizes and windows change: every read finds what
// one file had, no byte of a shared offset is read twice or left out, and no move of an offset is lost.
// oracle: linux
// cores: 4
// timeout: 300
// build: gcc, musl
// args: 12
// long-args: 150
//
//   race_files ROUNDS [SEED]
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

enum { THREADS = 4, FILES = 40, PAGES = 24, SHARED_PAGES = 200, WORDS = PAGE / 8 };

#define GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define PUT(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

static int names[FILES], moving, cut, shared, counter, stop, cores;
static uint64_t random_state;
static unsigned char seen[SHARED_PAGES];
static pthread_barrier_t barrier;
static char *volatile nowhere = (char *)8;

__attribute__((noreturn)) static void wrong(const char *what, long a, long b) {
    dprintf(1, "WRONG: %s: %ld %ld (errno %d)\n", what, a, b, errno);
    _exit(1);
}

static uint64_t below(uint64_t limit) {
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return (random_state >> 33) % limit;
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set)) wrong("sched_setaffinity", core, 0);
}

// Each word says which file and page it is of.
static uint64_t word_of(int number, long page) { return (uint64_t)(number + 1) << 32 | (uint64_t)page; }

static int make_file(int number, int pages) {
    char path[64];
    uint64_t page[WORDS];
    sprintf(path, "/tmp/race_files.%d", number);
    int made = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (made < 0) wrong("open", number, made);
    unlink(path);
    for (int i = 0; i < pages; i++) {
        for (int j = 0; j < WORDS; j++) page[j] = word_of(number, i);
        if (write(made, page, PAGE) != PAGE) wrong("write", number, i);
    }
    return made;
}

// All words of what was read are of one file and of one page; answers which file.
static int check(uint64_t *page, long bytes, long number, const char *what) {
    for (long i = 1; i < bytes / 8; i++)
        if (page[i] != page[0]) wrong(what, page[i], page[0]);
    if ((long)(page[0] & 0xffffffff) != number) wrong(what, page[0], number);
    return (int)(page[0] >> 32) - 1;
}

// Many files through few windows, a descriptor that names now this file and now that, and one that is cut.
static void read_at(uint64_t *page, int self, unsigned *state) {
    *state = *state * 1664525 + 1013904223;
    long number = *state >> 8 & 15;
    int which = (*state >> 12) % FILES;
    long got = pread(names[which], page, PAGE, number * PAGE);
    if (got != PAGE || check(page, got, number, "a file") != which) wrong("pread", got, which);
    got = pread(moving, page, PAGE, number * PAGE);
    if (got != PAGE || check(page, got, number, "a moving descriptor") > 1) wrong("pread of a moving descriptor", got, self);
    // Less than a page if it has just been cut; zeros if it has become longer again.
    got = pread(cut, page, PAGE, number * PAGE);
    if (got < 0 || got % 8) wrong("pread of what is cut", got, self);
    for (long i = 0; i < got / 8; i++)
        if (page[i] != 0 && page[i] != word_of(100, number)) wrong("what is cut", page[i], number);
    // A bad address, and the end.
    if (pread(names[which], nowhere, PAGE, 0) != -1 || errno != EFAULT) wrong("a bad address", which, 0);
    if (pread(names[which], page, PAGE, PAGES * PAGE + (long)(*state >> 4)) != 0) wrong("behind the end", which, 0);
    if (pread(names[which], page, PAGE, PAGES * PAGE - 8) != 8) wrong("at the end", which, 0);
}

static void *use(void *argument) {
    int self = (long)argument;
    unsigned state = self + 1;
    uint64_t *page = malloc(PAGE);
    pin(self % cores);
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (GET(stop)) break;
        // A shared offset: each page is read by one thread.
        for (;;) {
            long got = read(shared, page, PAGE);
            if (got == 0) break;
            if (got != PAGE) wrong("read", got, self);
            long number = page[0] & 0xffffffff;
            if (check(page, got, number, "a shared offset") != 200) wrong("another file", page[0], 0);
            if (__atomic_add_fetch(&seen[number], 1, __ATOMIC_ACQ_REL) != 1) wrong("a page is read twice", number, self);
        }
        // Moves of an offset, none of which may be lost.
        for (int i = 0; i < 200; i++)
            if (lseek(counter, 3, SEEK_CUR) < 0) wrong("lseek", i, self);
        for (int i = 0; i < 100; i++) read_at(page, self, &state);
        pthread_barrier_wait(&barrier);
    }
    free(page);
    return NULL;
}

// The first thread changes things meanwhile.
static void change(void) {
    for (int i = 0; i < 60; i++) {
        switch (below(6)) {
        case 0:
        case 1:
            if (dup2(names[below(2)], moving) != moving) wrong("dup2", moving, 0);
            break;
        case 2: {
            long pages = below(PAGES);
            if (ftruncate(cut, pages * PAGE + 8 * below(WORDS))) wrong("ftruncate", pages, 0);
            break;
        }
        case 3:
            if (ftruncate(cut, PAGES * PAGE)) wrong("ftruncate", PAGES, 0);
            break;
        case 4: {
            uint64_t page[WORDS];
            long number = below(PAGES);
            for (int j = 0; j < WORDS; j++) page[j] = word_of(100, number);
            if (pwrite(cut, page, PAGE, number * PAGE) != PAGE) wrong("pwrite", number, 0);
            break;
        }
        case 5: {
            // Descriptors and places of files that come and go.
            uint64_t word;
            int other = make_file(50, 2), again = dup(other);
            if (lseek(other, PAGE, SEEK_SET) != PAGE || read(again, &word, 8) != 8 || word != word_of(50, 1)) wrong("a new file", word, 0);
            if (lseek(again, 0, SEEK_CUR) != PAGE + 8) wrong("its offset", lseek(again, 0, SEEK_CUR), 0);
            close(other), close(again);
            if (read(other, &word, 8) != -1 || errno != EBADF || lseek(again, 0, SEEK_CUR) != -1 || errno != EBADF)
                wrong("closed", other, again);
        }
        }
    }
}

// A child reads on at the shared offset; then nobody keeps it.
static void share(void) {
    uint64_t word;
    if (lseek(shared, 5 * PAGE, SEEK_SET) != 5 * PAGE) wrong("lseek", 0, 0);
    pid_t child = fork();
    if (child == 0) _exit(read(shared, &word, 8) == 8 && word == word_of(200, 5) ? 0 : 1);
    int status = -1;
    if (waitpid(child, &status, 0) != child || status) wrong("a child", status, 0);
    if (lseek(shared, 0, SEEK_CUR) != 5 * PAGE + 8) wrong("an offset after a child", lseek(shared, 0, SEEK_CUR), 0);
}

int main(int arguments, char **argument) {
    int rounds = arguments > 1 ? atoi(argument[1]) : 10;
    random_state = arguments > 2 ? strtoul(argument[2], NULL, 0) : 1;
    cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < FILES; i++) names[i] = make_file(i, PAGES);
    moving = dup(names[0]);
    cut = make_file(100, PAGES);
    shared = make_file(200, SHARED_PAGES);
    counter = make_file(300, 1);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, use, (void *)i);
    for (int round = 0; round < rounds; round++) {
        memset(seen, 0, sizeof seen);
        if (lseek(shared, 0, SEEK_SET) != 0 || lseek(counter, 0, SEEK_SET) != 0) wrong("lseek", round, 0);
        pthread_barrier_wait(&barrier);
        change();
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < SHARED_PAGES; i++)
            if (seen[i] != 1) wrong("a page was read so often", i, seen[i]);
        long moved = lseek(counter, 0, SEEK_CUR);
        if (moved != THREADS * 200 * 3) wrong("moves are lost", moved, THREADS * 200 * 3);
        if (round % 4 == 3) share();
        // An offset that nobody shares any more.
        if (round % 4 == 3) {
            close(shared), close(counter);
            shared = make_file(200, SHARED_PAGES), counter = make_file(300, 1);
        }
    }
    PUT(stop, 1);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("nothing was wrong\n");
    return 0;
}
