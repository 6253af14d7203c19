// A group over the interface to the outside: what is sent to it comes back as far as that is wanted, with what goes along; not over `lo`.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int on = 1, off = 0;

static void got(const char *what, int fd) {
    char text[64], control[128];
    struct sockaddr_in from;
    struct iovec part = { text, sizeof text - 1 };
    struct msghdr message = {
        .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
    };
    long count = recvmsg(fd, &message, MSG_DONTWAIT);
    if (count < 0) {
        printf("%s: errno %d\n", what, errno);
        return;
    }
    text[count] = 0;
    printf("%s: [%s] from %s", what, text, inet_ntoa(from.sin_addr));
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(one), sizeof info);
        printf(", interface %d, own %s", info.ipi_ifindex, inet_ntoa(info.ipi_spec_dst));
    }
    puts("");
}

int main(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), lo = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = { .sin_family = AF_INET }, to = { .sin_family = AF_INET };
    socklen_t len = sizeof own;
    if (bind(fd, (void *)&own, sizeof own) || getsockname(fd, (void *)&own, &len)) perror("bind");
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    to.sin_port = own.sin_port;
    inet_pton(AF_INET, "239.1.2.3", &to.sin_addr);
    struct ip_mreq any = { .imr_multiaddr = to.sin_addr }, inside = any;
    inside.imr_interface.s_addr = htonl(INADDR_LOOPBACK);
    sendto(fd, "not joined", 10, 0, (void *)&to, sizeof to);
    got("before", fd);
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &any, sizeof any)) perror("join");
    sendto(fd, "joined", 6, 0, (void *)&to, sizeof to);
    got("joined", fd);
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off);
    sendto(fd, "no loop", 7, 0, (void *)&to, sizeof to);
    got("not to the own machine", fd);
    setsockopt(lo, IPPROTO_IP, IP_MULTICAST_IF, &inside.imr_interface, sizeof inside.imr_interface);
    sendto(lo, "inside", 6, 0, (void *)&to, sizeof to);
    got("over lo", fd);
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &inside, sizeof inside)) perror("join");
    sendto(lo, "inside", 6, 0, (void *)&to, sizeof to);
    got("joined there", fd);
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on);
    if (setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &any, sizeof any)) perror("leave");
    sendto(fd, "left", 4, 0, (void *)&to, sizeof to);
    got("left", fd);
    return 0;
}
