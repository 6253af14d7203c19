// A process with twelve thousand descriptors: of a file, of pipes and of connections that nobody uses, all of them watched; what it opens, closes, waits for and
// makes beside them is as with few.
// oracle: linux
// build: gcc, musl
// mem: 256M
#include "test.h"
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { ALL = 12000 };

int main(void) {
    struct rlimit limit = {ALL + 100, ALL + 100};
    SHOW(setrlimit(RLIMIT_NOFILE, &limit));
    char name[] = "/tmp/manyXXXXXX";
    int file = mkstemp(name), watch = epoll_create1(0), made = 0, pairs[2];
    static int ends[ALL];
    SHOW(write(file, "0123456789", 10));
    // Two thirds are ends of connections and pipes, which can be waited for.
    while (made + 3 <= ALL - 20) {
        if (made % 2 ? socketpair(AF_UNIX, SOCK_STREAM, 0, pairs) : pipe(pairs)) break;
        ends[made++] = pairs[0], ends[made++] = pairs[1];
        ends[made++] = dup(file);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = made};
        if (epoll_ctl(watch, EPOLL_CTL_ADD, pairs[0], &event)) break;
    }
    printf("made %d\n", made);
    struct epoll_event events[8];
    SHOW(epoll_wait(watch, events, 8, 0));
    // The last pipe and the first one.
    SHOW(write(ends[1], "x", 1));
    SHOW(write(ends[made - 2], "y", 1));
    SHOW(epoll_wait(watch, events, 8, -1));
    char byte;
    SHOW(read(ends[0], &byte, 1));
    SHOW(lseek(ends[2], 3, SEEK_SET));
    SHOW(read(ends[5], &byte, 1));
    printf("read %c\n", byte);
    // The lowest free number is taken, and no more than there may be.
    SHOW(close(ends[600]));
    SHOW(dup(file) == ends[600]);
    SHOW(dup2(file, ALL + 99));
    SHOW(dup2(file, ALL + 100));
    fflush(stdout);
    // A child has all of them, and closes them when it ends; another one all but three.
    for (int n = 0; n < 2; n++) {
        int pid = fork();
        if (pid == 0) {
            int there = 0;
            if (n) syscall(SYS_close_range, 3, ~0u, 0);
            for (int m = 0; m < made; m++) there += fcntl(ends[m], F_GETFD) >= 0;
            _exit(there == (n ? 0 : made) ? 7 : 8);
        }
        int status;
        SHOW(waitpid(pid, &status, 0) == pid);
        SHOW(status);
    }
    SHOW(fcntl(ends[made - 1], F_GETFD));
    SHOW(syscall(SYS_close_range, file + 1, ~0u, 0));
    SHOW(dup(file) == file + 1);
    unlink(name);
    return 0;
}
