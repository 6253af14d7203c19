// What a socket has sent and nobody has taken (SIOCOUTQ, the number of TIOCOUTQ): of local sockets until it is read or lost, for each
// sender alone; of those of the internet until it is acknowledged. Amounts of local ones are the system's, with its overhead: shown is
// whether there is any, and how it compares with before.
// oracle: linux
// cores: 2
#define _GNU_SOURCE
#include "must.h"
#include <arpa/inet.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#ifndef SIOCOUTQ
#define SIOCOUTQ TIOCOUTQ
#endif
#define SIOCOUTQNSD 0x894b
#define AF_NETLINK 16

// A descriptor's count, or less than 0: the error. Behind it there is room for what Linux reads of some requests.
static int count_of(int fd, unsigned long request) {
    int value[16] = {-77};
    return ioctl(fd, request, value) == 0 ? value[0] : -errno;
}
static int unsent(int fd) { return count_of(fd, SIOCOUTQ); }

static void show(const char *what, int fd) {
    int value = unsent(fd);
    if (value > 0) printf("%s: some\n", what);
    else printf("%s: %d\n", what, value);
}

static void local(const char *what, int kind) {
    int both[2];
    char buffer[4096] = "";
    MUST(socketpair(AF_UNIX, kind, 0, both) == 0);
    printf("%s\n", what);
    show("nothing sent", both[0]);
    MUST(send(both[0], buffer, 1000, 0) == 1000);
    int first = unsent(both[0]);
    printf("at least its bytes: %d\n", first >= 1000);
    show("the receiver's", both[1]);
    MUST(recv(both[1], buffer, 1000, MSG_PEEK) == 1000);
    printf("looked at, not taken: %d\n", unsent(both[0]) == first);
    MUST(send(both[0], buffer, 3000, 0) == 3000);
    int second = unsent(both[0]);
    printf("more: %d\n", second >= first + 3000);
    MUST(recv(both[1], buffer, 1000, 0) == 1000);
    int third = unsent(both[0]);
    printf("less: %d, and still the rest: %d\n", third <= second, third >= 3000);
    MUST(recv(both[1], buffer, sizeof buffer, 0) == 3000);
    show("all taken", both[0]);
    if (kind != SOCK_STREAM) {
        MUST(send(both[0], buffer, 0, 0) == 0);
        show("an empty message", both[0]);
        MUST(recv(both[1], buffer, sizeof buffer, 0) == 0);
        show("taken", both[0]);
    }
    MUST(send(both[0], buffer, 10, 0) == 10);
    MUST(shutdown(both[0], SHUT_WR) == 0);
    show("shut down", both[0]);
    close(both[1]);
    show("lost with its receiver", both[0]);
    printf("not sent over a wire: %d\n", count_of(both[0], SIOCOUTQNSD));
    printf("nowhere to put it: %d\n", ioctl(both[0], SIOCOUTQ, 8) == -1 ? errno : 0);
    close(both[0]);
}

// Each of two senders has its own; what a sender has left behind is read all the same.
static void senders(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0socket_queues"};
    socklen_t len = offsetof(struct sockaddr_un, sun_path) + 14;
    int to = socket(AF_UNIX, SOCK_DGRAM, 0), from[2];
    char buffer[100] = "";
    MUST(bind(to, (void *)&name, len) == 0);
    for (int i = 0; i < 2; i++) {
        MUST((from[i] = socket(AF_UNIX, SOCK_DGRAM, 0)) >= 0);
        MUST(sendto(from[i], buffer, 50, 0, (void *)&name, len) == 50);
    }
    puts("two senders");
    MUST(recv(to, buffer, 100, 0) == 50);
    show("the first one's was taken", from[0]);
    show("the second one's not", from[1]);
    MUST(sendto(from[0], buffer, 60, 0, (void *)&name, len) == 60);
    close(from[0]);
    MUST(recv(to, buffer, 100, 0) == 50 && recv(to, buffer, 100, 0) == 60);
    show("all taken", from[1]);
    close(from[1]);
    close(to);
}

// Waits until all is acknowledged.
static int drained(int fd) {
    for (int tries = 0; tries < 500 && unsent(fd) > 0; tries++) usleep(10000);
    return unsent(fd);
}

static void internet(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
    char buffer[1000] = "";
    puts("tcp");
    show("not connected", one);
    MUST(bind(listener, (void *)&address, len) == 0 && listen(listener, 1) == 0);
    MUST(getsockname(listener, (void *)&address, &len) == 0);
    printf("listens: %d, %d\n", unsent(listener), count_of(listener, SIOCOUTQNSD));
    MUST(connect(one, (void *)&address, len) == 0);
    int other = accept(listener, NULL, NULL);
    MUST(other >= 0 && send(one, buffer, 1000, 0) == 1000);
    // Nobody has read it, but the other end has it.
    printf("acknowledged: %d, sent over a wire: %d\n", drained(one), count_of(one, SIOCOUTQNSD));
    printf("there: %d, unsent of it: %d\n", count_of(other, FIONREAD), unsent(other));
    MUST(shutdown(one, SHUT_WR) == 0);
    printf("shut down: %d\n", drained(one));
    close(other);
    close(one);
    close(listener);

    puts("udp");
    int to = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
    address.sin_port = 0;
    MUST(bind(to, (void *)&address, len) == 0 && getsockname(to, (void *)&address, &len) == 0);
    MUST(sendto(from, buffer, 100, 0, (void *)&address, len) == 100);
    printf("unsent: %d, %d\n", drained(from), count_of(from, SIOCOUTQNSD));
    close(to);
    close(from);

    int netlink = socket(AF_NETLINK, SOCK_RAW, 0);
    MUST(netlink >= 0);
    printf("netlink: %d, %d, %d\n", unsent(netlink), count_of(netlink, SIOCOUTQNSD), count_of(netlink, FIONREAD));
    close(netlink);
}

int main(void) {
    local("stream", SOCK_STREAM);
    local("datagrams", SOCK_DGRAM);
    local("packets", SOCK_SEQPACKET);
    senders();
    internet();
    return 0;
}
