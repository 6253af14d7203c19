// Offsets and flags of open files: moved, shared by fork, vfork, exec and dup, read and written through.
// oracle: linux
#include "test.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

static char bytes[64];

static void show(const char *what, int fd) {
    ssize_t got = read(fd, bytes, 3);
    bytes[got < 0 ? 0 : got] = 0;
    printf("%s: %zd '%s', then at %ld\n", what, got, bytes, (long)lseek(fd, 0, SEEK_CUR));
}

static int new_file(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    SHOW(write(fd, "0123456789abcdefghij", 20));
    return fd;
}

static void moves(void) {
    int fd = new_file("offsets.data");
    show("at the end", fd);
    SHOW(lseek(fd, 5, SEEK_SET));
    show("five", fd);
    SHOW(lseek(fd, -2, SEEK_CUR));
    show("six", fd);
    SHOW(lseek(fd, -10, SEEK_CUR));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 0x7fffffffffffffff, SEEK_CUR));
    SHOW(lseek(fd, 0, 99));
    show("nine", fd);
    SHOW(lseek(fd, -4, SEEK_END));
    show("sixteen", fd);
    SHOW(lseek(fd, 30, SEEK_SET));
    show("behind the end", fd);
    SHOW(write(fd, "xyz", 3));
    SHOW(lseek(fd, -3, SEEK_CUR));
    show("what was written", fd);
    SHOW(lseek(fd, 18, SEEK_SET));
    show("up to the hole", fd);
    SHOW(pread(fd, bytes, 2, 1));
    SHOW(pwrite(fd, "Q", 1, 2));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 1, SEEK_SET));
    struct iovec two[2] = {{bytes, 2}, {bytes + 10, 2}};
    SHOW(readv(fd, two, 2));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 2, SEEK_SET));
    SHOW(writev(fd, two, 2));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 7, SEEK_SET));
    SHOW(read(fd, (void *)8, 3));
    show("nothing moved", fd);
    SHOW(lseek(fd, 4, SEEK_SET));
    SHOW(ftruncate(fd, 6));
    show("shorter", fd);
    int other = open("offsets.data", O_RDONLY);
    show("another description", other);
    SHOW(lseek(fd, 1, SEEK_SET));
    show("not moved", other);
    close(other);
    SHOW(fcntl(fd, F_SETFL, O_APPEND));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(write(fd, "end", 3));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 2, SEEK_SET));
    int ends[2];
    pipe(ends);
    SHOW(sendfile(ends[1], fd, NULL, 3));
    show("sent", fd);
    off_t at = 1;
    SHOW(lseek(fd, 2, SEEK_SET));
    SHOW(sendfile(ends[1], fd, &at, 3));
    show("not moved", fd);
    SHOW(lseek(ends[0], 0, SEEK_SET));
    close(ends[0]), close(ends[1]), close(fd);
}

static void shared(char **arguments) {
    int fd = new_file("offsets.data"), copy = dup(fd);
    SHOW(lseek(fd, 4, SEEK_SET));
    show("by the copy", copy);
    show("by the first", fd);
    SHOW(lseek(fd, 1, SEEK_SET));
    IN_CHILD("child", {
        show("in the child", fd);
        SHOW(lseek(copy, 12, SEEK_SET));
    });
    show("the child has moved it", fd);
    SHOW(lseek(fd, 2, SEEK_SET));
    IN_CHILD("another child", show("in the child", copy));
    show("and this one, too", copy);
    int later = open("offsets.data", O_RDWR);
    SHOW(lseek(later, 9, SEEK_SET));
    pid_t child = vfork();
    if (child == 0) {
        read(later, bytes, 2);
        lseek(fd, 17, SEEK_SET);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    show("moved in a vfork", fd);
    show("moved in a vfork", later);
    SHOW(lseek(later, 3, SEEK_SET));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        dup2(later, 0);
        execl(arguments[0], arguments[0], "reader", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    show("moved by a program", later);
    int flags = fcntl(later, F_GETFL);
    SHOW(fcntl(later, F_GETFL) == flags);
    child = fork();
    if (child == 0) _exit(fcntl(later, F_SETFL, O_APPEND | O_NONBLOCK));
    waitpid(child, NULL, 0);
    SHOW(fcntl(later, F_GETFL) - flags);
    int own = open("offsets.data", O_RDWR);
    SHOW(fcntl(own, F_SETFL, O_NONBLOCK));
    SHOW(fcntl(own, F_GETFL) - flags);
    SHOW(fcntl(own, F_SETFL, 0));
    SHOW(fcntl(own, F_GETFL) - flags);
    SHOW(lseek(own, 6, SEEK_SET));
    fflush(stdout);
    dup2(own, 0);
    execl(arguments[0], arguments[0], "last", NULL);
}

int main(int count, char **arguments) {
    if (count > 1) {
        show("another program", 0);
        SHOW(lseek(0, 1, SEEK_CUR));
        if (strcmp(arguments[1], "last") == 0) unlink("offsets.data");
        return 0;
    }
    moves();
    shared(arguments);
}
