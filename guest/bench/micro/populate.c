// What does it cost 1, 2 and 4 threads together to touch all pages of one region?
//
// Each has a core to itself, until the last has ended. Instructions are counted on one core, where
// threads would take turns: there it is asked of one thread only.
// cores: 4
#include "bench.h"
#include <pthread.h>

enum { PAGES = 8192 };

static volatile char *region;
static int threads;

static void *touch_part(void *part) {
    size_t each = PAGES / threads, first = (size_t)part * each;
    for (size_t page = first; page < first + each; page++) region[page * PAGE] = 1 + (size_t)part;
    return NULL;
}

// One sample; 0 if the system has no threads.
static int populate(void) {
    pthread_t others[4];
    region = map(PAGES);
    uint64_t from = ticks();
    for (size_t part = 1; part < (size_t)threads; part++)
        if (pthread_create(&others[part], NULL, touch_part, (void *)part)) return 0;
    touch_part(0);
    for (int part = 1; part < threads; part++) pthread_join(others[part], NULL);
    sample(ticks() - from);
    for (size_t page = 0; page < PAGES; page++)
        expect("a page", region[page * PAGE], 1 + page / (PAGES / threads));
    unmap((char *)region, PAGES);
    return 1;
}

int main(void) {
    calibrate();
    int most = counts_instructions() ? 1 : 4;
    for (threads = 1; threads <= most; threads *= 2) {
        for (int i = 0; i < 3 && populate(); i++)
            ;
        report("touch,_per_page", PAGES, "at=%d:threads", threads);
    }
}
