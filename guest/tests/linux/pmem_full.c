// A full pool: whoever needs a page is told so, nothing that was there is lost, and all comes back.
//
// build: gcc
// nvdimm: 16M
// expect-status: 0
#include "must.h"
#include "pmem.h"
#include <sys/statfs.h>

static long free_pages(void) {
    struct statfs fs;
    return statfs(".", &fs) == 0 ? (long)fs.f_bavail : -1;
}

// Fills the pool; answers the bytes that could be written.
static long fill(int fd) {
    static char bytes[64 * 1024];
    memset(bytes, 'f', sizeof bytes);
    long total = 0, done;
    while ((done = write(fd, bytes, sizeof bytes)) > 0) total += done;
    MUST(done == -1 && errno == ENOSPC);
    return total;
}

static int fails(long result, int error) { return result == -1 && errno == error; }

static void full(int fd, long bytes, int other) {
    MUST(free_pages() == 0);
    MUST(fails(write(other, "x", 1), ENOSPC));
    MUST(fails(fallocate(other, 0, 0, PAGE), ENOSPC));
    struct stat s;
    MUST(fstat(other, &s) == 0 && s.st_size == 0);
    // Holes cost nothing: they are read, and not written.
    long hole = (bytes + (4l << 20)) & -PAGE;
    MUST(ftruncate(fd, hole + PAGE) == 0);
    char text[4] = "abc";
    MUST(pread(fd, text, 3, hole) == 3 && text[0] == 0);
    char *all = mmap(NULL, hole + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(all != MAP_FAILED);
    MUST(signal_of(all + hole, 1) == SIGBUS);
    for (long at = 0; at < bytes; at += 512) MUST(all[at] == 'f');
    MUST(munmap(all, hole + PAGE) == 0);
}

int main(void) {
    go_to_folder();
    catch_faults();
    long before = free_pages();
    int other = open("other", O_CREAT | O_RDWR, 0600);
    for (int round = 0; round < 3; round++) {
        int fd = open("full", O_CREAT | O_RDWR | O_EXCL, 0600);
        long bytes = fill(fd);
        MUST(bytes > 12l << 20);
        full(fd, bytes, other);
        // What is given up can be had by others.
        MUST(ftruncate(fd, bytes - (1l << 20)) == 0);
        MUST(write(other, "x", 1) == 1);
        MUST(ftruncate(other, 0) == 0);
        MUST(unlink("full") == 0 && close(fd) == 0);
    }
    MUST(unlink("other") == 0 && close(other) == 0);
    MUST(free_pages() == before);
    leave_folder();
    return 0;
}
