// IPv6 over the device: an address by what a router says, a stream and a datagram to the machine outside and back, an echo, and a way to nobody.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in6 host(int port) {
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    inet_pton(AF_INET6, "fec0::2", &at.sin6_addr);
    return at;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    // A router is asked at once; its answer takes what it takes.
    int has = 0;
    for (int i = 0; i < 200 && !has; i++) {
        FILE *all = fopen("/proc/net/if_inet6", "r");
        char line[200];
        while (fgets(line, sizeof line, all)) has |= !strncmp(line, "fec0", 4) && strstr(line, "eth0");
        fclose(all);
        if (!has) usleep(50000);
    }
    printf("address %d\n", has);
    struct sockaddr_in6 to = host(atoi(argv[1])), own;
    socklen_t len = sizeof own;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    printf("connect %d\n", connect(fd, (void *)&to, sizeof to) ? errno : 0);
    getsockname(fd, (void *)&own, &len);
    char text[64];
    inet_ntop(AF_INET6, &own.sin6_addr, text, sizeof text);
    printf("from %.6s\n", text);
    static char sent[100000], got[100000];
    for (int i = 0; i < (int)sizeof sent; i++) sent[i] = i * 7 + i / 251;
    pid_t child = fork();
    if (!child) {
        for (int done = 0; done < (int)sizeof sent;) done += write(fd, sent + done, sizeof sent - done);
        shutdown(fd, SHUT_WR);
        _exit(0);
    }
    int all = 0, count;
    while (all < (int)sizeof got && (count = read(fd, got + all, sizeof got - all)) > 0) all += count;
    printf("back %d, same %d\n", all, !memcmp(sent, got, sizeof sent));
    close(fd);
    int udp = socket(AF_INET6, SOCK_DGRAM, 0);
    to = host(atoi(argv[2]));
    struct pollfd one = { udp, POLLIN, 0 };
    for (int i = 0; i < 5; i++) {
        sendto(udp, "datagram", 8, 0, (void *)&to, sizeof to);
        if (poll(&one, 1, 2000) == 1) break;
    }
    len = sizeof own;
    count = recvfrom(udp, got, sizeof got, MSG_DONTWAIT, (void *)&own, &len);
    printf("datagram %d from %d\n", count, ntohs(own.sin6_port) == atoi(argv[2]));
    close(udp);
    int echo = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
    to = host(0);
    unsigned char request[16] = { 128, 0, 0, 0, 0, 0, 0, 1, 'e', 'c', 'h', 'o' };
    one.fd = echo;
    for (int i = 0; i < 5; i++) {
        sendto(echo, request, sizeof request, 0, (void *)&to, sizeof to);
        if (poll(&one, 1, 2000) == 1) break;
    }
    count = recv(echo, got, sizeof got, MSG_DONTWAIT);
    printf("echo %d, type %d, %.4s\n", count, (unsigned char)got[0], got + 8);
    // Whoever is none on this network is not found.
    inet_pton(AF_INET6, "ff02::9", &to.sin6_addr);
    printf("to many %d\n", sendto(echo, request, sizeof request, 0, (void *)&to, sizeof to) < 0 ? errno : 0);
    return 0;
}
