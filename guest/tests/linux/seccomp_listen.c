// Somebody decides about calls of others: SECCOMP_FILTER_FLAG_NEW_LISTENER.
// oracle: linux
#include "notices.h"
#include <poll.h>

enum { ACTION_AVAIL = 2, SIZES };

static int events(int fd, int timeout) {
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    int count = poll(&one, 1, timeout);
    return count < 0 ? -errno : one.revents;
}

static long answer(int fd, struct response response) { return result_of(ioctl(fd, SEND, &response)); }

static void on_alarm(int signal) { (void)signal; }

// What is decided about: getppid with arguments that are passed on.
static long ask(long a, long b) {
    long result = syscall(SYS_getppid, a, b);
    return result == -1 ? -errno : result;
}

static void asks(int socket) {
    pid_t parent = getppid();
    int fd = install(SYS_getppid, LISTENER);
    printf("cloexec %d, a second one %ld, one without %d\n", fcntl(fd, F_GETFD), install(SYS_getpgrp, LISTENER),
           install(SYS_getpgrp, 0) == 0);
    // There is nobody for this one.
    errno = 0;
    long group = syscall(SYS_getpgrp);
    printf("for nobody: %ld %d\n", group, errno);
    give(socket, fd);
    close(fd);
    printf("value: %ld\n", ask(1, 2));
    printf("error: %ld\n", ask(3, 4));
    printf("made: %d\n", ask(5, 6) == parent);
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGUSR1, &action, NULL);
    printf("interrupted: %ld\n", ask(7, 0));
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    printf("interrupted and again: %ld\n", ask(8, 0));
    pid_t child = fork();
    if (child == 0) _exit(ask(9, 0));
    int status;
    waitpid(child, &status, 0);
    printf("of a child: %d\n", status >> 8);
    printf("when nobody listens any more: %ld\n", ask(10, 0));
    fflush(stdout);
    _exit(3);
}

int main(void) {
    uint16_t sizes[3];
    MUST(syscall(SYS_seccomp, SIZES, 0, sizes) == 0);
    printf("sizes: %u %u %u, flags %ld\n", sizes[0], sizes[1], sizes[2], result_of(syscall(SYS_seccomp, SIZES, 1, sizes)));
    uint32_t action = NOTIFY;
    printf("there: %ld\n", result_of(syscall(SYS_seccomp, ACTION_AVAIL, 0, &action)));
    printf("all threads: %ld\n", install(SYS_getppid, LISTENER | TSYNC));
    int pair[2], said[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(said) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        // What it says comes at the end.
        dup2(said[1], 1);
        asks(pair[1]);
    }
    close(said[1]);
    int fd = taken(pair[0]);
    struct notice bad = {.flags = 1};
    printf("no zeroes: %ld, nowhere: %ld\n", result_of(ioctl(fd, RECV, &bad)), result_of(ioctl(fd, RECV, 8)));
    printf("comes: %x\n", events(fd, 5000) & POLLIN);
    struct notice one = next(fd);
    printf("call %d of the child %d, architecture %x, arguments %lu %lu, flags %u\n", one.data.number == SYS_getppid,
           one.pid == (uint32_t)child, one.data.architecture, one.data.arguments[0], one.data.arguments[1], one.flags);
    printf("told: %x, valid %d, another %d\n", events(fd, 0), is_valid(fd, one.id), is_valid(fd, one.id + 7));
    printf("refused: %ld %ld %ld\n", answer(fd, (struct response){one.id, 1, 0, CONTINUE}),
           answer(fd, (struct response){one.id, 0, 0, 8}), answer(fd, (struct response){one.id + 7, 0, 0, 0}));
    printf("decided: %ld\n", answer(fd, (struct response){one.id, 1234, 0, 0}));
    struct notice two = next(fd);
    printf("next: %d, the one before %d %ld\n", two.id != one.id, is_valid(fd, one.id), answer(fd, (struct response){one.id}));
    printf("decided: %ld\n", answer(fd, (struct response){two.id, 0, -EXDEV, 0}));
    struct notice three = next(fd);
    printf("decided: %ld\n", answer(fd, (struct response){three.id, 0, 0, CONTINUE}));
    struct notice four = next(fd);
    kill(child, SIGUSR1);
    while (is_valid(fd, four.id) == 0) usleep(1000);
    printf("left: %d, %ld\n", is_valid(fd, four.id), answer(fd, (struct response){four.id, 1, 0, 0}));
    struct notice five = next(fd);
    kill(child, SIGUSR1);
    while (is_valid(fd, five.id) == 0) usleep(1000);
    struct notice six = next(fd);
    printf("once more: %lu, another id %d\n", six.data.arguments[0], six.id != five.id);
    printf("decided: %ld\n", answer(fd, (struct response){six.id, 88, 0, 0}));
    struct notice seven = next(fd);
    printf("of another process: %d\n", seven.pid != (uint32_t)child);
    printf("decided: %ld\n", answer(fd, (struct response){seven.id, 77, 0, 0}));
    struct notice eight = next(fd);
    printf("the last: %lu\n", eight.data.arguments[0]);
    int other = dup(fd);
    close(fd);
    printf("no such: %ld\n", result_of(ioctl(other, 0x1234, 0)));
    close(other);
    int status;
    waitpid(child, &status, 0);
    printf("ended: %x\n", status);
    char text[2000];
    for (long bytes; (bytes = read(said[0], text, sizeof text)) > 0;) MUST(fwrite(text, 1, bytes, stdout) == (size_t)bytes);

    // Who ends is heard of, too.
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    child = fork();
    if (child == 0) {
        give(pair[1], install(SYS_getppid, LISTENER));
        ask(1, 1);
        _exit(0);
    }
    fd = taken(pair[0]);
    one = next(fd);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    printf("killed: %x, valid %d, over %x\n", status, is_valid(fd, one.id), events(fd, 5000) & (POLLHUP | POLLIN | POLLOUT));
    return 0;
}
