// Sends a datagram to a port of this machine, which sends it back, and tells what came along with it: where it came, and whether it says how many hops it
// could still have taken.
//
//     datagram PORT
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

int main(int argc, char **argv)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    struct timeval patience = { 20, 0 };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 7) };
    inet_pton(AF_INET, "10.0.2.2", &to.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int options[] = { IP_PKTINFO, IP_RECVTTL, IP_RECVTOS, IP_RECVERR };
    for (int n = 0; n < 4; n++)
        if (setsockopt(fd, IPPROTO_IP, options[n], &on, sizeof on)) perror("setsockopt");
    char control[256] __attribute__((aligned(8))) = "", bytes[64];
    struct iovec part = { "hello", 5 };
    struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1 };
    // From the address of the interface to the outside, over that interface, with hops and a type of service of its own.
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(struct in_pktinfo)) + 2 * CMSG_SPACE(sizeof(int));
    struct cmsghdr *one = CMSG_FIRSTHDR(&message);
    struct in_pktinfo info = { .ipi_ifindex = 2 };
    inet_pton(AF_INET, "10.0.2.15", &info.ipi_spec_dst);
    *one = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO };
    memcpy(CMSG_DATA(one), &info, sizeof info);
    int values[] = { 33, 0x28 }, kinds[] = { IP_TTL, IP_TOS };
    for (int n = 0; n < 2; n++) {
        one = CMSG_NXTHDR(&message, one);
        *one = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = IPPROTO_IP, .cmsg_type = kinds[n] };
        memcpy(CMSG_DATA(one), &values[n], sizeof(int));
    }
    if (sendmsg(fd, &message, 0) != 5) perror("sendmsg");
    part = (struct iovec){ bytes, sizeof bytes };
    message.msg_controllen = sizeof control;
    long got = recvmsg(fd, &message, 0);
    if (got < 0) perror("recvmsg");
    printf("%.*s from port %s\n", (int)got, bytes, ntohs(to.sin_port) == atoi(argv[1]) ? "as asked" : "another");
    for (one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        unsigned char *data = CMSG_DATA(one);
        if (one->cmsg_type == IP_PKTINFO) {
            memcpy(&info, data, sizeof info);
            printf("interface %d to %s\n", info.ipi_ifindex, inet_ntoa(info.ipi_addr));
        } else if (one->cmsg_type == IP_TTL) {
            printf("%s\n", *(int *)data > 0 ? "hops" : "no hops");
        } else {
            printf("type %d, %zu\n", one->cmsg_type, (size_t)one->cmsg_len);
        }
    }
    return 0;
}
