// Vectors, sendfile, copy_file_range, memfd, statx, fallocate: moving bytes between files.
// oracle: linux
// build: gcc, pie
#include "test.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { SIZE = 3 << 20 };
static unsigned char big[SIZE], back[SIZE];

static unsigned sum(const unsigned char *p, long count) {
    unsigned total = 0;
    for (long i = 0; i < count; i++) total = total * 31 + p[i];
    return total;
}

static void vectors(int fd) {
    struct iovec parts[3] = {{big, 10}, {big + 100, 4096}, {big + 9000, 70000}};
    SHOW(pwritev(fd, parts, 3, 5));
    struct iovec other[3] = {{back, 4000}, {NULL, 0}, {back + 5000, 80000}};
    SHOW(preadv(fd, other, 3, 0));
    printf("%u %u\n", sum(back, 4000), sum(back + 5000, 70111));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(preadv(fd, other, 3, -1));
    other[0].iov_base = (void *)1;
    SHOW(preadv(fd, other, 3, 0));
    SHOW(syscall(SYS_readv, fd, 1, 1));
    SHOW(syscall(SYS_readv, fd, other, 1025));
    other[0].iov_len = -1;
    SHOW(readv(fd, other, 1));
}

static void holes(int fd) {
    SHOW(ftruncate(fd, 0));
    SHOW(pwrite(fd, "end", 3, 1000000));
    memset(back, 1, SIZE);
    SHOW(pread(fd, back, SIZE, 0));
    printf("%u\n", sum(back, 1000003));
    SHOW(pwrite(fd, "middle", 6, 499998));
    SHOW(pread(fd, back, SIZE, 3));
    printf("%u\n", sum(back, 1000000));
    SHOW(ftruncate(fd, 500000));
    SHOW(ftruncate(fd, 600000));
    SHOW(pread(fd, back, SIZE, 499990));
    printf("%u\n", sum(back, 100010));
    SHOW(fallocate(fd, 0, 600000, 1));
    SHOW(lseek(fd, 0, SEEK_END));
}

static void copying(int fd) {
    SHOW(ftruncate(fd, 0));
    SHOW(pwrite(fd, big, SIZE, 0));
    int copy = open("copy", O_CREAT | O_TRUNC | O_RDWR, 0600);
    SHOW(lseek(fd, 100, SEEK_SET));
    SHOW(sendfile(copy, fd, NULL, 1000000));
    off_t at = SIZE - 10;
    SHOW(sendfile(copy, fd, &at, 100));
    SHOW(at == SIZE);
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(copy, 0, SEEK_CUR));
    SHOW(pread(copy, back, SIZE, 0));
    printf("%u %u\n", sum(back, 1000010), sum(big + 100, 1000000));
    off_t in = 0, out = 7;
    SHOW(copy_file_range(fd, &in, copy, &out, SIZE, 0));
    printf("%ld %ld\n", (long)in, (long)out);
    SHOW(pread(copy, back, SIZE, 7));
    printf("%u %u\n", sum(back, SIZE), sum(big, SIZE));
    int ends[2];
    pipe(ends);
    SHOW(sendfile(ends[1], fd, &(off_t){0}, 5000));
    SHOW(read(ends[0], back, 10000));
    printf("%u %u\n", sum(back, 5000), sum(big, 5000));
    SHOW(copy_file_range(fd, NULL, ends[1], NULL, 10, 0));
    SHOW(sendfile(fd, 99, NULL, 10));
    close(ends[0]), close(ends[1]), close(copy);
}

static void pieces(void) {
    int fd = open("pieces", O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
    long at = 0;
    for (long size = 1; at + size < SIZE; size = size * 5 / 4 + 1, at += size)
        if (write(fd, big + at, size) != size) puts("short");
        else pwrite(fd, "", 0, 0), at += 0;
    struct stat st;
    fstat(fd, &st);
    printf("%ld\n", (long)st.st_size);
    long total = 0, count;
    lseek(fd, 0, SEEK_SET);
    while ((count = read(fd, back + total, 777 + total % 5000)) > 0) total += count;
    printf("%ld %u\n", total, sum(back, total));
    close(fd);
}

int main(void) {
    for (int i = 0; i < SIZE; i++) big[i] = i * 2654435761u >> 24;
    int fd = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
    vectors(fd);
    holes(fd);
    copying(fd);
    pieces();
    int mem = memfd_create("name", MFD_CLOEXEC);
    SHOW(write(mem, big, 5000));
    SHOW(pread(mem, back, 6000, 1000));
    printf("%u\n", sum(back, 4000));
    struct statx found;
    SHOW(statx(mem, "", AT_EMPTY_PATH, STATX_SIZE, &found));
    printf("%d %d\n", (int)found.stx_size, (int)found.stx_nlink);
    SHOW(statx(-1, "", AT_EMPTY_PATH, STATX_SIZE, &found));
    SHOW(statx(AT_FDCWD, "none", 0, STATX_SIZE, &found));
    SHOW(memfd_create("name", 1 << 10));
    return 0;
}
