// Locks and mremap: locks go with the pages, what was not locked is not locked by being moved, and what stays behind is not locked.
// build: gcc, musl
// oracle: linux
#define _GNU_SOURCE
#include "test.h"
#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static long locked(void) { return number_in("/proc/self/status", "VmLck: %ld"); }

// Is the mapping of an address locked?
static int is_locked(void *at) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    int here = 0, found = -1;
    while (found < 0 && fgets(line, sizeof line, smaps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = start <= (unsigned long)at && (unsigned long)at < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, " lo") != NULL;
    }
    fclose(smaps);
    return found;
}

// (Linux counts what stays in VmLck nevertheless, and where only a part of a mapping moves, unlocks all of it. That is not looked at.)

// Memory, written to, with nothing on either side.
static char *map(size_t pages) {
    char *memory = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
    mprotect(memory, pages * PAGE, PROT_READ | PROT_WRITE);
    for (size_t page = 0; page < pages; page++) memory[page * PAGE] = (char)(page + 1);
    return memory;
}

static int is_right(char *memory, size_t pages) {
    for (size_t page = 0; page < pages; page++)
        if (memory[page * PAGE] != (char)(page + 1)) return 0;
    return 1;
}

static void stays(size_t pages) {
    char *memory = map(pages);
    CHECK(mlock(memory, pages * PAGE) == 0);
    char *moved = mremap(memory, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(moved != MAP_FAILED);
    printf("%zu pages: locked there: %d, and here: %d\n", pages, is_locked(moved), is_locked(memory));
    printf("the same: %d, empty: %d\n", is_right(moved, pages), memory[0] == 0);
    CHECK(munmap(moved, pages * PAGE) == 0 && munmap(memory, pages * PAGE) == 0);
}

static void future(size_t pages, size_t more) {
    char *memory = map(pages), *place = map(pages + more);
    CHECK(mlockall(MCL_FUTURE) == 0);
    long before = locked();
    char *moved = mremap(memory, pages * PAGE, (pages + more) * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    CHECK(moved == place);
    printf("%zu pages, %zu more: locked: %d, %ld KiB more; the same: %d\n", pages, more, is_locked(moved), locked() - before, is_right(moved, pages));
    CHECK(munlockall() == 0);
    CHECK(munmap(moved, (pages + more) * PAGE) == 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    stays(4);
    stays(16);
    // An object of the process's own.
    stays(2560);
    future(4, 0);
    future(4, 12);
    future(2560, 0);
    return 0;
}
