// mlockall: what is mapped, what is mapped later, with and without touching it; limits; children; threads that map and unmap.
// build: gcc
// oracle: linux
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

static long locked(void) { return number_in("/proc/self/status", "VmLck: %ld"); }

static char *map(size_t pages, int flags) {
    return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static int there(char *memory, size_t pages) {
    unsigned char vector[4096];
    int count = 0;
    if (mincore(memory, pages * PAGE, vector) != 0) return -1;
    for (size_t page = 0; page < pages; page++) count += vector[page] & 1;
    return count;
}

// Pages by which the heap grew.
static long grow(long pages) {
    long end = syscall(SYS_brk, 0);
    return (syscall(SYS_brk, end + pages * (long)PAGE) - end) / (long)PAGE;
}

// What is locked more by an action.
#define MORE(action)                                                  \
    do {                                                              \
        long before = locked();                                       \
        action;                                                       \
        printf("%s: %ld more\n", #action, locked() - before);         \
    } while (0)

static void kinds(void) {
    char *memory;
    printf("nothing is locked: %ld\n", locked());
    MORE(memory = map(16, 0));
    CHECK(mlockall(MCL_FUTURE) == 0);
    printf("what was there is not: %ld\n", locked());
    MORE(memory = map(16, 0));
    printf("there: %d\n", there(memory, 16));
    MORE(munmap(memory, 16 * PAGE));
    MORE(memory = map(4096, 0));
    printf("there: %d\n", there(memory, 4096));
    MORE(munmap(memory, 4096 * PAGE));
    MORE(grow(64));
    MORE(grow(-64));
    MORE(mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MORE(memory = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    MORE(munlock(memory, 4 * PAGE));
    CHECK(mlockall(MCL_FUTURE | MCL_ONFAULT) == 0);
    MORE(memory = map(16, 0));
    printf("there: %d\n", there(memory, 16));
    memory[0] = 1;
    printf("there: %d\n", there(memory, 16));
    pid_t child = fork();
    if (child == 0) {
        printf("a child: %ld\n", locked());
        MORE(map(16, 0));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    CHECK(munlockall() == 0);
    printf("nothing is locked: %ld\n", locked());
    MORE(map(16, 0));
    MORE(memory = map(16, MAP_LOCKED));
    CHECK(mlockall(MCL_CURRENT) == 0);
    printf("all is locked: %d\n", locked() > 64);
    MORE(map(16, 0));
    CHECK(munlockall() == 0);
    memory = map(16, 0);
    MORE(mlock2(memory, 16 * PAGE, 1));
    printf("there: %d\n", there(memory, 16));
    MORE(munlock(memory, 16 * PAGE));
    SHOW(mlockall(0));
    SHOW(mlockall(MCL_ONFAULT));
    SHOW(mlockall(8));
    SHOW(mlock2(memory, PAGE, 2));
}

static void *maps(void *unused) {
    for (int i = 0; i < 64; i++) munmap(map(16, 0), 16 * PAGE);
    return unused;
}

// Threads that map and unmap may be given addresses for it: not what is to be locked.
static void threads(void) {
    pthread_t thread;
    for (int i = 0; i < 64; i++) munmap(map(16, 0), 16 * PAGE);
    pthread_create(&thread, NULL, maps, NULL);
    for (int i = 0; i < 64; i++) munmap(map(16, 0), 16 * PAGE);
    pthread_join(thread, NULL);
    CHECK(mlockall(MCL_FUTURE) == 0);
    char *memory;
    for (int i = 0; i < 64; i++) munmap(map(16, 0), 16 * PAGE);
    MORE(memory = map(16, 0));
    printf("there: %d\n", there(memory, 16));
    CHECK(munlockall() == 0);
}

static void user(void) {
    struct rlimit limit = {16 * PAGE, 16 * PAGE};
    CHECK(mlockall(MCL_FUTURE) == 0);
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK(setuid(1000) == 0);
    char *memory;
    SHOW((memory = map(16, 0)) == MAP_FAILED);
    SHOW(map(1, 0) == MAP_FAILED);
    SHOW(grow(1));
    SHOW(munmap(memory, PAGE));
    SHOW(map(1, 0) == MAP_FAILED);
    SHOW(munlockall());
    SHOW(map(64, 0) == MAP_FAILED);
    SHOW(map(64, MAP_LOCKED) == MAP_FAILED);
    limit.rlim_cur = 0;
    SHOW(setrlimit(RLIMIT_MEMLOCK, &limit));
    SHOW(map(1, MAP_LOCKED) == MAP_FAILED);
    SHOW(map(1, 0) == MAP_FAILED);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    kinds();
    threads();
    pid_t child = fork();
    if (child == 0) {
        user();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
