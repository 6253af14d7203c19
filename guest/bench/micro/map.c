// What do mmap and munmap cost, of regions that nobody touches and of populated ones?
#include "bench.h"

static char *populated(size_t pages) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    expect("mmap(MAP_POPULATE) failed", at == MAP_FAILED, 0);
    return at;
}

static void untouched(size_t pages) {
    for (int i = 0; i < 51; i++) {
        uint64_t from = ticks();
        char *at = map(pages);
        unmap(at, pages);
        sample(ticks() - from);
    }
    report("mmap_and_munmap,_untouched", 1, "at=%zu:pages", pages);
}

static void full(size_t pages) {
    enum { REPEATS = 15 };
    uint64_t unmaps[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        char *at = populated(pages);
        sample(ticks() - from);
        expect("the last byte", at[pages * PAGE - 1], 0);
        from = ticks();
        unmap(at, pages);
        unmaps[i] = ticks() - from;
    }
    report("mmap,_populating", 1, "at=%zu:pages", pages);
    for (int i = 0; i < REPEATS; i++) sample(unmaps[i]);
    report("munmap,_populated", 1, "at=%zu:pages", pages);
}

// Whether every page is resident, by mincore.
static void check_residency(void) {
    unsigned char resident[16];
    char *at = populated(16);
    if (mincore(at, 16 * PAGE, resident) == 0) {
        int count = 0;
        for (int i = 0; i < 16; i++) count += resident[i] & 1;
        expect("resident pages after MAP_POPULATE", count, 16);
    }
    unmap(at, 16);
    expect("mincore of what is unmapped", mincore(at, PAGE, resident), -1);
    check("its_error", errno == ENOMEM || errno == ENOSYS);
}

int main(void) {
    calibrate();
    check_residency();
    static const size_t sizes[] = {1, 8, 32, 128, 512, 1024};
    for (int i = 0; i < 6; i++) untouched(sizes[i]);
    for (int i = 0; i < 6; i++) full(sizes[i]);
}
