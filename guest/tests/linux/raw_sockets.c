// Raw sockets: what they send and hear, of which protocols and types, with filters; who may have one.
// oracle: linux
// build: gcc
#include "network.h"
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#ifndef ICMP_FILTER
#define ICMP_FILTER 1
#endif

static unsigned char got[70000];
static struct sockaddr_in lo = { .sin_family = AF_INET };
static struct sockaddr_in6 lo6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

static unsigned short sum(const void *what, int len, unsigned all) {
    const unsigned char *bytes = what;
    for (int i = 0; i < len; i += 2) all += bytes[i] << 8 | (i + 1 < len ? bytes[i + 1] : 0);
    while (all >> 16) all = (all & 0xffff) + (all >> 16);
    return htons(~all);
}

// One packet of IPv4, without what changes from time to time; or that there is none.
static void heard(int fd, const char *who) {
    struct pollfd one = { fd, POLLIN, 0 };
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    if (poll(&one, 1, 100) != 1) { printf("%s: nothing\n", who); return; }
    long count = recvfrom(fd, got, sizeof got, 0, (void *)&from, &len);
    if (count < 20) { printf("%s: %ld bytes\n", who, count); return; }
    int head = (got[0] & 15) * 4;
    printf("%s: %ld bytes, head %d, protocol %d, tos %d, ttl %d, from %08x:%d to %08x, sum %s:", who, count, head, got[9], got[1], got[8],
           ntohl(from.sin_addr.s_addr), ntohs(from.sin_port), ntohl(*(unsigned *)(got + 16)), sum(got, head, 0) ? "bad" : "good");
    // An answer of UDP may have a sum that nobody has made yet.
    for (int i = head; i < count && i < head + 16; i++) printf(got[9] == 17 && (i == head + 6 || i == head + 7) ? " .." : " %02x", got[i]);
    puts("");
}

static void send4(int fd, const void *bytes, int len) {
    SHOW(sendto(fd, bytes, len, 0, (void *)&lo, sizeof lo));
}

static void echo(int kind, int ident) {
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    unsigned char request[12] = { kind, 0, 0, 0, ident >> 8, ident, 0, 1, 'a', 'b', 'c', 'd' };
    *(unsigned short *)(request + 2) = sum(request, sizeof request, 0);
    send4(fd, request, sizeof request);
    close(fd);
}

static void protocols(void) {
    puts("-- protocols");
    int a = socket(AF_INET, SOCK_RAW, 200), b = socket(AF_INET, SOCK_RAW, 200), c = socket(AF_INET, SOCK_RAW, 201), value;
    int icmp = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    socklen_t len = sizeof value;
    SHOW(getsockopt(a, SOL_SOCKET, SO_PROTOCOL, &value, &len)); SHOW(value);
    SHOW(getsockopt(a, SOL_SOCKET, SO_TYPE, &value, &len)); SHOW(value);
    struct sockaddr_in name;
    len = sizeof name;
    SHOW(getsockname(a, (void *)&name, &len)); SHOW(ntohs(name.sin_port)); SHOW(name.sin_addr.s_addr);
    send4(a, "hello", 5);
    // All that want it have a copy, who has sent it too; others have none.
    heard(a, "a"), heard(b, "b"), heard(c, "c");
    int ttl = 9, tos = 0x10;
    SHOW(setsockopt(a, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl)); SHOW(setsockopt(a, IPPROTO_IP, IP_TOS, &tos, sizeof tos));
    send4(a, "", 0);
    heard(b, "b"), heard(a, "a");
    // Nobody wants this one, which is said.
    close(c);
    c = socket(AF_INET, SOCK_RAW, 202);
    SHOW(shutdown(c, SHUT_RD));
    struct sockaddr_in at = lo;
    close(c);
    while (recv(icmp, got, sizeof got, MSG_DONTWAIT) > 0) {}
    int any = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    struct { struct iphdr ip; char rest[4]; } packet = { { .version = 4, .ihl = 5, .ttl = 5, .id = 7, .protocol = 203, .daddr = lo.sin_addr.s_addr }, "abc" };
    SHOW(sendto(any, &packet, sizeof packet, 0, (void *)&at, sizeof at));
    heard(icmp, "refused");
    close(any), close(icmp);
    // Bound, and connected.
    struct sockaddr_in other = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002) };
    SHOW(bind(b, (void *)&other, sizeof other));
    send4(a, "x", 1);
    heard(b, "not b"), heard(a, "a");
    SHOW(sendto(a, "y", 1, 0, (void *)&other, sizeof other));
    heard(b, "b"), heard(a, "a");
    SHOW(connect(a, (void *)&other, sizeof other));
    SHOW(send(a, "zz", 2, 0));
    heard(b, "b");
    SHOW(send(b, "nowhere", 7, 0));
    SHOW(listen(a, 1)); SHOW(accept(a, NULL, NULL));
    close(a), close(b);
    SHOW(socket(AF_INET, SOCK_RAW, 256 + 44)); SHOW(socket(AF_INET6, SOCK_RAW, 0));
}

static void heads(void) {
    puts("-- heads");
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW), ear = socket(AF_INET, SOCK_RAW, 210), value = -1;
    socklen_t len = sizeof value;
    SHOW(getsockopt(fd, IPPROTO_IP, IP_HDRINCL, &value, &len)); SHOW(value);
    SHOW(getsockopt(ear, IPPROTO_IP, IP_HDRINCL, &value, &len)); SHOW(value);
    struct { struct iphdr ip; char rest[8]; } packet = { { .version = 4, .ihl = 5, .tos = 8, .ttl = 77, .protocol = 210, .tot_len = 1, .check = 5, .daddr = lo.sin_addr.s_addr }, "payload" };
    send4(fd, &packet, sizeof packet);
    heard(ear, "ear"), heard(fd, "raw");
    // From whomever it says.
    packet.ip.saddr = htonl(0x7f010203);
    send4(fd, &packet, sizeof packet);
    heard(ear, "ear");
    // With options.
    packet.ip.ihl = 6, memset(packet.rest, 1, 4);
    send4(fd, &packet, sizeof packet);
    heard(ear, "ear");
    packet.ip.ihl = 4, send4(fd, &packet, sizeof packet);
    packet.ip.ihl = 15, send4(fd, &packet, sizeof packet);
    packet.ip.ihl = 5, send4(fd, &packet, 19);
    send4(fd, &packet, 20);
    heard(ear, "ear");
    value = 1;
    SHOW(setsockopt(ear, IPPROTO_IP, IP_HDRINCL, &value, sizeof value));
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(setsockopt(udp, IPPROTO_IP, IP_HDRINCL, &value, sizeof value));
    close(fd), close(ear);
    // A whole datagram by hand arrives at whom it is for.
    fd = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
    struct sockaddr_in to = lo;
    SHOW(bind(udp, (void *)&to, sizeof to));
    len = sizeof to;
    getsockname(udp, (void *)&to, &len);
    struct { struct udphdr udp; char rest[4]; } datagram = { { .source = htons(7), .dest = to.sin_port, .len = htons(12) }, "udp" };
    send4(fd, &datagram, sizeof datagram);
    struct sockaddr_in from;
    len = sizeof from;
    SHOW(recvfrom(udp, got, sizeof got, 0, (void *)&from, &len)); SHOW(ntohs(from.sin_port)); printf("%s\n", got);
    long count = recv(fd, got, sizeof got, 0);
    printf("%ld bytes, protocol %d\n", count, got[9]);
    // One with a wrong sum does not.
    datagram.udp.check = htons(0x1234);
    send4(fd, &datagram, sizeof datagram);
    SHOW(recv(udp, got, sizeof got, MSG_DONTWAIT));
    SHOW(recv(fd, got, sizeof got, 0));
    // An ordinary one is heard, too.
    to.sin_port = htons(9);
    SHOW(sendto(udp, "plain", 5, 0, (void *)&to, sizeof to));
    count = recv(fd, got, sizeof got, 0);
    printf("%ld bytes, to port %d, %.5s\n", count, got[22] << 8 | got[23], got + 28);
    close(fd), close(udp);
}

static void kinds(void) {
    puts("-- types that are not heard");
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), other = socket(AF_INET, SOCK_RAW, 200);
    unsigned filter = 0, blocked = 1 << ICMP_ECHO;
    socklen_t len = sizeof filter;
    SHOW(getsockopt(fd, SOL_RAW, ICMP_FILTER, &filter, &len)); SHOW(filter); SHOW(len);
    SHOW(setsockopt(fd, SOL_RAW, ICMP_FILTER, &blocked, sizeof blocked));
    SHOW(getsockopt(fd, SOL_RAW, ICMP_FILTER, &filter, &len)); SHOW(filter);
    SHOW(setsockopt(other, SOL_RAW, ICMP_FILTER, &blocked, sizeof blocked));
    SHOW(getsockopt(other, SOL_RAW, ICMP_FILTER, &filter, &len));
    SHOW(setsockopt(fd, SOL_RAW, 99, &blocked, sizeof blocked));
    echo(ICMP_ECHO, 0x4242);
    heard(fd, "answer"), heard(fd, "no more");
    blocked = ~0u;
    SHOW(setsockopt(fd, SOL_RAW, ICMP_FILTER, &blocked, sizeof blocked));
    echo(ICMP_ECHO, 0x4243), echo(ICMP_TIMESTAMPREPLY, 1);
    heard(fd, "nothing of either");
    blocked = 0;
    SHOW(setsockopt(fd, SOL_RAW, ICMP_FILTER, &blocked, sizeof blocked));
    // What a wrong sum has is heard and not answered; so is what is too short.
    unsigned char wrong[8] = { ICMP_ECHO, 0, 1, 2, 3, 4, 5, 6 };
    send4(fd, wrong, sizeof wrong);
    heard(fd, "wrong"), heard(fd, "no answer");
    send4(fd, wrong, 1);
    heard(fd, "short");
    // That nobody has a port is heard.
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = lo;
    to.sin_port = htons(1);
    SHOW(sendto(udp, "nobody", 6, 0, (void *)&to, sizeof to));
    struct pollfd one = { fd, POLLIN, 0 };
    SHOW(poll(&one, 1, 2000));
    long count = recv(fd, got, sizeof got, 0);
    printf("%ld bytes, type %d, code %d, about protocol %d to port %d, %.6s\n", count, got[20], got[21], got[28 + 9], got[50] << 8 | got[51], got + 56);
    // Who is connected to somebody else than whom it sends to is told nothing of that one.
    SHOW(connect(udp, (void *)&to, sizeof to));
    to.sin_port = htons(2);
    SHOW(sendto(udp, "other", 5, 0, (void *)&to, sizeof to));
    SHOW(sendto(udp, "other", 5, 0, (void *)&to, sizeof to));
    SHOW(send(udp, "own", 3, 0));
    SHOW(send(udp, "own", 3, 0));
    close(udp), close(fd), close(other);
}

static void six(void) {
    puts("-- IPv6");
    int fd = socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), value = 0;
    struct icmp6_filter filter, told;
    socklen_t len = sizeof told;
    SHOW(getsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &told, &len)); SHOW(len); SHOW(told.icmp6_filt[0]); SHOW(told.icmp6_filt[7]);
    ICMP6_FILTER_SETBLOCKALL(&filter);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
    SHOW(setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter));
    SHOW(getsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &told, &len)); SHOW(!memcmp(&filter, &told, sizeof filter));
    len = sizeof value;
    SHOW(getsockopt(fd, IPPROTO_IPV6, IPV6_CHECKSUM, &value, &len)); SHOW(value);
    value = 4;
    SHOW(setsockopt(fd, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    unsigned char request[12] = { ICMP6_ECHO_REQUEST, 0, 0, 0, 0x55, 0x66, 0, 1, 's', 'i', 'x' };
    SHOW(sendto(fd, request, sizeof request, 0, (void *)&lo6, sizeof lo6));
    struct sockaddr_in6 from;
    len = sizeof from;
    long count = recvfrom(fd, got, sizeof got, 0, (void *)&from, &len);
    printf("%ld bytes, type %d, id %02x%02x, %s, from ::1 %d, port %d\n", count, got[0], got[4], got[5], got + 8, IN6_IS_ADDR_LOOPBACK(&from.sin6_addr), ntohs(from.sin6_port));
    SHOW(recv(fd, got, sizeof got, MSG_DONTWAIT));
    // Hops, as old programs ask for them.
    value = 1;
    SHOW(setsockopt(fd, IPPROTO_IPV6, 8, &value, sizeof value));
    SHOW(sendto(fd, request, sizeof request, 0, (void *)&lo6, sizeof lo6));
    char control[64];
    struct iovec iov = { got, sizeof got };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    SHOW(recvmsg(fd, &m, 0));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c) printf("level %d, type %d, %d\n", c->cmsg_level, c->cmsg_type, *(int *)CMSG_DATA(c));
    close(fd);
    // Another protocol, with a checksum where it is wanted.
    int a = socket(AF_INET6, SOCK_RAW, 200), b = socket(AF_INET6, SOCK_RAW, 200);
    len = sizeof value;
    SHOW(getsockopt(a, IPPROTO_IPV6, IPV6_CHECKSUM, &value, &len)); SHOW(value);
    value = 3; SHOW(setsockopt(a, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    value = 2; SHOW(setsockopt(a, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    SHOW(setsockopt(a, SOL_RAW, IPV6_CHECKSUM, &value, sizeof value));
    SHOW(sendto(a, "\0\0\0", 3, 0, (void *)&lo6, sizeof lo6));
    SHOW(sendto(a, "ab\0\0cd", 6, 0, (void *)&lo6, sizeof lo6));
    SHOW(recv(b, got, sizeof got, 0)); printf("%02x%02x%02x%02x%02x%02x\n", got[0], got[1], got[2], got[3], got[4], got[5]);
    SHOW(recv(a, got, sizeof got, 0));
    // Without it: who checks does not hear it.
    SHOW(sendto(b, "ab\0\0cd", 6, 0, (void *)&lo6, sizeof lo6));
    SHOW(recv(b, got, sizeof got, 0));
    SHOW(recv(a, got, sizeof got, MSG_DONTWAIT));
    value = -1; SHOW(setsockopt(a, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value));
    struct sockaddr_in6 to = lo6;
    to.sin6_port = htons(200); SHOW(sendto(a, "x", 1, 0, (void *)&to, sizeof to));
    to.sin6_port = htons(7); SHOW(sendto(a, "x", 1, 0, (void *)&to, sizeof to));
    close(a), close(b);
    int v4 = socket(AF_INET, SOCK_RAW, 200);
    value = 2; SHOW(setsockopt(v4, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter));
    close(v4);
}

static void filters(void) {
    puts("-- filters");
    int fd = socket(AF_INET, SOCK_RAW, 220), value = 1;
    // Those whose first byte behind the head is an `a`, and 22 bytes of them.
    struct sock_filter code[] = {
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'a', 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 22),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = { 5, code };
    SHOW(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &value, sizeof value));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    send4(fd, "abcd", 4), send4(fd, "bcde", 4);
    heard(fd, "cut"), heard(fd, "no other");
    program.len = 0; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program.len = 4097; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program.len = 5; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, 8));
    code[2].jt = 9; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)); code[2].jt = 0;
    program.len = 3; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)); program.len = 5;
    program.filter = (void *)8; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)); program.filter = code;
    // Beyond the end nothing is kept.
    code[1].k = 1000; SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    send4(fd, "abcd", 4);
    heard(fd, "nothing");
    SHOW(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &value, sizeof value));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &value, sizeof value));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    value = 0; SHOW(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &value, sizeof value));
    close(fd);
}

// A reader that never reads: what it does not take is lost, and nobody waits for it.
static void unread(void) {
    puts("-- a reader that never reads");
    int never = socket(AF_INET, SOCK_RAW, 230), fd = socket(AF_INET, SOCK_RAW, 230);
    static char large[8000];
    int sent = 0, heard = 0;
    for (int i = 0; i < 500; i++) {
        sent += sendto(fd, large, sizeof large, 0, (void *)&lo, sizeof lo) == sizeof large;
        heard += recv(fd, got, sizeof got, 0) == sizeof large + 20;
    }
    SHOW(sent); SHOW(heard);
    int waits = 0;
    while (recv(never, got, sizeof got, MSG_DONTWAIT) > 0) waits++;
    CHECK(waits > 2 && waits < 200);
    close(never), close(fd);
}

static void nobody(void) {
    puts("-- a user without rights");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(setgid(12345)); SHOW(setuid(12345));
        SHOW(socket(AF_INET, SOCK_RAW, IPPROTO_RAW)); SHOW(socket(AF_INET, SOCK_RAW, 200)); SHOW(socket(AF_INET6, SOCK_RAW, IPPROTO_UDP));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    own_network();
    lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    protocols();
    heads();
    kinds();
    six();
    filters();
    unread();
    nobody();
    return 0;
}
