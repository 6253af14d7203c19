// Streams of the internet over loopback: the errors of every call, names, half-closed connections, resets, what poll tells in each
// state, peeking, waiting for all, connecting without waiting, signals, timeouts.
// oracle: linux
// build: gcc, musl
// cores: 4
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

static volatile int pipes;
static void on_pipe(int sig) { (void)sig; pipes++; }

static struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}
static int bind_to(int fd, const char *ip, int port) {
    struct sockaddr_in address = at(ip, port);
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}
static int connect_to(int fd, const char *ip, int port) {
    struct sockaddr_in address = at(ip, port);
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}
static int port_of(int fd) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) < 0) return -1;
    return ntohs(address.sin_port);
}
static int tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int listener(int backlog) {
    int fd = tcp();
    if (bind_to(fd, "127.0.0.1", 0) < 0 || listen(fd, backlog) < 0) { perror("listener"); exit(1); }
    return fd;
}
// A connection: [0] has connected, [1] was accepted.
static void pair(int both[2]) {
    int door = listener(5);
    both[0] = tcp();
    if (connect_to(both[0], "127.0.0.1", port_of(door)) < 0) { perror("connect"); exit(1); }
    both[1] = accept(door, NULL, NULL);
    close(door);
}
static void state(const char *what, int fd) {
    struct pollfd one = { fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0 };
    int ready = poll(&one, 1, 0);
    printf("%s: %d, %#x\n", what, ready, one.revents);
}
static int error_of(int fd) {
    int error = -1;
    socklen_t len = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return error;
}
static void settle(void) { usleep(50000); }

static void making(void) {
    puts("-- making");
    SHOW(socket(AF_INET, 77, 0));
    SHOW(socket(AF_INET, SOCK_SEQPACKET, 0));
    SHOW(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    SHOW(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
    SHOW(socket(99, SOCK_STREAM, 0));
    SHOW(socket(AF_INET, SOCK_STREAM | 0x1000, 0));
    int two[2];
    SHOW(socketpair(AF_INET, SOCK_STREAM, 0, two));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    printf("flags %#x, %#x\n", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    struct stat about;
    fstat(fd, &about);
    printf("mode %o, size %ld\n", about.st_mode, (long)about.st_size);
    SHOW(lseek(fd, 0, SEEK_SET));
    errno = 0;
    SHOW(pread(fd, two, 1, 0));
    close(fd);
}

static void binding(void) {
    puts("-- binding");
    int fd = tcp(), other = tcp();
    struct sockaddr_in address = at("127.0.0.1", 0);
    SHOW(bind(fd, (struct sockaddr *)&address, 2));
    SHOW(bind(fd, (struct sockaddr *)&address, 15));
    SHOW(bind(fd, (struct sockaddr *)&address, 1000));
    SHOW(bind(fd, (struct sockaddr *)1, sizeof address));
    address.sin_family = AF_UNIX;
    SHOW(bind(fd, (struct sockaddr *)&address, sizeof address));
    address.sin_family = AF_UNSPEC;
    SHOW(bind(fd, (struct sockaddr *)&address, sizeof address));
    SHOW(bind_to(fd, "192.0.2.1", 0));
    SHOW(bind_to(fd, "127.0.0.1", 0));
    printf("has a port: %d\n", port_of(fd) >= 1024);
    SHOW(bind_to(fd, "127.0.0.1", 0));
    int port = port_of(fd);
    SHOW(bind_to(other, "127.0.0.1", port));
    SHOW(bind_to(other, "0.0.0.0", port));
    SHOW(bind_to(other, "127.0.0.2", port));
    SHOW(listen(fd, 1));
    SHOW(listen(fd, 3));
    SHOW(listen(other, 3));
    SHOW(bind_to(-1, "127.0.0.1", 0));
    SHOW(bind_to(0, "127.0.0.1", 0));
    close(other);
    // Both want to share, and neither listens.
    int one = 1, first = tcp(), second = tcp();
    setsockopt(first, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(second, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    SHOW(bind_to(first, "127.0.0.1", 0));
    SHOW(bind_to(second, "127.0.0.1", port_of(first)));
    SHOW(listen(first, 1));
    SHOW(listen(second, 1));
    close(first), close(second);
    first = tcp(), second = tcp();
    setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    SHOW(bind_to(first, "127.0.0.1", 0));
    SHOW(bind_to(second, "127.0.0.1", port_of(first)));
    setsockopt(second, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    SHOW(bind_to(second, "127.0.0.1", port_of(first)));
    SHOW(listen(first, 1));
    SHOW(listen(second, 1));
    close(first), close(second), close(fd);
    fd = tcp();
    SHOW(listen(fd, 1));
    printf("has a port: %d\n", port_of(fd) >= 1024);
    close(fd);
}

static void unconnected(void) {
    puts("-- not connected");
    char byte[4];
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int fd = tcp();
    state("fresh", fd);
    SHOW(send(fd, "x", 1, MSG_NOSIGNAL));
    SHOW(send(fd, "x", 1, 0));
    printf("pipes %d\n", pipes);
    SHOW(recv(fd, byte, 1, 0));
    SHOW(getpeername(fd, (struct sockaddr *)&address, &len));
    SHOW(accept(fd, NULL, NULL));
    SHOW(shutdown(fd, SHUT_WR));
    SHOW(shutdown(fd, 7));
    struct sockaddr_in to = at("127.0.0.1", 1);
    SHOW(sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to));
    close(fd);
    fd = listener(2);
    state("listens", fd);
    SHOW(recv(fd, byte, 1, 0));
    SHOW(send(fd, "x", 1, MSG_NOSIGNAL));
    SHOW(connect_to(fd, "127.0.0.1", 1));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    SHOW(accept(fd, NULL, NULL));
    SHOW(syscall(SYS_accept4, fd, NULL, NULL, 5));
    SHOW(ioctl(fd, FIONREAD, byte));
    SHOW(shutdown(fd, SHUT_WR));
    state("listens, mute", fd);
    SHOW(shutdown(fd, SHUT_RD));
    state("listens no more", fd);
    SHOW(accept(fd, NULL, NULL));
    close(fd);
    SHOW(accept(0, NULL, NULL));
    SHOW(listen(0, 1));
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(accept(udp, NULL, NULL));
    SHOW(listen(udp, 1));
    close(udp);
}

static void connecting(void) {
    puts("-- connecting");
    int door = listener(5), port = port_of(door), fd = tcp();
    struct sockaddr_in address = at("127.0.0.1", port);
    SHOW(connect(fd, (struct sockaddr *)&address, 1));
    SHOW(connect(fd, (struct sockaddr *)&address, 8));
    address.sin_family = AF_INET6;
    SHOW(connect(fd, (struct sockaddr *)&address, sizeof address));
    SHOW(connect_to(fd, "127.0.0.1", port));
    SHOW(connect_to(fd, "127.0.0.1", port));
    state("connected", fd);
    socklen_t len = sizeof address;
    int end = accept(door, (struct sockaddr *)&address, &len);
    printf("from %s, the port is that of the other end: %d, %d bytes\n", inet_ntoa(address.sin_addr), ntohs(address.sin_port) == port_of(fd), len);
    len = 4;
    memset(&address, 0, sizeof address);
    SHOW(getpeername(fd, (struct sockaddr *)&address, &len));
    printf("%d bytes, port %d, address %#x\n", len, ntohs(address.sin_port) == port, address.sin_addr.s_addr);
    printf("ports agree: %d\n", port_of(end) == port);
    close(end), close(fd), close(door);
    settle();
    fd = tcp();
    SHOW(connect_to(fd, "127.0.0.1", port));
    state("refused", fd);
    SHOW(connect_to(fd, "127.0.0.1", port));
    close(fd);
    fd = tcp();
    SHOW(connect_to(fd, "255.255.255.255", 9));
    SHOW(connect_to(fd, "127.0.0.1", 0));
    close(fd);
    // Without waiting.
    door = listener(5), port = port_of(door);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect_to(fd, "127.0.0.1", port));
    settle();
    state("connected", fd);
    printf("error %d\n", error_of(fd));
    SHOW(connect_to(fd, "127.0.0.1", port));
    SHOW(connect_to(fd, "127.0.0.1", port));
    close(fd), close(door);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect_to(fd, "127.0.0.1", port));
    settle();
    state("refused", fd);
    printf("error %d, %d\n", error_of(fd), error_of(fd));
    state("refused, told", fd);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect_to(fd, "127.0.0.1", port));
    settle();
    SHOW(connect_to(fd, "127.0.0.1", port));
    // To everywhere is to here.
    door = listener(5);
    int here = tcp();
    SHOW(connect_to(here, "0.0.0.0", port_of(door)));
    len = sizeof address;
    getpeername(here, (struct sockaddr *)&address, &len);
    printf("to %s\n", inet_ntoa(address.sin_addr));
    // To nobody again.
    struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    SHOW(connect(here, &nobody, sizeof nobody));
    SHOW(getpeername(here, (struct sockaddr *)&address, &len));
    SHOW(connect_to(here, "127.0.0.1", port_of(door)));
    close(here), close(door), close(fd);
}

static void closing(void) {
    puts("-- closing");
    int both[2];
    char bytes[16];
    pair(both);
    SHOW(write(both[0], "hello", 5));
    SHOW(shutdown(both[0], SHUT_WR));
    settle();
    state("other end is done", both[1]);
    state("this end is done", both[0]);
    SHOW(send(both[0], "x", 1, MSG_NOSIGNAL));
    SHOW(read(both[1], bytes, 16));
    SHOW(read(both[1], bytes, 16));
    SHOW(write(both[1], "back", 4));
    settle();
    SHOW(read(both[0], bytes, 16));
    SHOW(shutdown(both[1], SHUT_WR));
    settle();
    state("both are done", both[0]);
    state("both are done", both[1]);
    SHOW(read(both[0], bytes, 16));
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    SHOW(getpeername(both[0], (struct sockaddr *)&address, &len));
    SHOW(getpeername(both[1], (struct sockaddr *)&address, &len));
    SHOW(shutdown(both[1], SHUT_RDWR));
    close(both[0]), close(both[1]);
    // Closed, while the other one still sends.
    pair(both);
    close(both[0]);
    settle();
    state("other end is closed", both[1]);
    SHOW(send(both[1], "x", 1, MSG_NOSIGNAL));
    settle();
    state("reset behind the end", both[1]);
    SHOW(recv(both[1], bytes, 16, 0));
    SHOW(send(both[1], "x", 1, MSG_NOSIGNAL));
    pipes = 0;
    SHOW(send(both[1], "x", 1, 0));
    printf("pipes %d\n", pipes);
    close(both[1]);
    // Closed with something unread.
    pair(both);
    SHOW(write(both[0], "lost", 4));
    SHOW(write(both[1], "kept", 4));
    settle();
    close(both[1]);
    settle();
    state("reset", both[0]);
    SHOW(recv(both[0], bytes, 16, 0));
    SHOW(recv(both[0], bytes, 16, 0));
    SHOW(recv(both[0], bytes, 16, 0));
    SHOW(send(both[0], "x", 1, MSG_NOSIGNAL));
    SHOW(shutdown(both[0], SHUT_RDWR));
    close(both[0]);
    // Closed with a reset.
    pair(both);
    struct linger hard = { 1, 0 };
    SHOW(setsockopt(both[1], SOL_SOCKET, SO_LINGER, &hard, sizeof hard));
    close(both[1]);
    settle();
    printf("error %d, %d\n", error_of(both[0]), error_of(both[0]));
    SHOW(recv(both[0], bytes, 16, 0));
    close(both[0]);
    // Nothing more is read: what comes is there all the same.
    pair(both);
    SHOW(shutdown(both[0], SHUT_RD));
    state("deaf", both[0]);
    SHOW(recv(both[0], bytes, 16, 0));
    SHOW(send(both[1], "abc", 3, 0));
    settle();
    SHOW(recv(both[0], bytes, 16, 0));
    SHOW(recv(both[0], bytes, 16, 0));
    SHOW(send(both[0], "abc", 3, 0));
    close(both[0]), close(both[1]);
    // Connections that were never accepted.
    int door = listener(5), fd = tcp();
    SHOW(connect_to(fd, "127.0.0.1", port_of(door)));
    SHOW(send(fd, "early", 5, 0));
    close(door);
    settle();
    SHOW(recv(fd, bytes, 16, 0));
    close(fd);
    // Accepted when the other end is gone already.
    door = listener(5), fd = tcp();
    SHOW(connect_to(fd, "127.0.0.1", port_of(door)));
    SHOW(send(fd, "early", 5, 0));
    close(fd);
    settle();
    fd = accept(door, NULL, NULL);
    SHOW(recv(fd, bytes, 16, 0));
    SHOW(recv(fd, bytes, 16, 0));
    close(fd), close(door);
}

static void moving(void) {
    puts("-- moving");
    int both[2], count;
    char bytes[64];
    pair(both);
    state("nothing", both[0]);
    SHOW(send(both[1], "0123456789", 10, 0));
    settle();
    state("something", both[0]);
    SHOW(ioctl(both[0], FIONREAD, &count));
    printf("%d\n", count);
    SHOW(recv(both[0], bytes, 4, MSG_PEEK));
    SHOW(recv(both[0], bytes, 4, 0));
    printf("%.4s\n", bytes);
    SHOW(recv(both[0], bytes, 64, MSG_DONTWAIT));
    printf("%.6s\n", bytes);
    SHOW(recv(both[0], bytes, 64, MSG_DONTWAIT));
    SHOW(recv(both[0], bytes, 0, MSG_DONTWAIT));
    SHOW(send(both[0], bytes, 0, 0));
    struct iovec parts[2] = { { "ab", 2 }, { "cde", 3 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    SHOW(sendmsg(both[1], &message, 0));
    struct sockaddr_in from;
    struct iovec in = { bytes, 64 };
    struct msghdr got = { .msg_iov = &in, .msg_iovlen = 1, .msg_name = &from, .msg_namelen = sizeof from, .msg_flags = -1 };
    SHOW(recvmsg(both[0], &got, 0));
    printf("name of %d bytes, flags %#x, %.5s\n", got.msg_namelen, got.msg_flags, bytes);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 5; i++) {
            usleep(20000);
            write(both[1], "piece", 5);
        }
        _exit(0);
    }
    SHOW(recv(both[0], bytes, 25, MSG_WAITALL));
    printf("%.25s\n", bytes);
    wait(NULL);
    // Times.
    struct timeval time = { 0, 100000 };
    SHOW(setsockopt(both[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    SHOW(recv(both[0], bytes, 1, 0));
    fcntl(both[1], F_SETFL, O_NONBLOCK);
    static char much[1 << 20];
    long all = 0, part;
    while ((part = send(both[1], much, sizeof much, 0)) > 0) all += part;
    printf("full: %ld, errno %d, more than 64 KiB: %d\n", part, errno, all > 65536);
    state("full", both[1]);
    long read_all = 0;
    while (read_all < all && (part = recv(both[0], much, sizeof much, 0)) > 0) read_all += part;
    printf("all came: %d\n", read_all == all);
    settle();
    state("empty", both[1]);
    close(both[0]), close(both[1]);
    // 16 MiB, both ways at once.
    pair(both);
    child = fork();
    unsigned sum = 0;
    long total = 16 << 20;
    if (!child) {
        pid_t writer = fork();
        if (!writer) {
            for (long done = 0; done < total;) {
                for (int i = 0; i < 5000; i++) much[i] = (done + i) * 7;
                long n = write(both[1], much, total - done < 5000 ? total - done : 5000);
                if (n < 0) _exit(1);
                done += n;
            }
            _exit(0);
        }
        long done = 0, n;
        while (done < total && (n = read(both[1], much, sizeof much)) > 0) done += n;
        int status;
        waitpid(writer, &status, 0);
        _exit(done != total || status);
    }
    pid_t writer = fork();
    if (!writer) {
        for (long done = 0; done < total;) {
            long n = write(both[0], much, total - done < 300000 ? total - done : 300000);
            if (n < 0) _exit(1);
            done += n;
        }
        _exit(0);
    }
    long done = 0, wrong = 0;
    while (done < total && (part = read(both[0], much, 100000)) > 0) {
        for (long i = 0; i < part; i++) wrong += (unsigned char)much[i] != (unsigned char)((done + i) * 7), sum += (unsigned char)much[i];
        done += part;
    }
    int status = 0, other = 0;
    waitpid(writer, &status, 0);
    waitpid(child, &other, 0);
    printf("%ld bytes, %ld wrong, sum %u, ends %d %d\n", done, wrong, sum, status, other);
    close(both[0]), close(both[1]);
}

static void options(void) {
    puts("-- options");
    int fd = tcp(), value, list[] = { SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_ERROR, SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_BROADCAST, SO_RCVLOWAT, SO_OOBINLINE, SO_DONTROUTE };
    socklen_t len;
    for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
        value = -1, len = sizeof value;
        int result = getsockopt(fd, SOL_SOCKET, list[i], &value, &len);
        printf("%d: %d, %d of %d\n", list[i], result, value, len);
    }
    int one = 1, settable[] = { SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_BROADCAST, SO_OOBINLINE };
    for (unsigned i = 0; i < sizeof settable / sizeof *settable; i++) {
        int result = setsockopt(fd, SOL_SOCKET, settable[i], &one, sizeof one);
        value = -1, len = sizeof value;
        getsockopt(fd, SOL_SOCKET, settable[i], &value, &len);
        printf("%d: %d, %d\n", settable[i], result, value);
    }
    int size = 50000;
    SHOW(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    len = sizeof value;
    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &len), printf("%d\n", value);
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &len), printf("%d\n", value);
    struct linger linger = { 1, 7 };
    SHOW(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    memset(&linger, 0, sizeof linger);
    len = sizeof linger;
    getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len);
    printf("linger %d, %d\n", linger.l_onoff, linger.l_linger);
    SHOW(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    len = sizeof value;
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), printf("no delay %d\n", value);
    int tcps[] = { TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_CORK, TCP_DEFER_ACCEPT, TCP_USER_TIMEOUT };
    for (unsigned i = 0; i < sizeof tcps / sizeof *tcps; i++) {
        len = sizeof value;
        int result = getsockopt(fd, IPPROTO_TCP, tcps[i], &value, &len);
        printf("tcp %d: %d, %d\n", tcps[i], result, value);
    }
    value = 0;
    SHOW(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value));
    value = 40000;
    SHOW(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value));
    value = 60;
    SHOW(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value));
    SHOW(setsockopt(fd, IPPROTO_TCP, 999, &value, sizeof value));
    SHOW(getsockopt(fd, IPPROTO_TCP, 999, &value, &len));
    SHOW(setsockopt(fd, SOL_SOCKET, 999, &value, sizeof value));
    SHOW(getsockopt(fd, SOL_SOCKET, 999, &value, &len));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, 3));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_TYPE, &one, sizeof one));
    value = 0x10;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof value));
    value = 300;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_TTL, &value, sizeof value));
    value = 9;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_TTL, &value, sizeof value));
    getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &len), printf("ttl %d\n", value);
    SHOW(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
    struct tcp_info info;
    memset(&info, 0, sizeof info);
    len = sizeof info;
    SHOW(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
    printf("state %d\n", info.tcpi_state);
    struct timeval time = { 0, 1000000 };
    SHOW(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    close(fd);
}

static void six(void) {
    puts("-- IPv6");
    int door = socket(AF_INET6, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in6 address = { .sin6_family = AF_INET6 }, from;
    SHOW(bind(door, (struct sockaddr *)&address, 20));
    SHOW(bind(door, (struct sockaddr *)&address, sizeof address));
    SHOW(setsockopt(door, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
    SHOW(listen(door, 5));
    socklen_t len = sizeof address;
    SHOW(getsockname(door, (struct sockaddr *)&address, &len));
    printf("%d bytes\n", len);
    int port = ntohs(address.sin6_port), fd = tcp();
    char text[64];
    SHOW(connect_to(fd, "127.0.0.1", port));
    len = sizeof from;
    int end = accept(door, (struct sockaddr *)&from, &len);
    printf("from %s\n", inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text));
    getsockname(end, (struct sockaddr *)&from, &len);
    printf("at %s\n", inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text));
    SHOW(write(fd, "six", 3));
    SHOW(read(end, text, 64));
    close(fd), close(end);
    int other = tcp();
    SHOW(bind_to(other, "127.0.0.1", port));
    close(other);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    address.sin6_addr = in6addr_loopback;
    SHOW(connect(fd, (struct sockaddr *)&address, sizeof address));
    len = sizeof from;
    end = accept(door, (struct sockaddr *)&from, &len);
    printf("from %s\n", inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text));
    close(fd), close(end), close(door);
    // Only IPv6.
    door = socket(AF_INET6, SOCK_STREAM, 0);
    SHOW(setsockopt(door, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
    address.sin6_addr = in6addr_any, address.sin6_port = 0;
    SHOW(bind(door, (struct sockaddr *)&address, sizeof address));
    SHOW(listen(door, 1));
    len = sizeof address;
    getsockname(door, (struct sockaddr *)&address, &len);
    fd = tcp();
    SHOW(connect_to(fd, "127.0.0.1", ntohs(address.sin6_port)));
    SHOW(bind_to(fd, "0.0.0.0", ntohs(address.sin6_port)));
    close(fd), close(door);
    // A mapped address.
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    door = listener(1);
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr);
    address.sin6_port = htons(port_of(door));
    SHOW(connect(fd, (struct sockaddr *)&address, sizeof address));
    len = sizeof from;
    getsockname(fd, (struct sockaddr *)&from, &len);
    printf("from %s\n", inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text));
    close(fd), close(door);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = { .sa_handler = on_pipe };
    sigaction(SIGPIPE, &action, NULL);
    // 0 is no socket, whoever runs this.
    close(0);
    open("/dev/null", O_RDWR);
    making();
    binding();
    unconnected();
    connecting();
    closing();
    moving();
    options();
    six();
    return 0;
}
