// What do memory calls cost a process that has many regions mapped?
//
// The regions have one page each, with a page between them where nothing is mapped, so a search for a
// free place passes all of them.
#include "scale.h"

enum { REPEATS = 31 };

// Behind the first of them: those that come later are in front of it, so that a search from the end of
// the address space passes all.
static char *top;
static size_t count;

// Linux has a limit of 65,530 regions that can be raised.
static void allow_many(void) {
    FILE *limit = fopen("/proc/sys/vm/max_map_count", "w");
    if (limit == NULL) return;
    fprintf(limit, "4000000\n");
    fclose(limit);
}

static char *place(size_t number) { return top - 2 * (number + 1) * PAGE; }

// Answers whether the system has so many.
static int grow_to(size_t wanted) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    for (; count < wanted; count++)
        if (mmap(place(count), PAGE, PROT_READ, flags, -1, 0) != place(count)) return 0;
    return 1;
}

static void maps(void) {
    enum { PAGES = 4 };
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        char *at = map(PAGES);
        *(volatile char *)at = 1;
        unmap(at, PAGES);
        sample(ticks() - from);
    }
    report("mmap,_touch_and_munmap", 1, "at=%zu:regions", count);
}

// A page inside a region becomes a region of its own, and is joined with its neighbours again.
static void protections(void) {
    uint64_t joins[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        // Near a region in the middle, not the same one every time.
        char *at = place(count / 2 + i * 101 % (count / 4));
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        char *three = mmap(at, 3 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        expect("mmap of three pages failed", three == MAP_FAILED, 0);
        three[PAGE] = 7;
        uint64_t from = ticks();
        int result = mprotect(three + PAGE, PAGE, PROT_READ);
        sample(ticks() - from);
        expect("mprotect", result, 0);
        expect("the page", three[PAGE], 7);
        from = ticks();
        result = mprotect(three + PAGE, PAGE, PROT_READ | PROT_WRITE);
        joins[i] = ticks() - from;
        expect("mprotect", result, 0);
        three[PAGE] = 8;
        expect("mmap as before", mmap(at, PAGE, PROT_READ, flags, -1, 0) == at, 1);
        expect("munmap", munmap(at + PAGE, PAGE), 0);
        expect("mmap as before", mmap(at + 2 * PAGE, PAGE, PROT_READ, flags, -1, 0) == at + 2 * PAGE, 1);
    }
    report("mprotect_of_one_page,_splitting", 1, "at=%zu:regions", count);
    for (int i = 0; i < REPEATS; i++) sample(joins[i]);
    report("mprotect_of_one_page,_joining", 1, "at=%zu:regions", count);
}

static void faults(void) {
    for (int i = 0; i < REPEATS; i++) {
        size_t number = (count / 3 + (size_t)i * 7919) % count;
        volatile char *at = place(number);
        // There is a page table.
        expect("a neighbour", *place(number > 0 ? number - 1 : 1), 0);
        expect("madvise", madvise((void *)at, PAGE, MADV_DONTNEED), 0);
        uint64_t from = ticks();
        char byte = *at;
        sample(ticks() - from);
        expect("an untouched page", byte, 0);
    }
    report("read_fault", 1, "at=%zu:regions", count);
}

static void forks(void) {
    for (int i = 0; i < 5; i++) {
        uint64_t from = ticks();
        pid_t child = fork();
        if (child == 0) _exit(0);
        sample(ticks() - from);
        wait_for(child);
    }
    report("fork_until_the_parent_returns", 1, "at=%zu:regions", count);
}

// The list of all regions, in pieces as programs read it.
static void lists(void) {
    static char text[4096];
    for (int i = 0; i < 5; i++) {
        size_t lines = 0;
        ssize_t now;
        uint64_t from = ticks();
        int file = open("/proc/self/maps", O_RDONLY);
        while ((now = read(file, text, sizeof text)) > 0)
            for (ssize_t at = 0; at < now; at++) lines += text[at] == '\n';
        close(file);
        sample(ticks() - from);
        expect("at least as many lines as regions", lines >= count, 1);
    }
    report("/proc/self/maps,_each", count, "at=%zu:regions", count);
}

static void report_missing(size_t size) {
    report("mmap,_touch_and_munmap", 1, "at=%zu:regions", size);
    report("mprotect_of_one_page,_splitting", 1, "at=%zu:regions", size);
    report("mprotect_of_one_page,_joining", 1, "at=%zu:regions", size);
    report("read_fault", 1, "at=%zu:regions", size);
    report("fork_until_the_parent_returns", 1, "at=%zu:regions", size);
}

int main(void) {
    calibrate();
    allow_many();
    static const size_t sizes[] = {100, 1000, 10000, 30000, 60000, 1000000};
    const size_t most = 2 * sizes[5] * PAGE;
    char *base = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    expect("mmap of the whole failed", base == MAP_FAILED, 0);
    expect("munmap", munmap(base, most), 0);
    top = base + most;
    for (int i = 0; i < 6; i++) {
        if (!wanted(sizes[i], 10000)) break;
        if (!grow_to(sizes[i])) {
            report_missing(sizes[i]);
            break;
        }
        maps();
        protections();
        faults();
        forks();
        if (count <= 10000) lists();
    }
    expect("munmap of all", munmap(place(count - 1), 2 * count * PAGE), 0);
}
