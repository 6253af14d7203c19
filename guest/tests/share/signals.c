// Calls about a file of the host while signals come without an end: none of them is interrupted, short, or done twice.
#include "../linux/must.h"
#include <sys/time.h>

static volatile int came;
static void count(int signal) { came++; }

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "signals-test";
    static char out[50000], in[50000];
    // Without SA_RESTART, so that whatever can be interrupted is.
    struct sigaction action = {.sa_handler = count};
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 300}, {0, 300}};
    MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < 40; round++) {
        int fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        MUST(fd >= 0);
        for (unsigned i = 0; i < sizeof out; i++) out[i] = i * 7 + round;
        MUST(write(fd, out, sizeof out) == sizeof out);
        MUST(pread(fd, in, sizeof in, 0) == sizeof in);
        MUST(memcmp(in, out, sizeof in) == 0);
        struct stat s;
        MUST(fstat(fd, &s) == 0 && s.st_size == sizeof out);
        MUST(ftruncate(fd, 10) == 0 && fsync(fd) == 0);
        MUST(lseek(fd, 0, SEEK_END) == 10);
        MUST(close(fd) == 0 && stat(name, &s) == 0 && unlink(name) == 0);
        MUST(stat(name, &s) == -1 && errno == ENOENT);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
    MUST(came > 20);
    printf("signals came\n");
    return 0;
}
