// mremap: growing, shrinking, moving, and its errors.
// oracle: linux
#include "test.h"

static int mapped(char *at) {
    unsigned char resident;
    return mincore(at, PAGE, &resident) == 0;
}

int main(void) {
    char *p = pages(8, PROT_READ | PROT_WRITE);
    for (int i = 0; i < 8; i++) p[i * PAGE] = i + 1;
    CHECK(mremap(p, 8 * PAGE, 4 * PAGE, 0) == p);
    printf("%d %d %d\n", mapped(p + 3 * PAGE), mapped(p + 4 * PAGE), mapped(p + 7 * PAGE));
    CHECK(mremap(p, 4 * PAGE, 6 * PAGE, 0) == p);
    printf("%d %d %d\n", p[3 * PAGE], p[4 * PAGE], p[5 * PAGE]);
    mmap(p + 6 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    SHOW_PTR(mremap(p, 6 * PAGE, 7 * PAGE, 0));
    char *moved = mremap(p, 6 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != p);
    printf("%d %d %d\n", moved[0], moved[3 * PAGE], moved[31 * PAGE]);
    printf("old place: %d %d\n", mapped(p), mapped(p + 5 * PAGE));
    char *target = pages(4, PROT_READ);
    CHECK(mremap(moved, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    printf("%d %d, %d %d\n", target[0], target[PAGE], mapped(moved), mapped(moved + 2 * PAGE));
    target[0] = 9;
    CHECK(mremap(target, PAGE, PAGE, 0) == target);
    SHOW_PTR(mremap(target, PAGE, 0, 0));
    SHOW_PTR(mremap(target + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    SHOW_PTR(mremap(target, PAGE, 2 * PAGE, 8));
    SHOW_PTR(mremap(target, PAGE, PAGE, MREMAP_FIXED, target + PAGE));
    SHOW_PTR(mremap(target, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target + PAGE));
    SHOW_PTR(mremap((void *)0x10000, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    char *two = pages(2, PROT_READ | PROT_WRITE);
    mprotect(two, PAGE, PROT_READ);
    SHOW_PTR(mremap(two, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE));
    return 0;
}
