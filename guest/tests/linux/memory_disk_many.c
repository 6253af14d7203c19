// Several processes write one disk at once, by calls and by mappings, and some are killed in the middle: what each
// wrote is there, and nobody sees another's page.
//
// build: gcc
// kernel: md=4194304
// cores: 4
// expect-stdout: 4 writers\nno page is wrong\nkilled 12\nall can be written\nthe same by both ways\n
#include "test.h"
#include <sys/wait.h>

enum { WRITERS = 4, PAGES = 1024, ROUNDS = 3, KILLED = 12 };

static int disk;

// What a writer leaves in a page of its own.
static void fill(uint64_t *page, uint64_t writer, uint64_t number, uint64_t round) {
    for (int i = 0; i < 512; i++) page[i] = writer << 48 | number << 16 | round << 8 | (i & 0xff);
}

// Every WRITERS-th page, by calls in odd rounds, else by a mapping.
static int writer(int own) {
    uint64_t page[512], got[512];
    uint64_t *mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, disk, 0);
    if (mapped == MAP_FAILED) return 2;
    for (int round = 0; round < ROUNDS; round++)
        for (int number = own; number < PAGES; number += WRITERS) {
            fill(page, own, number, round);
            if (round & 1) {
                if (pwrite(disk, page, PAGE, number * PAGE) != (ssize_t)PAGE) return 3;
            } else {
                memcpy(mapped + number * 512, page, PAGE);
            }
            if (pread(disk, got, PAGE, number * PAGE) != (ssize_t)PAGE || memcmp(page, got, PAGE)) return 4;
            if (memcmp(mapped + number * 512, page, PAGE)) return 5;
        }
    return 0;
}

int main(void) {
    disk = open("/dev/ram0", O_RDWR);
    if (disk < 0) return perror("/dev/ram0"), 1;
    int good = 0, wrong = 0, status;
    for (int own = 0; own < WRITERS; own++)
        if (fork() == 0) _exit(writer(own));
    while (wait(&status) > 0) {
        if (status == 0) good++;
        else printf("status %#x\n", status);
    }
    printf("%d writers\n", good);
    uint64_t page[512], got[512];
    for (int number = 0; number < PAGES; number++) {
        fill(page, number % WRITERS, number, ROUNDS - 1);
        wrong += pread(disk, got, PAGE, number * PAGE) != (ssize_t)PAGE || memcmp(page, got, PAGE);
    }
    printf(wrong ? "%d pages are wrong\n" : "no page is wrong\n", wrong);

    // Those who write all of it for ever, in large pieces.
    static char large[256 * 4096];
    int killed = 0;
    for (int i = 0; i < KILLED; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, disk, 0);
            memset(large, 'a' + i, sizeof large);
            for (int at = 0;; at = (at + 256) % PAGES) {
                pwrite(disk, large, sizeof large, at * PAGE);
                memset(mapped + at * PAGE, 'A' + i, 64 * PAGE);
            }
        }
        usleep(1000 * (i % 4 + 1) * 3);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    printf("killed %d\n", killed);
    memset(large, 'z', sizeof large);
    int written = 0;
    for (int at = 0; at < PAGES; at += 256) written += pwrite(disk, large, sizeof large, at * PAGE) == sizeof large;
    printf(written == PAGES / 256 ? "all can be written\n" : "%d\n", written);
    char *mapped = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, disk, 0);
    int same = 1;
    for (size_t at = 0; at < PAGES * PAGE; at++) same &= mapped[at] == 'z';
    printf(same ? "the same by both ways\n" : "not the same\n");
}
