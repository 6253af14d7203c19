// Memory that is only read: zeros, wherever it is, until somebody writes; and it takes no memory.
// oracle: linux
#include "test.h"

enum { PAGES = 16384, WORDS = PAGE / sizeof(long) };

static volatile long *area;

static long free_bytes(void) {
    char text[4096];
    int fd = open("/proc/tessera/memory", O_RDONLY);
    if (fd < 0) return 0;
    long length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length < 0 ? 0 : length] = 0;
    char *at = strstr(text, "free ");
    return at ? atol(at + 5) : 0;
}

// Pages that do not begin with what they should.
static int wrong(long (*expected)(long page)) {
    int count = 0;
    for (long page = 0; page < PAGES; page++) count += area[page * WORDS] != expected(page);
    return count;
}

static long zero(long page) { return page * 0; }
static long every_third(long page) { return page % 3 ? 0 : page + 1; }
static long every_sixth(long page) { return page % 6 ? every_third(page) : -page; }
static void handler(int signal) { (void)signal, _exit(42); }

static void reads_what_is_sent(void) {
    int ends[2];
    long got[WORDS] = {1};
    pipe(ends);
    SHOW(write(ends[1], (void *)(area + 7 * WORDS), PAGE));
    SHOW(read(ends[0], got, PAGE));
    CHECK(got[0] == 0 && got[WORDS - 1] == 0);
    // The library stores into pages that were shown as zeros a moment ago.
    CHECK(area[8 * WORDS] == 0);
    SHOW(write(ends[1], "abcdefgh", 8));
    SHOW(read(ends[0], (void *)(area + 8 * WORDS), 8));
    CHECK(area[8 * WORDS] == 0x6867666564636261);
    area[8 * WORDS] = 0;
    close(ends[0]), close(ends[1]);
}

static void resident(void) {
    unsigned char *pages_in = calloc(PAGES, 1);
    SHOW(mincore((void *)area, 32 * PAGE, pages_in));
    int count = 0;
    for (int i = 0; i < 32; i++) count += pages_in[i] & 1;
    CHECK(count == 32);
    free(pages_in);
}

int main(void) {
    area = pages(PAGES, PROT_READ | PROT_WRITE);
    long before = free_bytes();
    CHECK(wrong(zero) == 0);
    // 64 MiB were read; tables for it take 128 KiB.
    CHECK(before - free_bytes() < 4 << 20);
    resident();
    reads_what_is_sent();

    for (long page = 0; page < PAGES; page += 3) area[page * WORDS] = page + 1;
    CHECK(wrong(every_third) == 0);
    IN_CHILD("a child reads and writes", {
        if (wrong(every_third)) _exit(1);
        for (long page = 0; page < PAGES; page += 6) area[page * WORDS] = -page;
        if (wrong(every_sixth)) _exit(2);
    });
    CHECK(wrong(every_third) == 0);

    // Rights that come and go.
    SHOW(mprotect((void *)area, PAGES * PAGE, PROT_NONE));
    IN_CHILD("no right", signal(SIGSEGV, handler); area[1]);
    SHOW(mprotect((void *)area, PAGES * PAGE, PROT_READ));
    CHECK(wrong(every_third) == 0);
    IN_CHILD("only to read", signal(SIGSEGV, handler); area[WORDS] = 1);
    SHOW(mprotect((void *)area, PAGES * PAGE, PROT_READ | PROT_WRITE));

    // What was written goes, and is zeros again.
    SHOW(madvise((void *)area, PAGES * PAGE, MADV_DONTNEED));
    CHECK(wrong(zero) == 0);
    area[5 * WORDS] = 5;
    CHECK(area[4 * WORDS] == 0 && area[5 * WORDS] == 5 && area[6 * WORDS] == 0);
    SHOW_PTR(mremap((void *)area, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 64 * WORDS));
    CHECK(area[(64 + 5) * WORDS] == 5 && area[(64 + 6) * WORDS] == 0);
    IN_CHILD("what has moved away", signal(SIGSEGV, handler); area[WORDS]);

    // Another mapping in its place.
    SHOW_PTR(mmap((void *)(area + 128 * WORDS), 8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    CHECK(area[130 * WORDS] == 0);
    SHOW(munmap((void *)(area + 16 * WORDS), (PAGES - 16) * PAGE));
    IN_CHILD("nothing there", signal(SIGSEGV, handler); area[2000 * WORDS]);
    return 0;
}
