// A memory disk is a block device: its size stays, nothing is behind its end, and whoever opens it sees the same bytes.
//
// On Linux it is recorded with a loop device of 64 KiB: TEST_DISK=/dev/loop0 ./a.out
//
// build: gcc, musl
// kernel: md=65536
#include "test.h"
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
// Of linux/fs.h, which not every C library has.
#define BLKROGET _IO(0x12, 94)
#define BLKGETSIZE _IO(0x12, 96)
#define BLKFLSBUF _IO(0x12, 97)
#define BLKSSZGET _IO(0x12, 104)
#define BLKBSZGET _IOR(0x12, 112, size_t)
#define BLKGETSIZE64 _IOR(0x12, 114, size_t)
#define BLKPBSZGET _IO(0x12, 123)

enum { BYTES = 65536 };

static const char *disk;
static char text[2 * BYTES], got[2 * BYTES];
static char *volatile nowhere = (char *)8;

static void names(int fd) {
    struct stat by_name, by_fd;
    SHOW(stat(disk, &by_name));
    SHOW(fstat(fd, &by_fd));
    printf("block %d %d, size %ld, blocks %ld, same %d\n", S_ISBLK(by_name.st_mode), S_ISBLK(by_fd.st_mode),
           (long)by_fd.st_size, (long)by_fd.st_blocks, by_fd.st_rdev == by_name.st_rdev);
    printf("mode %o, group %d\n", by_name.st_mode & 0777, (int)by_name.st_gid);
    SHOW(fcntl(fd, F_GETFL) & O_ACCMODE);
}

static void ends(int fd) {
    memset(text, 'x', sizeof text);
    SHOW(pwrite(fd, text, BYTES, 0));
    SHOW(pwrite(fd, text, 100, BYTES - 10));
    SHOW(pwrite(fd, text, 1, BYTES));
    SHOW(pwrite(fd, text, 0, BYTES));
    SHOW(pwrite(fd, text, 1, 10 * BYTES));
    SHOW(pwrite(fd, text, 0, 10 * BYTES));
    SHOW(pwrite(fd, text, 1, -1));
    SHOW(pwrite(fd, text, 2 * BYTES, 0));
    SHOW(pread(fd, got, 100, BYTES - 10));
    SHOW(pread(fd, got, 100, BYTES));
    SHOW(pread(fd, got, 100, 10 * BYTES));
    SHOW(pread(fd, got, 2 * BYTES, 0));
    SHOW(pread(fd, got, 1, -1));
    SHOW(memcmp(text, got, BYTES));
    SHOW(pwrite(fd, nowhere, 10, 0));
    SHOW(pread(fd, nowhere, 10, 0));
    SHOW(pread(fd, nowhere, 10, BYTES));
    SHOW(pwrite(fd, nowhere, 10, BYTES));
}

static void positions(int fd) {
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(read(fd, got, 10));
    SHOW(write(fd, text, 10));
    SHOW(write(fd, text, 0));
    SHOW(lseek(fd, -3, SEEK_END));
    SHOW(write(fd, "abcdef", 6));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, -3, SEEK_CUR));
    SHOW(read(fd, got, 10));
    printf("%.3s\n", got);
    SHOW(lseek(fd, 1, SEEK_END));
    SHOW(lseek(fd, BYTES, SEEK_SET));
    SHOW(lseek(fd, BYTES + 1, SEEK_SET));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 1, SEEK_CUR));
    SHOW(lseek(fd, -(BYTES + 1), SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_DATA));
    SHOW(lseek(fd, 0, SEEK_HOLE));
    SHOW(lseek(fd, 0, 9));
    SHOW(lseek(fd, 100, SEEK_SET));
    struct iovec parts[] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
    SHOW(writev(fd, parts, 3));
    SHOW(pread(fd, got, 13, 100));
    printf("%.13s\n", got);
    // Both sides of a fork have one offset.
    IN_CHILD("child", { lseek(fd, 200, SEEK_SET); write(fd, "child", 5); });
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(pread(fd, got, 5, 200));
    printf("%.5s\n", got);
}

static void opened(void) {
    int fd = open(disk, O_RDWR | O_TRUNC);
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(pread(fd, got, 5, 200));
    printf("%.5s\n", got);
    close(fd);
    fd = open(disk, O_WRONLY | O_APPEND);
    SHOW(write(fd, "start", 5));
    SHOW(read(fd, got, 5));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);
    fd = open(disk, O_RDONLY);
    SHOW(read(fd, got, 5));
    printf("%.5s\n", got);
    SHOW(write(fd, got, 5));
    close(fd);
    errno = 0;
    SHOW(open(disk, O_RDWR | O_CREAT | O_EXCL, 0600));
    SHOW(open(disk, O_RDONLY | O_DIRECTORY));
    char below[100];
    snprintf(below, sizeof below, "%s/x", disk);
    SHOW(open(below, O_RDONLY));
    fd = open(disk, O_WRONLY);
    unsigned long long bytes = 0;
    SHOW(ioctl(fd, BLKGETSIZE64, &bytes));
    SHOW(write(fd, text, 3));
    close(fd);
}

static void told(int fd) {
    unsigned long sectors = 0;
    unsigned long long bytes = 0;
    int number = -1;
    SHOW(ioctl(fd, BLKGETSIZE, &sectors));
    SHOW(ioctl(fd, BLKGETSIZE64, &bytes));
    printf("%lu sectors, %llu bytes\n", sectors, bytes);
    SHOW(ioctl(fd, BLKSSZGET, &number));
    printf("%d\n", number);
    number = -1;
    SHOW(ioctl(fd, BLKROGET, &number));
    printf("%d\n", number);
    // What it is differs from device to device.
    SHOW(ioctl(fd, BLKPBSZGET, &number));
    SHOW(ioctl(fd, BLKBSZGET, &number));
    SHOW(ioctl(fd, BLKFLSBUF));
    SHOW(ioctl(fd, BLKGETSIZE64, nowhere));
}

static void refused(int fd) {
    SHOW(ftruncate(fd, 100));
    SHOW(truncate(disk, 100));
    SHOW(fallocate(fd, 0, 0, 100));
    SHOW(fallocate(fd, 0, 0, 4096));
    SHOW(readahead(fd, 0, 4096));
    SHOW(fsync(fd));
    SHOW(fdatasync(fd));
    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    close(set);
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    SHOW(poll(&one, 1, 0));
    printf("%x\n", one.revents);
    SHOW(syscall(SYS_getdents64, fd, got, sizeof got));
    int file = open("/tmp/of_a_disk", O_CREAT | O_RDWR | O_TRUNC, 0600);
    off_t from = 0;
    SHOW(copy_file_range(fd, &from, file, NULL, 100, 0));
    SHOW(copy_file_range(file, &from, fd, NULL, 100, 0));
    from = 200;
    SHOW(sendfile(file, fd, &from, 5));
    SHOW(pread(file, got, 100, 0));
    printf("%.5s\n", got);
    from = 1;
    SHOW(lseek(fd, 300, SEEK_SET));
    SHOW(sendfile(fd, file, &from, 4));
    SHOW(pread(fd, got, 4, 300));
    printf("%.4s\n", got);
    SHOW(flock(fd, LOCK_EX));
    int other = open(disk, O_RDONLY);
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    close(other);
    SHOW(flock(fd, LOCK_UN));
    close(file);
    unlink("/tmp/of_a_disk");
}

static void mapped(int fd) {
    char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    SHOW(shared == MAP_FAILED || own == MAP_FAILED);
    strcpy(shared + 2 * PAGE, "shared");
    SHOW(pread(fd, got, 6, 2 * PAGE));
    printf("%.6s, %.6s\n", got, own + 2 * PAGE);
    strcpy(own + 2 * PAGE, "private");
    pread(fd, got, 6, 2 * PAGE);
    printf("%.6s, %.6s, %.6s\n", got, shared + 2 * PAGE, own + 2 * PAGE);
    SHOW(pwrite(fd, "written", 7, 3 * PAGE));
    printf("%.7s, %.7s\n", shared + 3 * PAGE, own + 3 * PAGE);
    SHOW(msync(shared, BYTES, MS_SYNC));
    IN_CHILD("child", { strcpy(shared + 5 * PAGE, "of a child"); strcpy(own + 5 * PAGE, "nobody sees"); });
    printf("%s, %s\n", shared + 5 * PAGE, own + 5 * PAGE);
    munmap(shared, BYTES), munmap(own, BYTES);
    char *behind = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, BYTES - PAGE);
    SHOW(behind == MAP_FAILED);
    printf("%c\n", behind[PAGE - 1]);
    IN_CHILD("behind the end", { printf("%c\n", behind[PAGE]); });
    munmap(behind, 2 * PAGE);
    int reader = open(disk, O_RDONLY), writer = open(disk, O_WRONLY);
    errno = 0;
    SHOW(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, reader, 0) == MAP_FAILED);
    printf("errno %d\n", errno);
    SHOW(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, writer, 0) == MAP_FAILED);
    printf("errno %d\n", errno);
    close(reader), close(writer);
}

static void direct(void) {
    char *buffer = aligned_alloc(PAGE, 2 * PAGE);
    memset(buffer, 'd', 2 * PAGE);
    int fd = open(disk, O_RDWR | O_DIRECT);
    SHOW(!!(fcntl(fd, F_GETFL) & O_DIRECT));
    SHOW(pwrite(fd, buffer, PAGE, 4 * PAGE));
    SHOW(pwrite(fd, buffer, 512, 512));
    SHOW(pwrite(fd, buffer, 100, 0));
    SHOW(pwrite(fd, buffer, 512, 100));
    SHOW(pread(fd, buffer, 100, 0));
    SHOW(pread(fd, buffer, 512, 1));
    SHOW(pread(fd, buffer, PAGE, 4 * PAGE));
    SHOW(pread(fd, buffer, 2 * PAGE, BYTES - PAGE));
    SHOW(pread(fd, buffer, PAGE, BYTES));
    SHOW(pwrite(fd, buffer, PAGE, BYTES));
    SHOW(pwrite(fd, buffer, 2 * PAGE, BYTES - PAGE));
    SHOW(lseek(fd, 512, SEEK_SET));
    SHOW(read(fd, buffer, 512));
    printf("%c\n", buffer[0]);
    SHOW(read(fd, buffer, 1));
    SHOW(write(fd, buffer, 1));
    SHOW(write(fd, buffer, 512));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);
    free(buffer);
}

static void others(int fd) {
    struct stat stat_of;
    fstat(fd, &stat_of);
    // Another name of the device is the same device.
    unlink("/tmp/other_disk");
    SHOW(mknod("/tmp/other_disk", S_IFBLK | 0600, stat_of.st_rdev));
    int other = open("/tmp/other_disk", O_RDONLY);
    SHOW(pread(other, got, 5, 200));
    printf("%.5s\n", got);
    close(other);
    SHOW(mknod("/tmp/no_disk", S_IFBLK | 0600, makedev(42, 7)));
    SHOW(open("/tmp/no_disk", O_RDONLY));
    unlink("/tmp/no_disk");
    // Nobody but root and the group, and by a name of their own neither.
    IN_CHILD("somebody", {
        setresgid(1000, 1000, 1000), setgroups(0, NULL), setresuid(1000, 1000, 1000);
        SHOW(open(disk, O_RDONLY));
        SHOW(open(disk, O_RDWR));
        SHOW(open("/tmp/other_disk", O_RDONLY));
        SHOW(mknod("/tmp/own_disk", S_IFBLK | 0600, stat_of.st_rdev));
        SHOW(ioctl(fd, BLKFLSBUF));
        SHOW(pread(fd, got, 5, 200));
    });
    IN_CHILD("of the group", {
        setresgid(stat_of.st_gid, stat_of.st_gid, stat_of.st_gid), setresuid(1000, 1000, 1000);
        int own = open(disk, O_RDWR);
        SHOW(pwrite(own, "group", 5, 200));
    });
    SHOW(pread(fd, got, 5, 200));
    printf("%.5s\n", got);
    unlink("/tmp/other_disk");
}

int main(void) {
    disk = access("/dev/ram0", F_OK) == 0 ? "/dev/ram0" : getenv("TEST_DISK");
    int fd = disk ? open(disk, O_RDWR) : -1;
    if (fd < 0) return perror(disk ? disk : "no disk"), 1;
    names(fd), ends(fd), positions(fd), opened(), told(fd), refused(fd), mapped(fd), direct(), others(fd);
}
