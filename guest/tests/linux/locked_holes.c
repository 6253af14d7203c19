// mlock, mlock2 and munlock over what is not mapped: done up to there, and ENOMEM.
// build: gcc, musl
// oracle: linux
#define _GNU_SOURCE
#include "test.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGES = 12, HOLE = 5, HOLE_END = 8 };

static long locked(void) { return number_in("/proc/self/status", "VmLck: %ld"); }

static char *memory;

/* Pages 0 to 4 and 8 to 11 are mapped, with nothing between and around them. */
static void map(int flags) {
    memory = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    munmap(memory + HOLE * PAGE, (HOLE_END - HOLE) * PAGE);
    munmap(memory + PAGES * PAGE, PAGE);
}

static void say(const char *what, int result) {
    printf("%s: %d, %ld KiB\n", what, result == 0 ? 0 : errno, locked());
}

static int present(int page) {
    unsigned char here = 0;
    return mincore(memory + page * PAGE, PAGE, &here) ? -1 : here & 1;
}

int main(void) {
    for (int shared = 0; shared < 2; shared++) {
        printf("%s\n", shared ? "shared" : "private");
        map(shared ? MAP_SHARED : MAP_PRIVATE);
        say("from the third page on", mlock(memory + 2 * PAGE, (PAGES - 2) * PAGE));
        printf("touched: %d%d%d\n", present(1), present(2), present(4));
        say("again", mlock(memory + 2 * PAGE, (PAGES - 2) * PAGE));
        say("from the hole on", mlock(memory + HOLE * PAGE, (PAGES - HOLE) * PAGE));
        say("the second part", mlock(memory + HOLE_END * PAGE, (PAGES - HOLE_END) * PAGE));
        say("unlocked over the hole", munlock(memory + PAGE, (PAGES - 1) * PAGE));
        say("when touched, over the hole", syscall(SYS_mlock2, memory, PAGES * PAGE, 1));
        say("over the end", munlock(memory + HOLE_END * PAGE, (PAGES - HOLE_END + 1) * PAGE));
        say("nothing", mlock(memory + HOLE * PAGE, 0));
        say("a byte of the hole", mlock(memory + HOLE * PAGE, 1));
        say("what there is", munlock(memory, HOLE * PAGE));
        munmap(memory, PAGES * PAGE);
    }
    return 0;
}
