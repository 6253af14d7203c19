// net_stream MTU BYTES: what netperf's TCP stream does over the loopback interface: a child sends so many bytes in pieces of 64 KiB, from a buffer that it
// has touched; its parent reads them. The interface has packets of so many bytes.
#include "counts.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { PIECE = 65536 };
static char buffer[PIECE];

static void transfer(int door, struct sockaddr_in *at, long bytes) {
    pid_t child = fork();
    if (child == 0) {
        int to = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(to, (void *)at, sizeof *at)) _exit(2);
        memset(buffer, 1, sizeof buffer);
        for (long left = bytes, now; left > 0; left -= now)
            if ((now = write(to, buffer, left < PIECE ? left : PIECE)) <= 0) _exit(1);
        _exit(0);
    }
    int from = accept(door, NULL, NULL);
    long got = 0, now;
    while ((now = read(from, buffer, PIECE)) > 0) got += now;
    expect("bytes", got, bytes);
    close(from);
    wait_for(child);
}

int main(int argc, char **argv) {
    expect("arguments", argc, 3);
    int door = socket(AF_INET, SOCK_STREAM, 0);
    struct ifreq lo = { .ifr_name = "lo", .ifr_mtu = atoi(argv[1]) };
    expect("the size of packets", ioctl(door, SIOCSIFMTU, &lo), 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    expect("bind", bind(door, (void *)&at, len), 0);
    expect("getsockname", getsockname(door, (void *)&at, &len), 0);
    expect("listen", listen(door, 4), 0);
    calibrate();
    memset(buffer, 2, sizeof buffer);
    transfer(door, &at, 4 * PIECE);
    struct counts from = count_now();
    transfer(door, &at, atol(argv[2]));
    char name[32];
    snprintf(name, sizeof name, "net_stream_%s", argv[1]);
    report_since(name, from);
}
