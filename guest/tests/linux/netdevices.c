// What a program learns of interfaces: by requests, by netlink, by libc; raw sockets and low ports, which only some may have.
// oracle: linux
// build: gcc
#include "test.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int udp;

static void ask(const char *name, unsigned long command, const char *what) {
    struct ifreq r;
    memset(&r, 0xee, sizeof r);
    strcpy(r.ifr_name, name);
    errno = 0;
    int result = ioctl(udp, command, &r);
    printf("%s %s: %d, errno %d:", name, what, result, errno);
    if (result == 0)
        for (int i = 0; i < 8; i++) printf(" %02x", ((unsigned char *)&r.ifr_addr)[i]);
    printf("\n");
}

static void requests(void) {
    puts("-- requests");
    ask("lo", SIOCGIFADDR, "address");
    ask("lo", SIOCGIFNETMASK, "mask");
    ask("lo", SIOCGIFBRDADDR, "all");
    ask("lo", SIOCGIFDSTADDR, "destination");
    struct ifreq r = { .ifr_name = "lo" };
    SHOW(ioctl(udp, SIOCGIFFLAGS, &r));
    SHOW(r.ifr_flags & 0xffff);
    SHOW(ioctl(udp, SIOCGIFMTU, &r)); SHOW(r.ifr_mtu);
    SHOW(ioctl(udp, SIOCGIFINDEX, &r)); SHOW(r.ifr_ifindex);
    SHOW(ioctl(udp, SIOCGIFMETRIC, &r)); SHOW(r.ifr_metric);
    SHOW(ioctl(udp, SIOCGIFTXQLEN, &r)); SHOW(r.ifr_qlen);
    SHOW(ioctl(udp, SIOCGIFHWADDR, &r)); SHOW(r.ifr_hwaddr.sa_family);
    memset(r.ifr_name, 0, sizeof r.ifr_name), r.ifr_ifindex = 1;
    SHOW(ioctl(udp, SIOCGIFNAME, &r)); printf("%s\n", r.ifr_name);
    r.ifr_ifindex = 1000;
    SHOW(ioctl(udp, SIOCGIFNAME, &r));
    ask("none", SIOCGIFADDR, "address"), ask("none", SIOCGIFMTU, "mtu"), ask("none", SIOCGIFFLAGS, "flags");
    SHOW(ioctl(udp, SIOCGIFADDR, (void *)8));
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(r.ifr_name, "lo");
    SHOW(ioctl(local, SIOCGIFINDEX, &r));
    close(local);
    int null = open("/dev/null", O_RDWR);
    SHOW(ioctl(null, SIOCGIFINDEX, &r));
    close(null);
    static struct ifreq all[64];
    struct ifconf conf = { sizeof all, { (void *)all } };
    SHOW(ioctl(udp, SIOCGIFCONF, &conf));
    CHECK(conf.ifc_len >= (int)sizeof *all && conf.ifc_len % sizeof *all == 0);
    int has = 0;
    for (int i = 0; i < conf.ifc_len / (int)sizeof *all; i++) has += !strcmp(all[i].ifr_name, "lo");
    SHOW(has);
    conf.ifc_len = sizeof *all - 1;
    SHOW(ioctl(udp, SIOCGIFCONF, &conf)); SHOW(conf.ifc_len);
    conf.ifc_buf = NULL;
    SHOW(ioctl(udp, SIOCGIFCONF, &conf)); CHECK(conf.ifc_len >= (int)sizeof *all);
}

static int send_request(int fd, int kind, int flags, int seq, int family, int more) {
    struct { struct nlmsghdr head; struct rtgenmsg gen; char rest[64]; } r;
    memset(&r, 0, sizeof r);
    r.head = (struct nlmsghdr){ NLMSG_LENGTH(more), kind, flags, seq, 0 };
    r.gen.rtgen_family = family;
    return send(fd, &r, r.head.nlmsg_len, 0);
}

static unsigned own;

// Reads answers until the end of a dump, or one that is alone; shows those about `lo`.
static void answers(int fd, int seq) {
    static char buffer[65536];
    for (;;) {
        struct pollfd one = { fd, POLLIN, 0 };
        if (poll(&one, 1, 5000) != 1) { puts("nothing"); return; }
        struct sockaddr_nl from;
        socklen_t from_len = sizeof from;
        int got = recvfrom(fd, buffer, sizeof buffer, 0, (void *)&from, &from_len);
        if (from.nl_family != AF_NETLINK || from.nl_pid || from_len != sizeof from) puts("from somebody else");
        for (struct nlmsghdr *h = (void *)buffer; NLMSG_OK(h, (unsigned)got); h = NLMSG_NEXT(h, got)) {
            if ((int)h->nlmsg_seq != seq || h->nlmsg_pid != own) puts("of another request");
            if (h->nlmsg_type == NLMSG_DONE) { puts("done"); return; }
            if (h->nlmsg_type == NLMSG_ERROR) {
                struct nlmsgerr *e = NLMSG_DATA(h);
                printf("error %d of type %d\n", e->error, e->msg.nlmsg_type);
                return;
            }
            if (h->nlmsg_type == RTM_NEWLINK) {
                struct ifinfomsg *i = NLMSG_DATA(h);
                int left = IFLA_PAYLOAD(h);
                if (i->ifi_index == 1) {
                    printf("link %d: type %d, flags %#x\n", i->ifi_index, i->ifi_type, i->ifi_flags);
                    for (struct rtattr *a = IFLA_RTA(i); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
                        if (a->rta_type == IFLA_IFNAME) printf("  name %s\n", (char *)RTA_DATA(a));
                        if (a->rta_type == IFLA_MTU) printf("  mtu %u\n", *(unsigned *)RTA_DATA(a));
                        if (a->rta_type == IFLA_ADDRESS) printf("  address of %d bytes\n", (int)RTA_PAYLOAD(a));
                        if (a->rta_type == IFLA_STATS64) printf("  counters %d\n", RTA_PAYLOAD(a) >= 23 * 8);
                    }
                }
                if (!(h->nlmsg_flags & NLM_F_MULTI)) return;
            }
            if (h->nlmsg_type == RTM_NEWADDR) {
                struct ifaddrmsg *i = NLMSG_DATA(h);
                int left = IFA_PAYLOAD(h);
                if (i->ifa_index == 1 && i->ifa_family == AF_INET) {
                    printf("address of %d: /%d, flags %#x, scope %d\n", i->ifa_index, i->ifa_prefixlen, i->ifa_flags, i->ifa_scope);
                    for (struct rtattr *a = IFA_RTA(i); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
                        char text[64];
                        if (a->rta_type == IFA_LOCAL || a->rta_type == IFA_ADDRESS || a->rta_type == IFA_BROADCAST)
                            printf("  %d: %s\n", a->rta_type, inet_ntop(AF_INET, RTA_DATA(a), text, sizeof text));
                        if (a->rta_type == IFA_LABEL) printf("  label %s\n", (char *)RTA_DATA(a));
                    }
                }
            }
            if (h->nlmsg_type == RTM_NEWROUTE && !(h->nlmsg_flags & NLM_F_MULTI)) {
                struct rtmsg *m = NLMSG_DATA(h);
                printf("route: /%d, type %d\n", m->rtm_dst_len, m->rtm_type);
                return;
            }
        }
    }
}

static void netlink(void) {
    puts("-- netlink");
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), value;
    struct sockaddr_nl name = { .nl_family = AF_NETLINK };
    socklen_t len = sizeof value;
    SHOW(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len)); SHOW(value);
    SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len)); SHOW(value);
    SHOW(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &len)); SHOW(value);
    len = sizeof name;
    SHOW(getsockname(fd, (void *)&name, &len)); SHOW(name.nl_pid); SHOW(len);
    SHOW(bind(fd, (void *)&name, sizeof name));
    len = sizeof name;
    SHOW(getsockname(fd, (void *)&name, &len)); CHECK(name.nl_pid == (unsigned)getpid());
    own = name.nl_pid;
    name.nl_pid = 77;
    SHOW(bind(fd, (void *)&name, sizeof name));
    int second = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE);
    name.nl_pid = own;
    SHOW(bind(second, (void *)&name, sizeof name));
    name.nl_pid = 0;
    SHOW(bind(second, (void *)&name, 4));
    SHOW(bind(second, (void *)&name, sizeof name));
    len = sizeof name;
    getsockname(second, (void *)&name, &len); CHECK(name.nl_pid != own && name.nl_pid != 0);
    close(second);
    SHOW(listen(fd, 1)); SHOW(accept(fd, NULL, NULL));
    name.nl_pid = 0;
    SHOW(connect(fd, (void *)&name, sizeof name));
    value = 1;
    SHOW(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &value, sizeof value));
    SHOW(setsockopt(fd, SOL_NETLINK, 99, &value, sizeof value));
    SHOW(setsockopt(fd, IPPROTO_TCP, 1, &value, sizeof value));
    value = 0, setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &value, sizeof value);
    char byte;
    SHOW(recv(fd, &byte, 1, MSG_DONTWAIT));
    SHOW(send_request(fd, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, AF_UNSPEC, sizeof(struct ifinfomsg)));
    // How long the first packet is can be asked without reading it.
    struct iovec none = { NULL, 0 };
    struct msghdr message = { .msg_iov = &none, .msg_iovlen = 1 };
    CHECK(recvmsg(fd, &message, MSG_PEEK | MSG_TRUNC) > 100); SHOW(message.msg_flags & MSG_TRUNC);
    answers(fd, 1);
    SHOW(send_request(fd, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 2, AF_INET, sizeof(struct ifaddrmsg))); answers(fd, 2);
    SHOW(send_request(fd, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, 3, AF_INET, sizeof(struct rtmsg))); answers(fd, 3);
    SHOW(send_request(fd, RTM_GETLINK, NLM_F_REQUEST, 4, AF_UNSPEC, sizeof(struct ifinfomsg))); answers(fd, 4);
    struct { struct nlmsghdr head; struct ifinfomsg info; } one = { { sizeof one, RTM_GETLINK, NLM_F_REQUEST, 5, 0 }, { .ifi_index = 1 } };
    SHOW(send(fd, &one, sizeof one, 0)); answers(fd, 5);
    one.head.nlmsg_seq = 6, one.info.ifi_index = 5000;
    SHOW(send(fd, &one, sizeof one, 0)); answers(fd, 6);
    // Cut, too long, no request: those are not answered.
    SHOW(send(fd, &one, 7, 0));
    one.head.nlmsg_len = 5000;
    SHOW(send(fd, &one, sizeof one, 0));
    one.head = (struct nlmsghdr){ sizeof one, RTM_GETLINK, 0, 7, 0 };
    SHOW(send(fd, &one, sizeof one, 0));
    SHOW(recv(fd, &byte, 1, MSG_DONTWAIT));
    close(fd);
    SHOW(socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
    SHOW(socket(AF_NETLINK, SOCK_RAW, 31));
}

static void by_libc(void) {
    puts("-- libc");
    struct ifaddrs *all = NULL;
    SHOW(getifaddrs(&all));
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[64];
        if (strcmp(i->ifa_name, "lo") || !i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
        printf("%s %#x %s", i->ifa_name, i->ifa_flags, inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, text, sizeof text));
        printf(" %s\n", inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_netmask)->sin_addr, text, sizeof text));
    }
    freeifaddrs(all);
    char name[IF_NAMESIZE];
    SHOW(if_nametoindex("lo")); SHOW(if_nametoindex("none"));
    printf("%s %s\n", if_indextoname(1, name), if_indextoname(999, name) ? "some" : "none");
    struct if_nameindex *names = if_nameindex();
    printf("%u %s\n", names[0].if_index, names[0].if_name);
    if_freenameindex(names);
}

static unsigned short sum(const unsigned char *bytes, int len) {
    unsigned all = 0;
    for (int i = 0; i < len; i += 2) all += bytes[i] << 8 | (i + 1 < len ? bytes[i + 1] : 0);
    while (all >> 16) all = (all & 0xffff) + (all >> 16);
    return htons(~all);
}

static void raw(void) {
    puts("-- raw");
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), value;
    socklen_t len = sizeof value;
    SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len)); SHOW(value);
    unsigned char request[8 + 16] = { ICMP_ECHO, 0, 0, 0, 0x12, 0x34, 0, 7, 'h', 'e', 'l', 'l', 'o' }, got[256];
    *(unsigned short *)(request + 2) = sum(request, sizeof request);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    SHOW(send(fd, request, sizeof request, 0));
    SHOW(sendto(fd, request, sizeof request, 0, (void *)&to, sizeof to));
    // The request is heard, too, and the answer, each with the head of its packet.
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        long count = recvfrom(fd, got, sizeof got, 0, (void *)&from, &from_len);
        printf("%ld bytes, version and words %#x, protocol %d, from %#x, type %d, id %02x%02x, %.5s, sums %s %s\n", count, got[0], got[9],
               ntohl(from.sin_addr.s_addr), got[20], got[24], got[25], got + 28, sum(got, 20) ? "bad" : "good",
               sum(got + 20, count - 20) ? "bad" : "good");
    }
    SHOW(recv(fd, got, sizeof got, MSG_DONTWAIT));
    SHOW(connect(fd, (void *)&to, sizeof to));
    SHOW(send(fd, request, sizeof request, 0));
    SHOW(recv(fd, got, 20, MSG_TRUNC));
    SHOW(recv(fd, got, sizeof got, 0));
    close(fd);
    SHOW(socket(AF_INET, SOCK_RAW, 0));
}

// A user without rights.
static void nobody(void) {
    puts("-- a user without rights");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(setgid(12345)); SHOW(setuid(12345));
        SHOW(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
        SHOW(socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
        SHOW(socket(AF_INET, SOCK_RAW, IPPROTO_TCP));
        SHOW(socket(AF_INET, SOCK_RAW, 0));
        int tcp = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
        struct sockaddr_in low = { .sin_family = AF_INET, .sin_port = htons(80) };
        SHOW(bind(tcp, (void *)&low, sizeof low));
        low.sin_port = htons(1023);
        SHOW(bind(udp, (void *)&low, sizeof low));
        struct ifreq r = { .ifr_name = "lo" };
        SHOW(ioctl(udp, SIOCGIFFLAGS, &r));
        SHOW(ioctl(udp, SIOCSIFFLAGS, &r));
        SHOW(ioctl(udp, SIOCSIFMTU, &r));
        struct sockaddr_nl name = { .nl_family = AF_NETLINK };
        SHOW(bind(fd, (void *)&name, sizeof name));
        own = getpid();
        struct { struct nlmsghdr head; struct ifinfomsg info; } one = { { sizeof one, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0 }, { .ifi_index = 1 } };
        SHOW(send(fd, &one, sizeof one, 0)); answers(fd, 1);
        name.nl_pid = getppid();
        SHOW(sendto(fd, &one, sizeof one, 0, (void *)&name, sizeof name));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    requests();
    netlink();
    by_libc();
    raw();
    nobody();
    return 0;
}
