// What does it cost to read a page that nobody has written?
#include "scale.h"

static void reads(size_t pages) {
    for (int i = 0; i < 51; i++) {
        volatile char *at = map(pages);
        int sum = 0;
        uint64_t from = ticks();
        for (size_t page = 0; page < pages; page++) sum += at[page * PAGE];
        sample(ticks() - from);
        expect("sum of untouched pages", sum, 0);
        unmap((char *)at, pages);
    }
    report("read_fault,_each", pages, "at=%zu:pages", pages);
}

int main(void) {
    calibrate();
    for (size_t pages = 1; pages <= 1024; pages *= 32) reads(pages);
}
