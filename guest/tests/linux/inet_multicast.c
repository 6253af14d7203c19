// Groups (`ip(7)`, `ipv6(7)`): who joins and leaves, by each of the ways there are; who gets what is sent to one, by port, address, sender and
// membership; what goes along; how many there may be; and every way to say it wrong. All over `lo`, which every machine has.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#define LO 1
#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}
static int on = 1, off = 0;

static struct sockaddr_in v4(const char *ip, int port) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}
static struct sockaddr_in6 v6(const char *ip, int port, int scope) {
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope };
    inet_pton(AF_INET6, ip, &address.sin6_addr);
    return address;
}
static int port_of(int fd) {
    struct sockaddr_in6 address;
    socklen_t len = sizeof address;
    getsockname(fd, (void *)&address, &len);
    return ntohs(address.sin6_port);
}
static int udp_at(const char *ip, int port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = v4(ip, port);
    if (bind(fd, (void *)&address, sizeof address) < 0) printf("bind %s: errno %d\n", ip, errno);
    return fd;
}
static struct ip_mreqn group(const char *ip, const char *own, int interface) {
    struct ip_mreqn request = { .imr_ifindex = interface };
    inet_pton(AF_INET, ip, &request.imr_multiaddr);
    inet_pton(AF_INET, own, &request.imr_address);
    return request;
}
static int join(int fd, const char *ip) {
    struct ip_mreqn request = group(ip, "0.0.0.0", LO);
    return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
}
static int leave(int fd, const char *ip) {
    struct ip_mreqn request = group(ip, "0.0.0.0", LO);
    return setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request);
}
static struct ip_mreq_source source_of(const char *ip, const char *own, const char *source) {
    struct ip_mreq_source request;
    inet_pton(AF_INET, ip, &request.imr_multiaddr);
    inet_pton(AF_INET, own, &request.imr_interface);
    inet_pton(AF_INET, source, &request.imr_sourceaddr);
    return request;
}
static int source(int fd, int option, const char *ip, const char *from) {
    struct ip_mreq_source request = source_of(ip, "127.0.0.1", from);
    return setsockopt(fd, IPPROTO_IP, option, &request, sizeof request);
}
static long send_to(int fd, const char *text, const char *ip, int port) {
    struct sockaddr_in to = v4(ip, port);
    return sendto(fd, text, strlen(text), 0, (void *)&to, sizeof to);
}
// What waits is read, up to nothing.
static void got(const char *who, int fd) {
    char text[64];
    long count;
    int any = 0;
    printf("%s:", who);
    while ((count = recv(fd, text, sizeof text - 1, MSG_DONTWAIT)) >= 0) {
        text[count] = 0;
        printf(" [%s]", text);
        any = 1;
    }
    if (errno != EAGAIN) printf(" errno %d", errno);
    puts(any ? "" : " nothing");
}
static void value(const char *what, int fd, int level, int name) {
    int value = -7;
    socklen_t len = sizeof value;
    if (getsockopt(fd, level, name, &value, &len) < 0) printf("%s: errno %d\n", what, errno);
    else printf("%s: %d, %u bytes\n", what, value, len);
}

static void options(void) {
    puts("-- options");
    int fds[] = { socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET6, SOCK_DGRAM, 0), socket(AF_INET6, SOCK_STREAM, 0) };
    struct { int level, name; const char *text; int values[7]; } all[] = {
        { IPPROTO_IP, IP_MULTICAST_TTL, "IP_MULTICAST_TTL", { 0, 1, 7, 255, 256, -1, -2 } },
        { IPPROTO_IP, IP_MULTICAST_LOOP, "IP_MULTICAST_LOOP", { 0, 1, 7, 255, 256, -1, -2 } },
        { IPPROTO_IP, IP_MULTICAST_ALL, "IP_MULTICAST_ALL", { 0, 1, 7, 255, 256, -1, -2 } },
        { IPPROTO_IPV6, IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS", { 0, 1, 7, 255, 256, -1, -2 } },
        { IPPROTO_IPV6, IPV6_MULTICAST_LOOP, "IPV6_MULTICAST_LOOP", { 0, 1, 7, 255, 256, -1, -2 } },
        { IPPROTO_IPV6, IPV6_MULTICAST_ALL, "IPV6_MULTICAST_ALL", { 0, 1, 7, 255, 256, -1, -2 } },
        { IPPROTO_IPV6, IPV6_MULTICAST_IF, "IPV6_MULTICAST_IF", { 0, 1, 999, -1, 0, 1, 0 } },
    };
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        for (int which = 0; which < 4; which++) {
            printf("%s on %d:", all[n].text, which);
            int read;
            socklen_t len = sizeof read;
            if (getsockopt(fds[which], all[n].level, all[n].name, &read, &len) < 0) printf(" errno %d;", errno);
            else printf(" %d;", read);
            for (int k = 0; k < 7; k++) {
                if (setsockopt(fds[which], all[n].level, all[n].name, &all[n].values[k], 4) < 0) printf(" %d is errno %d;", all[n].values[k], errno);
                else {
                    len = sizeof read;
                    getsockopt(fds[which], all[n].level, all[n].name, &read, &len);
                    printf(" %d is %d;", all[n].values[k], read);
                }
            }
            if (setsockopt(fds[which], all[n].level, all[n].name, &on, 4) < 0 && errno == ENOPROTOOPT) {
                puts("");
                continue;
            }
            unsigned char byte = 3;
            int short_one = setsockopt(fds[which], all[n].level, all[n].name, &byte, 1);
            printf(" a byte %d;", short_one < 0 ? -errno : short_one);
            int none = setsockopt(fds[which], all[n].level, all[n].name, &byte, 0);
            printf(" none %d\n", none < 0 ? -errno : none);
        }
    puts("-- the interface");
    int fd = fds[0];
    struct { const char *own; int interface; } places[] = {
        { "127.0.0.1", 0 }, { "127.0.0.5", 0 }, { "0.0.0.0", 0 }, { "0.0.0.0", LO }, { "127.0.0.1", LO }, { "9.9.9.9", 0 }, { "0.0.0.0", 999 },
        { "0.0.0.0", -1 }, { "9.9.9.9", LO }, { "224.0.0.1", 0 },
    };
    for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
        struct ip_mreqn request = group("0.0.0.0", places[n].own, places[n].interface);
        struct in_addr told = { 0 };
        socklen_t len = sizeof told;
        int set = setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request);
        printf("%s, %d: %d", places[n].own, places[n].interface, set < 0 ? -errno : set);
        getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &told, &len);
        printf(", then %s, %u bytes\n", inet_ntoa(told), len);
    }
    struct in_addr own = { htonl(INADDR_LOOPBACK) };
    struct ip_mreq two = { .imr_interface = own };
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &two, sizeof two));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &own, 3));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, (void *)8, 4));
    SHOW(setsockopt(fds[1], IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own));
    SHOW(setsockopt(fds[2], IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own));
    for (int n = 0; n < 4; n++) close(fds[n]);
}

static void membership(void) {
    puts("-- membership");
    int fd = socket(AF_INET, SOCK_DGRAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(join(fd, "239.1.1.1"));
    SHOW(join(fd, "239.1.1.1"));
    struct { const char *ip, *own; int interface; } ways[] = {
        { "239.1.1.2", "127.0.0.1", 0 }, { "239.1.1.2", "127.0.0.7", 0 }, { "239.1.1.3", "127.0.0.7", 0 }, { "239.1.1.2", "9.9.9.9", LO },
        { "239.1.1.4", "9.9.9.9", LO }, { "239.1.1.5", "0.0.0.0", 999 }, { "239.1.1.5", "9.9.9.9", 0 }, { "127.0.0.1", "127.0.0.1", 0 },
        { "0.0.0.0", "127.0.0.1", 0 }, { "255.255.255.255", "127.0.0.1", 0 }, { "224.0.0.1", "127.0.0.1", 0 }, { "224.0.0.0", "127.0.0.1", 0 },
        { "239.255.255.255", "127.0.0.1", 0 }, { "240.0.0.0", "127.0.0.1", 0 }, { "223.255.255.255", "127.0.0.1", 0 }, { "239.1.1.6", "127.0.0.1", -1 },
    };
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        struct ip_mreqn request = group(ways[n].ip, ways[n].own, ways[n].interface);
        int done = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
        printf("join %s at %s, %d: %d\n", ways[n].ip, ways[n].own, ways[n].interface, done < 0 ? -errno : done);
    }
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        struct ip_mreqn request = group(ways[n].ip, ways[n].own, ways[n].interface);
        int done = setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request);
        printf("leave %s at %s, %d: %d\n", ways[n].ip, ways[n].own, ways[n].interface, done < 0 ? -errno : done);
    }
    SHOW(leave(fd, "239.1.1.1"));
    SHOW(leave(fd, "239.1.1.1"));
    SHOW(join(stream, "239.1.1.1"));
    SHOW(leave(stream, "239.1.1.1"));
    struct ip_mreqn request = group("239.1.1.1", "127.0.0.1", LO);
    for (unsigned bytes = 0; bytes <= 16; bytes++) {
        char place[16] = { 0 };
        memcpy(place, &request, sizeof request);
        int done = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, place, bytes);
        int error = errno, left = setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, place, bytes);
        printf("%u bytes: %d, %d\n", bytes, done < 0 ? -error : done, left < 0 ? -errno : left);
    }
    SHOW(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, (void *)8, sizeof request));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, 0, sizeof request));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, -1));
    value("of a membership", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP);
    puts("by the other ways:");
    struct group_req other = { .gr_interface = LO };
    struct sockaddr_in address = v4("239.1.1.9", 0);
    memcpy(&other.gr_group, &address, sizeof address);
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &other, sizeof other));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &other, sizeof other));
    SHOW(join(fd, "239.1.1.9"));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_GROUP, &other, sizeof other));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_GROUP, &other, sizeof other));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &other, sizeof other - 1));
    other.gr_interface = 999;
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &other, sizeof other));
    other.gr_interface = LO;
    other.gr_group.ss_family = AF_INET6;
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &other, sizeof other));
    other.gr_group.ss_family = AF_INET;
    SHOW(setsockopt(stream, IPPROTO_IP, MCAST_JOIN_GROUP, &other, sizeof other));
    SHOW(setsockopt(stream, IPPROTO_IP, MCAST_LEAVE_GROUP, &other, sizeof other));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, (void *)8, sizeof other));
    close(fd);
    close(stream);
}

static void limits(void) {
    puts("-- limits");
    int fd = socket(AF_INET, SOCK_DGRAM, 0), count = 0, most = 0;
    char ip[32];
    FILE *limit = fopen("/proc/sys/net/ipv4/igmp_max_memberships", "r");
    printf("igmp_max_memberships: %d", limit ? fscanf(limit, "%d", &most) : 0);
    printf(" %d\n", most);
    if (limit) fclose(limit);
    limit = fopen("/proc/sys/net/ipv4/igmp_max_msf", "r");
    printf("igmp_max_msf: %d", limit ? fscanf(limit, "%d", &most) : 0);
    printf(" %d\n", most);
    if (limit) fclose(limit);
    for (;; count++) {
        sprintf(ip, "239.2.0.%d", count);
        if (join(fd, ip) < 0) break;
    }
    printf("%d, then errno %d\n", count, errno);
    SHOW(join(fd, "239.2.0.0"));
    SHOW(leave(fd, "239.2.0.3"));
    SHOW(join(fd, "239.2.1.0"));
    SHOW(join(fd, "239.2.1.1"));
    close(fd);
    // A thousand of all sockets, in a process that is killed; then again.
    int sender = udp_at("127.0.0.1", 0);
    for (int round = 0; round < 2; round++) {
        int ready[2], port[2];
        if (pipe(ready) || pipe(port)) return;
        pid_t child = fork();
        if (child == 0) {
            int one = udp_at("0.0.0.0", 0), last = -1, number = port_of(one);
            setsockopt(one, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
            int all = 0;
            for (int n = 0; n < 1000; n++) {
                if (n % 20 == 0) {
                    last = udp_at("0.0.0.0", number);
                    setsockopt(last, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
                }
                sprintf(ip, "239.3.%d.%d", n / 200, n % 200);
                all += join(last, ip) == 0;
            }
            if (write(port[1], &number, 4) != 4 || write(port[1], &all, 4) != 4) _exit(1);
            // What was sent to the last of all is here, what was sent to the first is not.
            char text[16] = { 0 };
            long length = recv(last, text, sizeof text - 1, 0);
            if (write(ready[1], text, length) != length) _exit(1);
            for (;;) pause();
        }
        int number, all;
        char text[16] = { 0 };
        if (read(port[0], &number, 4) != 4 || read(port[0], &all, 4) != 4) return;
        printf("%d memberships\n", all);
        send_to(sender, "first", "239.3.0.0", number);
        send_to(sender, "none", "239.4.0.0", number);
        send_to(sender, "last", "239.3.4.199", number);
        if (read(ready[0], text, sizeof text) < 0) return;
        printf("read [%s]\n", text);
        kill(child, 9);
        waitpid(child, 0, 0);
        SHOW(send_to(sender, "nobody", "239.3.4.199", number));
        got("the sender", sender);
        for (int n = 0; n < 2; n++) {
            close(ready[n]);
            close(port[n]);
        }
    }
    close(sender);
}

static void delivery(void) {
    puts("-- delivery");
    int a = udp_at("0.0.0.0", 0), port = port_of(a);
    int b = udp_at("0.0.0.0", port), own = udp_at("239.5.0.1", port), home = udp_at("127.0.0.1", port), other = udp_at("239.5.0.2", port);
    int sender = udp_at("127.0.0.1", 0);
    SHOW(send_to(sender, "before", "239.5.0.1", port));
    got("a", a); got("b", b); got("bound to it", own); got("at 127.0.0.1", home); got("another group", other);
    puts("a joins:");
    SHOW(join(a, "239.5.0.1"));
    SHOW(send_to(sender, "joined", "239.5.0.1", port));
    got("a", a); got("b", b); got("bound to it", own); got("at 127.0.0.1", home); got("another group", other);
    puts("b wants only its own:");
    SHOW(setsockopt(b, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
    SHOW(setsockopt(own, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
    SHOW(send_to(sender, "joined", "239.5.0.1", port));
    got("a", a); got("b", b); got("bound to it", own);
    puts("b joins:");
    SHOW(join(b, "239.5.0.1"));
    SHOW(send_to(sender, "both", "239.5.0.1", port));
    got("a", a); got("b", b);
    puts("a leaves:");
    SHOW(leave(a, "239.5.0.1"));
    SHOW(send_to(sender, "left", "239.5.0.1", port));
    got("a", a); got("b", b);
    SHOW(setsockopt(a, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
    SHOW(send_to(sender, "left", "239.5.0.1", port));
    got("a", a); got("b", b);
    puts("one that is connected:");
    struct sockaddr_in to = v4("127.0.0.1", port_of(sender));
    SHOW(connect(b, (void *)&to, sizeof to));
    SHOW(send_to(sender, "from it", "239.5.0.1", port));
    got("b", b);
    int stranger = udp_at("127.0.0.1", 0);
    SHOW(send_to(stranger, "from another", "239.5.0.1", port));
    got("b", b);
    puts("all hosts:");
    SHOW(setsockopt(a, IPPROTO_IP, IP_MULTICAST_ALL, &on, sizeof on));
    SHOW(send_to(sender, "all", "224.0.0.1", port));
    got("a", a); got("bound to a group", own);
    puts("nobody has the port:");
    SHOW(send_to(sender, "nobody", "239.5.0.1", 9));
    got("the sender", sender);
    puts("what goes along:");
    SHOW(join(a, "239.5.0.1"));
    setsockopt(a, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    int hops[] = { -2, 1, 0, 7, 255 };
    for (int n = 0; n < 5; n++) {
        if (hops[n] != -2) SHOW(setsockopt(sender, IPPROTO_IP, IP_MULTICAST_TTL, &hops[n], 4));
        int usual = 33;
        setsockopt(sender, IPPROTO_IP, IP_TTL, &usual, 4);
        send_to(sender, "told", "239.5.0.1", port);
        char text[16];
        _Alignas(8) char control[256];
        struct sockaddr_in from;
        struct iovec part = { text, sizeof text };
        struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        if (recvmsg(a, &message, MSG_DONTWAIT) < 0) { printf("errno %d\n", errno); continue; }
        printf("from %s", inet_ntoa(from.sin_addr));
        for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one))
            if (one->cmsg_type == IP_PKTINFO) {
                struct in_pktinfo info;
                memcpy(&info, CMSG_DATA(one), sizeof info);
                printf(" interface %d own %s", info.ipi_ifindex, inet_ntoa(info.ipi_spec_dst));
                printf(" to %s", inet_ntoa(info.ipi_addr));
            } else if (one->cmsg_type == IP_TTL) {
                int told;
                memcpy(&told, CMSG_DATA(one), sizeof told);
                printf(" hops %d", told);
            }
        puts("");
    }
    puts("not to the own machine (of lo it is all the same):");
    SHOW(setsockopt(sender, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off));
    SHOW(send_to(sender, "loop", "239.5.0.1", port));
    got("a", a);
    puts("over an interface:");
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    struct in_addr lo = { htonl(INADDR_LOOPBACK) };
    SHOW(setsockopt(any, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof lo));
    SHOW(send_to(any, "over", "239.5.0.1", port));
    got("a", a);
    SHOW(send_to(any, "over", "127.0.0.1", port));
    got("home", home);
    puts("connected to a group:");
    struct sockaddr_in its = v4("239.5.0.1", port), name;
    socklen_t len = sizeof name;
    SHOW(connect(any, (void *)&its, sizeof its));
    SHOW(getsockname(any, (void *)&name, &len));
    printf("%s\n", inet_ntoa(name.sin_addr));
    SHOW(send(any, "connected", 9, 0));
    got("a", a);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(stream, (void *)&its, sizeof its) < 0);
    SHOW(bind(stream, (void *)&its, sizeof its));
    int all[] = { a, b, own, home, other, sender, stranger, any, stream };
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) close(all[n]);
}

static void sources(void) {
    puts("-- senders");
    int fd = udp_at("0.0.0.0", 0), port = port_of(fd), one = udp_at("127.0.0.1", 0), two = udp_at("127.0.0.2", 0);
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
#define BOTH() do { send_to(one, "one", "239.6.0.1", port); send_to(two, "two", "239.6.0.1", port); got("  it", fd); } while (0)
    puts("all but some:");
    SHOW(source(fd, IP_BLOCK_SOURCE, "239.6.0.1", "127.0.0.1"));
    SHOW(join(fd, "239.6.0.1"));
    SHOW(source(fd, IP_BLOCK_SOURCE, "239.6.0.1", "127.0.0.1"));
    BOTH();
    SHOW(source(fd, IP_BLOCK_SOURCE, "239.6.0.1", "127.0.0.1"));
    SHOW(source(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.1"));
    SHOW(source(fd, IP_UNBLOCK_SOURCE, "239.6.0.1", "127.0.0.2"));
    SHOW(source(fd, IP_UNBLOCK_SOURCE, "239.6.0.1", "127.0.0.1"));
    BOTH();
    SHOW(source(fd, IP_UNBLOCK_SOURCE, "239.6.0.1", "127.0.0.1"));
    SHOW(source(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.1"));
    SHOW(leave(fd, "239.6.0.1"));
    puts("only some:");
    SHOW(source(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.1"));
    BOTH();
    SHOW(source(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.1"));
    SHOW(source(fd, IP_BLOCK_SOURCE, "239.6.0.1", "127.0.0.1"));
    SHOW(source(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.2"));
    BOTH();
    SHOW(join(fd, "239.6.0.1"));
    SHOW(source(fd, IP_DROP_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.1"));
    BOTH();
    SHOW(source(fd, IP_DROP_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.1"));
    SHOW(source(fd, IP_DROP_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.2"));
    BOTH();
    SHOW(source(fd, IP_DROP_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.2"));
    SHOW(leave(fd, "239.6.0.1"));
    puts("a change of mind, as long as there are none:");
    SHOW(join(fd, "239.6.0.1"));
    SHOW(source(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.6.0.1", "127.0.0.2"));
    BOTH();
    SHOW(leave(fd, "239.6.0.1"));
    puts("how many:");
    SHOW(join(fd, "239.6.0.1"));
    int count = 0;
    char ip[32];
    for (;; count++) {
        sprintf(ip, "10.0.0.%d", count + 1);
        if (source(fd, IP_BLOCK_SOURCE, "239.6.0.1", ip) < 0) break;
    }
    printf("%d, then errno %d\n", count, errno);
    SHOW(source(fd, IP_UNBLOCK_SOURCE, "239.6.0.1", "10.0.0.4"));
    SHOW(source(fd, IP_BLOCK_SOURCE, "239.6.0.1", "127.0.0.2"));
    BOTH();
    SHOW(leave(fd, "239.6.0.1"));
    puts("wrong:");
    struct ip_mreq_source request = source_of("239.6.0.1", "9.9.9.9", "127.0.0.1");
    SHOW(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &request, sizeof request));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &request, sizeof request));
    request = source_of("10.6.0.1", "127.0.0.1", "127.0.0.1");
    SHOW(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &request, sizeof request));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, &request, sizeof request));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, &request, sizeof request - 1));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, &request, sizeof request + 1));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, (void *)8, sizeof request));
    puts("by the other ways:");
    struct group_source_req other = { .gsr_interface = LO };
    struct sockaddr_in address = v4("239.6.0.1", 0), from = v4("127.0.0.1", 0);
    memcpy(&other.gsr_group, &address, sizeof address);
    memcpy(&other.gsr_source, &from, sizeof from);
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_BLOCK_SOURCE, &other, sizeof other));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &other, sizeof other));
    BOTH();
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_BLOCK_SOURCE, &other, sizeof other));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_SOURCE_GROUP, &other, sizeof other));
    BOTH();
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_SOURCE_GROUP, &other, sizeof other));
    SHOW(join(fd, "239.6.0.1"));
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_BLOCK_SOURCE, &other, sizeof other));
    BOTH();
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_UNBLOCK_SOURCE, &other, sizeof other));
    BOTH();
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_UNBLOCK_SOURCE, &other, sizeof other - 1));
    other.gsr_source.ss_family = AF_INET6;
    SHOW(setsockopt(fd, IPPROTO_IP, MCAST_UNBLOCK_SOURCE, &other, sizeof other));
    SHOW(leave(fd, "239.6.0.1"));
    puts("all at once:");
    struct { struct in_addr group, own; unsigned mode, count; struct in_addr from[12]; } filter = { .mode = MCAST_INCLUDE, .count = 1 };
    inet_pton(AF_INET, "239.6.0.1", &filter.group);
    inet_pton(AF_INET, "127.0.0.1", &filter.own);
    inet_pton(AF_INET, "127.0.0.2", &filter.from[0]);
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 20));
    SHOW(join(fd, "239.6.0.1"));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 20));
    BOTH();
    filter.mode = MCAST_EXCLUDE;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 20));
    BOTH();
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 19));
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 15));
    filter.mode = 2;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 20));
    filter.mode = MCAST_EXCLUDE;
    filter.count = 11;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 60));
    filter.count = 0;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 16));
    BOTH();
    filter.mode = MCAST_INCLUDE;
    SHOW(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, 16));
    BOTH();
    SHOW(leave(fd, "239.6.0.1"));
    close(fd);
    close(one);
    close(two);
}

// Another user, who has not joined, reads nothing that is not said to it, and takes no port away.
static void users(void) {
    puts("-- another user");
    int fd = udp_at("0.0.0.0", 0), port = port_of(fd), sender = udp_at("127.0.0.1", 0);
    SHOW(join(fd, "239.7.0.1"));
    fflush(stdout);
    int go[2], done[2];
    char byte = 0;
    if (pipe(go) || pipe(done)) return;
    pid_t child = fork();
    if (child == 0) {
        if (setuid(1000) < 0) _exit(1);
        int its = udp_at("0.0.0.0", 0);
        setsockopt(its, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
        int also = socket(AF_INET, SOCK_DGRAM, 0);
        setsockopt(also, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
        struct sockaddr_in address = v4("239.7.0.1", port);
        int bound = bind(also, (void *)&address, sizeof address);
        printf("by SO_REUSEPORT: %d\n", bound < 0 ? -errno : bound);
        fflush(stdout);
        if (write(done[1], "", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
        got("its own port", its);
        got("not bound", also);
        SHOW(leave(its, "239.7.0.1"));
        fflush(stdout);
        _exit(0);
    }
    if (read(done[0], &byte, 1) != 1) return;
    SHOW(send_to(sender, "secret", "239.7.0.1", port));
    fflush(stdout);
    if (write(go[1], "", 1) != 1) return;
    waitpid(child, 0, 0);
    got("the member", fd);
    close(fd);
    close(sender);
}

static int join6(int fd, const char *ip, int interface) {
    struct ipv6_mreq request = { .ipv6mr_interface = interface };
    inet_pton(AF_INET6, ip, &request.ipv6mr_multiaddr);
    return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
}
static int leave6(int fd, const char *ip, int interface) {
    struct ipv6_mreq request = { .ipv6mr_interface = interface };
    inet_pton(AF_INET6, ip, &request.ipv6mr_multiaddr);
    return setsockopt(fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &request, sizeof request);
}
static int udp6_at(const char *ip, int port, int scope) {
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in6 address = v6(ip, port, scope);
    if (bind(fd, (void *)&address, sizeof address) < 0) printf("bind %s: errno %d\n", ip, errno);
    return fd;
}
static long send6(int fd, const char *text, const char *ip, int port, int scope) {
    struct sockaddr_in6 to = v6(ip, port, scope);
    return sendto(fd, text, strlen(text), 0, (void *)&to, sizeof to);
}

static void version6(void) {
    puts("-- IPv6");
    int fd = udp6_at("::", 0, 0), port = port_of(fd), other = udp6_at("::", port, 0), sender = udp6_at("::1", 0, 0), stream = socket(AF_INET6, SOCK_STREAM, 0);
    SHOW(join6(fd, "ff15::1", LO));
    SHOW(join6(fd, "ff15::1", LO));
    SHOW(join6(fd, "ff15::1", 0));
    SHOW(join6(fd, "ff15::2", 999));
    SHOW(join6(fd, "ff15::2", -1));
    SHOW(join6(fd, "::1", LO));
    SHOW(join6(fd, "fe80::1", LO));
    SHOW(join6(stream, "ff15::1", LO));
    SHOW(leave6(stream, "ff15::1", LO));
    struct ipv6_mreq request = { .ipv6mr_interface = LO };
    inet_pton(AF_INET6, "ff15::3", &request.ipv6mr_multiaddr);
    SHOW(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request - 1));
    SHOW(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, (void *)8, sizeof request));
    int old = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(join6(old, "ff15::1", LO));
    close(old);
    int lo = LO;
    SHOW(setsockopt(sender, IPPROTO_IPV6, IPV6_MULTICAST_IF, &lo, sizeof lo));
    SHOW(setsockopt(other, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof off));
    SHOW(send6(sender, "six", "ff15::1", port, 0));
    got("it", fd); got("the other", other);
    SHOW(send6(sender, "local", "ff11::1", port, LO));
    got("it", fd);
    SHOW(leave6(fd, "ff15::1", 0));
    SHOW(leave6(fd, "ff15::1", 0));
    SHOW(leave6(fd, "ff15::1", LO));
    SHOW(leave6(fd, "::1", LO));
    puts("by the other ways:");
    struct group_req way = { .gr_interface = LO };
    struct sockaddr_in6 address = v6("ff15::9", 0, 0);
    memcpy(&way.gr_group, &address, sizeof address);
    SHOW(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &way, sizeof way));
    SHOW(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &way, sizeof way));
    SHOW(setsockopt(fd, IPPROTO_IPV6, MCAST_LEAVE_GROUP, &way, sizeof way));
    SHOW(setsockopt(fd, IPPROTO_IPV6, MCAST_LEAVE_GROUP, &way, sizeof way));
    SHOW(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &way, sizeof way - 1));
    SHOW(setsockopt(stream, IPPROTO_IPV6, MCAST_JOIN_GROUP, &way, sizeof way));
    struct sockaddr_in four = v4("239.8.0.1", 0);
    memcpy(&way.gr_group, &four, sizeof four);
    SHOW(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &way, sizeof way));
    puts("IPv4 by a socket of IPv6:");
    SHOW(join(fd, "239.8.0.1"));
    int sender4 = udp_at("127.0.0.1", 0);
    SHOW(send_to(sender4, "four", "239.8.0.1", port));
    got("it", fd); got("the other", other);
    SHOW(leave(fd, "239.8.0.1"));
    puts("many:");
    char ip[64];
    int count = 0;
    for (int n = 0; n < 1000; n++) {
        sprintf(ip, "ff15::2:%x", n);
        count += join6(fd, ip, LO) == 0;
    }
    printf("%d\n", count);
    SHOW(leave6(fd, "ff15::2:3e7", LO));
    SHOW(leave6(fd, "ff15::2:3e8", LO));
    close(fd);
    close(other);
    close(sender);
    close(sender4);
    close(stream);
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    options();
    membership();
    limits();
    delivery();
    sources();
    users();
    version6();
    return 0;
}
