// Files of memfd_create and their seals: which may be added, what they refuse, and who is in their way.
// build: gcc, musl
// oracle: linux
// cores: 2
#include "test.h"
#include <sys/uio.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#define MFD_EXEC 0x10u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#define F_SEAL_WRITE 8
#endif

static int make(unsigned flags) { return syscall(SYS_memfd_create, "sealed", flags); }
static int sealed(int seals, long size) {
    int fd = make(MFD_ALLOW_SEALING);
    if (size) ftruncate(fd, size);
    if (seals) fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}
static long size_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? -1 : st.st_size;
}
static long mode_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? -1 : st.st_mode & 07777;
}
static char block[3 * PAGE];

static void flags(void) {
    char name[260];
    memset(name, 'n', sizeof name);
    SHOW(make(0x20));
    SHOW(make(0x80000000));
    SHOW(make(MFD_EXEC | MFD_NOEXEC_SEAL));
    SHOW(make(1u << 26));
    SHOW(make(MFD_HUGETLB | 5u << 26));
    SHOW(syscall(SYS_memfd_create, NULL, 0));
    SHOW(syscall(SYS_memfd_create, (void *)8, 0));
    name[250] = 0;
    SHOW(syscall(SYS_memfd_create, name, 0));
    name[249] = 0;
    SHOW(syscall(SYS_memfd_create, name, 0) >= 0);
    SHOW(syscall(SYS_memfd_create, "", 0) >= 0);
    int fd = make(0);
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(fcntl(fd, F_ADD_SEALS, 0));
    SHOW(mode_of(fd));
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL) & ~0100000);
    fd = make(MFD_CLOEXEC | MFD_ALLOW_SEALING);
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fcntl(fd, F_GETFD));
    SHOW(mode_of(fd));
    fd = make(MFD_EXEC);
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(mode_of(fd));
    fd = make(MFD_NOEXEC_SEAL);
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(mode_of(fd));
    SHOW(fchmod(fd, 0600));
    SHOW(fchmod(fd, 0700));
    SHOW(fchmod(fd, 0601));
    SHOW(mode_of(fd));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    SHOW(fcntl(fd, F_GET_SEALS));
}

static void adding(void) {
    int fd = make(MFD_ALLOW_SEALING);
    SHOW(fcntl(fd, F_ADD_SEALS, 0));
    SHOW(fcntl(fd, F_ADD_SEALS, 0x40));
    SHOW(fcntl(fd, F_ADD_SEALS, -1));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE));
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    SHOW(fcntl(fd, F_ADD_SEALS, 0x40));
    SHOW(fcntl(fd, F_GET_SEALS));
    // All of who has opened it, and a descriptor that can be written.
    int other = make(MFD_ALLOW_SEALING);
    char path[64];
    sprintf(path, "/proc/self/fd/%d", other);
    int reads = open(path, O_RDONLY), both = open(path, O_RDWR), writes = open(path, O_WRONLY), place = open(path, O_PATH);
    SHOW(fcntl(reads, F_ADD_SEALS, F_SEAL_GROW));
    SHOW(fcntl(reads, F_GET_SEALS));
    SHOW(fcntl(place, F_GET_SEALS));
    SHOW(fcntl(writes, F_ADD_SEALS, F_SEAL_GROW));
    SHOW(fcntl(both, F_GET_SEALS));
    SHOW(write(both, "x", 1));
    SHOW(write(writes, "x", 1));
    SHOW(ftruncate(both, 1));
    int dev = open("/dev/zero", O_RDWR), ends[2];
    pipe(ends);
    SHOW(fcntl(dev, F_GET_SEALS));
    SHOW(fcntl(ends[0], F_GET_SEALS));
    SHOW(fcntl(ends[1], F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(fcntl(999, F_GET_SEALS));
    int dir = open("/", O_RDONLY);
    SHOW(fcntl(dir, F_GET_SEALS));
    SHOW(fcntl(dir, F_ADD_SEALS, 0));
}

static void sizes(void) {
    int fd = sealed(F_SEAL_SHRINK, 2 * PAGE);
    SHOW(ftruncate(fd, PAGE));
    SHOW(ftruncate(fd, 2 * PAGE));
    SHOW(ftruncate(fd, 3 * PAGE));
    SHOW(fallocate(fd, 0, 0, 4 * PAGE));
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
    SHOW(size_of(fd));
    char path[64];
    sprintf(path, "/proc/self/fd/%d", fd);
    SHOW(open(path, O_RDWR | O_TRUNC));
    SHOW(truncate(path, 1));
    fd = sealed(F_SEAL_GROW, 2 * PAGE);
    SHOW(ftruncate(fd, 3 * PAGE));
    SHOW(ftruncate(fd, 2 * PAGE));
    SHOW(ftruncate(fd, PAGE + 100));
    SHOW(fallocate(fd, 0, 0, 2 * PAGE));
    SHOW(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 2 * PAGE));
    SHOW(fallocate(fd, 0, 0, PAGE));
    SHOW(pwrite(fd, block, 100, 0));
    SHOW(pwrite(fd, block, 3 * PAGE, 0));
    SHOW(pwrite(fd, block, PAGE, PAGE));
    SHOW(pwrite(fd, block, 100, PAGE));
    SHOW(pwrite(fd, block, 101, PAGE));
    SHOW(pwrite(fd, block, 1, 5 * PAGE));
    SHOW(lseek(fd, 10, SEEK_SET));
    SHOW(write(fd, block, 3 * PAGE));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(write(fd, block, 1));
    struct iovec parts[] = {{block, PAGE}, {block, PAGE}};
    SHOW(pwritev(fd, parts, 2, 0));
    SHOW(size_of(fd));
    fd = sealed(F_SEAL_GROW | F_SEAL_SHRINK, 0);
    SHOW(ftruncate(fd, 1));
    SHOW(write(fd, block, 1));
    SHOW(write(fd, block, 0));
}

static void writes(int seals) {
    printf("seals %#x\n", seals);
    int fd = make(MFD_ALLOW_SEALING), other = make(0), ends[2];
    ftruncate(fd, 2 * PAGE);
    pwrite(fd, "hello", 5, 0);
    pwrite(other, "other", 5, 0);
    pipe(ends);
    write(ends[1], "piped", 5);
    SHOW(fcntl(fd, F_ADD_SEALS, seals));
    SHOW(write(fd, "x", 1));
    SHOW(write(fd, "x", 0));
    SHOW(pwrite(fd, "x", 1, 0));
    SHOW(pwrite(fd, NULL, 1, 0));
    SHOW(pwrite(fd, "x", 1, 9 * PAGE));
    struct iovec part = {block, 1};
    SHOW(writev(fd, &part, 1));
    long at = 0;
    SHOW(splice(ends[0], NULL, fd, &at, 5, 0));
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
    SHOW(fallocate(fd, 0, 0, PAGE));
    SHOW(ftruncate(fd, PAGE));
    SHOW(ftruncate(fd, 2 * PAGE));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    char *seen = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    SHOW_PTR(seen);
    if (seen != MAP_FAILED) {
        SHOW(memcmp(seen, "hello", 5));
        SHOW(mprotect(seen, PAGE, PROT_READ | PROT_WRITE));
        SHOW(munmap(seen, PAGE));
    }
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    SHOW_PTR(own);
    own[0] = 'j';
    char back[6] = {0};
    SHOW(pread(fd, back, 5, 0));
    printf("%.5s %.5s\n", own, back);
    SHOW(munmap(own, PAGE));
    close(fd), close(other), close(ends[0]), close(ends[1]);
}

// Who has it mapped is in the way of the seal.
static void mapped(void) {
    int fd = sealed(0, 2 * PAGE);
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at[0] = 'a';
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW));
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(munmap(at, PAGE));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(mprotect(at + PAGE, PAGE, PROT_READ));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(munmap(at + PAGE, PAGE));
    // What is only read could be made writable.
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    munmap(at, PAGE);
    // A descriptor that only reads, and private memory, are not in the way.
    char path[64];
    sprintf(path, "/proc/self/fd/%d", fd);
    int reads = open(path, O_RDONLY);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reads, 0);
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    SHOW(at[0]);
    own[0] = 'b';
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(at[0]);
    SHOW(own[0]);
    SHOW(fcntl(fd, F_GET_SEALS));
    munmap(at, PAGE), munmap(own, PAGE);
    close(fd), close(reads);

    // Mapped by a child, which ends; by one that executes a program; closed and still mapped.
    fd = sealed(0, PAGE);
    at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int go[2];
    pipe(go);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(go[1]);
        read(go[0], &byte, 1);
        at[1] = 'c';
        _exit(0);
    }
    munmap(at, PAGE);
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    close(go[0]), close(go[1]);
    waitpid(child, NULL, 0);
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    char back[2];
    SHOW(pread(fd, back, 2, 0));
    SHOW(back[1]);
    close(fd);

    fd = sealed(0, PAGE);
    at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int second = dup(fd);
    close(fd);
    SHOW(fcntl(second, F_ADD_SEALS, F_SEAL_WRITE));
    // Mapped over, moved.
    at = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE);
    SHOW(fcntl(second, F_ADD_SEALS, F_SEAL_WRITE));
    mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    SHOW(fcntl(second, F_ADD_SEALS, F_SEAL_WRITE));
    close(second);
}

// Who has it mapped already may go on.
static void future(void) {
    int fd = sealed(0, PAGE);
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    at[0] = 'f';
    char back = 0;
    SHOW(pread(fd, &back, 1, 0));
    SHOW(back);
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    IN_CHILD("a child", {
        at[0] = 'g';
        SHOW_PTR(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    });
    SHOW(at[0]);
    SHOW(write(fd, "x", 1));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    munmap(at, PAGE);
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SHOW(fcntl(fd, F_GET_SEALS));
    close(fd);
    // The seal of those who may execute it comes with others.
    fd = sealed(0, PAGE);
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC));
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fchmod(fd, 0666));
    SHOW(fchmod(fd, 0700));
    SHOW(fchmod(fd, 0755));
    SHOW(mode_of(fd));
    close(fd);
    fd = sealed(0, PAGE);
    SHOW(fchmod(fd, 0600));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC));
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(write(fd, "x", 1));
    close(fd);
}

// Many files, of which every other one is sealed, written by children meanwhile.
static void many(void) {
    enum { FILES = 100 };
    int fds[FILES];
    long sealed_count = 0, refused = 0;
    for (int i = 0; i < FILES; i++) fds[i] = sealed(0, PAGE);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < FILES; i += 2) {
            char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
            at[0] = i;
        }
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    waitpid(child, NULL, WUNTRACED);
    for (int i = 0; i < FILES; i++) {
        if (fcntl(fds[i], F_ADD_SEALS, F_SEAL_WRITE) == 0) sealed_count++;
        else refused += errno == EBUSY;
    }
    SHOW(sealed_count);
    SHOW(refused);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    sealed_count = 0;
    for (int i = 0; i < FILES; i += 2) {
        char byte = 0;
        sealed_count += fcntl(fds[i], F_ADD_SEALS, F_SEAL_WRITE) == 0 && pread(fds[i], &byte, 1, 0) == 1 && byte == i;
        close(fds[i]);
    }
    SHOW(sealed_count);
}

static void shown(void) {
    int fd = make(MFD_ALLOW_SEALING);
    char path[64], name[64] = {0};
    sprintf(path, "/proc/self/fd/%d", fd);
    SHOW(readlink(path, name, sizeof name - 1));
    printf("%s\n", name);
    SHOW(lseek(fd, 5, SEEK_SET));
    SHOW(write(fd, "abc", 3));
    IN_CHILD("shared offset", { SHOW(write(fd, "def", 3)); });
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_SET));
    char back[16];
    SHOW(read(fd, back, sizeof back));
    SHOW(memcmp(back, "\0\0\0\0\0abcdef", 11));
}

int main(void) {
    flags();
    adding();
    sizes();
    writes(F_SEAL_WRITE);
    writes(F_SEAL_FUTURE_WRITE);
    mapped();
    future();
    many();
    shown();
    return 0;
}
