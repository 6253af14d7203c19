// mmap, munmap, mprotect: results, errors, and what is left mapped.
// oracle: linux
#include "test.h"

// One letter a page: - not mapped, 0 not readable or r. Asks by a system call, not by a fault.
static void map_of(const char *what, char *from, int count) {
    printf("%s: ", what);
    for (int i = 0; i < count; i++) {
        unsigned char resident;
        int mapped = mincore(from + i * PAGE, PAGE, &resident) == 0;
        putchar(mapped ? 'm' : '-');
    }
    putchar('\n');
}

static void errors(char *p) {
    SHOW_PTR(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 99, 0));
    SHOW_PTR(mmap(NULL, ~0ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW_PTR(mmap(NULL, 1ul << 47, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW_PTR(mmap(p + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    SHOW_PTR(mmap((void *)(1ul << 47), PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    SHOW_PTR(mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    SHOW_PTR(syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 1));
    SHOW(munmap(p + 1, PAGE));
    SHOW(munmap(p, 0));
    SHOW(munmap((void *)~0xffful, PAGE));
    SHOW(syscall(SYS_mprotect, p + 1, PAGE, PROT_READ)); // musl's own would round
    SHOW(mprotect(p, 0, PROT_READ));
    SHOW(mprotect(p, PAGE, 0x100));
    SHOW(mprotect((void *)0x10000, PAGE, PROT_READ));
}

int main(void) {
    char *p = pages(16, PROT_READ | PROT_WRITE);
    errors(p);
    memset(p, 1, 16 * PAGE);
    map_of("whole", p, 16);
    SHOW(munmap(p + 4 * PAGE, 2 * PAGE));
    map_of("hole", p, 16);
    SHOW(munmap(p + 3 * PAGE, 4 * PAGE));
    map_of("wider hole", p, 16);
    SHOW(munmap(p + 3 * PAGE, 4 * PAGE));
    SHOW(munmap(p + 8 * PAGE, 1));
    map_of("length is rounded up", p, 16);
    SHOW(mprotect(p, 16 * PAGE, PROT_READ));
    SHOW(mprotect(p, 3 * PAGE, PROT_READ | PROT_WRITE));
    SHOW_PTR(mmap(p + 2 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    map_of("fixed over half a hole", p, 16);
    printf("%d %d %d %d\n", p[PAGE], p[2 * PAGE], p[4 * PAGE], p[9 * PAGE]);
    char *hint = p + 5 * PAGE;
    CHECK(mmap(hint, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == hint);
    CHECK(mmap(hint, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != hint);
    SHOW(munmap(p, 16 * PAGE));
    map_of("gone", p, 16);
    char *shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    IN_CHILD("shared", { shared[PAGE] = 7; });
    printf("%d\n", shared[PAGE]);
    return 0;
}
