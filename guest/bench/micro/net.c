// What do connections inside of the machine cost: a stream, in large and in small pieces, a file sent into one; a byte there and back by TCP and
// by UDP; a connection that is made, used and closed.
#include "bench.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { PIECE = 65536, SMALL_PIECE = 1024, FILE_BYTES = MIB };
static unsigned char buffer[PIECE];
static int turns = 201;
static long whole = 20000000;

// Elsewhere a machine may start without its loopback interface.
static void loopback(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq lo = { .ifr_name = "lo" };
    expect("flags of lo", ioctl(fd, SIOCGIFFLAGS, &lo), 0);
    if (!(lo.ifr_flags & IFF_UP)) {
        lo.ifr_flags |= IFF_UP;
        expect("lo cannot be used", ioctl(fd, SIOCSIFFLAGS, &lo), 0);
    }
    close(fd);
}

static struct sockaddr_in at;

static int bound(int kind) {
    int fd = socket(AF_INET, kind, 0);
    at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    expect("bind", bind(fd, (void *)&at, sizeof at), 0);
    socklen_t len = sizeof at;
    expect("getsockname", getsockname(fd, (void *)&at, &len), 0);
    if (kind == SOCK_STREAM) expect("listen", listen(fd, 16), 0);
    return fd;
}

static int connected(int kind) {
    int fd = socket(AF_INET, kind, 0), one = 1;
    expect("connect", connect(fd, (void *)&at, sizeof at), 0);
    if (kind == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static long read_all(int from) {
    long got = 0, now;
    while ((now = read(from, buffer, sizeof buffer)) > 0) got += now;
    expect("the end", now, 0);
    return got;
}

static void send_bytes(int to, long all, long piece) {
    for (long sent = 0, now; sent < all; sent += now)
        if ((now = write(to, buffer, all - sent < piece ? all - sent : piece)) <= 0) _exit(1);
}

static int file;

static void make_file(void) {
    expect("no file", (file = open("/tmp/bench_net", O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0, 0);
    for (long i = 0; i < FILE_BYTES; i += PIECE) expect("a piece of it", write(file, buffer, PIECE), PIECE);
    unlink("/tmp/bench_net");
}

static void send_file(int to, long all) {
    for (long sent = 0, now; sent < all; sent += now) {
        off_t from = sent % FILE_BYTES;
        if ((now = sendfile(to, file, &from, FILE_BYTES - from)) <= 0) _exit(1);
    }
}

static void stream(const char *name, long all, long piece) {
    int door = bound(SOCK_STREAM);
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            int to = connected(SOCK_STREAM);
            char go;
            if (read(to, &go, 1) != 1) _exit(1);
            if (piece) send_bytes(to, all, piece);
            else send_file(to, all);
            _exit(0);
        }
        int end = accept(door, NULL, NULL);
        // Until here nothing is measured.
        uint64_t from = ticks();
        write(end, "g", 1);
        long got = read_all(end);
        uint64_t time = ticks() - from;
        expect("bytes", got, all);
        close(end);
        wait_for(child);
        if (i > 0) sample(time);
    }
    close(door);
    report(name, 1, "");
}

static void round_trips(int kind, const char *name) {
    int door = bound(kind);
    pid_t child = fork();
    if (child == 0) {
        int end = kind == SOCK_STREAM ? accept(door, NULL, NULL) : door;
        unsigned char byte;
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        while (recvfrom(end, &byte, 1, 0, (void *)&from, &len) == 1 && byte != 255) {
            byte++;
            if (kind == SOCK_STREAM) send(end, &byte, 1, 0);
            else sendto(end, &byte, 1, 0, (void *)&from, sizeof from);
            len = sizeof from;
        }
        _exit(0);
    }
    int fd = connected(kind);
    unsigned char byte;
    for (int i = 0; i < turns; i++) {
        byte = i % 200;
        uint64_t from = ticks();
        send(fd, &byte, 1, 0);
        recv(fd, &byte, 1, 0);
        uint64_t time = ticks() - from;
        if (i > 0) sample(time);
        expect("the answer", byte, i % 200 + 1);
    }
    byte = 255, send(fd, &byte, 1, 0);
    close(fd), close(door);
    wait_for(child);
    report(name, 1, "");
}

// A request and an answer by a connection each, as a server without keep-alive has them.
static void connections(void) {
    int door = bound(SOCK_STREAM);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < turns; i++) {
            int end = accept(door, NULL, NULL);
            if (read(end, buffer, 100) != 100 || write(end, buffer, SMALL_PIECE) != SMALL_PIECE) _exit(1);
            close(end);
        }
        _exit(0);
    }
    for (int i = 0; i < turns; i++) {
        uint64_t from = ticks();
        int fd = connected(SOCK_STREAM);
        expect("a request", write(fd, buffer, 100), 100);
        expect("its answer", read_all(fd), SMALL_PIECE);
        close(fd);
        uint64_t time = ticks() - from;
        if (i > 0) sample(time);
    }
    close(door);
    wait_for(child);
    report("connection,_request_and_answer", 1, "");
}

int main(void) {
    calibrate();
    if (getenv("BENCH_SMALL")) turns = 21, whole = 2000000;
    loopback();
    make_file();
    stream("20_MB_in_pieces_of_64_KiB", whole, PIECE);
    stream("2_MB_in_pieces_of_1_KiB", whole / 10, SMALL_PIECE);
    stream("19_MiB_by_sendfile", whole / FILE_BYTES * FILE_BYTES, 0);
    round_trips(SOCK_STREAM, "round_trip_of_a_byte,_TCP");
    round_trips(SOCK_DGRAM, "round_trip_of_a_byte,_UDP");
    connections();
}
