// What stat says of /proc/PID/fd/N, with the link followed and not: of what has a name somewhere, of what has none, of another process's.
// build: gcc
// oracle: linux
#include "test.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static void show(const char *what, pid_t pid, int fd) {
    char path[64];
    struct stat own = {0}, followed = {0}, link = {0};
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    fstat(fd, &own);
    int failed = stat(path, &followed), link_failed = lstat(path, &link);
    printf("%s: stat %d type %o same %d mode %o, lstat %d type %o\n", what, failed, followed.st_mode & S_IFMT,
           own.st_dev == followed.st_dev && own.st_ino == followed.st_ino && own.st_mode == followed.st_mode, followed.st_mode & 0777, link_failed,
           link.st_mode & S_IFMT);
}

static void all(const char *who, pid_t pid, int *fds) {
    static const char *names[] = {"pipe, to read", "pipe, to write", "socket", "of the internet", "device", "file that has gone", "directory"};
    printf("%s\n", who);
    for (int i = 0; i < 7; i++) show(names[i], pid, fds[i]);
}

int main(void) {
    int fds[7], more[2], gate[2];
    pipe(fds);
    socketpair(AF_UNIX, SOCK_STREAM, 0, more);
    fds[2] = more[0];
    fds[3] = socket(AF_INET, SOCK_DGRAM, 0);
    fds[4] = open("/dev/null", O_RDWR);
    fds[5] = open("/tmp/gone", O_RDWR | O_CREAT, 0640);
    unlink("/tmp/gone");
    fds[6] = open("/tmp", O_RDONLY | O_DIRECTORY);
    all("own", getpid(), fds);
    int event = eventfd(0, 0), set = epoll_create1(0);
    struct stat stat_of;
    char path[64];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", i ? set : event);
        SHOW(stat(path, &stat_of));
        SHOW(stat_of.st_mode);
    }
    SHOW(stat("/proc/self/fd/99", &stat_of));
    pipe(gate);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(gate[1]);
        read(gate[0], &byte, 1);
        _exit(0);
    }
    all("of a child", child, fds);
    // Who may not look into it is not told.
    pid_t other = fork();
    if (other == 0) {
        setuid(1000);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", child, fds[0]);
        SHOW(stat(path, &stat_of));
        SHOW(lstat(path, &stat_of));
        fflush(stdout);
        _exit(0);
    }
    waitpid(other, NULL, 0);
    close(gate[1]);
    waitpid(child, NULL, 0);
    return 0;
}
