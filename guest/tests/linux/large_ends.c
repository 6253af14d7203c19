// A large mapping shows its file up to its end, whatever the file gains behind it, by whomever, and in whatever way; and nothing
// if it is for nobody.
//
// build: gcc, musl
// nvdimm: 128M
// expect-status: 0
#include "must.h"

#define MIB (1l << 20)
#define SIZE (16 * MIB)

enum { TRUNCATE, WRITE, ALLOCATE, WAYS };

// Makes a file larger and puts something into what it has gained. SIZE is a multiple of 2 MiB.
static void gain(int fd, int how, long from, long to) {
    if (how == TRUNCATE) MUST(ftruncate(fd, to) == 0);
    if (how == ALLOCATE) MUST(fallocate(fd, 0, from, to - from) == 0);
    char byte = 42;
    for (long at = from; at < to; at += MIB / 4) MUST(pwrite(fd, &byte, 1, at) == 1);
    MUST(pwrite(fd, &byte, 1, to - PAGE) == 1 && pwrite(fd, &byte, 1, to - 1) == 1);
}

static void must_end(char *all, long bytes) {
    MUST(signal_of(all + bytes, 0) == SIGSEGV && signal_of(all + bytes, 1) == SIGSEGV);
    MUST(signal_of(all + bytes + 3 * MIB, 0) == SIGSEGV);
}

// Leave a gap behind mappings, where the system does not of itself.
static int leave_gap;

static char *map(int fd, long bytes) {
    char *place = NULL;
    if (leave_gap) {
        place = mmap(NULL, bytes + 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(munmap(place, bytes + 64 * MIB) == 0);
    }
    char *all = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(all != MAP_FAILED);
    return all;
}

static void grows(int fd, int how, int by_another) {
    MUST(ftruncate(fd, 0) == 0 && ftruncate(fd, SIZE) == 0);
    char *all = map(fd, SIZE);
    for (long at = 0; at < SIZE; at += MIB) all[at] = at / MIB + 1;
    must_end(all, SIZE);
    for (int round = 0; round < 3; round++) {
        long from = SIZE + round * 5 * MIB, to = from + 5 * MIB;
        pid_t child = by_another ? fork() : 0;
        MUST(child >= 0);
        if (child == 0) {
            gain(fd, how, from, to);
            if (by_another) _exit(0);
        }
        int status = 0;
        MUST(!by_another || (waitpid(child, &status, 0) == child && status == 0));
        must_end(all, SIZE);
        for (long at = 0; at < SIZE; at += MIB) MUST(all[at] == at / MIB + 1);
        must_end(all, SIZE);
    }
    // Who maps it anew sees it.
    char *more = map(fd, SIZE + 15 * MIB);
    MUST(more[SIZE] == 42 && more[SIZE + 15 * MIB - PAGE] == 42 && more[3 * MIB] == 4);
    more[5 * MIB + 1] = 7;
    MUST(all[5 * MIB + 1] == 7);
    must_end(more, SIZE + 15 * MIB);
    gain(fd, how, SIZE + 15 * MIB, SIZE + 16 * MIB);
    must_end(more, SIZE + 15 * MIB);
    must_end(all, SIZE);
    // A cut, and longer again.
    MUST(munmap(more, SIZE + 15 * MIB) == 0);
    MUST(ftruncate(fd, 3 * MIB) == 0 && signal_of(all + 3 * MIB, 0) == SIGBUS && all[2 * MIB] == 3);
    gain(fd, how, 3 * MIB, SIZE + MIB);
    MUST(all[3 * MIB] == 42 && all[SIZE - 3 * MIB / 4] == 42);
    must_end(all, SIZE);
    MUST(munmap(all, SIZE) == 0);
}

// A mapping that is longer than its file shows what that gains, up to its own end.
static void longer(int fd) {
    MUST(ftruncate(fd, 0) == 0 && ftruncate(fd, SIZE) == 0);
    char *all = map(fd, 2 * SIZE);
    all[0] = 1;
    MUST(signal_of(all + SIZE, 1) == SIGBUS);
    gain(fd, TRUNCATE, SIZE, SIZE + 3 * MIB);
    MUST(all[SIZE + 3 * MIB - PAGE] == 42 && signal_of(all + SIZE + 3 * MIB, 0) == SIGBUS);
    gain(fd, WRITE, SIZE + 3 * MIB, 2 * SIZE + MIB);
    MUST(all[2 * SIZE - MIB / 4] == 42 && all[0] == 1);
    must_end(all, 2 * SIZE);
    MUST(munmap(all, 2 * SIZE) == 0);
}

// Two processes and two mappings of each: nobody sees more, and stores are seen by all.
static void together(int fd) {
    MUST(ftruncate(fd, 0) == 0 && ftruncate(fd, SIZE) == 0);
    char *all = map(fd, SIZE), *again = map(fd, SIZE + 8 * MIB);
    all[0] = 1;
    again[MIB] = 2;
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        char *own = map(fd, SIZE);
        own[2 * MIB] = 3;
        for (int n = 0; n < 20; n++) {
            MUST(ftruncate(fd, SIZE + (n + 1) * PAGE) == 0);
            MUST(pwrite(fd, "*", 1, SIZE + n * PAGE) == 1);
            must_end(own, SIZE);
            MUST(own[0] == 1 && all[MIB] == 2);
        }
        _exit(0);
    }
    for (int n = 0; n < 200; n++) {
        must_end(all, SIZE);
        MUST(all[0] == 1 && again[MIB] == 2);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(again[SIZE + 19 * PAGE] == '*' && all[2 * MIB] == 3);
    must_end(all, SIZE);
    MUST(munmap(all, SIZE) == 0 && munmap(again, SIZE + 8 * MIB) == 0);
}

static void for_nobody(int fd) {
    MUST(ftruncate(fd, SIZE) == 0);
    char *all = mmap(NULL, SIZE, PROT_NONE, MAP_SHARED, fd, 0);
    MUST(all != MAP_FAILED && signal_of(all, 0) == SIGSEGV && signal_of(all + MIB, 1) == SIGSEGV);
    MUST(mprotect(all, SIZE, PROT_READ) == 0 && signal_of(all, 0) == 0 && signal_of(all, 1) == SIGSEGV);
    MUST(mprotect(all, SIZE, PROT_NONE) == 0 && signal_of(all, 0) == SIGSEGV);
    MUST(munmap(all, SIZE) == 0);
}

int main(int argc, char **argv) {
    catch_faults();
    leave_gap = argc > 1;
    const char *names[] = {"/tmp/large_ends", argc > 1 ? argv[1] : "/pmem/large_ends", NULL};
    for (int which = 0; which < 3; which++) {
        int fd = names[which] ? open(names[which], O_RDWR | O_CREAT | O_TRUNC, 0600) : memfd_create("ends", 0);
        MUST(fd >= 0);
        for (int how = 0; how < WAYS; how++) {
            grows(fd, how, 0);
            grows(fd, how, 1);
        }
        longer(fd);
        together(fd);
        for_nobody(fd);
        MUST(close(fd) == 0 && (!names[which] || unlink(names[which]) == 0));
    }
    return 0;
}
