// Large shared files: a mapping of any size is made at once, and what concerns only a part of it is right nevertheless.
//
// build: gcc, musl
// nvdimm: 192M
// expect-status: 0
#include "must.h"
#include "pmem.h"
#include <sys/ioctl.h>
#include <sys/resource.h>

#define MIB (1l << 20)
#define FICLONE _IOW(0x94, 9, int)
#define BYTES (64 * MIB)
#define PAGES (BYTES / PAGE)

static long faults(void) {
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static long *word(char *all, long page) { return (long *)(all + page * PAGE); }

static char *map(int fd, int prot) {
    char *all = mmap(NULL, BYTES, prot, MAP_SHARED, fd, 0);
    MUST(all != MAP_FAILED);
    return all;
}

static void check(char *all, long from, long to) {
    for (long page = from; page < to; page++) MUST(*word(all, page) == page);
}

// Mapped, looked at and unmapped again and again.
static void again(int fd) {
    for (int round = 0; round < 20; round++) {
        long before = faults();
        char *all = map(fd, PROT_READ | PROT_WRITE);
        check(all, 0, PAGES);
        MUST(munmap(all, BYTES) == 0);
        // Fewer than one for 2 MiB.
        MUST(faults() - before < 32);
        MUST(signal_of(word(all, 5), 0) == SIGSEGV);
    }
}

static void parts(int fd) {
    char *all = map(fd, PROT_READ | PROT_WRITE);
    // Rights of a page, of 2 MiB, and of all.
    MUST(mprotect(all + 9 * PAGE, PAGE, PROT_READ) == 0);
    MUST(signal_of(word(all, 9), 1) == SIGSEGV && signal_of(word(all, 9), 0) == 0);
    MUST(mprotect(all + 4 * MIB, 2 * MIB, PROT_NONE) == 0);
    MUST(signal_of(word(all, 1024), 0) == SIGSEGV && signal_of(word(all, 1023), 1) == 0);
    *word(all, 1023) = 1023;
    MUST(mprotect(all, BYTES, PROT_READ) == 0);
    MUST(signal_of(word(all, 77), 1) == SIGSEGV);
    check(all, 0, PAGES);
    MUST(mprotect(all, BYTES, PROT_READ | PROT_WRITE) == 0);
    check(all, 0, PAGES);

    // A hole of a page, memory of its own in it, and the file again.
    MUST(munmap(all + 100 * PAGE, PAGE) == 0);
    MUST(signal_of(word(all, 100), 0) == SIGSEGV && signal_of(word(all, 101), 0) == 0);
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    MUST(mmap(all + 100 * PAGE, PAGE, PROT_READ | PROT_WRITE, fixed, -1, 0) != MAP_FAILED);
    MUST(*word(all, 100) == 0);
    *word(all, 100) = -1;
    int flags = MAP_SHARED | MAP_FIXED;
    MUST(mmap(all + 100 * PAGE, PAGE, PROT_READ | PROT_WRITE, flags, fd, 100 * PAGE) != MAP_FAILED);
    check(all, 0, PAGES);

    // What lies behind the end.
    char *behind = mmap(all + BYTES, PAGE, PROT_READ | PROT_WRITE, fixed, -1, 0);
    MUST(behind == all + BYTES && *word(behind, 0) == 0);
    MUST(ftruncate(fd, BYTES + 2 * MIB) == 0 && *word(behind, 0) == 0);
    long stamp = 5;
    MUST(pwrite(fd, &stamp, sizeof stamp, BYTES) == sizeof stamp && *word(behind, 0) == 0);
    MUST(ftruncate(fd, BYTES) == 0);
    MUST(munmap(behind, PAGE) == 0);

    // Elsewhere.
    char *moved = mremap(all, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, all - (4l << 30));
    MUST(moved == all - (4l << 30));
    check(moved, 0, PAGES);
    MUST(signal_of(word(all, 0), 0) == SIGSEGV);
    MUST(munmap(moved, BYTES) == 0);
}

// What is cut off is gone for everybody, and zero when it comes again.
static void cut(int fd) {
    char *all = map(fd, PROT_READ | PROT_WRITE);
    int to_child[2], to_parent[2];
    char byte = 0;
    MUST(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        char *own = map(fd, PROT_READ);
        check(own, PAGES / 2, PAGES);
        check(all, PAGES / 2, PAGES);
        MUST(write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
        MUST(signal_of(word(own, PAGES / 2), 0) == SIGBUS);
        MUST(signal_of(word(all, PAGES - 1), 1) == SIGBUS);
        check(own, 0, PAGES / 2);
        MUST(write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
        MUST(*word(own, PAGES - 1) == 0 && *word(all, PAGES / 2) == 0);
        *word(all, PAGES / 2) = 99;
        _exit(0);
    }
    MUST(read(to_parent[0], &byte, 1) == 1);
    MUST(ftruncate(fd, BYTES / 2) == 0);
    MUST(signal_of(word(all, PAGES / 2), 1) == SIGBUS);
    MUST(write(to_child[1], &byte, 1) == 1 && read(to_parent[0], &byte, 1) == 1);
    MUST(ftruncate(fd, BYTES) == 0);
    MUST(write(to_child[1], &byte, 1) == 1);
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(*word(all, PAGES / 2) == 99);
    check(all, 0, PAGES / 2);
    MUST(munmap(all, BYTES) == 0);
}

// Who has a file mapped that gets what another has sees that, whether it is mapped by one entry or by many.
static void cloned(const char *folder, long bytes) {
    char names[2][64];
    int fds[2];
    char *all[2];
    for (int n = 0; n < 2; n++) {
        snprintf(names[n], sizeof names[n], "%s/clone-%d", folder, n);
        fds[n] = open(names[n], O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(fds[n] >= 0 && ftruncate(fds[n], bytes) == 0);
        all[n] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[n], 0);
        MUST(all[n] != MAP_FAILED);
        for (long at = 0; at < bytes; at += PAGE) all[n][at] = 'a' + n;
    }
    MUST(ioctl(fds[0], FICLONE, fds[1]) == 0);
    for (long at = 0; at < bytes; at += PAGE) MUST(all[0][at] == 'b' && all[1][at] == 'b');
    all[1][0] = 'c';
    all[0][bytes - PAGE] = 'd';
    MUST(all[0][0] == 'b' && all[1][bytes - PAGE] == 'b');
    for (int n = 0; n < 2; n++) {
        MUST(munmap(all[n], bytes) == 0 && close(fds[n]) == 0 && unlink(names[n]) == 0);
    }
}

int main(void) {
    go_to_folder();
    catch_faults();
    int fd = open("large", O_RDWR | O_CREAT, 0600);
    MUST(fd >= 0 && ftruncate(fd, BYTES) == 0);
    char *all = map(fd, PROT_READ | PROT_WRITE);
    for (long page = 0; page < PAGES; page++) *word(all, page) = page;
    MUST(munmap(all, BYTES) == 0);
    again(fd);
    parts(fd);
    cut(fd);
    for (int large = 0; large < 2; large++) {
        cloned(".", large ? 16 * MIB : 2 * MIB);
        cloned("/tmp", large ? 16 * MIB : 2 * MIB);
    }
    MUST(close(fd) == 0 && unlink("large") == 0);
    leave_folder();
    return 0;
}
