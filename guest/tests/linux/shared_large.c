// Shared memory of large pages: what it is asked for by, and that it is memory like any other.
//
// build: gcc, musl
// nvdimm: 64M
// expect-status: 0
#include "must.h"
#include <sys/sysinfo.h>

#define MIB (1l << 20)
#define LARGE (2 * MIB)
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

#define FAILS(e, error) MUST((e) == MAP_FAILED && errno == (error))

static long blocks(int fd) {
    struct stat s;
    MUST(fstat(fd, &s) == 0);
    return s.st_blocks * 512;
}

static int all_zero(const char *at, long bytes) {
    for (long n = 0; n < bytes; n += 64)
        if (at[n]) return 0;
    return 1;
}

static void file(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0 && ftruncate(fd, 16 * MIB) == 0);
    char *all = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(all != MAP_FAILED);
    all[0] = 1;
    MUST(blocks(fd) < MIB);
    MUST(madvise(all, 16 * MIB, MADV_HUGEPAGE) == 0);
    // The first has a small page; of the others all are made.
    for (long at = 0; at < 16 * MIB; at += LARGE) all[at + 5 * PAGE] = at / LARGE + 1;
    MUST(blocks(fd) >= 14 * MIB && blocks(fd) < 15 * MIB);
    for (long at = 0; at < 16 * MIB; at += LARGE) {
        MUST(all[at + 5 * PAGE] == at / LARGE + 1);
        all[at + 5 * PAGE] = 0;
    }
    MUST(all_zero(all + PAGE, 16 * MIB - PAGE));

    // A hole in one, and a cut through another.
    memset(all + 4 * MIB, 7, 4 * MIB);
    long before = blocks(fd);
    int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    MUST(fallocate(fd, punch, 4 * MIB + 3 * PAGE, PAGE) == 0);
    MUST(blocks(fd) <= before && all[4 * MIB + 3 * PAGE - 1] == 7 && all[4 * MIB + 4 * PAGE] == 7);
    MUST(all_zero(all + 4 * MIB + 3 * PAGE, PAGE));
    MUST(ftruncate(fd, 7 * MIB + 100) == 0);
    MUST(all[7 * MIB + 99] == 7 && all[7 * MIB + 100] == 0);
    MUST(signal_of(all + 7 * MIB + PAGE, 1) == SIGBUS);
    MUST(ftruncate(fd, 16 * MIB) == 0);
    MUST(all_zero(all + 7 * MIB + 128, 9 * MIB - 128) && all[7 * MIB + 99] == 7);

    // Others see it, by whatever they look.
    char bytes[3];
    MUST(pread(fd, bytes, 3, 4 * MIB + 3 * PAGE - 1) == 3 && bytes[0] == 7 && bytes[1] == 0);
    MUST(pwrite(fd, "xyz", 3, 10 * MIB - 1) == 3 && memcmp(all + 10 * MIB - 1, "xyz", 3) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        all[12 * MIB] = 42;
        _exit(all[7 * MIB] != 7);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0 && all[12 * MIB] == 42);
    MUST(munmap(all, 16 * MIB) == 0 && close(fd) == 0 && unlink(name) == 0);
}

static void anonymous(void) {
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, rw = PROT_READ | PROT_WRITE;
    char *all = mmap(NULL, 3 * MIB, rw, flags, -1, 0);
    MUST(all != MAP_FAILED && (long)all % LARGE == 0);
    // Its length is that of large pages.
    all[4 * MIB - 1] = 3;
    MUST(all_zero(all, 4 * MIB - 64));
    char *same = mmap(all, LARGE, rw, flags | MAP_FIXED | 21 << MAP_HUGE_SHIFT, -1, 0);
    MUST(same == all && all[4 * MIB - 1] == 3);
    FAILS(mmap(all + PAGE, LARGE, rw, flags | MAP_FIXED, -1, 0), EINVAL);
    FAILS(mmap(NULL, LARGE, rw, flags | 20 << MAP_HUGE_SHIFT, -1, 0), EINVAL);
    FAILS(mmap(NULL, 0, rw, flags, -1, 0), EINVAL);
    int fd = open("/tmp/shared_large", O_RDWR | O_CREAT, 0600);
    FAILS(mmap(NULL, LARGE, rw, MAP_SHARED | MAP_HUGETLB, fd, 0), EINVAL);
    MUST(close(fd) == 0 && unlink("/tmp/shared_large") == 0);
    MUST(munmap(all, 4 * MIB) == 0 && signal_of(all, 1) == SIGSEGV);
}

// Advice that cannot be followed is none.
static void much(void) {
    struct sysinfo before, now;
    MUST(sysinfo(&before) == 0);
    long bytes = (long)(before.freeram * before.mem_unit * 3 / 4) & -LARGE;
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB;
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    MUST(all != MAP_FAILED);
    long at = 0;
    while (at < bytes && !signal_of(all + at, 1)) at += LARGE;
    // Much of it was there.
    MUST(at > bytes / 2);
    MUST(munmap(all, bytes) == 0);
    MUST(sysinfo(&now) == 0);
    long lost = (long)(before.freeram - now.freeram) * before.mem_unit;
    must(lost < 2 * LARGE, __LINE__, "memory is back");
}

int main(void) {
    catch_faults();
    for (int round = 0; round < 2; round++) {
        file("/tmp/large");
        file("/pmem/large");
        anonymous();
    }
    much();
    return 0;
}
