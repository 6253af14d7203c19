// Hostile users of the network inside of the machine: ten thousand connections that say nothing, beside one that works as fast as before; many that never
// read, whose user may take no more than its share, while another's goes on; no descriptors left, whose connections are accepted later; what a user without
// rights may not do, also with somebody else's port. It all ends in the middle, twice, and the second time leaves as much memory as the first.
// build: gcc
// cores: 4
// mem: 512M
// timeout: 600
// expect-stdout: low port: 13, raw: 1, packets: 1, another's port: 98, its share of it: 98\nno descriptors: 24, later: 8\nidle: 10000, as fast: yes\nnever read: refused, another's goes on: yes\nidle: 10000, as fast: yes\nnever read: refused, another's goes on: yes\nmemory is back: yes\n
#include "spaces.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { IDLE = 10000, CROWD = 10, USER = 1001, OTHER = 1002, PIECE = 65536, TURNS = 400, DEAF = 1900 };

static struct sockaddr_in at = { .sin_family = AF_INET };

static int bound(int type, int port) {
    int fd = socket(AF_INET, type, 0);
    socklen_t len = sizeof at;
    at.sin_port = htons(port), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (void *)&at, sizeof at)) return close(fd), -1;
    getsockname(fd, (void *)&at, &len);
    return fd;
}

static int listening(void) {
    int fd = bound(SOCK_STREAM, 0);
    if (listen(fd, 4096)) exit(3);
    return fd;
}

static int connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (void *)&at, sizeof at)) return close(fd), -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

// A pair that is connected.
static void pair(int door, int ends[2]) {
    ends[0] = connected();
    ends[1] = accept(door, NULL, NULL);
    if (ends[0] < 0 || ends[1] < 0) exit(4);
}

// Nanoseconds of a byte there and back, the best of many: what else the machine does is no matter.
static long round_trip(int ends[2]) {
    long best = 1L << 60;
    for (int i = 0; i < TURNS; i++) {
        struct timespec from, to;
        char byte = 1;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int way = 0; way < 2; way++)
            if (write(ends[way], &byte, 1) != 1 || read(ends[!way], &byte, 1) != 1) exit(5);
        clock_gettime(CLOCK_MONOTONIC, &to);
        long took = (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
        if (took < best) best = took;
    }
    return best;
}

static void without_rights(void) {
    int stolen = listening(), port = ntohs(at.sin_port), one = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (as_user(USER)) _exit(1);
        errno = 0, bound(SOCK_STREAM, 80);
        printf("low port: %d, ", errno);
        errno = 0, socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
        printf("raw: %d, ", errno);
        errno = 0, socket(AF_PACKET, SOCK_RAW, htons(3));
        printf("packets: %d, ", errno);
        errno = 0, bound(SOCK_STREAM, port);
        printf("another's port: %d, ", errno);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        at.sin_port = htons(port);
        errno = 0;
        if (bind(fd, (void *)&at, sizeof at) == 0) listen(fd, 1);
        printf("its share of it: %d\n", errno);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    close(stolen);
}

// A server with no descriptors left is told so; whoever has connected waits, and is served when there are some.
static void no_descriptors(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int door = listening(), clients[8], spare[64], count = 0, later = 0;
        for (int i = 0; i < 8; i++) clients[i] = connected();
        struct rlimit few = { 64, 64 };
        setrlimit(RLIMIT_NOFILE, &few);
        while ((spare[count] = dup(0)) >= 0) count++;
        errno = 0, accept(door, NULL, NULL);
        printf("no descriptors: %d, ", errno);
        while (count > 0) close(spare[--count]);
        for (int i = 0; i < 8; i++) later += write(clients[i], "x", 1) == 1 && accept(door, NULL, NULL) >= 0;
        printf("later: %d\n", later);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void room_for(int descriptors) {
    struct rlimit many = { descriptors, descriptors };
    if (setrlimit(RLIMIT_NOFILE, &many)) exit(6);
}

static void many_idle(void) {
    int door = listening(), ends[2], word[2];
    char byte;
    pair(door, ends);
    long before = round_trip(ends);
    if (pipe(word)) exit(7);
    fflush(stdout);
    // Processes that have both ends of a part of them: they are killed while they have.
    pid_t children[CROWD];
    for (int n = 0; n < CROWD; n++) {
        if ((children[n] = fork()) != 0) continue;
        room_for(2 * IDLE / CROWD + 200);
        int other[2], own = listening();
        for (int i = 0; i < IDLE / CROWD; i++) pair(own, other);
        if (write(word[1], "r", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(word[1]);
    int ready = 0;
    while (ready < CROWD && read(word[0], &byte, 1) == 1) ready++;
    long beside = round_trip(ends);
    printf("idle: %d, as fast: %s\n", ready * IDLE / CROWD, beside < 2 * before ? "yes" : "NO");
    if (beside >= 2 * before) printf("%ld ns, and %ld\n", before, beside);
    for (int n = 0; n < CROWD; n++) kill(children[n], SIGKILL), waitpid(children[n], NULL, 0);
    close(ends[0]), close(ends[1]), close(door), close(word[0]);
}

// A user whose peers never read is refused more, in the end; another user's connection does not notice.
static void never_read(void) {
    int word[2];
    char byte = 0;
    if (pipe(word)) exit(7);
    fflush(stdout);
    pid_t deaf = fork();
    if (deaf == 0) {
        static char bytes[PIECE];
        room_for(2 * DEAF + 200);
        if (as_user(USER)) _exit(1);
        int door = listening(), refused = 0;
        for (int i = 0; i < DEAF && !refused; i++) {
            int fd = connected(), end = fd < 0 ? -1 : accept(door, NULL, NULL);
            if (fd < 0 || end < 0) {
                refused = 1;
                break;
            }
            fcntl(fd, F_SETFL, O_NONBLOCK);
            long sent = 0, now;
            while ((now = write(fd, bytes, sizeof bytes)) > 0) sent += now;
            // A connection that takes nothing at all has no room: its user's share is used up.
            refused = sent == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
        }
        if (write(word[1], refused ? "r" : "a", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(word[1]);
    if (read(word[0], &byte, 1) != 1) exit(8);
    pid_t other = fork();
    if (other == 0) {
        if (as_user(OTHER)) _exit(1);
        int door = listening(), ends[2];
        pair(door, ends);
        round_trip(ends);
        _exit(0);
    }
    int status = -1;
    waitpid(other, &status, 0);
    printf("never read: %s, another's goes on: %s\n", byte == 'r' ? "refused" : "never refused", status == 0 ? "yes" : "NO");
    kill(deaf, SIGKILL), waitpid(deaf, NULL, 0);
    close(word[0]);
}

int main(void) {
    without_rights();
    no_descriptors();
    many_idle();
    never_read();
    // What the first round has made for good is there; the second one leaves nothing.
    usleep(300000);
    unsigned long before = free_pages();
    many_idle();
    never_read();
    enum { SLACK = 64 };
    for (int tries = 0; tries < 100 && free_pages() + SLACK < before; tries++) usleep(50000);
    unsigned long after = free_pages();
    printf("memory is back: %s\n", after + SLACK >= before ? "yes" : "NO");
    if (after + SLACK < before) printf("%ld pages are missing\n", (long)(before - after));
}
