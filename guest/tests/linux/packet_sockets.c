// Packet sockets: they see what goes by, send any frame, count what they lose, and are for few.
// oracle: linux
// build: gcc
#include "network.h"
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

static unsigned char got[70000];
static struct sockaddr_in lo = { .sin_family = AF_INET };

static void heard(int fd, const char *who) {
    struct pollfd one = { fd, POLLIN, 0 };
    struct sockaddr_ll from;
    memset(&from, 0xee, sizeof from);
    socklen_t len = sizeof from;
    if (poll(&one, 1, 200) != 1) { printf("%s: nothing\n", who); return; }
    long count = recvfrom(fd, got, sizeof got, 0, (void *)&from, &len);
    printf("%s: %ld bytes, family %d, protocol %#x, interface %d, kind %d, for %d, address of %d:", who, count, from.sll_family, ntohs(from.sll_protocol),
           from.sll_ifindex, from.sll_hatype, from.sll_pkttype, from.sll_halen);
    // Not the number of a packet of IPv4, nor its sum.
    for (int i = 0; i < count && i < 16; i++)
        if (i < 4 || from.sll_protocol != htons(ETH_P_IP)) printf(" %02x", got[i]);
    puts("");
}

static void drain(int fd) { while (recv(fd, got, sizeof got, MSG_DONTWAIT) >= 0) {} }

static int open_lo(int type, int protocol) {
    int fd = socket(AF_PACKET, type, htons(protocol));
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = 1 };
    if (bind(fd, (void *)&at, sizeof at)) printf("bind: %d\n", errno);
    drain(fd);
    return fd;
}

// Two sockets that talk, and nobody else: so that there is something to see.
static int from, to;
static void talk(const char *what) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    getsockname(to, (void *)&at, &len);
    sendto(from, what, strlen(what), 0, (void *)&at, sizeof at);
    recv(to, got, sizeof got, 0);
}

static void names(void) {
    puts("-- names");
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), value;
    struct sockaddr_ll at;
    socklen_t len = sizeof at;
    memset(&at, 0xee, sizeof at);
    SHOW(getsockname(fd, (void *)&at, &len)); SHOW(len); SHOW(at.sll_family); SHOW(at.sll_ifindex); SHOW(ntohs(at.sll_protocol)); SHOW(at.sll_hatype); SHOW(at.sll_halen);
    at = (struct sockaddr_ll){ .sll_family = AF_PACKET, .sll_ifindex = 1 };
    SHOW(bind(fd, (void *)&at, sizeof at));
    len = sizeof at, memset(&at, 0xee, sizeof at);
    SHOW(getsockname(fd, (void *)&at, &len)); SHOW(len); SHOW(at.sll_ifindex); SHOW(ntohs(at.sll_protocol)); SHOW(at.sll_hatype); SHOW(at.sll_halen); SHOW(at.sll_pkttype);
    SHOW(getpeername(fd, (void *)&at, &len)); SHOW(connect(fd, (void *)&at, sizeof at)); SHOW(listen(fd, 1)); SHOW(accept(fd, NULL, NULL)); SHOW(shutdown(fd, SHUT_RDWR));
    at = (struct sockaddr_ll){ .sll_family = AF_PACKET, .sll_ifindex = 4000 };
    SHOW(bind(fd, (void *)&at, sizeof at)); SHOW(bind(fd, (void *)&at, sizeof at - 1));
    at.sll_family = AF_INET; SHOW(bind(fd, (void *)&at, sizeof at));
    len = sizeof value;
    SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len)); SHOW(value);
    SHOW(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len)); SHOW(value);
    struct ifreq r = { .ifr_name = "lo" };
    SHOW(ioctl(fd, SIOCGIFINDEX, &r)); SHOW(r.ifr_ifindex); SHOW(ioctl(fd, SIOCGIFHWADDR, &r)); SHOW(r.ifr_hwaddr.sa_family);
    close(fd);
    fd = socket(AF_PACKET, SOCK_DGRAM, 0);
    SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len)); SHOW(value);
    SHOW(recv(fd, got, sizeof got, MSG_DONTWAIT));
    close(fd);
    SHOW(socket(AF_PACKET, SOCK_STREAM, htons(ETH_P_ALL)));
}

static void seen(void) {
    puts("-- what goes by");
    int all = open_lo(SOCK_RAW, ETH_P_ALL), ip = open_lo(SOCK_RAW, ETH_P_IP), arp = open_lo(SOCK_RAW, ETH_P_ARP), cooked = open_lo(SOCK_DGRAM, ETH_P_ALL);
    talk("hello");
    // As it goes, and as it comes.
    heard(all, "all"), heard(all, "all"), heard(all, "all");
    heard(ip, "ip"), heard(ip, "ip"), heard(arp, "arp");
    heard(cooked, "cooked"), heard(cooked, "cooked");
    printf("%.5s\n", got + 28);
    // A part of one.
    talk("more");
    SHOW(recv(all, got, 20, MSG_PEEK)); SHOW(recv(all, got, 20, MSG_PEEK | MSG_TRUNC)); SHOW(recv(all, got, 20, MSG_TRUNC)); SHOW(recv(all, got, 20, 0));
    // When it came.
    int on = 1;
    drain(all);
    SHOW(setsockopt(all, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    talk("when");
    char control[256];
    struct iovec iov = { got, sizeof got };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    SHOW(recvmsg(all, &m, 0));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    struct timeval now;
    gettimeofday(&now, NULL);
    CHECK(c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMP && labs(((struct timeval *)CMSG_DATA(c))->tv_sec - now.tv_sec) < 100);
    close(all), close(ip), close(arp), close(cooked);
}

static void sent(void) {
    puts("-- sent");
    int fd = open_lo(SOCK_RAW, ETH_P_ALL), cooked = open_lo(SOCK_DGRAM, 0x88b5), ear = open_lo(SOCK_RAW, 0x88b5);
    unsigned char frame[60] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, 0xb5, 'e', 't', 'h' };
    SHOW(send(fd, frame, sizeof frame, 0));
    heard(ear, "ear"), heard(cooked, "cooked"), heard(fd, "own"), heard(fd, "own"), heard(fd, "own");
    SHOW(send(fd, frame, 13, 0));
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(0x88b5), .sll_ifindex = 1, .sll_halen = 6 };
    SHOW(sendto(cooked, "cooked", 6, 0, (void *)&at, sizeof at));
    heard(ear, "ear"), heard(cooked, "itself");
    at.sll_ifindex = 4000; SHOW(sendto(cooked, "x", 1, 0, (void *)&at, sizeof at));
    at.sll_ifindex = 1; SHOW(sendto(cooked, "x", 1, 0, (void *)&at, 19));
    at.sll_family = AF_INET; SHOW(sendto(cooked, "x", 1, 0, (void *)&at, sizeof at));
    int unbound = socket(AF_PACKET, SOCK_RAW, 0);
    SHOW(send(unbound, frame, sizeof frame, 0));
    // Datagrams by hand from this machine to itself: those that come so could not be right.
    struct sockaddr_in6 name = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int six = socket(AF_INET6, SOCK_DGRAM, 0);
    SHOW(bind(six, (void *)&name, sizeof name));
    socklen_t len = sizeof name;
    getsockname(six, (void *)&name, &len);
    struct { struct ethhdr eth; struct ip6_hdr ip; struct udphdr udp; char rest[4]; } __attribute__((packed)) whole = {
        { .h_proto = htons(ETH_P_IPV6) }, { .ip6_vfc = 0x60, .ip6_plen = htons(12), .ip6_nxt = 17, .ip6_hlim = 64, .ip6_src = in6addr_loopback, .ip6_dst = in6addr_loopback },
        { .source = htons(7), .dest = name.sin6_port, .len = htons(12) }, "by!" };
    // The addresses are twice the same, with a one at the end.
    unsigned all = 2 + 12 + 17 + 7 + ntohs(name.sin6_port) + 12 + ('b' << 8 | 'y') + ('!' << 8);
    whole.udp.check = htons(~((all & 0xffff) + (all >> 16)));
    SHOW(send(fd, &whole, sizeof whole, 0));
    struct pollfd one = { six, POLLIN, 0 };
    SHOW(poll(&one, 1, 100)); SHOW(recv(six, got, sizeof got, MSG_DONTWAIT));
    close(six);
    struct sockaddr_in at4;
    len = sizeof at4;
    getsockname(to, (void *)&at4, &len);
    struct { struct ethhdr eth; struct iphdr ip; struct udphdr udp; char rest[4]; } __attribute__((packed)) four = {
        { .h_proto = htons(ETH_P_IP) }, { .version = 4, .ihl = 5, .ttl = 64, .protocol = 17, .tot_len = htons(32), .saddr = lo.sin_addr.s_addr, .daddr = lo.sin_addr.s_addr },
        { .source = htons(7), .dest = at4.sin_port, .len = htons(12) }, "by!" };
    all = 0;
    for (int i = 0; i < 10; i++) all += ((unsigned char *)&four.ip)[2 * i] << 8 | ((unsigned char *)&four.ip)[2 * i + 1];
    four.ip.check = htons(~((all & 0xffff) + (all >> 16)));
    SHOW(send(fd, &four, sizeof four, 0));
    one.fd = to;
    SHOW(poll(&one, 1, 100));
    close(fd), close(cooked), close(ear), close(unbound);
}

static void options(void) {
    puts("-- options");
    int fd = open_lo(SOCK_RAW, ETH_P_IP);
    struct packet_mreq want = { .mr_ifindex = 1, .mr_type = PACKET_MR_PROMISC };
    SHOW(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want));
    SHOW(setsockopt(fd, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &want, sizeof want));
    // What is not there any more is no error.
    SHOW(setsockopt(fd, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &want, sizeof want));
    want.mr_ifindex = 4000; SHOW(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want));
    SHOW(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, 15));
    want.mr_ifindex = 1, want.mr_type = 99; SHOW(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want));
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(setsockopt(udp, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want));
    close(udp);
    // Seen, and lost.
    struct tpacket_stats stats = { 9, 9 };
    socklen_t len = sizeof stats;
    SHOW(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len)); SHOW(len);
    talk("one"), talk("two"), talk("three");
    SHOW(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len)); SHOW(stats.tp_packets); SHOW(stats.tp_drops);
    SHOW(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len)); SHOW(stats.tp_packets);
    // A reader that never reads: nobody waits for it, and what it loses is counted.
    static char large[8001];
    memset(large, 'l', 8000);
    for (int i = 0; i < 300; i++) talk(large);
    SHOW(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len)); SHOW(stats.tp_packets);
    CHECK(stats.tp_drops > 200 && stats.tp_drops < 300);
    drain(fd);
    // A filter: datagrams from one port, 20 bytes of each; whatever is for somebody else than this machine is not kept.
    struct sockaddr_in at;
    len = sizeof at, getsockname(from, (void *)&at, &len);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 6),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SKF_NET_OFF + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 4),
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohs(at.sin_port), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 20),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = { 9, code };
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    talk("kept");
    sendto(to, "other", 5, 0, (void *)&at, sizeof at), recv(from, got, sizeof got, 0);
    heard(fd, "kept"), heard(fd, "nothing else");
    close(fd);
}

static void nobody(void) {
    puts("-- a user without rights");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(setgid(12345)); SHOW(setuid(12345));
        SHOW(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL))); SHOW(socket(AF_PACKET, SOCK_DGRAM, 0));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    own_network();
    lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    bind(from, (void *)&lo, sizeof lo), bind(to, (void *)&lo, sizeof lo);
    names();
    seen();
    sent();
    options();
    nobody();
    return 0;
}
