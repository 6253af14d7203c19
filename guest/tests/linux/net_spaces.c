// Name spaces of networks: nothing is in a new one but `lo`, which is down until its owner brings it up; ports and abstract names are
// those of one; sockets that are passed stay where they were made; who may do what; how others get in, and what is left of one.
// oracle: linux
// build: gcc
#include "spaces.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

static pid_t parent;
static int pass[2], first_space;

static void part(const char *what, void (*body)(void)) {
    printf("--- %s\n", what);
    child(body);
}

static struct sockaddr_in v4(uint32_t ip, int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
}

static int bound(int kind, uint32_t ip, int port) {
    int fd = socket(AF_INET, kind, 0);
    struct sockaddr_in at = v4(ip, port);
    if (bind(fd, (void *)&at, sizeof at) == 0 && (kind != SOCK_STREAM || listen(fd, 8) == 0)) return fd;
    int error = errno;
    close(fd);
    return errno = error, -1;
}

static int connected(int kind, uint32_t ip, int port) {
    int fd = socket(AF_INET, kind, 0);
    struct sockaddr_in to = v4(ip, port);
    int failed = connect(fd, (void *)&to, sizeof to), error = errno;
    close(fd);
    return errno = error, failed;
}

static int six(int connects) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(7071), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int failed = connects ? connect(fd, (void *)&to, sizeof to) : bind(fd, (void *)&to, sizeof to), error = errno;
    close(fd);
    return errno = error, failed;
}

static int flags_of_lo(int set, int flags) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {.ifr_name = "lo"};
    r.ifr_flags = flags;
    int failed = ioctl(fd, set ? SIOCSIFFLAGS : SIOCGIFFLAGS, &r), error = errno;
    close(fd);
    return errno = error, failed ? -1 : r.ifr_flags & 0xffff;
}

static int address_of_lo(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {.ifr_name = "lo"};
    int failed = ioctl(fd, SIOCGIFADDR, &r), error = errno;
    close(fd);
    return errno = error, failed ? -1 : (int)ntohl(((struct sockaddr_in *)&r.ifr_addr)->sin_addr.s_addr);
}

static void addresses(void) {
    struct ifaddrs *all;
    if (getifaddrs(&all)) return (void)printf("errno %d\n", errno);
    for (struct ifaddrs *one = all; one; one = one->ifa_next)
        printf("%s of family %d, flags %#x\n", one->ifa_name, one->ifa_addr ? one->ifa_addr->sa_family : 0, one->ifa_flags);
    freeifaddrs(all);
}

// One request of netlink, and the error that it is answered with.
static int ask(int kind, int flags, const void *body, int bytes) {
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    struct {
        struct nlmsghdr head;
        char body[64];
    } request = {.head = {NLMSG_LENGTH(bytes), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 7, 0}};
    memcpy(request.body, body, bytes);
    char answer[4096];
    int error = 1;
    if (send(fd, &request, request.head.nlmsg_len, 0) > 0 && recv(fd, answer, sizeof answer, 0) >= 20)
        error = ((struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)answer))->error;
    if (((struct nlmsghdr *)answer)->nlmsg_type != NLMSG_ERROR) puts("it is not answered");
    close(fd);
    return error;
}

static int link_lo(int flags, int change) {
    struct ifinfomsg body = {.ifi_family = AF_UNSPEC, .ifi_index = 1, .ifi_flags = flags, .ifi_change = change};
    return ask(RTM_NEWLINK, 0, &body, sizeof body);
}

static int place(int kind, int flags, uint32_t ip, int prefix, int index) {
    struct {
        struct ifaddrmsg head;
        struct rtattr kind[2];
    } body;
    char bytes[sizeof(struct ifaddrmsg) + 16];
    body.head = (struct ifaddrmsg){AF_INET, prefix, IFA_F_PERMANENT, RT_SCOPE_HOST, index};
    memcpy(bytes, &body.head, sizeof body.head);
    for (int n = 0; n < 2; n++) {
        struct rtattr head = {8, n ? IFA_ADDRESS : IFA_LOCAL};
        uint32_t net = htonl(ip);
        memcpy(bytes + sizeof body.head + 8 * n, &head, 4);
        memcpy(bytes + sizeof body.head + 8 * n + 4, &net, 4);
    }
    return ask(kind, flags, bytes, sizeof bytes);
}

static int routes(void) {
    char line[256];
    int rows = 0;
    FILE *file = fopen("/proc/self/net/route", "r");
    if (!file) file = fopen("/proc/net/route", "r");
    while (file && fgets(line, sizeof line, file)) rows++;
    if (file) fclose(file);
    return rows;
}

static int rows_of(const char *path) {
    char line[512];
    int rows = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) rows++;
    if (file) fclose(file);
    return rows;
}

static void round_trip(void) {
    int listener = bound(SOCK_STREAM, INADDR_LOOPBACK, 7070);
    struct sockaddr_in to = v4(INADDR_LOOPBACK, 7070);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(client, (void *)&to, sizeof to));
    int server = accept(listener, NULL, NULL);
    char word[8] = "";
    CHECK(write(client, "word", 4) == 4 && read(server, word, 8) == 4 && !strcmp(word, "word"));
    close(listener), close(client), close(server);
}

static void empty(void) {
    CHECK(in_same("net", parent) == 1);
    int outer = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(unshare(CLONE_NEWNET));
    CHECK(in_same("net", parent) == 0);
    addresses();
    SHOW(flags_of_lo(0, 0));
    SHOW(address_of_lo());
    SHOW(bound(SOCK_STREAM, INADDR_LOOPBACK, 7070) >= 0);
    SHOW(bound(SOCK_DGRAM, 0x0a010203, 7070) >= 0);
    SHOW(bound(SOCK_DGRAM, INADDR_ANY, 7070) >= 0);
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7070));
    SHOW(connected(SOCK_DGRAM, INADDR_LOOPBACK, 7070));
    SHOW(connected(SOCK_STREAM, 0x0a000202, 80));
    SHOW(connected(SOCK_DGRAM, 0x08080808, 53));
    SHOW(six(0));
    SHOW(six(1));
    SHOW(routes());
    SHOW(rows_of("/proc/net/dev"));
    SHOW(rows_of("/proc/net/if_inet6"));
    SHOW(if_nametoindex("eth0"));
    SHOW(if_nametoindex("lo"));
    // One that was there before is of the other.
    struct ifreq r = {.ifr_name = "lo"};
    SHOW(ioctl(outer, SIOCGIFFLAGS, &r));
    SHOW(r.ifr_flags & IFF_UP);
}

static void up(void) {
    SHOW(unshare(CLONE_NEWNET));
    SHOW(link_lo(IFF_UP, IFF_UP));
    SHOW(flags_of_lo(0, 0));
    addresses();
    round_trip();
    SHOW(six(0));
    SHOW(rows_of("/proc/net/if_inet6"));
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7070));
    SHOW(connected(SOCK_STREAM, 0x0a000202, 80));
    SHOW(flags_of_lo(1, 0));
    SHOW(flags_of_lo(0, 0));
    SHOW(address_of_lo());
    SHOW(rows_of("/proc/net/if_inet6"));
    SHOW(flags_of_lo(1, IFF_UP));
    SHOW(flags_of_lo(0, 0));
    round_trip();
}

static void own_addresses(void) {
    SHOW(unshare(CLONE_NEWNET));
    // As a sandbox does it: the address first.
    SHOW(place(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, INADDR_LOOPBACK, 8, 1));
    SHOW(place(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, INADDR_LOOPBACK, 8, 1));
    SHOW(place(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, INADDR_LOOPBACK, 8, 9));
    SHOW(place(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, INADDR_LOOPBACK, 33, 1));
    SHOW(address_of_lo());
    SHOW(bound(SOCK_DGRAM, INADDR_LOOPBACK, 7070) >= 0);
    SHOW(link_lo(IFF_UP, IFF_UP));
    round_trip();
    SHOW(bound(SOCK_STREAM, 0x0a010203, 7072));
    SHOW(place(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, 0x0a010203, 32, 1));
    SHOW(bound(SOCK_STREAM, 0x0a010203, 7072) >= 0);
    SHOW(connected(SOCK_STREAM, 0x0a010203, 7072));
    SHOW(place(RTM_DELADDR, 0, 0x0a010203, 32, 1));
    SHOW(place(RTM_DELADDR, 0, 0x0a010203, 32, 1));
    SHOW(bound(SOCK_STREAM, 0x0a010203, 7073));
}

static struct sockaddr_un abstract = {AF_UNIX, "\0net_spaces"};
enum { ABSTRACT = offsetof(struct sockaddr_un, sun_path) + 11 };

static int unix_bound(const struct sockaddr_un *at, socklen_t bytes) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (void *)at, bytes) == 0 && listen(fd, 4) == 0) return fd;
    int error = errno;
    close(fd);
    return errno = error, -1;
}

static int unix_connected(const struct sockaddr_un *to, socklen_t bytes) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int failed = connect(fd, (void *)to, bytes), error = errno;
    close(fd);
    return errno = error, failed;
}

static void local(void) {
    static struct sockaddr_un path = {AF_UNIX, "/tmp/net_spaces"};
    unlink(path.sun_path);
    SHOW(unix_bound(&abstract, ABSTRACT) >= 0);
    SHOW(unix_bound(&path, sizeof path) >= 0);
    int before = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(unix_bound(&abstract, ABSTRACT));
    SHOW(unshare(CLONE_NEWNET));
    SHOW(unix_connected(&abstract, ABSTRACT));
    SHOW(unix_connected(&path, sizeof path));
    // One that was made before is where it was.
    SHOW(connect(before, (void *)&abstract, ABSTRACT));
    SHOW(unix_bound(&abstract, ABSTRACT) >= 0);
    SHOW(unix_connected(&abstract, ABSTRACT));
    unlink(path.sun_path);
}

static int send_fd(int to, int fd) {
    char word = 'x', control[CMSG_SPACE(sizeof fd)];
    struct iovec piece = {&word, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(to, &message, 0);
}

static int take_fd(int from) {
    char word, control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&word, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message)) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

// Passes a listening socket of its name space out, and goes.
static void leaves(void) {
    unshare(CLONE_NEWNET);
    flags_of_lo(1, IFF_UP);
    send_fd(pass[1], bound(SOCK_STREAM, INADDR_LOOPBACK, 7074));
    send_fd(pass[1], socket(AF_INET, SOCK_STREAM, 0));
    send_fd(pass[1], socket(AF_INET, SOCK_DGRAM, 0));
}

static void passed(void) {
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pass);
    child(leaves);
    int listener = take_fd(pass[0]), client = take_fd(pass[0]), datagrams = take_fd(pass[0]);
    struct sockaddr_in to = v4(INADDR_LOOPBACK, 7074);
    // Not in this one.
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7074));
    SHOW(connect(client, (void *)&to, sizeof to));
    int server = accept(listener, NULL, NULL);
    char word[8] = "";
    CHECK(write(client, "word", 4) == 4 && read(server, word, 8) == 4 && !strcmp(word, "word"));
    to = v4(0x08080808, 53);
    SHOW(connect(datagrams, (void *)&to, sizeof to));
    struct ifreq r = {.ifr_name = "lo"};
    SHOW(ioctl(datagrams, SIOCGIFFLAGS, &r));
    SHOW(r.ifr_flags & IFF_UP);
    // Nobody is in it any more, and it can be entered by what is left of it.
    int space = ioctl(datagrams, 0x894c);
    CHECK(space >= 0);
    SHOW(setns(space, CLONE_NEWNET));
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7074));
    SHOW(setns(first_space, CLONE_NEWNET));
    // The same number of a port in both.
    SHOW(bound(SOCK_STREAM, INADDR_LOOPBACK, 7074) >= 0);
}

static void waits(uint64_t flags) {
    (void)flags;
    char word;
    if (read(pass[1], &word, 1) < 0) puts("nothing came");
}

static void joined(void) {
    char path[64], word = 'x';
    socketpair(AF_UNIX, SOCK_STREAM, 0, pass);
    pid_t other = fork();
    if (other == 0) {
        unshare(CLONE_NEWNET);
        flags_of_lo(1, IFF_UP);
        int listener = bound(SOCK_STREAM, INADDR_LOOPBACK, 7075);
        if (write(pass[1], &word, 1) < 0 || listener < 0) puts("failed");
        waits(0);
        _exit(0);
    }
    CHECK(read(pass[0], &word, 1) == 1);
    snprintf(path, sizeof path, "/proc/%d/ns/net", other);
    int space = open(path, O_RDONLY);
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7075));
    SHOW(setns(space, CLONE_NEWUTS));
    SHOW(setns(space, CLONE_NEWNET));
    CHECK(in_same("net", other) == 1 && in_same("net", parent) == 0);
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7075));
    SHOW(setns(first_space, 0));
    CHECK(in_same("net", parent) == 1);
    int by_pid = syscall(434, other, 0);
    SHOW(setns(by_pid, CLONE_NEWNET | CLONE_NEWCGROUP));
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7075));
    CHECK(write(pass[0], &word, 1) == 1);
    wait_for(other);
    // It is open here.
    SHOW(flags_of_lo(0, 0));
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 7075));
    SHOW(ioctl(space, 0xb703) == CLONE_NEWNET);
}

static void not_by_users(void) {
    SHOW(as_user(1000));
    SHOW(unshare(CLONE_NEWNET));
    SHOW(unshare(CLONE_NEWCGROUP));
    SHOW(unshare(CLONE_NEWTIME));
    SHOW(setns(first_space, CLONE_NEWNET));
    SHOW(link_lo(IFF_UP, IFF_UP));
    SHOW(flags_of_lo(1, IFF_UP));
    SHOW(socket(AF_INET, SOCK_RAW, 1));
    SHOW(socket(AF_PACKET, SOCK_RAW, 0));
    SHOW(bound(SOCK_STREAM, INADDR_LOOPBACK, 80));
}

// In a name space of users there are rights over what was made in it.
static void by_owners(void) {
    SHOW(as_user(1000));
    SHOW(unshare(CLONE_NEWUSER));
    SHOW(socket(AF_INET, SOCK_RAW, 1));
    SHOW(link_lo(IFF_UP, IFF_UP));
    SHOW(bound(SOCK_STREAM, INADDR_LOOPBACK, 80));
    SHOW(setns(first_space, CLONE_NEWNET));
    SHOW(unshare(CLONE_NEWNET | CLONE_NEWCGROUP));
    SHOW(socket(AF_INET, SOCK_RAW, 1) >= 0);
    SHOW(socket(AF_PACKET, SOCK_RAW, 0) >= 0);
    SHOW(link_lo(IFF_UP, IFF_UP));
    SHOW(bound(SOCK_STREAM, INADDR_LOOPBACK, 80) >= 0);
    SHOW(connected(SOCK_STREAM, INADDR_LOOPBACK, 80));
    SHOW(setns(first_space, CLONE_NEWNET));
}

// A socket of a name space that its owner has passed gives no rights there.
static void rights_stay(void) {
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pass);
    child(leaves);
    take_fd(pass[0]), take_fd(pass[0]);
    int datagrams = take_fd(pass[0]);
    SHOW(as_user(1000));
    struct ifreq r = {.ifr_name = "lo"};
    SHOW(ioctl(datagrams, SIOCSIFFLAGS, &r));
    SHOW(ioctl(datagrams, SIOCGIFFLAGS, &r));
}

static void shown(uint64_t flags) {
    printf("%#lx: net %d, cgroup %d, time %d, uts %d\n", (long)flags, in_same("net", parent), in_same("cgroup", parent),
           in_same("time", parent), in_same("uts", parent));
}

// A socket of netlink is called as its process is where that is, and so are answers.
static void numbered(uint64_t flags) {
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    socklen_t bytes = sizeof own;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    CHECK(bind(fd, (void *)&own, sizeof own) == 0 && getsockname(fd, (void *)&own, &bytes) == 0);
    CHECK((int)own.nl_pid == getpid() && (flags == 0 || own.nl_pid == 1));
}

int main(void) {
    parent = getpid();
    first_space = open("/proc/self/ns/net", O_RDONLY);
    part("empty", empty);
    part("up", up);
    part("addresses", own_addresses);
    part("local", local);
    part("passed", passed);
    part("joined", joined);
    part("users", not_by_users);
    part("owners", by_owners);
    part("rights", rights_stay);
    SHOW(cloned_for(CLONE_NEWNET, shown));
    SHOW(cloned_for(CLONE_NEWCGROUP, shown));
    SHOW(cloned_for(CLONE_NEWNET | CLONE_NEWPID, numbered));
    SHOW(cloned_for(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME, shown));
    shown(0);
}
