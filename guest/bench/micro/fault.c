// What does the first touch of a page cost, by writing and by reading, in regions of 1 to 65,536
// pages, in ascending order and in another one?
#include "bench.h"

// The distance from one page to the next that is touched: 1, or a prime that leads to all of them.
static size_t step = 1;

// Touches every page once; the sum of what was read.
static unsigned touch(volatile unsigned char *at, size_t pages, int write) {
    unsigned sum = 0;
    for (size_t touched = 0, page = 0; touched < pages; touched++, page = (page + step) & (pages - 1)) {
        if (write)
            at[page * PAGE] = 1;
        else
            sum += at[page * PAGE];
    }
    return sum;
}

static void measure(const char *name, size_t pages, int write) {
    int repeats = pages <= 256 ? 15 : pages <= 4096 ? 7 : 3;
    for (int i = 0; i < repeats; i++) {
        unsigned char *at = (unsigned char *)map(pages);
        uint64_t from = ticks();
        unsigned sum = touch(at, pages, write);
        sample(ticks() - from);
        expect("sum of untouched pages", sum, 0);
        // What was written is there, and nothing else is.
        expect("sum of the pages", touch(at, pages, 0), write ? pages : 0);
        expect("the last byte", at[pages * PAGE - 1], 0);
        unmap(at, pages);
    }
    report(name, pages, "at=%zu:pages", pages);
}

int main(void) {
    calibrate();
    for (size_t pages = 1; pages <= 65536; pages *= 4) measure("write", pages, 1);
    for (size_t pages = 1; pages <= 65536; pages *= 16) measure("read", pages, 0);
    step = 7919;
    for (size_t pages = 256; pages <= 65536; pages *= 16) measure("write,_scattered", pages, 1);
}
