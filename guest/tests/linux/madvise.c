// madvise and mincore.
// oracle: linux
#include "test.h"

int main(void) {
    char *p = pages(8, PROT_READ | PROT_WRITE);
    memset(p, 3, 8 * PAGE);
    SHOW(madvise(p + 2 * PAGE, 2 * PAGE, MADV_DONTNEED));
    printf("%d %d %d %d\n", p[PAGE], p[2 * PAGE], p[3 * PAGE], p[4 * PAGE]);
    SHOW(madvise(p, 8 * PAGE, MADV_NORMAL));
    SHOW(madvise(p, 8 * PAGE, MADV_WILLNEED));
    SHOW(madvise(p, 8 * PAGE, MADV_SEQUENTIAL));
    SHOW(madvise(p, 8 * PAGE, MADV_RANDOM));
    SHOW(madvise(p + 1, PAGE, MADV_DONTNEED));
    SHOW(madvise(p, PAGE, 12345));
    SHOW(madvise(p, 0, MADV_DONTNEED));
    SHOW(madvise((void *)0x10000, PAGE, MADV_DONTNEED));
    munmap(p + 4 * PAGE, PAGE);
    SHOW(madvise(p, 8 * PAGE, MADV_DONTNEED));
    printf("on both sides of a hole: %d %d\n", p[0], p[5 * PAGE]);
    char *fresh = pages(4, PROT_READ | PROT_WRITE);
    fresh[PAGE] = 1;
    unsigned char resident[4] = {9, 9, 9, 9};
    SHOW(mincore(fresh, 4 * PAGE, resident));
    printf("%d %d\n", resident[1] & 1, resident[2] & 1);
    SHOW(mincore(fresh + 1, PAGE, resident));
    SHOW(mincore(p + 4 * PAGE, PAGE, resident));
    SHOW(mincore(fresh, PAGE, (void *)8));
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *shared = 4;
    SHOW(madvise(shared, PAGE, MADV_DONTNEED));
    printf("shared memory keeps its contents: %d\n", *shared);
    SHOW(madvise(fresh, 4 * PAGE, MADV_DONTFORK));
    return 0;
}
