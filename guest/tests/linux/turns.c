// More files than a process has windows, read and written in turns, while another process truncates them: what is read is of
// the file that was asked for, and is what was written there last, or nothing.
// oracle: linux
// cores: 4
// build: gcc, musl
#include "test.h"
#include <sys/wait.h>

enum { FILES = 200, ROUNDS = 2000 };
static int files[FILES];

static void name(char *to, int n) { sprintf(to, "/tmp/turns-%d", n); }

// Each page of a file says whose it is.
static void fill(int *page, int n) {
    for (int i = 0; i < PAGE / 4; i++) page[i] = n + 1;
}

static int is_of(int *page, int bytes, int n) {
    for (int i = 0; i < bytes / 4; i++)
        if (page[i] != n + 1 && page[i] != 0) return 0;
    return 1;
}

static int wrong(int rounds) {
    int page[PAGE / 4], bad = 0;
    unsigned seed = 1;
    for (int round = 0; round < rounds; round++) {
        seed = seed * 1103515245 + 12345;
        int n = (seed >> 16) % FILES;
        int at = (seed >> 8) % 3 * PAGE;
        if (round % 5 == 0) {
            fill(page, n);
            if (pwrite(files[n], page, PAGE, at) != PAGE) bad++;
        } else {
            int done = pread(files[n], page, PAGE, at);
            if (done < 0 || !is_of(page, done, n)) bad++;
        }
    }
    return bad;
}

int main(void) {
    int page[PAGE / 4], bad = 0;
    for (int n = 0; n < FILES; n++) {
        char path[32];
        name(path, n);
        files[n] = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        unlink(path);
        fill(page, n);
        for (int at = 0; at < 3; at++) pwrite(files[n], page, PAGE, at * PAGE);
    }
    for (int round = 0; round < 5; round++)
        for (int n = 0; n < FILES; n++)
            bad += pread(files[n], page, PAGE, round % 3 * PAGE) != PAGE || page[7] != n + 1;
    printf("in turns: %d wrong\n", bad);
    printf("at random: %d wrong\n", wrong(ROUNDS));
    int child = fork();
    if (child == 0) {
        for (;;)
            for (int n = 0; n < FILES; n++) ftruncate(files[n], n % 3 * PAGE / 2);
    }
    printf("while they are truncated: %d wrong\n", wrong(ROUNDS));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("afterwards: %d wrong\n", wrong(ROUNDS));
    return 0;
}
