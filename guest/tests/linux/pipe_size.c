// How much a pipe holds: told, made less and more, and what is in the way.
// oracle: linux
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

static long fill(int fd) {
    char block[4096];
    memset(block, 'x', sizeof block);
    long sum = 0;
    for (long got; (got = write(fd, block, sizeof block)) > 0;) sum += got;
    return sum;
}

static long empty(int fd) {
    char block[10000];
    long sum = 0;
    for (long got; (got = read(fd, block, sizeof block)) > 0;) for (long n = 0; n < got; n++) sum += block[n] == 'x';
    return sum;
}

int main(void) {
    int ends[2];
    pipe2(ends, O_NONBLOCK);
    SHOW(fcntl(ends[0], F_GETPIPE_SZ));
    SHOW(fill(ends[1]));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, 32768));
    SHOW(empty(ends[0]));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, 32768));
    SHOW(fcntl(ends[0], F_GETPIPE_SZ));
    SHOW(fill(ends[1]));
    struct pollfd one = { ends[1], POLLOUT, 0 };
    SHOW(poll(&one, 1, 0));
    SHOW(empty(ends[0]));
    SHOW(poll(&one, 1, 0));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, 5000));
    SHOW(fill(ends[1]));
    SHOW(empty(ends[0]));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, 1));
    SHOW(fill(ends[1]));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, 65536));
    SHOW(fill(ends[1]));
    SHOW(empty(ends[0]));
    SHOW(fill(ends[1]));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, -1));
    SHOW(fcntl(0, F_GETPIPE_SZ) >= 0 || errno == EBADF);
    int file = open("/dev/null", O_RDONLY);
    SHOW(fcntl(file, F_GETPIPE_SZ));
    SHOW(fcntl(file, F_SETPIPE_SZ, 4096));
    return 0;
}
