// Memory that is passed while most of it has left for the disk: it passes as it is, in each mode, and all that is read is what was written.
//
// build: gcc
// mem: 64M
// swap: 256M
// timeout: 400
// expect-stdout: passed\n
#include "passing.h"

enum { RW = PROT_READ | PROT_WRITE, COUNT = 56 << 8, SMALL = 300 };

// Each page says which it is.
static void number(char *at, size_t count, long first) {
    for (size_t n = 0; n < count; n++) *(long *)(at + n * PAGE) = first + (long)n, *(long *)(at + n * PAGE + 2000) = ~(first + (long)n);
}
static int is_numbered(const char *at, size_t count, long first) {
    for (size_t n = 0; n < count; n++) {
        const char *page = at + n * PAGE;
        if (*(const long *)page != first + (long)n || *(const long *)(page + 2000) != ~(first + (long)n)) return 0;
    }
    return 1;
}

static void passes(int how, size_t count) {
    char *at = pages(count, RW);
    number(at, count, how * 1000000);
    MUST(madvise(at, count * PAGE, MADV_PAGEOUT) == 0);
    uint64_t offset;
    int fd = export_range(how, at, count * PAGE, &offset);
    MUST(fd >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (how != PASS_DONATE) MUST(munmap(at, count * PAGE) == 0);
        char *got = import_range(how == PASS_DONATE ? PASS_TAKE : PASS_IMPORT, fd, count * PAGE, offset);
        MUST(got != MAP_FAILED);
        MUST(is_numbered(got, count, how * 1000000));
        number(got, count, 50000000);
        MUST(is_numbered(got, count, 50000000));
        _exit(0);
    }
    CHILD_IS_WELL(pid);
    if (how != PASS_DONATE) {
        MUST(is_numbered(at, count, how * 1000000));
        MUST(munmap(at, count * PAGE) == 0);
    }
    close(fd);
}

int main(void) {
    for (int how = PASS_SHARE; how <= PASS_DONATE; how++) {
        passes(how, SMALL);
        passes(how, COUNT);
    }
    puts("passed");
}
