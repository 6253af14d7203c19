// dup, fcntl, close, poll, select, and their errors.
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/uio.h>

int main(void) {
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SHOW(file);
    SHOW(dup(file));
    SHOW(dup2(file, 10));
    SHOW(dup2(file, file));
    SHOW(dup2(99, 3));
    SHOW(dup3(file, file, 0));
    SHOW(dup3(file, 11, O_CLOEXEC));
    SHOW(fcntl(11, F_GETFD));
    SHOW(fcntl(10, F_GETFD));
    SHOW(fcntl(file, F_DUPFD, 20));
    SHOW(fcntl(file, F_DUPFD_CLOEXEC, 20));
    SHOW(fcntl(21, F_GETFD));
    SHOW(fcntl(21, F_SETFD, 0));
    SHOW(fcntl(21, F_GETFD));
    SHOW(fcntl(file, F_GETFL) & (O_ACCMODE | O_APPEND));
    SHOW(fcntl(file, F_SETFL, O_APPEND));
    SHOW(fcntl(10, F_GETFL) & (O_ACCMODE | O_APPEND));
    SHOW(fcntl(file, 9999));
    SHOW(fcntl(99, F_GETFD));
    SHOW(write(10, "12345", 5));
    SHOW(lseek(file, 0, SEEK_CUR));
    SHOW(close(10));
    SHOW(close(10));
    SHOW(close(-1));
    SHOW(write(10, "x", 1));
    SHOW(read(file, NULL, 0));
    struct iovec parts[3] = {{"ab", 2}, {NULL, 0}, {"cde", 3}};
    SHOW(writev(file, parts, 3));
    SHOW(syscall(SYS_writev, file, parts, -1));
    char back[20] = "";
    SHOW(pread(file, back, sizeof back, 3));
    puts(back);
    SHOW(ioctl(file, TIOCGWINSZ, back));
    CHECK(isatty(file) == 0 && errno == ENOTTY);

    int ends[2];
    pipe(ends);
    struct pollfd polled[3] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}, {77, POLLIN, 0}};
    SHOW(poll(polled, 3, 0));
    printf("%#x %#x %#x\n", polled[0].revents, polled[1].revents, polled[2].revents);
    write(ends[1], "x", 1);
    SHOW(poll(polled, 1, -1));
    printf("%#x\n", polled[0].revents);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval none = {0};
    SHOW(select(ends[0] + 1, &set, NULL, NULL, &none));
    CHECK(FD_ISSET(ends[0], &set));
    read(ends[0], back, 1);
    SHOW(select(ends[0] + 1, &set, NULL, NULL, &none));
    CHECK(!FD_ISSET(ends[0], &set));
    FD_SET(50, &set);
    SHOW(select(51, &set, NULL, NULL, &none));
    SHOW(poll(NULL, 0, 20));
    close(ends[1]);
    SHOW(poll(polled, 1, -1));
    printf("%#x\n", polled[0].revents);
    polled[0].fd = file, polled[0].events = POLLIN | POLLOUT;
    SHOW(poll(polled, 1, -1));
    printf("%#x\n", polled[0].revents);
    polled[0].fd = -1;
    SHOW(poll(polled, 1, 0));
    SHOW(syscall(SYS_close_range, 20, 30, 0));
    SHOW(fcntl(20, F_GETFD));
    return 0;
}
