// What does shared memory cost: to create, map and touch an object of 1 to 16,384 pages, and to map
// and touch one that is there already?
#include "bench.h"

static volatile char *map_object(int object, size_t pages) {
    void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    expect("mmap(MAP_SHARED) failed", at == MAP_FAILED, 0);
    return at;
}

static void touch(volatile char *at, size_t pages) {
    for (size_t page = 0; page < pages; page++) at[page * PAGE]++;
}

static void measure(size_t pages) {
    enum { MOST = 7 };
    int repeats = pages <= 1024 ? MOST : 3;
    uint64_t again[MOST];
    for (int i = 0; i < repeats; i++) {
        uint64_t from = ticks();
        int object = memfd_create("object", 0);
        expect("ftruncate", ftruncate(object, pages * PAGE), 0);
        volatile char *at = map_object(object, pages);
        touch(at, pages);
        sample(ticks() - from);
        unmap((char *)at, pages);
        from = ticks();
        at = map_object(object, pages);
        touch(at, pages);
        again[i] = ticks() - from;
        for (size_t page = 0; page < pages; page++) expect("a page", at[page * PAGE], 2);
        unmap((char *)at, pages);
        close(object);
    }
    report("create,_map_and_touch", 1, "at=%zu:pages", pages);
    for (int i = 0; i < repeats; i++) sample(again[i]);
    report("map_again_and_touch", 1, "at=%zu:pages", pages);
}

// Without the system call: no line has samples.
static void not_supported(size_t pages) {
    report("create,_map_and_touch", 1, "at=%zu:pages", pages);
    report("map_again_and_touch", 1, "at=%zu:pages", pages);
}

int main(void) {
    calibrate();
    int probe = memfd_create("probe", 0);
    for (size_t pages = 1; pages <= 16384; pages *= pages < 4096 ? 8 : 4)
        (probe < 0 ? not_supported : measure)(pages);
}
