// brk and sbrk.
// oracle: linux
#include "test.h"

int main(void) {
    char *start = sbrk(0);
    char *low = (char *)syscall(SYS_brk, 0);
    CHECK(low == start);
    char *end = start + 10 * PAGE;
    CHECK((char *)syscall(SYS_brk, end) == end);
    memset(start, 5, 10 * PAGE);
    printf("%d\n", end[-1]);
    CHECK((char *)syscall(SYS_brk, end - 5 * PAGE) == end - 5 * PAGE);
    CHECK((char *)syscall(SYS_brk, end) == end);
    printf("after shrinking and growing: %d %d\n", end[-5 * PAGE - 1], end[-1]);
    CHECK((char *)syscall(SYS_brk, 0x1000) == end);
    CHECK((char *)syscall(SYS_brk, ~0ul) == end);
    CHECK((char *)syscall(SYS_brk, end + 3) == end + 3);
    end[2] = 1;
    char *above = (char *)(((uintptr_t)end + 8 * PAGE) & ~(PAGE - 1));
    mmap(above, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK((char *)syscall(SYS_brk, above + PAGE) == end + 3);
    IN_CHILD("child", CHECK((char *)syscall(SYS_brk, end) == end));
    CHECK((char *)syscall(SYS_brk, 0) == end + 3);
    return 0;
}
