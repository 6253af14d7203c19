// What /proc and mincore say of memory that is shared, and of large mappings, of files of a memory and of anonymous memory.
// oracle: linux
// build: gcc, musl
#include "test.h"

#define MIB (1l << 20)

static char *text_of(const char *path) {
    static char text[1 << 18];
    size_t length = 0;
    int fd = open(path, O_RDONLY);
    for (long got; fd >= 0 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0;) length += got;
    close(fd);
    text[length] = 0;
    return text;
}

static long line_in(char *text, const char *name) {
    size_t length = strlen(name);
    for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (!strncmp(line, name, length) && line[length] == ':') return atol(line + length + 1);
    return -1;
}

static long smaps(void *start, const char *name) {
    char begin[64];
    snprintf(begin, sizeof begin, "\n%08lx-", (unsigned long)start);
    char *entry = strstr(text_of("/proc/self/smaps"), begin);
    return entry ? line_in(entry + 1, name) : -1;
}

static long status(const char *name) {
    return line_in(text_of("/proc/self/status"), name);
}

static long statm(int n) {
    long words[3] = {0};
    sscanf(text_of("/proc/self/statm"), "%ld %ld %ld", &words[0], &words[1], &words[2]);
    return words[n] * 4;
}

// How many pages of a range are in memory, as mincore says.
static long core(char *at, long count) {
    unsigned char *told = malloc(count);
    long here = -1;
    if (!mincore(at, count * PAGE, told)) {
        here = 0;
        for (long n = 0; n < count; n++) here += told[n] & 1;
    }
    free(told);
    return here;
}

static void touch(char *at, long first, long count) {
    for (long n = first; n < first + count; n++) at[n * PAGE] = 1;
}

// So much, or a little more: a system may make pages ahead for who goes on.
static int near(long is, long wanted) {
    return is >= wanted && is <= wanted + 2 * 64 * 4;
}

static void large(const char *what, int fd) {
    long before[] = {status("RssShmem"), statm(2)};
    char *all = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    printf("%s: nothing touched\n", what);
    SHOW(smaps(all, "Size"));
    SHOW(smaps(all, "Rss"));
    SHOW(core(all, 16384));
    touch(all, 100, 300);
    touch(all, 8000, 20);
    SHOW(near(smaps(all, "Rss"), 1280));
    SHOW(near(smaps(all, "Shared_Dirty") + smaps(all, "Private_Dirty"), 1280));
    SHOW(smaps(all, "Anonymous"));
    SHOW(smaps(all, "ShmemPmdMapped"));
    SHOW(smaps(all, "FilePmdMapped"));
    SHOW(smaps(all, "KernelPageSize"));
    SHOW(near(status("RssShmem") - before[0], 1280));
    SHOW(near(statm(2) - before[1], 1280));
    CHECK(status("VmRSS") == status("RssAnon") + status("RssFile") + status("RssShmem"));
    SHOW(near(core(all, 16384), 320));
    SHOW(core(all + 90 * PAGE, 20));
    SHOW(core(all + 399 * PAGE, 1));
    SHOW(core(all + 10000 * PAGE, 1000));
    // Parts have what they have.
    SHOW(mprotect(all + 200 * PAGE, 100 * PAGE, PROT_READ));
    SHOW(smaps(all + 200 * PAGE, "Size"));
    touch(all, 100, 100);
    SHOW(smaps(all, "Rss") <= 800);
    SHOW(near(core(all, 16384), 320));
    SHOW(munmap(all + 150 * PAGE, 10 * PAGE));
    SHOW(core(all + 140 * PAGE, 10));
    SHOW(core(all + 140 * PAGE, 11));
    unsigned char told[16];
    memset(told, 9, sizeof told);
    SHOW(mincore(all + 145 * PAGE, 10 * PAGE, told));
    SHOW(mincore(all + 1, PAGE, told));
    SHOW(mincore(all, PAGE, (unsigned char *)16));
    SHOW(mincore(all, 0, told));
    SHOW(mincore(all + 100 * PAGE, 1, told));
    SHOW(mincore(all, -PAGE, told));
    SHOW(munmap(all, 64 * MIB));
    SHOW(status("RssShmem") - before[0]);
}

int main(void) {
    int fd = memfd_create("large", 0);
    SHOW(ftruncate(fd, 64 * MIB));
    // What is written without a mapping is in memory of it all the same, and is mapped when it is touched.
    large("memfd", fd);
    close(fd);
    large("anonymous", -1);
    fd = memfd_create("other", 0);
    SHOW(ftruncate(fd, 16 * MIB));
    SHOW(pwrite(fd, "x", 1, 5 * PAGE));
    SHOW(pwrite(fd, "x", 1, 9 * MIB));
    char *private = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    SHOW(core(private, 4096));
    SHOW(core(private + 5 * PAGE, 1));
    private[7 * PAGE] = 1;
    SHOW(core(private + 7 * PAGE, 1));
    SHOW(core(private + 8 * PAGE, 1));
    // Behind the end of the file is nothing.
    SHOW(ftruncate(fd, PAGE));
    SHOW(core(private + 9 * MIB, 100));
    return 0;
}
