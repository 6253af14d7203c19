// Memory that is asked for in pages of 2 MiB: MAP_HUGETLB of private and of shared memory, and memfd_create(MFD_HUGETLB). All that is
// asked here Linux 6.1 answers so, too, if it has such pages (hugepages=64 on its command line).
//
// build: gcc, musl
// expect-status: 0
#include "must.h"
#include <sys/statfs.h>

#define MIB (1l << 20)
#define LARGE (2 * MIB)
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define SIZE(bits) ((unsigned)(bits) << MAP_HUGE_SHIFT)
#define RW (PROT_READ | PROT_WRITE)

#define FAILS(e, error) MUST((errno = 0, (e) == -1) && errno == (error))
#define NOT_MAPPED(e, error) MUST((e) == MAP_FAILED && errno == (error))

// Advice by number: not every library knows all.
enum { SEQUENTIAL = 2, WILLNEED = 3, DONTNEED = 4, FREE = 8, REMOVE = 9, DONTFORK = 10, DOFORK = 11, HUGEPAGE = 14, NOHUGEPAGE = 15,
       DONTDUMP = 16, WIPEONFORK = 18, COLD = 20, PAGEOUT = 21, POPULATE_READ = 22, POPULATE_WRITE = 23, COLLAPSE = 25 };

static void mapped(int flags) {
    char *all;
    MUST((all = mmap(NULL, LARGE, RW, flags, -1, 0)) != MAP_FAILED && (long)all % LARGE == 0);
    MUST(munmap(all, LARGE) == 0);
    MUST((all = mmap(NULL, 1, RW, flags | SIZE(21), 5, 0)) != MAP_FAILED && (long)all % LARGE == 0);
    all[LARGE - 1] = 1;
    MUST(munmap(all, LARGE) == 0);
    NOT_MAPPED(mmap(NULL, 0, RW, flags, -1, 0), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, flags | SIZE(20), -1, 0), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, flags | SIZE(12), -1, 0), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, flags | SIZE(63), -1, 0), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, flags | SIZE(30), -1, 0), ENOMEM);
    NOT_MAPPED(mmap(NULL, LARGE, RW, flags, -1, PAGE), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, flags | MAP_GROWSDOWN, -1, 0), EINVAL);
    MUST((all = mmap((void *)0x10001000, LARGE, RW, flags, -1, 0)) != MAP_FAILED && (long)all % LARGE == 0);
    MUST(munmap(all, LARGE) == 0);
    NOT_MAPPED(mmap((void *)0x10001000, LARGE, RW, flags | MAP_FIXED, -1, 0), EINVAL);
    MUST(mmap((void *)0x10000000, LARGE, RW, flags | MAP_FIXED, -1, 0) == (void *)0x10000000);
    NOT_MAPPED(mmap((void *)0x10000000, LARGE, RW, flags | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
    MUST(mmap((void *)0x10000000, 100, RW, flags | MAP_FIXED, -1, 0) == (void *)0x10000000);
    MUST(munmap((void *)0x10000000, LARGE) == 0);
    MUST((all = mmap(NULL, LARGE, PROT_NONE, flags, -1, 0)) != MAP_FAILED && signal_of(all, 0) == SIGSEGV);
    MUST(munmap(all, LARGE) == 0);
}

// Nothing cuts such a page in two.
static void parts(char *p, int shared) {
    FAILS(munmap(p + PAGE, PAGE), EINVAL);
    FAILS(munmap(p, PAGE), EINVAL);
    FAILS(munmap(p + PAGE, LARGE), EINVAL);
    FAILS(munmap(p + LARGE / 2, LARGE / 2), EINVAL);
    FAILS(munmap(p + 7 * LARGE, LARGE - PAGE), EINVAL);
    MUST(p[7 * LARGE] == 8 && munmap(p + 7 * LARGE, LARGE) == 0 && signal_of(p + 7 * LARGE, 0) == SIGSEGV);
    FAILS(mprotect(p, PAGE, PROT_READ), EINVAL);
    FAILS(mprotect(p + PAGE, PAGE, PROT_READ), EINVAL);
    FAILS(mprotect(p + PAGE, LARGE, PROT_READ), EINVAL);
    FAILS(mprotect(p, LARGE + PAGE, PROT_READ), EINVAL);
    MUST(mprotect(p, PAGE, RW) == 0);
    MUST(mprotect(p, LARGE, PROT_READ) == 0 && signal_of(p, 1) == SIGSEGV && p[0] == 1);
    MUST(mprotect(p, LARGE, RW) == 0 && signal_of(p, 1) == 0);
    NOT_MAPPED(mremap(p + 5 * LARGE, LARGE, 2 * LARGE, 0), EINVAL);
    NOT_MAPPED(mremap(p + 5 * LARGE, LARGE, 2 * LARGE, MREMAP_MAYMOVE), EINVAL);
    MUST(mremap(p + 5 * LARGE, 2 * LARGE, LARGE, 0) == p + 5 * LARGE && signal_of(p + 6 * LARGE, 0) == SIGSEGV);
    MUST(mremap(p + 5 * LARGE, LARGE, PAGE, 0) == p + 5 * LARGE && p[5 * LARGE] == 6);
    MUST(mremap(p + 5 * LARGE, PAGE, LARGE, 0) == p + 5 * LARGE);
    NOT_MAPPED(mremap(p + 5 * LARGE + PAGE, LARGE, LARGE, MREMAP_MAYMOVE), EINVAL);
    int moves = MREMAP_MAYMOVE | MREMAP_FIXED;
    NOT_MAPPED(mremap(p + 5 * LARGE, LARGE, LARGE, moves, (void *)0x20001000), EINVAL);
    MUST(mremap(p + 5 * LARGE, LARGE, LARGE, moves, (void *)0x20000000) == (void *)0x20000000);
    MUST(signal_of(p + 5 * LARGE, 0) == SIGSEGV && *(volatile char *)0x20000000 == 6);
    NOT_MAPPED(mremap((void *)0x20000000, LARGE, LARGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP), EINVAL);
    MUST(munmap((void *)0x20000000, LARGE) == 0);
    NOT_MAPPED(mremap(p, 0, LARGE, MREMAP_MAYMOVE), EINVAL);
    MUST(mremap(p + 4 * LARGE, LARGE, LARGE - PAGE, MREMAP_MAYMOVE) == p + 4 * LARGE);
    MUST(mremap(p + 4 * LARGE, LARGE, PAGE, MREMAP_MAYMOVE) == p + 4 * LARGE && p[5 * LARGE - 1] == 0);
    (void)shared;
}

static void advice(char *p, int shared) {
    MUST(madvise(p, LARGE, HUGEPAGE) == 0 && madvise(p, LARGE, NOHUGEPAGE) == 0 && madvise(p, PAGE, NOHUGEPAGE) == 0);
    FAILS(madvise(p, LARGE, COLLAPSE), EINVAL);
    FAILS(madvise(p, LARGE, FREE), EINVAL);
    MUST(madvise(p + LARGE, PAGE, DONTNEED) == 0 && p[LARGE] == 2);
    FAILS(madvise(p + LARGE + PAGE, LARGE, DONTNEED), EINVAL);
    MUST(madvise(p + LARGE, LARGE + PAGE, DONTNEED) == 0 && p[LARGE] == (shared ? 2 : 0) && p[2 * LARGE] == 3);
    if (shared) {
        MUST(madvise(p + 2 * LARGE, LARGE, REMOVE) == 0 && p[2 * LARGE] == 0);
        MUST(madvise(p + 3 * LARGE, PAGE, REMOVE) == 0 && p[3 * LARGE] == 0);
    } else {
        FAILS(madvise(p + 2 * LARGE, LARGE, REMOVE), EACCES);
        FAILS(madvise(p + 3 * LARGE, PAGE, REMOVE), EACCES);
        MUST(p[2 * LARGE] == 3 && p[3 * LARGE] == 4);
    }
    MUST(madvise(p, LARGE, POPULATE_READ) == 0 && madvise(p, LARGE, POPULATE_WRITE) == 0);
    MUST(madvise(p + PAGE, PAGE, POPULATE_WRITE) == 0);
    FAILS(madvise(p, PAGE, DONTFORK), EINVAL);
    MUST(madvise(p, LARGE, DONTFORK) == 0 && madvise(p, LARGE, DOFORK) == 0);
    FAILS(madvise(p, LARGE, WIPEONFORK), EINVAL);
    FAILS(madvise(p, PAGE, WIPEONFORK), EINVAL);
    FAILS(madvise(p, PAGE, COLD), EINVAL);
    FAILS(madvise(p, LARGE, COLD), EINVAL);
    FAILS(madvise(p, LARGE, PAGEOUT), EINVAL);
    FAILS(madvise(p, PAGE, SEQUENTIAL), EINVAL);
    FAILS(madvise(p, PAGE, DONTDUMP), EINVAL);
    MUST(madvise(p, LARGE, WILLNEED) == 0 && madvise(p, PAGE, 0) == 0);
    MUST(mlock(p, PAGE) == 0 && mlock(p, LARGE) == 0 && munlock(p, LARGE) == 0 && mlock(p + PAGE, PAGE) == 0);
    MUST(munlock(p, 7 * LARGE) == 0);
}

// What a fork shares is copied by who writes first; who has it alone again does not copy, and neither sees what the other stores.
static void copies(char *p, int shared) {
    memset(p, 1, LARGE);
    for (int round = 0; round < 3; round++) {
        p[0] = 1, p[100] = 2, p[LARGE - 1] = 3;
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            MUST(p[0] == 1 && p[LARGE - 1] == 3);
            p[0] = 9;
            p[LARGE / 2] = 7;
            pid_t grandchild = fork();
            if (grandchild == 0) {
                p[1] = 5;
                _exit(p[0] != 9 || p[LARGE / 2] != 7);
            }
            int status;
            MUST(waitpid(grandchild, &status, 0) == grandchild && status == 0);
            MUST(p[1] == (shared ? 5 : 1) && p[3] == 1);
            _exit(0);
        }
        p[2 * PAGE] = 8;
        int status;
        MUST(waitpid(child, &status, 0) == child && status == 0);
        MUST(p[0] == (shared ? 9 : 1) && p[LARGE / 2] == (shared ? 7 : 1) && p[1] == (shared ? 5 : 1) && p[2 * PAGE] == 8);
        memset(p, 1, LARGE);
    }
}

static long blocks(int fd) {
    struct stat s;
    MUST(fstat(fd, &s) == 0 && s.st_blksize == LARGE);
    return s.st_blocks * 512;
}

static long size(int fd) {
    struct stat s;
    MUST(fstat(fd, &s) == 0);
    return s.st_size;
}

static void flags_of_files(void) {
    const unsigned good[] = {0, SIZE(21), SIZE(30), MFD_CLOEXEC, MFD_ALLOW_SEALING};
    for (int n = 0; n < 5; n++) {
        int fd = memfd_create("x", MFD_HUGETLB | good[n]);
        MUST(fd >= 0 && close(fd) == 0);
    }
    FAILS(memfd_create("x", MFD_HUGETLB | SIZE(20)), ENODEV);
    FAILS(memfd_create("x", MFD_HUGETLB | SIZE(63)), ENODEV);
    FAILS(memfd_create("x", SIZE(21)), EINVAL);
    FAILS(memfd_create("x", MFD_HUGETLB | 0x20), EINVAL);
}

static void file(void) {
    int fd = memfd_create("h", MFD_HUGETLB), dev = open("/dev/zero", O_RDWR), other = open("/tmp/h", O_RDWR | O_CREAT, 0600);
    MUST(fd >= 0 && dev >= 0 && other >= 0 && size(fd) == 0 && blocks(fd) == 0);
    struct statfs s;
    MUST(fstatfs(fd, &s) == 0 && (unsigned)s.f_type == 0x958458f6 && s.f_bsize == LARGE);
    FAILS(ftruncate(fd, PAGE), EINVAL);
    MUST(ftruncate(fd, LARGE) == 0);
    FAILS(ftruncate(fd, LARGE + 1), EINVAL);
    MUST(ftruncate(fd, 4 * LARGE) == 0 && size(fd) == 4 * LARGE && blocks(fd) == 0);
    char buf[16] = "abc";
    FAILS(write(fd, buf, 3), EINVAL);
    FAILS(pwrite(fd, buf, 3, 0), EINVAL);
    MUST(read(fd, buf, 3) == 3 && buf[0] == 0 && pread(fd, buf, 10, 4 * LARGE - 3) == 3);
    MUST(fallocate(fd, 0, 0, PAGE) == 0 && blocks(fd) == LARGE && size(fd) == 4 * LARGE);
    MUST(fallocate(fd, 3, 0, LARGE) == 0 && blocks(fd) == 0);
    FAILS(fallocate(fd, 0x10, 0, LARGE), EOPNOTSUPP);

    NOT_MAPPED(mmap(NULL, LARGE, RW, MAP_SHARED, fd, PAGE), EINVAL);
    NOT_MAPPED(mmap((void *)0x30001000, LARGE, RW, MAP_SHARED | MAP_FIXED, fd, 0), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, MAP_SHARED | MAP_HUGETLB, other, 0), EINVAL);
    NOT_MAPPED(mmap(NULL, LARGE, RW, MAP_SHARED | MAP_HUGETLB, 99, 0), EBADF);
    char *q = mmap(NULL, 4 * LARGE - PAGE, RW, MAP_SHARED, fd, 0);
    char *again = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_HUGETLB, fd, LARGE);
    MUST(q != MAP_FAILED && (long)q % LARGE == 0 && again != MAP_FAILED && (long)again % LARGE == 0);
    q[0] = 'z', q[LARGE + 5] = 'y';
    MUST(again[5] == 'y');
    MUST(pread(fd, buf, 1, 0) == 1 && buf[0] == 'z');
    // A large page, and one where small ones had been: that stays one of them.
    MUST(blocks(fd) > LARGE && blocks(fd) <= 2 * LARGE);
    MUST(q[4 * LARGE - 1] == 0);
    char *own = mmap(NULL, 2 * LARGE, RW, MAP_PRIVATE, fd, 0);
    MUST(own != MAP_FAILED && own[0] == 'z');
    own[0] = 'p';
    MUST(q[0] == 'z' && own[LARGE + 5] == 'y');
    q[LARGE + 6] = 'n';
    MUST(own[LARGE + 6] == 'n');
    MUST(ftruncate(fd, 2 * LARGE) == 0 && signal_of(q + 2 * LARGE, 0) == SIGBUS && q[LARGE + 5] == 'y');
    FAILS(munmap(q + PAGE, PAGE), EINVAL);
    FAILS(munmap(own + PAGE, PAGE), EINVAL);
    MUST(munmap(q, 4 * LARGE) == 0 && munmap(own, 2 * LARGE) == 0 && munmap(again, LARGE) == 0);
    MUST(blocks(fd) > LARGE && close(fd) == 0 && close(dev) == 0 && close(other) == 0 && unlink("/tmp/h") == 0);
}

int main(void) {
    catch_faults();
    for (int shared = 0; shared < 2; shared++) {
        int flags = MAP_ANONYMOUS | MAP_HUGETLB | (shared ? MAP_SHARED : MAP_PRIVATE);
        mapped(flags);
        char *p = mmap(NULL, 8 * LARGE, RW, flags, -1, 0);
        MUST(p != MAP_FAILED);
        for (int n = 0; n < 8; n++) p[n * LARGE] = n + 1;
        parts(p, shared);
        MUST(munmap(p, 8 * LARGE) == 0);
        MUST((p = mmap(NULL, 8 * LARGE, RW, flags, -1, 0)) != MAP_FAILED);
        for (int n = 0; n < 8; n++) p[n * LARGE] = n + 1;
        advice(p, shared);
        copies(p, shared);
        MUST(munmap(p, 8 * LARGE) == 0);
    }
    flags_of_files();
    file();
    return 0;
}
