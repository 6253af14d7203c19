// PAGEMAP_SCAN: which pages of a range are of which kinds, as ranges; what was asked wrongly.
// build: gcc
// oracle: linux
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32 };
struct region { uint64_t start, end, categories; };
struct scan { uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, give; };
#define SCAN _IOWR('f', 16, struct scan)
enum { WPALLOWED = 1, WRITTEN = 2, FILES = 4, PRESENT = 8, SWAPPED = 16, PFNZERO = 32, HUGE = 64, SOFT_DIRTY = 128 };

static int from;
static char *base;
static struct region found[PAGES];

static struct scan all(void) {
    return (struct scan){.size = sizeof(struct scan), .start = (uintptr_t)base, .end = (uintptr_t)base + PAGES * PAGE, .vec = (uintptr_t)found, .vec_len = PAGES, .mask = PRESENT, .give = PRESENT | FILES | PFNZERO | WRITTEN};
}
static void scan(const char *what, struct scan s) {
    memset(found, 0, sizeof found);
    long n = ioctl(from, SCAN, &s);
    printf("%s: %ld", what, n);
    if (n < 0) printf(" error %d", errno);
    for (int i = 0; i < n && s.vec; i++) printf(" %ld-%ld:%lx", ((long)found[i].start - (long)base) / PAGE, ((long)found[i].end - (long)base) / PAGE, (long)found[i].categories);
    if (n >= 0) printf(", to %ld", ((long)s.walk_end - (long)base) / PAGE);
    printf("\n");
}

int main(void) {
    from = open("/proc/self/pagemap", O_RDONLY);
    base = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(base, PAGES * PAGE, MADV_NOHUGEPAGE);
    // 0-3 written, 4-7 looked at, 8-11 of a file (two of them there), 12-15 shared, 16-19 unmapped, 20-23 written, 24-31 nothing.
    for (int i = 3; i >= 0; i--) base[i * PAGE] = 1;
    for (int i = 4; i < 8; i++) *(volatile char *)(base + i * PAGE);
    int file = memfd_create("file", 0);
    if (ftruncate(file, 4 * PAGE) || pwrite(file, "a", 1, 0) != 1 || pwrite(file, "b", 1, PAGE) != 1) return 1;
    mmap(base + 8 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
    mmap(base + 12 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    base[9 * PAGE] = 'c';
    base[14 * PAGE] = 's';
    munmap(base + 16 * PAGE, 4 * PAGE);
    for (int i = 23; i >= 20; i--) base[i * PAGE] = 1;

    struct scan s = all();
    scan("present", s);
    s.give = PRESENT;
    scan("present, only that", s);
    s.give = 0;
    scan("nothing told", s);
    s = all(), s.mask = 0, s.anyof = FILES | PFNZERO;
    scan("of files, or zeros", s);
    s = all(), s.inverted = PRESENT;
    scan("not present", s);
    s = all(), s.mask = 0;
    scan("all that is mapped", s);
    s = all(), s.mask = PRESENT | PFNZERO, s.inverted = PFNZERO;
    scan("present and no zeros", s);
    s = all(), s.mask = SWAPPED;
    scan("on the disk", s);
    s = all(), s.mask = WPALLOWED;
    scan("may be protected", s);
    // Little room, few pages.
    s = all(), s.vec_len = 1;
    scan("one range", s);
    s.vec_len = 2;
    scan("two ranges", s);
    s = all(), s.max_pages = 3;
    scan("three pages", s);
    s.max_pages = 8;
    scan("eight pages", s);
    s = all(), s.max_pages = 4, s.end = s.start + 4 * PAGE;
    scan("as many as there are", s);
    s = all(), s.vec = 0, s.vec_len = 0;
    scan("no room asked for", s);
    s = all(), s.end = s.start + PAGE + 1;
    scan("a part of a page", s);
    s = all(), s.end = s.start;
    scan("nothing", s);
    // What is wrong.
    s = all(), s.size = 88;
    scan("another size", s);
    s = all(), s.flags = 4;
    scan("unknown flag", s);
    s = all(), s.mask = 1 << 20;
    scan("unknown kind", s);
    s = all(), s.start++;
    scan("unaligned", s);
    s = all(), s.vec = 0;
    scan("no place", s);
    s = all(), s.flags = 2;
    scan("what cannot be protected", s);
    s = all(), s.end = ~0ul;
    scan("too far", s);
    s = all(), s.start = s.end, s.end = (uintptr_t)base;
    scan("backwards", s);
    s = all(), s.vec = 16;
    scan("nowhere", s);
    int other = open("/proc/self/maps", O_RDONLY);
    s = all();
    printf("another file: %d", ioctl(other, SCAN, &s));
    printf(" error %d\n", errno);
    printf("argument nowhere: %d", ioctl(from, SCAN, (void *)16));
    printf(" error %d\n", errno);
    return 0;
}
