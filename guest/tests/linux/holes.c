// Which pages of files outside of /pmem have memory, as st_blocks and lseek tell it: of sparse files, after holes are made in
// every way, behind mappings, and of clones of nothing.
// oracle: linux
// build: gcc, musl
#include "test.h"

#ifndef WHERE
#define WHERE "/tmp"
#endif
#ifndef SEEK_DATA
#define SEEK_DATA 3
#define SEEK_HOLE 4
#endif
#define KEEP 1
#define PUNCH 2
#define COLLAPSE 8
#define INSERT 32
#ifndef MADV_REMOVE
#define MADV_REMOVE 9
#endif

static int fd;

static long blocks(void) {
    struct stat st;
    fstat(fd, &st);
    return st.st_blocks;
}

static void layout(const char *what) {
    struct stat st;
    fstat(fd, &st);
    printf("%s: %ld bytes, %ld blocks:", what, (long)st.st_size, (long)st.st_blocks);
    for (off_t at = 0;;) {
        off_t from = lseek(fd, at, SEEK_DATA);
        if (from < 0) {
            printf(" errno %d\n", errno);
            return;
        }
        off_t to = lseek(fd, from, SEEK_HOLE);
        printf(" [%ld, %ld)", (long)from, (long)to);
        at = to;
    }
}

static void all_of(void) {
    char page[PAGE];
    memset(page, 7, PAGE);
    layout("nothing");
    SHOW(ftruncate(fd, 100 * PAGE));
    layout("all zeros");
    SHOW(pwrite(fd, page, 100, 10 * PAGE + 50));
    layout("a page");
    for (int n = 20; n < 30; n++) pwrite(fd, page, PAGE, n * PAGE);
    layout("eleven");
    SHOW(lseek(fd, 10 * PAGE + 7, SEEK_DATA) == 10 * PAGE + 7);
    SHOW(lseek(fd, 10 * PAGE + 7, SEEK_HOLE) == 11 * PAGE);
    SHOW(lseek(fd, 12 * PAGE + 7, SEEK_HOLE) == 12 * PAGE + 7);
    SHOW(lseek(fd, 12 * PAGE + 7, SEEK_DATA) == 20 * PAGE);
    SHOW(lseek(fd, 0, SEEK_CUR) == 20 * PAGE);
    SHOW(lseek(fd, 100 * PAGE, SEEK_DATA));
    SHOW(lseek(fd, 100 * PAGE, SEEK_HOLE));
    SHOW(lseek(fd, -1, SEEK_HOLE));
    SHOW(fallocate(fd, PUNCH | KEEP, 22 * PAGE - 10, 2 * PAGE + 20));
    layout("punched");
    SHOW(pread(fd, page, PAGE, 21 * PAGE));
    CHECK(page[PAGE - 11] == 7 && page[PAGE - 10] == 0);
    SHOW(fallocate(fd, PUNCH, 0, PAGE));
    SHOW(fallocate(fd, COLLAPSE, 0, PAGE));
    SHOW(fallocate(fd, INSERT, 0, PAGE));
    // What is allocated and not written is a hole or not, as a file system likes.
    SHOW(fallocate(fd, 0, 50 * PAGE, 5 * PAGE));
    SHOW(blocks());
    SHOW(fallocate(fd, 0, 99 * PAGE, 2 * PAGE));
    SHOW(blocks());
    SHOW(lseek(fd, 0, SEEK_END) == 101 * PAGE);
    SHOW(ftruncate(fd, 25 * PAGE + 1));
    layout("cut");
    SHOW(ftruncate(fd, 100 * PAGE));
    layout("longer");
    SHOW(read(fd, page, 0));
    pread(fd, page, PAGE, 25 * PAGE);
    CHECK(page[0] == 7 && page[1] == 0);
    char *shown = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shown[60 * PAGE] = 1;
    layout("stored to");
    SHOW(madvise(shown + 20 * PAGE, 4 * PAGE, MADV_REMOVE));
    layout("removed");
    CHECK(shown[20 * PAGE] == 0 && shown[24 * PAGE + 100] == 7);
    SHOW(mprotect(shown + 24 * PAGE, PAGE, PROT_READ));
    SHOW(madvise(shown + 24 * PAGE, PAGE, MADV_REMOVE));
    layout("removed where it is read-only");
    SHOW_PTR(mmap(shown, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 10 * PAGE));
    SHOW(madvise(shown, PAGE, MADV_REMOVE));
    munmap(shown, 100 * PAGE);
    SHOW(ftruncate(fd, 0));
    layout("empty");
    SHOW(fallocate(fd, 0, 0, 1));
    SHOW(blocks());
    close(fd);
}

int main(void) {
    fd = open(WHERE "/holes", O_RDWR | O_CREAT | O_TRUNC, 0600);
    unlink(WHERE "/holes");
    all_of();
    fd = memfd_create("holes", 0);
    all_of();
    char *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(madvise(private, PAGE, MADV_REMOVE));
    char *shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 7, 3 * PAGE);
    if (fork() == 0) _exit(madvise(shared + PAGE, PAGE, MADV_REMOVE));
    int status;
    wait(&status);
    SHOW(status);
    CHECK(shared[0] == 7 && shared[PAGE] == 0 && shared[2 * PAGE] == 7);
    int with = MAP_SHARED_VALIDATE | 0x80000;
    fd = open(WHERE "/holes", O_RDWR | O_CREAT, 0600);
    unlink(WHERE "/holes");
    ftruncate(fd, PAGE);
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, with, fd, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_SHARED | 0x80000, fd, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE, fd, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0));
    return 0;
}
