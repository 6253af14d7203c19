// Tables of the library grow as far as there is memory: page tables, regions, Frames of mapped files,
// beyond every number at which there once was an end. After a fork both processes go on with them.
//
// build: gcc
// mem: 1G
// keeps: 1048576
// expect-stdout: areas\nregions\nextents\nmemory came to an end\nend\n
// why: Linux has a limit of 65,530 regions
#include "test.h"
#include <sys/resource.h>

#define MIB (1l << 20)
#define GIB (1l << 30)

static char *reserve(long bytes, int prot) {
    char *at = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) printf("mmap: errno %d\n", errno), exit(1);
    return at;
}

// How a child ends that does this.
static void in_child(const char *what, void (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) body(), _exit(0);
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status != 0) printf("%s: status %#x\n", what, status);
    puts(what);
}

// One page in each 2 MiB: with 1,968 of them there was once an end of page tables, with 8,256 one of
// CNodes; and one page in some GiB, which takes tables of page tables, too.
static void areas(void) {
    enum { NEAR = 9000, FAR = 300, COUNT = NEAR + FAR };
    static char *pages[COUNT];
    char *near = reserve(NEAR * 2 * MIB, 3), *far = reserve(FAR * GIB, 3);
    for (int i = 0; i < NEAR; i++) pages[i] = near + i * 2 * MIB;
    for (int i = 0; i < FAR; i++) pages[NEAR + i] = far + i * GIB;
    for (int i = 0; i < COUNT; i++) *pages[i] = i;
    pid_t child = fork();
    if (child < 0) _exit(1);
    // Some pages become each process's own, and all are what they must be.
    for (int i = 0; i < COUNT; i += 50) *pages[i] = i + 1 + (child == 0);
    for (int i = 0; i < COUNT; i++)
        if (*pages[i] != (char)(i % 50 ? i : i + 1 + (child == 0))) _exit(2);
    if (child == 0) _exit(7);
    int status;
    if (waitpid(child, &status, 0) != child || status != 7 << 8) _exit(3);
    // What comes back can be used again.
    if (munmap(near, NEAR * 2 * MIB)) _exit(4);
    near = reserve(2500 * 2 * MIB, 3);
    for (int i = 0; i < 2500; i++) near[i * 2 * MIB] = i;
    for (int i = 0; i < 2500; i++)
        if (near[i * 2 * MIB] != (char)i) _exit(5);
}

static void regions(void) {
    enum { COUNT = 1000000 };
    char *at = reserve(COUNT * PAGE, PROT_NONE);
    for (long i = 0; i < COUNT; i += 2)
        if (mprotect(at + i * PAGE, PAGE, PROT_READ)) _exit(1);
    // A write needs another right, a read of what is between is not allowed.
    pid_t child = fork();
    if (child < 0) _exit(2);
    for (long i = 1; i < COUNT; i += 40001)
        if (mprotect(at + i * PAGE, PAGE, PROT_READ | PROT_WRITE)) _exit(3);
    for (long i = 1; i < COUNT; i += 40001) at[i * PAGE] = i + (child == 0);
    for (long i = 1; i < COUNT; i += 40001)
        if (at[i * PAGE] != (char)(i + (child == 0))) _exit(4);
    if (write(1, at + PAGE * 3, 1) != -1 || errno != EFAULT) _exit(5);
    if (child == 0) _exit(0);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) _exit(6);
    if (munmap(at, COUNT * PAGE)) _exit(7);
    if (mmap(at, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at) _exit(8);
}

// Files that grow page by page lie in several pieces: with 7,696 of them mapped there was once an end.
static void extents(void) {
    enum { COUNT = 3500, PAGES = 4 };
    static char *files[COUNT];
    char page[PAGE];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit)) _exit(1);
    for (int i = 0; i < COUNT; i++) {
        int file = memfd_create("pieces", 0);
        if (file < 0) _exit(2);
        for (int n = 0; n < PAGES; n++) {
            memset(page, i * PAGES + n, PAGE);
            if (write(file, page, PAGE) != PAGE) _exit(3);
        }
        int flags = i % 2 ? MAP_SHARED : MAP_PRIVATE;
        files[i] = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
        if (files[i] == MAP_FAILED) _exit(4);
        close(file);
        for (int n = PAGES - 1; n >= 0; n--)
            if (files[i][n * PAGE + 77] != (char)(i * PAGES + n)) _exit(5);
    }
    pid_t child = fork();
    if (child < 0) _exit(6);
    for (int i = 0; i < COUNT; i += 5)
        for (int n = 0; n < PAGES; n++) files[i][n * PAGE + (child == 0)] = 1 + (child == 0);
    if (child == 0) _exit(0);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) _exit(7);
    for (int i = 0; i < COUNT; i++)
        for (int n = 0; n < PAGES; n++) {
            char *bytes = files[i] + n * PAGE, own = i * PAGES + n;
            char first = i % 5 ? own : 1, second = i % 5 || i % 2 == 0 ? own : 2;
            if (bytes[0] != first || bytes[1] != second || bytes[2] != own) _exit(8);
        }
    for (int i = 0; i < COUNT; i++)
        if (munmap(files[i], PAGES * PAGE)) _exit(9);
    // The descriptions have gone with the mappings.
    for (int i = 0; i < COUNT; i++) {
        int file = memfd_create("again", 0);
        if (file < 0) _exit(10);
    }
}

// Touches page after page until there is no memory, in steps of so many bytes. Answers how far it came.
static long fill(char *at, long from, long end, long step) {
    while (from < end && madvise(at + from, step, 23 /* MADV_POPULATE_WRITE */) == 0) from += step;
    return from;
}

// There is no memory for more tables: calls are refused, and nobody dies of it.
static void no_memory(void) {
    enum { COUNT = 400000 };
    char *at = reserve(COUNT * PAGE, PROT_NONE), *all = reserve(2 * GIB, 3);
    long full = fill(all, 0, 2 * GIB, MIB);
    if (fill(all, full, 2 * GIB, PAGE) == 2 * GIB) _exit(1);
    long changed = 0;
    while (changed < COUNT && mprotect(at + changed * PAGE, PAGE, PROT_READ) == 0) changed += 2;
    if (changed == COUNT || errno != ENOMEM) _exit(2);
    // What is refused changes nothing, and what needs no memory is not refused.
    for (int i = 0; i < 100; i++) {
        long wish = changed + 2 * i;
        if (mprotect(at + wish * PAGE, PAGE, PROT_READ) != -1 || errno != ENOMEM) _exit(3);
        if (write(1, at + wish * PAGE, 1) != -1 || errno != EFAULT) _exit(4);
    }
    if (munmap(all, 2 * GIB)) _exit(5);
    for (; changed < COUNT; changed += 2)
        if (mprotect(at + changed * PAGE, PAGE, PROT_READ)) _exit(6);
    for (long i = 0; i < COUNT; i += 1002)
        if (at[i * PAGE] != 0) _exit(7);
}

int main(void) {
    in_child("areas", areas);
    in_child("regions", regions);
    in_child("extents", extents);
    in_child("memory came to an end", no_memory);
    puts("end");
    return 0;
}
