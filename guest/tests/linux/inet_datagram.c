// Datagrams of the internet over loopback: the errors of every call, names, who hears whom, what is cut, what is sent in parts, long ones,
// several at once, refusals, echo requests, ports that are shared.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}
static int udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
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
static long send_to(int fd, const void *bytes, size_t len, const char *ip, int port) {
    struct sockaddr_in address = at(ip, port);
    return sendto(fd, bytes, len, 0, (struct sockaddr *)&address, sizeof address);
}
static int port_of(int fd) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) < 0) return -1;
    return ntohs(address.sin_port);
}
static void state(const char *what, int fd) {
    struct pollfd one = { fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0 };
    int ready = poll(&one, 1, 0);
    printf("%s: %d, %#x\n", what, ready, one.revents);
}

static char much[70000], other[70000];

static void calls(void) {
    puts("-- calls");
    int here = udp(), there = udp(), count;
    char bytes[64];
    state("fresh", here);
    SHOW(send(there, "x", 1, 0));
    SHOW(write(there, "x", 1));
    SHOW(recv(here, bytes, 64, MSG_DONTWAIT));
    SHOW(bind_to(here, "127.0.0.1", 0));
    SHOW(bind_to(here, "127.0.0.1", 0));
    int port = port_of(here);
    SHOW(bind_to(there, "127.0.0.1", port));
    SHOW(send_to(there, "hello", 5, "127.0.0.1", port));
    SHOW(send_to(there, "", 0, "127.0.0.1", port));
    SHOW(send_to(there, "x", 1, "127.0.0.1", 0));
    struct sockaddr_in address = at("127.0.0.1", port);
    SHOW(sendto(there, "x", 1, 0, (struct sockaddr *)&address, 8));
    address.sin_family = AF_INET6;
    SHOW(sendto(there, "x", 1, 0, (struct sockaddr *)&address, sizeof address));
    SHOW(send_to(there, "x", 1, "255.255.255.255", 9));
    state("something", here);
    SHOW(ioctl(here, FIONREAD, &count));
    printf("%d\n", count);
    socklen_t len = sizeof address;
    SHOW(recvfrom(here, bytes, 3, MSG_PEEK | MSG_TRUNC, (struct sockaddr *)&address, &len));
    printf("%.3s from %s, own port: %d, %d bytes\n", bytes, inet_ntoa(address.sin_addr), ntohs(address.sin_port) == port_of(there), len);
    struct iovec vec = { bytes, 2 };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_name = &address, .msg_namelen = 4 };
    SHOW(recvmsg(here, &message, 0));
    printf("%.2s, flags %#x, name of %d\n", bytes, message.msg_flags, message.msg_namelen);
    SHOW(recv(here, bytes, 64, 0));
    SHOW(recv(here, bytes, 64, MSG_DONTWAIT));
    struct timeval time = { 0, 50000 };
    setsockopt(here, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    SHOW(recv(here, bytes, 64, 0));
    SHOW(shutdown(here, SHUT_RD));
    len = sizeof address;
    SHOW(getpeername(here, (struct sockaddr *)&address, &len));
    close(here), close(there);
}

static void connected(void) {
    puts("-- connected");
    int here = udp(), there = udp(), stranger = udp();
    char bytes[64];
    bind_to(here, "127.0.0.1", 0), bind_to(there, "127.0.0.1", 0), bind_to(stranger, "127.0.0.1", 0);
    SHOW(connect_to(here, "127.0.0.1", port_of(there)));
    SHOW(send(here, "one", 3, 0));
    SHOW(recv(there, bytes, 64, 0));
    SHOW(send_to(stranger, "no", 2, "127.0.0.1", port_of(here)));
    SHOW(send_to(there, "yes", 3, "127.0.0.1", port_of(here)));
    SHOW(recv(here, bytes, 64, MSG_DONTWAIT));
    printf("%.3s\n", bytes);
    SHOW(recv(here, bytes, 64, MSG_DONTWAIT));
    SHOW(send_to(here, "aside", 5, "127.0.0.1", port_of(stranger)));
    SHOW(recv(stranger, bytes, 64, MSG_DONTWAIT));
    int gone = port_of(there);
    close(there);
    SHOW(send(here, "two", 3, 0));
    state("refused", here);
    SHOW(send(here, "three", 5, 0));
    SHOW(send(here, "four", 4, 0));
    SHOW(recv(here, bytes, 64, MSG_DONTWAIT));
    SHOW(recv(here, bytes, 64, MSG_DONTWAIT));
    SHOW(send_to(stranger, "x", 1, "127.0.0.1", gone));
    SHOW(recv(stranger, bytes, 64, MSG_DONTWAIT));
    struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    SHOW(connect(here, &nobody, sizeof nobody));
    SHOW(send(here, "x", 1, 0));
    SHOW(shutdown(here, SHUT_WR));
    SHOW(connect_to(here, "127.0.0.1", port_of(stranger)));
    SHOW(shutdown(here, SHUT_WR));
    close(here), close(stranger);
    // Who connects has an address, and gives it back.
    here = udp();
    SHOW(connect_to(here, "127.0.0.1", 9));
    printf("has a port: %d\n", port_of(here) > 0);
    SHOW(connect(here, &nobody, sizeof nobody));
    printf("port %d\n", port_of(here));
    close(here);
}

static void lengths(void) {
    puts("-- lengths");
    int here = udp(), there = udp(), size = 400000;
    setsockopt(here, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    bind_to(here, "127.0.0.1", 0);
    connect_to(there, "127.0.0.1", port_of(here));
    for (int i = 0; i < 70000; i++) much[i] = i * 7 + i / 256;
    int all[] = { 1, 1400, 9000, 11000, 12288, 20000, 40000, 65507, 65508, 70000 };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        long sent = send(there, much, all[i], 0);
        int error = errno;
        long got = sent < 0 ? 0 : recv(here, other, sizeof other, MSG_DONTWAIT);
        printf("%d: %ld%s, %ld, same: %d\n", all[i], sent, sent < 0 && error == EMSGSIZE ? " too long" : "", got, !memcmp(much, other, got > 0 ? got : 0));
    }
    SHOW(send(there, much, 60000, 0));
    SHOW(recv(here, other, 30000, MSG_PEEK));
    SHOW(recv(here, other, 30000, MSG_TRUNC));
    SHOW(recv(here, other, 30000, MSG_DONTWAIT));
    // In parts.
    SHOW(send(there, "one ", 4, MSG_MORE));
    SHOW(recv(here, other, 64, MSG_DONTWAIT));
    SHOW(send(there, "two ", 4, MSG_MORE));
    SHOW(send(there, "three", 5, 0));
    SHOW(recv(here, other, 64, MSG_DONTWAIT));
    printf("%.13s\n", other);
    // More than there is room for is lost.
    long sent = 0, came = 0;
    for (int i = 0; i < 2000; i++) sent += send(there, much, 1000, MSG_DONTWAIT) == 1000;
    while (recv(here, other, 2000, MSG_DONTWAIT) == 1000) came++;
    printf("sent %ld, some came: %d, not all: %d\n", sent, came > 100, came < 2000);
    close(here), close(there);
}

static void several(void) {
    puts("-- several");
    int here = udp(), there = udp();
    bind_to(here, "127.0.0.1", 0);
    connect_to(there, "127.0.0.1", port_of(here));
    struct iovec parts[3] = { { "a", 1 }, { "bb", 2 }, { "ccc", 3 } };
    struct mmsghdr out[3] = { 0 }, in[5] = { 0 };
    char bytes[5][8];
    struct iovec rooms[5];
    for (int i = 0; i < 3; i++) out[i].msg_hdr.msg_iov = &parts[i], out[i].msg_hdr.msg_iovlen = 1;
    for (int i = 0; i < 5; i++) rooms[i] = (struct iovec){ bytes[i], 8 }, in[i].msg_hdr.msg_iov = &rooms[i], in[i].msg_hdr.msg_iovlen = 1;
    SHOW(sendmmsg(there, out, 3, 0));
    printf("%u %u %u\n", out[0].msg_len, out[1].msg_len, out[2].msg_len);
    SHOW(recvmmsg(here, in, 5, MSG_WAITFORONE, NULL));
    printf("%u %u %u, %.3s\n", in[0].msg_len, in[1].msg_len, in[2].msg_len, bytes[2]);
    SHOW(recvmmsg(here, in, 5, MSG_DONTWAIT, NULL));
    // A child has the same socket.
    if (!fork()) {
        SHOW(recv(here, bytes[0], 8, 0));
        fflush(stdout);
        _exit(0);
    }
    usleep(50000);
    send(there, "child", 5, 0);
    wait(NULL);
    close(here), close(there);
    // Ports that several have.
    int one = 1, a = udp(), b = udp(), hits[2] = { 0, 0 };
    setsockopt(a, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    setsockopt(b, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    SHOW(bind_to(a, "127.0.0.1", 0));
    SHOW(bind_to(b, "127.0.0.1", port_of(a)));
    for (int i = 0; i < 100; i++) {
        int from = udp();
        send_to(from, "x", 1, "127.0.0.1", port_of(a));
        close(from);
    }
    while (recv(a, bytes[0], 8, MSG_DONTWAIT) == 1) hits[0]++;
    while (recv(b, bytes[0], 8, MSG_DONTWAIT) == 1) hits[1]++;
    printf("all: %d, both: %d\n", hits[0] + hits[1], hits[0] > 10 && hits[1] > 10);
    close(a), close(b);
}

static void user(void) {
    puts("-- a user");
    fflush(stdout);
    if (!fork()) {
        if (setgid(1000) || setuid(1000)) perror("setuid");
        SHOW(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
        SHOW(bind_to(udp(), "127.0.0.1", 53));
        SHOW(bind_to(socket(AF_INET, SOCK_STREAM, 0), "0.0.0.0", 80));
        SHOW(bind_to(socket(AF_INET, SOCK_STREAM, 0), "127.0.0.1", 1023));
        SHOW(bind_to(udp(), "127.0.0.1", 1024));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    calls();
    connected();
    lengths();
    several();
    user();
    return 0;
}
