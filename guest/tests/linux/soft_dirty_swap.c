// Pages that were written to count as written although they have left memory, or gone aside to leave it.
// build: gcc
// mem: 64M
// swap: 128M
// expect-stdout: passed\n
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PIECES = 24, PIECE = 512 }; // 2 MiB each, 48 MiB together: small memory, and more than there is.

static void clear(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    if (fd < 0 || write(fd, "4", 1) != 1) { printf("no clear_refs\n"); exit(1); }
    close(fd);
}

static char written[PIECES][PIECE];

int main(void) {
    static uint64_t words[PIECE];
    char *piece[PIECES];
    unsigned seed = 3;
    int pm = open("/proc/self/pagemap", O_RDONLY), missing = 0, wrong = 0, clean = 0, out = 0;
    for (int i = 0; i < PIECES; i++) {
        // Every second one is shared, which is an object from the start.
        piece[i] = mmap(0, PIECE * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (i % 2 ? MAP_SHARED : MAP_PRIVATE), -1, 0);
        for (int n = 0; n < PIECE; n++) piece[i][n * PAGE] = i + n;
    }
    for (int round = 0; round < 3; round++) {
        clear();
        memset(written, 0, sizeof written);
        for (int n = 0; n < 300; n++) {
            int i = rand_r(&seed) % PIECES, page = rand_r(&seed) % PIECE;
            piece[i][page * PAGE + 1]++;
            written[i][page] = 1;
        }
        // All is read, so that what was written to leaves.
        for (int i = 0; i < PIECES; i++)
            for (int n = 0; n < PIECE; n++) wrong += piece[i][n * PAGE] != (char)(i + n);
        for (int i = 0; i < PIECES; i++) {
            if (pread(pm, words, sizeof words, (uintptr_t)piece[i] / PAGE * 8) != sizeof words) wrong++;
            for (int n = 0; n < PIECE; n++) {
                missing += written[i][n] && !(words[n] >> 55 & 1);
                clean += !(words[n] >> 55 & 1);
                out += words[n] >> 62 & 1;
            }
        }
    }
    // Some have left; and not all counts as written, or nothing was shown.
    if (!missing && !wrong && clean > 0 && out > 1000) printf("passed\n");
    else printf("missing %d wrong %d clean %d out %d\n", missing, wrong, clean, out);
    return 0;
}
