// Urgent bytes of streams of the internet: out of the stream and in it (`SO_OOBINLINE`), marks (`SIOCATMARK`), who is told (`SIGURG`, `POLLPRI`), two one
// after the other, looking, waiting for all, what is counted, ends of connections, and those who cannot have any.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SIOCATMARK
#define SIOCATMARK 0x8905
#endif
#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}
static int on = 1, off = 0, from, to, door;
static volatile int urged;
static void urge(int signal) { urged += signal == SIGURG; }

static void connect_two(void) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    door = socket(AF_INET, SOCK_STREAM, 0);
    bind(door, (void *)&address, len);
    listen(door, 5);
    getsockname(door, (void *)&address, &len);
    from = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(from, (void *)&address, len) < 0) perror("connect");
    to = accept(door, 0, 0);
}
static void close_two(void) {
    close(from);
    close(to);
    close(door);
}
// Loopback connections have a moment, too, until what was sent is there.
static void settle(void) { usleep(20000); }
static void push(const char *bytes, int flags) {
    long sent = send(from, bytes, strlen(bytes), flags);
    printf("send %s%s: %ld%s\n", bytes, flags & MSG_OOB ? " urgent" : "", sent, sent < 0 ? " failed" : "");
    settle();
}
static void look(void) {
    int mark = -1, count = -1;
    if (ioctl(to, SIOCATMARK, &mark) < 0) mark = -errno;
    if (ioctl(to, FIONREAD, &count) < 0) count = -errno;
    struct pollfd one = { to, POLLIN | POLLPRI | POLLRDBAND | POLLRDHUP, 0 };
    poll(&one, 1, 0);
    printf("  mark %d, %d to read, %#x\n", mark, count, one.revents);
}
static void pull(size_t most, int flags) {
    char bytes[64] = "";
    long got = recv(to, bytes, most, flags | MSG_DONTWAIT);
    const char *what = flags & MSG_OOB ? " urgent" : "";
    const char *how = flags & MSG_PEEK ? " looking" : "";
    if (got < 0) printf("  recv %zu%s%s: errno %d\n", most, what, how, errno);
    else printf("  recv %zu%s%s: %ld %.*s\n", most, what, how, got, (int)got, bytes);
}

static void one(void) {
    puts("-- one");
    connect_two();
    pull(1, MSG_OOB);
    look();
    push("before", 0);
    push("abc", MSG_OOB);
    look();
    pull(3, 0);
    look();
    pull(30, MSG_PEEK);
    pull(30, 0);
    look();
    pull(1, MSG_OOB | MSG_PEEK);
    pull(0, MSG_OOB);
    pull(1, MSG_OOB);
    look();
    pull(30, 0);
    push("after", 0);
    look();
    pull(30, MSG_PEEK);
    pull(2, 0);
    look();
    pull(30, 0);
    look();
    puts("passed over without being asked for:");
    push("x", MSG_OOB);
    look();
    pull(30, 0);
    look();
    pull(1, MSG_OOB);
    puts("nothing, urgently:");
    SHOW(send(from, "", 0, MSG_OOB));
    settle();
    look();
    puts("asked for twice, and late:");
    push("yz", MSG_OOB);
    pull(5, MSG_OOB);
    pull(5, MSG_OOB);
    pull(30, 0);
    pull(30, 0);
    look();
    close_two();
}

static void two(void) {
    puts("-- two");
    connect_two();
    push("12", MSG_OOB);
    push("34", MSG_OOB);
    look();
    pull(30, 0);
    pull(1, MSG_OOB);
    pull(30, 0);
    puts("one at once behind another:");
    push("a", MSG_OOB);
    look();
    push("b", MSG_OOB);
    look();
    pull(1, MSG_OOB);
    pull(30, 0);
    look();
    puts("asked for, and a newer one:");
    push("cd", MSG_OOB);
    pull(1, MSG_OOB);
    push("ef", MSG_OOB);
    look();
    pull(30, 0);
    pull(1, MSG_OOB);
    pull(30, 0);
    close_two();
}

static void in_the_stream(void) {
    puts("-- in the stream");
    connect_two();
    SHOW(setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    push("abc", MSG_OOB);
    push("def", 0);
    look();
    pull(1, MSG_OOB);
    pull(30, 0);
    look();
    pull(30, MSG_PEEK);
    pull(1, 0);
    look();
    pull(30, 0);
    puts("changed on the way:");
    push("gh", MSG_OOB);
    SHOW(setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &off, sizeof off));
    look();
    pull(1, MSG_OOB);
    SHOW(setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    look();
    pull(30, 0);
    pull(30, 0);
    look();
    close_two();
}

static void who_is_told(void) {
    puts("-- who is told");
    connect_two();
    signal(SIGURG, urge);
    push("a", MSG_OOB);
    printf("nobody said so: %d\n", urged);
    pull(1, MSG_OOB);
    SHOW(fcntl(to, F_SETOWN, getpid()));
    push("b", MSG_OOB);
    printf("one: %d\n", urged);
    push("c", 0);
    printf("not of others: %d\n", urged);
    pull(1, MSG_OOB);
    pull(10, 0);
    fd_set urgent;
    FD_ZERO(&urgent);
    FD_SET(to, &urgent);
    struct timeval now = { 0, 0 };
    SHOW(select(to + 1, 0, 0, &urgent, &now));
    push("d", MSG_OOB);
    FD_ZERO(&urgent);
    FD_SET(to, &urgent);
    SHOW(select(to + 1, 0, 0, &urgent, &now));
    int set = epoll_create1(0);
    struct epoll_event event = { EPOLLPRI, { .u32 = 7 } };
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, to, &event));
    SHOW(epoll_wait(set, &event, 1, 0));
    printf("%#x %u\n", event.events, event.data.u32);
    pull(1, MSG_OOB);
    SHOW(epoll_wait(set, &event, 1, 0));
    SHOW(fcntl(to, F_SETOWN, 0));
    pid_t child = fork();
    if (!child) {
        usleep(30000);
        send(from, "e", 1, MSG_OOB);
        _exit(0);
    }
    SHOW(epoll_wait(set, &event, 1, 5000));
    waitpid(child, 0, 0);
    pull(1, MSG_OOB);
    SHOW(fcntl(to, F_SETOWN, getpid()));
    child = fork();
    if (!child) {
        usleep(30000);
        send(from, "f", 1, MSG_OOB);
        _exit(0);
    }
    // A signal ends the wait for a byte that is not read with the others.
    char byte;
    struct sigaction action = { .sa_handler = urge };
    sigaction(SIGURG, &action, 0);
    SHOW(recv(to, &byte, 1, 0));
    waitpid(child, 0, 0);
    pull(1, MSG_OOB);
    signal(SIGURG, SIG_DFL);
    close(set);
    close_two();
}

static void messages(void) {
    puts("-- messages");
    connect_two();
    push("xyz", MSG_OOB);
    char bytes[8] = "";
    struct iovec part = { bytes, 8 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    SHOW(recvmsg(to, &message, MSG_OOB));
    printf("%s %#x\n", bytes, message.msg_flags & ~MSG_CMSG_CLOEXEC);
    push("q", MSG_OOB);
    part.iov_len = 0;
    SHOW(recvmsg(to, &message, MSG_OOB | MSG_PEEK));
    printf("%#x\n", message.msg_flags & ~MSG_CMSG_CLOEXEC);
    SHOW(recv(to, bytes, 8, MSG_OOB | MSG_WAITALL));
    puts("waiting for all of it, over a mark:");
    pull(9, 0);
    push("ab", MSG_OOB);
    push("cd", 0);
    memset(bytes, 0, 8);
    SHOW(recv(to, bytes, 3, MSG_WAITALL));
    puts(bytes);
    SHOW(read(to, bytes, 8));
    SHOW(setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    push("ef", MSG_OOB);
    push("gh", 0);
    memset(bytes, 0, 8);
    SHOW(recv(to, bytes, 4, MSG_WAITALL));
    puts(bytes);
    SHOW(read(to, bytes, 8));
    SHOW(setsockopt(to, SOL_SOCKET, SO_OOBINLINE, &off, sizeof off));
    puts("read and write:");
    push("12", MSG_OOB);
    push("34", 0);
    memset(bytes, 0, 8);
    SHOW(read(to, bytes, 8));
    puts(bytes);
    memset(bytes, 0, 8);
    SHOW(read(to, bytes, 8));
    puts(bytes);
    close_two();
}

static void ends(void) {
    puts("-- ends");
    connect_two();
    push("ab", MSG_OOB);
    SHOW(shutdown(from, SHUT_WR));
    settle();
    look();
    pull(1, MSG_OOB);
    pull(9, 0);
    pull(9, 0);
    pull(9, 0);
    look();
    close_two();
    connect_two();
    push("c", MSG_OOB);
    close(from);
    settle();
    look();
    pull(9, 0);
    pull(1, MSG_OOB);
    close_two();
    connect_two();
    SHOW(shutdown(from, SHUT_WR));
    SHOW(send(from, "x", 1, MSG_OOB | MSG_NOSIGNAL));
    char byte;
    SHOW(recv(door, &byte, 1, MSG_OOB));
    int mark = -1, fresh = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(recv(fresh, &byte, 1, MSG_OOB));
    SHOW(send(fresh, &byte, 1, MSG_OOB | MSG_NOSIGNAL));
    SHOW(ioctl(fresh, SIOCATMARK, &mark));
    SHOW(ioctl(door, SIOCATMARK, &mark));
    SHOW(ioctl(datagram, SIOCATMARK, &mark));
    SHOW(ioctl(to, SIOCATMARK, (void *)8));
    close(fresh);
    close(datagram);
    close_two();
    // Who never reads holds no more than others, however urgent it is.
    connect_two();
    fcntl(from, F_SETFL, O_NONBLOCK);
    long total = 0, sent;
    char much[4096] = "";
    while ((sent = send(from, much, sizeof much, MSG_OOB)) > 0) total += sent;
    printf("%s\n", errno == EAGAIN && total > 100000 ? "full" : "not full");
    close_two();
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    one();
    two();
    in_the_stream();
    who_is_told();
    messages();
    ends();
    return 0;
}
