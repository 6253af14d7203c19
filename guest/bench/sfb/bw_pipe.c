// What lmbench's bw_pipe does (which is not free software as Debian has it): a child writes so many MB in
// pieces of 64 KiB into a pipe, from a buffer that it has touched; its parent reads them.
#include "counts.h"

enum { PIECE = 65536 };
static char buffer[PIECE];

static void transfer(long bytes) {
    int ends[2];
    expect("pipe", pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        memset(buffer, 1, sizeof buffer);
        for (long left = bytes, now; left > 0; left -= now)
            if ((now = write(ends[1], buffer, left < PIECE ? left : PIECE)) <= 0) _exit(1);
        _exit(0);
    }
    close(ends[1]);
    long got = 0, now;
    while ((now = read(ends[0], buffer, PIECE)) > 0) got += now;
    expect("bytes", got, bytes);
    close(ends[0]);
    wait_for(child);
}

int main(int argc, char **argv) {
    long bytes = argc > 1 ? atol(argv[1]) : 50 << 20;
    calibrate();
    memset(buffer, 2, sizeof buffer);
    transfer(4 * PIECE);
    struct counts from = count_now();
    transfer(bytes);
    report_since("bw_pipe", from);
}
