// What does fork cost a process that has written 0 to 128 MiB, and what the writes after it?
#include "bench.h"

enum { REPEATS = 9 };

static void forks(size_t mib) {
    size_t pages = mib * MIB / PAGE;
    char *at = pages ? map(pages) : NULL;
    uint64_t whole[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        for (size_t page = 0; page < pages; page++) at[page * PAGE] = i;
        uint64_t from = ticks();
        pid_t child = fork();
        if (child == 0) _exit(pages && at[(pages - 1) * PAGE] != i);
        sample(ticks() - from);
        wait_for(child);
        whole[i] = ticks() - from;
    }
    report("until_the_parent_returns", 1, "at=%zu:MiB", mib);
    for (int i = 0; i < REPEATS; i++) sample(whole[i]);
    report("with_exit_and_wait", 1, "at=%zu:MiB", mib);
    if (pages) unmap(at, pages);
}

// Counts pages that begin with something else.
static int others(volatile char *at, int pages, char value) {
    int count = 0;
    for (int page = 0; page < pages; page++) count += at[page * PAGE] != value;
    return count;
}

static void writes(void) {
    enum { PAGES = 256, HALF = PAGES / 2 };
    volatile char *at = map(PAGES);
    uint64_t reuse[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        int ends[2];
        expect("pipe", pipe(ends), 0);
        for (int page = 0; page < PAGES; page++) at[page * PAGE] = i;
        pid_t child = fork();
        char go;
        if (child == 0) {
            // Still sees what was there at the fork.
            read(ends[0], &go, 1);
            _exit(others(at, PAGES, i));
        }
        // The second half is written when nobody else has it any more.
        uint64_t from = ticks();
        for (int page = 0; page < HALF; page++) at[page * PAGE] = 77;
        sample(ticks() - from);
        write(ends[1], "x", 1);
        wait_for(child);
        from = ticks();
        for (int page = HALF; page < PAGES; page++) at[page * PAGE] = 77;
        reuse[i] = ticks() - from;
        expect("pages not written", others(at, PAGES, 77), 0);
        close(ends[0]);
        close(ends[1]);
    }
    report("write_after_fork:_copy,_per_page", HALF, "");
    for (int i = 0; i < REPEATS; i++) sample(reuse[i]);
    report("write_after_fork:_reuse,_per_page", HALF, "");
}

int main(void) {
    calibrate();
    static const size_t sizes[] = {0, 1, 16, 128};
    for (int i = 0; i < 4; i++) forks(sizes[i]);
    writes();
}
