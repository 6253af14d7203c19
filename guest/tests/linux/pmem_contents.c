// Contents of files that survive are as those of other files, read, written, mapped, cut off and allocated.
//
// build: gcc, musl
// nvdimm: 64M
// oracle: linux
#include "pmem.h"
#include <setjmp.h>
#include <sys/sendfile.h>
#define MIB (1ul << 20)
#define GIB (1ul << 30)

static sigjmp_buf back;

static void on_signal(int signal) { siglongjmp(back, signal); }

// What a byte is, or minus the signal that it costs to ask.
static int get(volatile char *at) {
    int signal = sigsetjmp(back, 1);
    return signal ? -signal : *at;
}

static int put(volatile char *at, char value) {
    int signal = sigsetjmp(back, 1);
    if (signal) return -signal;
    *at = value;
    return 0;
}

static long size_of(int fd) {
    struct stat s;
    return fstat(fd, &s) == 0 ? (long)s.st_size : -1;
}

static void reads_and_writes(void) {
    char text[32] = "";
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0644);
    SHOW(read(fd, text, 1));
    SHOW(write(fd, "0123456789", 10));
    SHOW(pwrite(fd, "x", 1, 8191));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(ftruncate(fd, 5));
    SHOW(ftruncate(fd, 20));
    SHOW(pread(fd, text, 32, 0));
    CHECK(memcmp(text, "01234\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20) == 0);
    int end = open("file", O_WRONLY | O_APPEND);
    SHOW(write(end, "end", 3));
    SHOW(read(end, text, 1));
    SHOW(pread(fd, text, 32, 20));
    printf("%.3s\n", text);
    SHOW(pread(fd, text, 1, 1 * GIB));
    int copy = open("copy", O_CREAT | O_RDWR, 0600);
    off_t from = 1, to = 3 * MIB - 2;
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(sendfile(copy, fd, NULL, 100));
    SHOW(syscall(SYS_copy_file_range, fd, &from, copy, &to, 4, 0));
    SHOW(pread(copy, text, 8, 3 * MIB - 4));
    CHECK(memcmp(text, "\0\0001234", 6) == 0);
    printf("%ld\n", size_of(copy));
    SHOW(fsync(fd));
    SHOW(fdatasync(end));
    SHOW(syncfs(fd));
    SHOW(unlink("copy"));
    SHOW(unlink("file"));
    SHOW(pwrite(end, "still", 5, 0));
    close(end), close(copy), close(fd);
}

static void allocation(void) {
    int fd = open("file", O_CREAT | O_RDWR, 0644);
    static char bytes[16 * PAGE], back[16 * PAGE];
    memset(bytes, 'b', sizeof bytes);
    SHOW(write(fd, bytes, sizeof bytes));
    SHOW(fallocate(fd, 0, 0, 100000));
    printf("%ld\n", size_of(fd));
    // A hole, with parts of pages at both ends; and one inside a page; and behind the end.
    SHOW(fallocate(fd, 3, 100, 2 * PAGE));
    SHOW(fallocate(fd, 3, 5 * PAGE + 7, 20));
    SHOW(fallocate(fd, 3, 99000, 1 * MIB));
    memset(bytes + 100, 0, 2 * PAGE);
    memset(bytes + 5 * PAGE + 7, 0, 20);
    SHOW(pread(fd, back, sizeof back, 0));
    CHECK(memcmp(bytes, back, sizeof back) == 0);
    printf("%ld\n", size_of(fd));
    SHOW(fallocate(fd, 2, 0, 1));
    SHOW(fallocate(fd, 0, 0, 0));
    SHOW(fallocate(fd, 0, -1, 1));
    SHOW(fallocate(fd, 8, 0, PAGE));
    SHOW(unlink("file"));
    close(fd);
}

static void mappings(void) {
    int fd = open("file", O_CREAT | O_RDWR, 0644);
    SHOW(ftruncate(fd, 8 * MIB + 100));
    char *all = mmap(NULL, 8 * MIB + 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SHOW(get(all + 5 * MIB));
    SHOW(put(all + 5 * MIB, 'x'));
    SHOW(get(all + 5 * MIB));
    SHOW(put(all + 8 * MIB + 99, 't'));
    SHOW(get(all + 8 * MIB + 4095));
    char text[8] = "";
    SHOW(pread(fd, text, 1, 5 * MIB));
    printf("%s\n", text);
    SHOW(pwrite(fd, "hello", 5, 3 * MIB - 2));
    printf("%.5s\n", all + 3 * MIB - 2);
    // Mappings at other addresses, one of them private.
    char *part = mmap(NULL, 64 * 1024, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 5 * MIB - 4 * PAGE);
    char *own = mmap(NULL, 64 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 5 * MIB);
    printf("%c %c\n", part[4 * PAGE], own[0]);
    part[4 * PAGE] = 'y';
    printf("%c %c\n", all[5 * MIB], own[0]);
    own[0] = 'z';
    printf("%c %c\n", all[5 * MIB], own[0]);
    IN_CHILD("child", {
        printf("%c %c %c\n", all[5 * MIB], part[4 * PAGE], own[0]);
        all[6 * MIB] = 'c';
        part[1] = 'd';
        own[0] = 'w';
    });
    printf("%c %c %c\n", all[6 * MIB], part[1], own[0]);
    // Parts of it change, are gone, and move.
    SHOW(mprotect(all + 2 * MIB, PAGE, PROT_READ));
    printf("%d %d %d\n", put(all + 2 * MIB, 1), get(all + 2 * MIB), put(all + 2 * MIB + PAGE, 2));
    SHOW(mprotect(all + 2 * MIB, PAGE, PROT_READ | PROT_WRITE));
    printf("%d %d\n", put(all + 2 * MIB, 1), get(all + 2 * MIB + PAGE));
    SHOW(munmap(all + 4 * MIB + PAGE, PAGE));
    printf("%d %d %c\n", put(all + 4 * MIB + PAGE, 1), put(all + 4 * MIB, 7), all[5 * MIB]);
    char *space = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(all + 6 * MIB, 2 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, space + 3 * PAGE);
    printf("%c %d\n", moved[0], get(all + 6 * MIB));
    SHOW(madvise(all, MIB, MADV_DONTNEED));
    printf("%.2s\n", all + 3 * MIB - 2);
    // The file is cut off, and grows again.
    SHOW(ftruncate(fd, 5 * MIB));
    printf("%d %d %d\n", get(all + 5 * MIB), get(part + 4 * PAGE), get(own));
    printf("%d %c %d\n", get(part), all[3 * MIB], put(all + 5 * MIB, 1));
    SHOW(ftruncate(fd, 8 * MIB));
    printf("%d %d\n", get(all + 5 * MIB), get(part + 4 * PAGE));
    SHOW(msync(all, PAGE, MS_SYNC));
    SHOW(unlink("file"));
    SHOW(put(all + 5 * MIB, 'u'));
    close(fd);
    printf("%c\n", all[5 * MIB]);
    SHOW(munmap(all, 8 * MIB + 100));
    SHOW(munmap(part, 64 * 1024));
    SHOW(munmap(space, 16 * MIB));
    SHOW(munmap(own, 64 * 1024));
}

static void holes(void) {
    int fd = open("file", O_CREAT | O_RDWR, 0644);
    char text[8] = "";
    SHOW(ftruncate(fd, 4 * GIB));
    SHOW(pwrite(fd, "end", 3, 4 * GIB - 3));
    SHOW(pread(fd, text, 8, 4 * GIB - 3));
    printf("%s\n", text);
    char *all = mmap(NULL, 4 * GIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    all[3 * GIB] = 'B';
    printf("%c %c %d\n", all[4 * GIB - 1], all[3 * GIB], all[1]);
    SHOW(fallocate(fd, 3, 3 * GIB - 100, 2 * PAGE));
    printf("%d\n", all[3 * GIB]);
    // Whoever dies with a mapping takes nothing along.
    pid_t child = fork();
    if (child == 0) {
        all[2 * GIB] = 'k';
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    printf("%c\n", all[2 * GIB]);
    SHOW(munmap(all, 4 * GIB));
    SHOW(unlink("file"));
    close(fd);
}

int main(void) {
    go_to_folder();
    signal(SIGBUS, on_signal);
    signal(SIGSEGV, on_signal);
    reads_and_writes();
    allocation();
    mappings();
    holes();
    leave_folder();
    return 0;
}
