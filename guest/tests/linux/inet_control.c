// What goes along with datagrams of the internet: addresses, hops, types of service and times that are told and said (`IP_PKTINFO` and its
// relatives), how many were lost, errors that are read (`MSG_ERRQUEUE`), who hears of a port that nobody has; and every way to say it wrong.
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
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_RXQ_OVFL
#define SO_RXQ_OVFL 40
#endif
// As `linux/errqueue.h`, which musl does not have.
struct said {
    unsigned ee_errno;
    unsigned char ee_origin, ee_type, ee_code, ee_pad;
    unsigned ee_info, ee_data;
};
#ifndef CMSG_ALIGN
#define CMSG_ALIGN(len) (((len) + 7) & ~(size_t)7)
#endif
#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}
static int on = 1, off = 0;
static char much[4000];

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} Address;
static socklen_t size_of(const Address *address) {
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}
static Address at(int family, const char *ip, int port) {
    Address address = { 0 };
    address.any.sa_family = family;
    if (family == AF_INET) {
        address.v4.sin_port = htons(port);
        inet_pton(AF_INET, ip, &address.v4.sin_addr);
    } else {
        address.v6.sin6_port = htons(port);
        inet_pton(AF_INET6, ip, &address.v6.sin6_addr);
    }
    return address;
}
static Address name_of(int fd) {
    Address address = { 0 };
    socklen_t len = sizeof address;
    getsockname(fd, &address.any, &len);
    return address;
}
static int port_of(int fd) { return ntohs(name_of(fd).v4.sin_port); }
static int udp(int family, const char *ip) {
    int fd = socket(family, SOCK_DGRAM, 0);
    if (!ip) return fd;
    Address address = at(family, ip, 0);
    if (bind(fd, &address.any, size_of(&address)) < 0) perror("bind");
    return fd;
}
static long send_to(int fd, const char *text, Address to) {
    return sendto(fd, text, strlen(text), 0, &to.any, size_of(&to));
}
// A port that nobody has.
static int closed_port(int family, const char *ip) {
    int fd = udp(family, ip), port = port_of(fd);
    close(fd);
    return port;
}
static void state(const char *what, int fd) {
    struct pollfd one = { fd, POLLIN | POLLOUT | POLLPRI, 0 };
    int ready = poll(&one, 1, 0);
    printf("%s: %d, %#x\n", what, ready, one.revents);
}
static const char *ip_text(int family, const void *ip) {
    static char text[2][64];
    static int turn;
    return inet_ntop(family, ip, text[turn ^= 1], sizeof text[0]);
}
static void show_address(const char *what, const Address *address) {
    if (address->any.sa_family == AF_INET)
        printf("%s %s", what, ip_text(AF_INET, &address->v4.sin_addr));
    else if (address->any.sa_family == AF_INET6)
        printf("%s %s scope %u", what, ip_text(AF_INET6, &address->v6.sin6_addr), address->v6.sin6_scope_id);
    else printf("%s family %d", what, address->any.sa_family);
}
static void show_control(struct msghdr *message) {
    // Not by the macros: libraries differ in whether they show a head without data.
    char *all = message->msg_control;
    for (size_t next = 0; next + sizeof(struct cmsghdr) <= message->msg_controllen;) {
        struct cmsghdr *one = (void *)(all + next);
        if (one->cmsg_len < sizeof *one) break;
        next += CMSG_ALIGN(one->cmsg_len);
        unsigned char *data = CMSG_DATA(one);
        printf("  level %d type %d, %zu:", one->cmsg_level, one->cmsg_type, (size_t)one->cmsg_len);
        int level = one->cmsg_level, type = one->cmsg_type;
        if (level == SOL_SOCKET && (type == SO_TIMESTAMP || type == SO_TIMESTAMPNS)) {
            long seconds, rest;
            memcpy(&seconds, data, 8);
            memcpy(&rest, data + 8, 8);
            long now = time(0);
            int fits = type == SO_TIMESTAMP ? rest < 1000000 : rest < 1000000000;
            printf(" %s\n", seconds >= now - 60 && seconds <= now && rest >= 0 && fits ? "just now" : "another time");
        } else if (level == IPPROTO_IP && type == IP_PKTINFO && one->cmsg_len == CMSG_LEN(12)) {
            struct in_pktinfo info;
            memcpy(&info, data, sizeof info);
            printf(" interface %d", info.ipi_ifindex);
            printf(" own %s to %s\n", ip_text(AF_INET, &info.ipi_spec_dst), ip_text(AF_INET, &info.ipi_addr));
        } else if (level == IPPROTO_IPV6 && type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, data, sizeof info);
            printf(" interface %d to %s\n", info.ipi6_ifindex, ip_text(AF_INET6, &info.ipi6_addr));
        } else if ((level == IPPROTO_IP && type == IP_RECVERR) || (level == IPPROTO_IPV6 && type == IPV6_RECVERR)) {
            struct said error;
            memcpy(&error, data, sizeof error);
            printf(" errno %u origin %d type %d code %d info %u data %u", error.ee_errno, error.ee_origin, error.ee_type,
                   error.ee_code, error.ee_info, error.ee_data);
            Address by;
            memset(&by, 0, sizeof by);
            memcpy(&by, data + sizeof error, one->cmsg_len - CMSG_LEN(sizeof error));
            show_address(" by", &by);
            puts("");
        } else if (level == IPPROTO_IP && type == IP_ORIGDSTADDR) {
            Address to;
            memcpy(&to, data, sizeof to.v4);
            show_address(" to", &to);
            puts(to.v4.sin_port ? "" : " no port");
        } else {
            for (size_t n = 0; n < one->cmsg_len - CMSG_LEN(0); n++) printf(" %02x", data[n]);
            puts("");
        }
    }
}
static long receive_into(int fd, int flags, size_t room, size_t bytes) {
    char text[4000];
    _Alignas(8) char control[512];
    memset(control, 0xee, sizeof control);
    Address from = { 0 };
    struct iovec part = { text, bytes };
    struct msghdr message = {
        .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1, .msg_control = room ? control : 0, .msg_controllen = room,
    };
    long got = recvmsg(fd, &message, flags | MSG_DONTWAIT);
    if (got < 0) {
        printf("  nothing, errno %d\n", errno);
        return got;
    }
    printf("  %ld bytes, flags %#x, name %u, control %zu\n", got, message.msg_flags & ~MSG_CMSG_CLOEXEC, message.msg_namelen,
           (size_t)message.msg_controllen);
    if (flags & MSG_ERRQUEUE) {
        show_address("  about", &from);
        puts("");
    }
    show_control(&message);
    return got;
}
static long receive(int fd, int flags) { return receive_into(fd, flags, 512, 4000); }

static void told_v4(void) {
    puts("-- told, IPv4");
    int here = udp(AF_INET, "0.0.0.0"), there = udp(AF_INET, "127.0.0.1");
    Address to = at(AF_INET, "127.0.0.1", port_of(here)), other = at(AF_INET, "127.0.0.9", port_of(here));
    SHOW(send_to(there, "plain", to));
    receive(here, 0);
    SHOW(setsockopt(here, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
    SHOW(send_to(there, "info", to));
    receive(here, MSG_PEEK);
    receive(here, 0);
    SHOW(send_to(there, "info", other));
    receive(here, 0);
    SHOW(setsockopt(here, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    SHOW(setsockopt(here, IPPROTO_IP, IP_RECVTOS, &on, sizeof on));
    SHOW(setsockopt(here, IPPROTO_IP, IP_RECVORIGDSTADDR, &on, sizeof on));
    SHOW(send_to(there, "all", to));
    receive(here, 0);
    int value = 9;
    SHOW(setsockopt(there, IPPROTO_IP, IP_TTL, &value, sizeof value));
    value = 0x48;
    SHOW(setsockopt(there, IPPROTO_IP, IP_TOS, &value, sizeof value));
    SHOW(send_to(there, "changed", to));
    receive(here, 0);
    SHOW(setsockopt(here, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    SHOW(send_to(there, "time", to));
    receive(here, 0);
    SHOW(setsockopt(here, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
    socklen_t len = sizeof value;
    SHOW(getsockopt(here, SOL_SOCKET, SO_TIMESTAMP, &value, &len));
    printf("%d\n", value);
    SHOW(getsockopt(here, SOL_SOCKET, SO_TIMESTAMPNS, &value, &len));
    printf("%d\n", value);
    SHOW(send_to(there, "time", to));
    receive(here, 0);
    puts("little room:");
    size_t rooms[] = { 0, 8, 15, 16, 20, 28, 32, 40, 48, 60, 64, 70, 80 };
    for (size_t n = 0; n < sizeof rooms / sizeof *rooms; n++) {
        send_to(there, "room", to);
        printf("%zu:\n", rooms[n]);
        receive_into(here, 0, rooms[n], 4000);
    }
    SHOW(send_to(there, "cut", to));
    receive_into(here, 0, 512, 1);
    SHOW(send_to(there, "cut", to));
    receive_into(here, MSG_TRUNC, 512, 1);
    SHOW(setsockopt(here, IPPROTO_IP, IP_PKTINFO, &off, sizeof off));
    SHOW(setsockopt(here, SOL_SOCKET, SO_TIMESTAMPNS, &off, sizeof off));
    SHOW(send_to(there, "less", to));
    receive(here, 0);
    close(here);
    close(there);
}

static void told_v6(void) {
    puts("-- told, IPv6");
    int here = udp(AF_INET6, "::"), there = udp(AF_INET6, "::1"), old = udp(AF_INET, "127.0.0.1");
    Address to = at(AF_INET6, "::1", port_of(here)), from_old = at(AF_INET, "127.0.0.1", port_of(here));
    int options[] = { IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS };
    for (int n = 0; n < 3; n++) {
        SHOW(setsockopt(here, IPPROTO_IPV6, options[n], &on, sizeof on));
        SHOW(send_to(there, "new", to));
        receive(here, 0);
        SHOW(send_to(old, "old", from_old));
        receive(here, 0);
    }
    SHOW(setsockopt(here, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
    SHOW(setsockopt(here, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    SHOW(send_to(old, "old", from_old));
    receive(here, 0);
    int value = 3;
    SHOW(setsockopt(there, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &value, sizeof value));
    value = 0xa0;
    SHOW(setsockopt(there, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value));
    SHOW(send_to(there, "changed", to));
    receive(here, 0);
    value = -1;
    SHOW(setsockopt(there, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value));
    SHOW(send_to(there, "as before", to));
    receive(here, 0);
    value = 256;
    SHOW(setsockopt(there, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value));
    close(here);
    close(there);
    close(old);
}

static void options(void) {
    puts("-- options");
    struct { int level, name; const char *text; } all[] = {
        { IPPROTO_IP, IP_TOS, "IP_TOS" }, { IPPROTO_IP, IP_PKTINFO, "IP_PKTINFO" }, { IPPROTO_IP, IP_RECVERR, "IP_RECVERR" },
        { IPPROTO_IP, IP_RECVTTL, "IP_RECVTTL" }, { IPPROTO_IP, IP_RECVTOS, "IP_RECVTOS" },
        { IPPROTO_IP, IP_RECVORIGDSTADDR, "IP_RECVORIGDSTADDR" }, { IPPROTO_IPV6, IPV6_RECVERR, "IPV6_RECVERR" },
        { IPPROTO_IPV6, IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO" }, { IPPROTO_IPV6, IPV6_RECVHOPLIMIT, "IPV6_RECVHOPLIMIT" },
        { IPPROTO_IPV6, IPV6_RECVTCLASS, "IPV6_RECVTCLASS" }, { IPPROTO_IPV6, IPV6_TCLASS, "IPV6_TCLASS" },
        { SOL_SOCKET, SO_TIMESTAMP, "SO_TIMESTAMP" }, { SOL_SOCKET, SO_RXQ_OVFL, "SO_RXQ_OVFL" },
    };
    int fds[] = { socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET6, SOCK_DGRAM, 0), socket(AF_INET, SOCK_STREAM, 0) };
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        printf("%s:", all[n].text);
        for (int which = 0; which < 3; which++) {
            int value = -7, set = 7;
            socklen_t len = sizeof value;
            int got = getsockopt(fds[which], all[n].level, all[n].name, &value, &len);
            printf(" %d", got < 0 ? -errno : value);
            got = setsockopt(fds[which], all[n].level, all[n].name, &set, sizeof set);
            if (got < 0) { printf(" set %d;", -errno); continue; }
            got = getsockopt(fds[which], all[n].level, all[n].name, &value, &len);
            printf(" then %d;", got < 0 ? -errno : value);
        }
        puts("");
    }
    for (int n = 0; n < 3; n++) close(fds[n]);
}

// As it is: libraries look at control messages.
static long send_raw(int fd, struct msghdr *message) { return syscall(SYS_sendmsg, fd, message, 0); }

static long send_with(int fd, Address to, int level, int type, const void *data, size_t bytes) {
    char control[256];
    memset(control, 0, sizeof control);
    struct iovec part = { "said", 4 };
    struct msghdr message = {
        .msg_name = &to, .msg_namelen = size_of(&to), .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(bytes),
    };
    struct cmsghdr *one = CMSG_FIRSTHDR(&message);
    one->cmsg_level = level;
    one->cmsg_type = type;
    one->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(one), data, bytes);
    return sendmsg(fd, &message, 0);
}

static void said_v4(void) {
    puts("-- said, IPv4");
    int here = udp(AF_INET, "0.0.0.0"), there = udp(AF_INET, "0.0.0.0");
    Address to = at(AF_INET, "127.0.0.1", port_of(here)), from;
    setsockopt(here, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(here, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    setsockopt(here, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    int values[] = { 1, 255, 0, 256, -1 };
    for (int n = 0; n < 5; n++) {
        printf("ttl %d\n", values[n]);
        SHOW(send_with(there, to, IPPROTO_IP, IP_TTL, &values[n], 4));
        if (errno == 0 || n < 2) receive(here, 0);
        printf("tos %d\n", values[n]);
        long sent = send_with(there, to, IPPROTO_IP, IP_TOS, &values[n], 4);
        show("sent", sent);
        if (sent >= 0) receive(here, 0);
    }
    unsigned char byte = 0x10;
    SHOW(send_with(there, to, IPPROTO_IP, IP_TOS, &byte, 1));
    receive(here, 0);
    SHOW(send_with(there, to, IPPROTO_IP, IP_TTL, &byte, 1));
    SHOW(send_with(there, to, IPPROTO_IP, IP_TOS, "ab", 2));
    struct in_pktinfo info = { 0 };
    struct { const char *own; int interface; } ways[] = {
        { "127.0.0.5", 0 }, { "0.0.0.0", 1 }, { "127.0.0.6", 1 }, { "9.9.9.9", 0 }, { "0.0.0.0", 999 }, { "224.0.0.1", 0 },
    };
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        inet_pton(AF_INET, ways[n].own, &info.ipi_spec_dst);
        info.ipi_ifindex = ways[n].interface;
        printf("from %s over %d\n", ways[n].own, ways[n].interface);
        long sent = send_with(there, to, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
        show("sent", sent);
        if (sent < 0) continue;
        socklen_t len = sizeof from;
        char text[8];
        SHOW(recvfrom(here, text, 8, 0, &from.any, &len));
        show_address("from", &from);
        puts(ntohs(from.v4.sin_port) == port_of(there) ? ", its port" : ", another port");
    }
    SHOW(send_with(there, to, IPPROTO_IP, IP_PKTINFO, &info, 8));
    SHOW(send_with(there, to, IPPROTO_IP, 77, &info, 8));
    SHOW(send_with(there, to, IPPROTO_IPV6, IPV6_HOPLIMIT, &on, 4));
    SHOW(send_with(there, to, SOL_SOCKET, 77, &on, 4));
    SHOW(send_with(there, to, SOL_SOCKET, SCM_RIGHTS, &here, 4));
    while (recv(here, much, sizeof much, MSG_DONTWAIT) >= 0) {}
    // Messages that are not as they are to be.
    struct { unsigned long len; int level, type; int data[6]; } raw = { 12, IPPROTO_IP, IP_TTL, { 5 } };
    struct iovec part = { "said", 4 };
    struct msghdr message = {
        .msg_name = &to, .msg_namelen = sizeof to.v4, .msg_iov = &part, .msg_iovlen = 1, .msg_control = &raw, .msg_controllen = sizeof raw,
    };
    unsigned long lens[] = { 0, 12, 15, 16, 20, 21, 40, 41, 48, -1ul, 1ul << 32 | 20 };
    for (size_t n = 0; n < sizeof lens / sizeof *lens; n++) {
        raw.len = lens[n];
        printf("len %#lx: ", lens[n]);
        show("sendmsg", send_raw(there, &message));
    }
    raw.len = 20;
    for (size_t n = 0; n < 24; n += 4) {
        message.msg_controllen = n;
        printf("room %zu: ", n);
        show("sendmsg", send_raw(there, &message));
    }
    message.msg_control = (void *)1;
    SHOW(send_raw(there, &message));
    close(here);
    close(there);
}

static void said_v6(void) {
    puts("-- said, IPv6");
    int here = udp(AF_INET6, "::"), there = udp(AF_INET6, "::");
    Address to = at(AF_INET6, "::1", port_of(here));
    setsockopt(here, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
    setsockopt(here, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
    int values[] = { 1, 255, -1, 256, -2 };
    for (int n = 0; n < 5; n++) {
        printf("hops and class %d\n", values[n]);
        long sent = send_with(there, to, IPPROTO_IPV6, IPV6_HOPLIMIT, &values[n], 4);
        show("sent", sent);
        if (sent >= 0) receive(here, 0);
        sent = send_with(there, to, IPPROTO_IPV6, IPV6_TCLASS, &values[n], 4);
        show("sent", sent);
        if (sent >= 0) receive(here, 0);
    }
    struct in6_pktinfo info = { 0 };
    struct { const char *own; int interface; } ways[] = { { "::1", 0 }, { "::", 1 }, { "::", 999 }, { "2001:db8::9", 0 } };
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        inet_pton(AF_INET6, ways[n].own, &info.ipi6_addr);
        info.ipi6_ifindex = ways[n].interface;
        printf("from %s over %d: ", ways[n].own, ways[n].interface);
        show("sent", send_with(there, to, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info));
    }
    // What goes to an address of IPv4 is of IPv4.
    int old = udp(AF_INET, "127.0.0.1"), value = 5;
    setsockopt(old, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    Address to_old = at(AF_INET6, "::ffff:127.0.0.1", port_of(old));
    SHOW(send_with(there, to_old, IPPROTO_IP, IP_TTL, &value, 4));
    receive(old, 0);
    SHOW(send_with(there, to_old, IPPROTO_IP, IP_TTL, &off, 4));
    SHOW(send_with(there, to_old, IPPROTO_IPV6, IPV6_HOPLIMIT, &off, 4));
    receive(old, 0);
    const char *owns[] = { "::ffff:127.0.0.7", "::1", "::" };
    for (int n = 0; n < 3; n++) {
        inet_pton(AF_INET6, owns[n], &info.ipi6_addr);
        info.ipi6_ifindex = 0;
        printf("from %s: ", owns[n]);
        long sent = send_with(there, to_old, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
        show("sent", sent);
        if (sent < 0) continue;
        Address from;
        socklen_t len = sizeof from;
        SHOW(recvfrom(old, much, 8, MSG_DONTWAIT, &from.any, &len));
        show_address("from", &from);
        puts("");
    }
    close(old);
    SHOW(send_with(there, to, IPPROTO_IPV6, IPV6_PKTINFO, &info, 16));
    SHOW(send_with(there, to, IPPROTO_IPV6, IPV6_HOPLIMIT, &info, 1));
    SHOW(send_with(there, to, IPPROTO_IPV6, 200, &on, 4));
    SHOW(send_with(there, to, IPPROTO_IP, IP_TTL, &off, 4));
    close(here);
    close(there);
}

static void errors_of(int family, const char *ip) {
    printf("-- errors, %s\n", ip);
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, name = family == AF_INET ? IP_RECVERR : IPV6_RECVERR;
    int fd = udp(family, 0), port = closed_port(family, ip), error;
    Address to = at(family, ip, port);
    socklen_t len = sizeof error;
    puts("connected to nobody, nothing wanted:");
    SHOW(send_to(fd, "x", to));
    state("after", fd);
    SHOW(send_to(fd, "x", to));
    receive(fd, MSG_ERRQUEUE);
    SHOW(setsockopt(fd, level, name, &on, sizeof on));
    puts("wanted:");
    SHOW(send_to(fd, "one", to));
    state("after", fd);
    SHOW(send_to(fd, "two", to));
    state("told", fd);
    SHOW(recv(fd, much, 10, MSG_DONTWAIT));
    receive(fd, MSG_ERRQUEUE);
    state("read", fd);
    receive(fd, MSG_ERRQUEUE);
    SHOW(recv(fd, much, 10, MSG_DONTWAIT));
    puts("two of them:");
    send_to(fd, "first", to);
    SHOW(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    printf("%d\n", error);
    state("still", fd);
    send_to(fd, "second", to);
    receive_into(fd, MSG_ERRQUEUE, 512, 2);
    state("one left", fd);
    receive_into(fd, MSG_ERRQUEUE | MSG_TRUNC, 512, 2);
    state("none left", fd);
    SHOW(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    printf("%d\n", error);
    puts("a long one, little room, peeking:");
    SHOW(sendto(fd, much, 3000, 0, &to.any, size_of(&to)));
    receive_into(fd, MSG_ERRQUEUE, 16 + 20, 4000);
    SHOW(send_to(fd, "again", to));
    receive_into(fd, MSG_ERRQUEUE | MSG_PEEK, 0, 4000);
    receive(fd, MSG_ERRQUEUE);
    SHOW(send_to(fd, "more", to));
    SHOW(recvfrom(fd, much, 4000, MSG_ERRQUEUE, 0, 0));
    puts("turned off while there is one:");
    SHOW(send_to(fd, "off", to));
    SHOW(setsockopt(fd, level, name, &off, sizeof off));
    receive(fd, MSG_ERRQUEUE);
    state("off", fd);
    SHOW(recv(fd, much, 10, MSG_DONTWAIT));
    SHOW(recv(fd, much, 10, MSG_DONTWAIT));
    puts("connected:");
    SHOW(connect(fd, &to.any, size_of(&to)));
    SHOW(send(fd, "x", 1, 0));
    state("after", fd);
    SHOW(send(fd, "x", 1, 0));
    SHOW(recv(fd, much, 10, MSG_DONTWAIT));
    SHOW(send(fd, "x", 1, 0));
    SHOW(recv(fd, much, 10, 0));
    SHOW(send(fd, "x", 1, 0));
    SHOW(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    printf("%d\n", error);
    SHOW(setsockopt(fd, level, name, &on, sizeof on));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    SHOW(send(fd, "connected", 9, 0));
    receive(fd, MSG_ERRQUEUE);
    if (family == AF_INET) {
        setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
        setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
    }
    SHOW(send(fd, "ways", 4, 0));
    receive(fd, MSG_ERRQUEUE);
    close(fd);
}

static void errors_mapped(void) {
    puts("-- errors, IPv4 of a socket of IPv6");
    int fd = udp(AF_INET6, 0), port = closed_port(AF_INET, "127.0.0.1");
    Address to = at(AF_INET6, "::ffff:127.0.0.1", port);
    SHOW(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on));
    SHOW(send_to(fd, "x", to));
    receive(fd, MSG_ERRQUEUE);
    SHOW(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on));
    SHOW(send_to(fd, "x", to));
    receive(fd, MSG_ERRQUEUE);
    close(fd);
}

static void others(void) {
    puts("-- other sockets");
    int stream = socket(AF_INET, SOCK_STREAM, 0), datagram = udp(AF_INET, "127.0.0.1");
    SHOW(setsockopt(stream, IPPROTO_IP, IP_RECVERR, &on, sizeof on));
    receive(stream, MSG_ERRQUEUE);
    receive(datagram, MSG_ERRQUEUE);
    SHOW(recv(datagram, much, 1, MSG_OOB | MSG_DONTWAIT));
    SHOW(send_to(datagram, "x", name_of(datagram)));
    SHOW(recv(datagram, much, 1, MSG_OOB | MSG_DONTWAIT));
    Address to = name_of(datagram);
    SHOW(sendto(datagram, "x", 1, MSG_OOB, &to.any, size_of(&to)));
    close(stream);
    // Errors that nobody reads take no more room than a queue, and what is told of those that were lost.
    int port = closed_port(AF_INET, "127.0.0.1"), count = 0;
    to = at(AF_INET, "127.0.0.1", port);
    SHOW(setsockopt(datagram, IPPROTO_IP, IP_RECVERR, &on, sizeof on));
    for (int n = 0; n < 4000; n++) send_to(datagram, "many", to);
    char text[8];
    while (recv(datagram, text, 8, MSG_ERRQUEUE) >= 0) count++;
    printf("%s\n", count > 50 && count < 2500 ? "some" : "too many, or few");
    SHOW(setsockopt(datagram, IPPROTO_IP, IP_RECVERR, &off, sizeof off));
    SHOW(setsockopt(datagram, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on));
    int sender = udp(AF_INET, "127.0.0.1");
    for (int n = 0; n < 4000; n++) send_to(sender, "many", name_of(datagram));
    unsigned first = 0, last = 0, got = 0;
    for (;;) {
        char control[64];
        struct iovec part = { text, 8 };
        struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
        if (recvmsg(datagram, &message, MSG_DONTWAIT) < 0) break;
        got++;
        if (CMSG_FIRSTHDR(&message)) memcpy(&first, CMSG_DATA(CMSG_FIRSTHDR(&message)), 4);
    }
    send_to(sender, "one more", name_of(datagram));
    char control[64];
    struct iovec part = { text, 8 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
    SHOW(recvmsg(datagram, &message, MSG_DONTWAIT));
    struct cmsghdr *one = CMSG_FIRSTHDR(&message);
    if (one) {
        memcpy(&last, CMSG_DATA(one), 4);
        printf("level %d type %d, %zu: %s\n", one->cmsg_level, one->cmsg_type, (size_t)one->cmsg_len,
               first == 0 && last == 4000 - got ? "all that were lost" : "another number");
    }
    close(datagram);
    close(sender);
}

int main(void) {
    told_v4();
    told_v6();
    options();
    said_v4();
    said_v6();
    errors_of(AF_INET, "127.0.0.1");
    errors_of(AF_INET6, "::1");
    errors_mapped();
    others();
    return 0;
}
