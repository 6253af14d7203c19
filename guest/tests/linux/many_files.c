// More files with contents than the server's first capability space has slots for, and their memory back
// when they are gone, but for a remainder (see REMAINDER).
//
// build: gcc
// mem: 512M
// timeout: 400
// keeps: 1572864
// expect-stdout: 67000 files\nmemory is back\n3000 files\nmemory is back\n
#include "test.h"
#include <sys/stat.h>
#include <sys/sysinfo.h>

enum { FILES = 67000, EACH = 1000 };
// What the server keeps of the first round: its capability space's larger root, page tables of its heap, and
// pieces of the heap in which something of others lies. The second round needs nothing more.
#define REMAINDER (1536 << 10)

static long free_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.freeram * info.mem_unit;
}

static const char *name_of(int i) {
    static char name[64];
    sprintf(name, "/tmp/many/%d/%d", i / EACH, i);
    return name;
}

// 0, or an error's number.
static int make(int i) {
    int fd = open(name_of(i), O_CREAT | O_EXCL | O_RDWR, 0600), read_back = -1;
    if (fd < 0) return errno;
    if (write(fd, &i, sizeof i) != sizeof i) return errno;
    if (i % 16 == 0 && (pread(fd, &read_back, sizeof i, 0) != sizeof i || read_back != i)) return EIO;
    return close(fd) ? errno : 0;
}

static void round_of(int files, long remainder) {
    char folder[64];
    long before = free_memory();
    int made = 0, error = 0;
    for (; made < files && !error; made++) {
        sprintf(folder, "/tmp/many/%d", made / EACH);
        if (made % EACH == 0) mkdir(folder, 0700);
        error = make(made);
    }
    if (error) printf("FAILED: file %d: %s\n", made, strerror(error));
    printf("%d files\n", made);
    for (int i = 0; i < made; i++)
        if (unlink(name_of(i))) printf("FAILED: unlink: %s\n", strerror(errno));
    for (int i = 0; i < made; i += EACH) {
        sprintf(folder, "/tmp/many/%d", i / EACH);
        if (rmdir(folder)) printf("FAILED: rmdir: %s\n", strerror(errno));
    }
    long lost = before - free_memory();
    if (lost > remainder) printf("FAILED: %ld bytes lost\n", lost);
    else printf("memory is back\n");
}

int main(void) {
    mkdir("/tmp/many", 0700);
    round_of(FILES, REMAINDER);
    round_of(3000, 0);
    return 0;
}
