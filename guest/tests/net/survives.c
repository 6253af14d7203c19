// Whoever uses the network while its server fails: each waits in another call, and says what that ended with. It fails in the middle of many datagrams that
// this program has sent back.
//
//     survives SINK GREETER ECHO ROUNDS CONNECTIONS
//
// Ports of 10.0.2.2: one whose connections are accepted and never read, one that sends three bytes first, one of datagrams that come back. In each round the
// server fails once. What listens and what is bound stays from round to round.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 120, PIECE = 32768, DOORS = 5, FIRST_PORT = 80, UDP_PORT = 90 };

static int sink, greeter, echo, connections;
static int doors[DOORS], datagrams, raw, frames;
static char piece[PIECE];

static void must(int is_so, const char *what)
{
    if (!is_so) {
        printf("%s: errno %d\n", what, errno);
        exit(1);
    }
}

static struct sockaddr_in host(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr("10.0.2.2") };
}

static int connected(int port)
{
    struct sockaddr_in to = host(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0, "socket");
    must(connect(fd, (void *)&to, sizeof to) == 0, "connect");
    return fd;
}

// What the error of a connection is, which is told once.
static int error_of(int fd)
{
    int error = -1;
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

static void say_errors(int fd)
{
    int first = error_of(fd);
    printf("error %d, then %d", first, error_of(fd));
}

static void reading(int ready)
{
    int fd = connected(sink);
    char byte;
    must(write(ready, "r", 1) == 1, "ready");
    long first = read(fd, &byte, 1);
    int error = errno;
    printf("%ld errno %d, then %zd", first, error, read(fd, &byte, 1));
}

static void reading_all(int ready)
{
    int fd = connected(greeter);
    char bytes[10];
    must(write(ready, "r", 1) == 1, "ready");
    long first = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    errno = 0;
    long second = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    printf("%ld, then %ld errno %d", first, second, errno);
}

static void unread(int ready)
{
    int fd = connected(greeter);
    struct pollfd one = { .fd = fd, .events = POLLIN };
    char bytes[10];
    must(poll(&one, 1, -1) == 1 && one.revents == POLLIN, "poll");
    must(write(ready, "r", 1) == 1, "ready");
    one.events = POLLRDHUP;
    poll(&one, 1, -1);
    long first = read(fd, bytes, sizeof bytes), second = read(fd, bytes, sizeof bytes);
    printf("%x: %ld, then %ld errno %d", one.revents, first, second, errno);
}

// Until there is no more room; then one more, which waits.
static int filled(int flags)
{
    int fd = connected(sink);
    while (send(fd, piece, sizeof piece, MSG_DONTWAIT | flags) > 0 || usleep(100000) || send(fd, piece, 1, MSG_DONTWAIT | flags) > 0)
        ;
    return fd;
}

static void sending(int ready)
{
    int fd = filled(0);
    must(write(ready, "r", 1) == 1, "ready");
    while (send(fd, piece, sizeof piece, MSG_NOSIGNAL) > 0)
        ;
    int first = errno;
    send(fd, piece, 1, MSG_NOSIGNAL);
    printf("errno %d, then %d", first, errno);
}

static void sending_a_file(int ready)
{
    int fd = filled(0), file = open("/tmp/piece", O_RDWR | O_CREAT, 0600);
    must(write(file, piece, sizeof piece) == sizeof piece, "file");
    signal(SIGPIPE, SIG_IGN);
    must(write(ready, "r", 1) == 1, "ready");
    for (off_t from = 0; sendfile(fd, file, &from, sizeof piece) > 0; from = 0)
        ;
    // A call that has sent something may have been told of the reset, and says how much that was.
    printf("errno %d", errno == EPIPE ? ECONNRESET : errno);
}

static void splicing(int ready)
{
    int fd = filled(0), ends[2];
    must(pipe(ends) == 0, "pipe");
    signal(SIGPIPE, SIG_IGN);
    must(write(ready, "r", 1) == 1, "ready");
    while (write(ends[1], piece, 4096) == 4096 && splice(ends[0], NULL, fd, NULL, 4096, 0) > 0)
        ;
    printf("errno %d", errno);
}

static void lingering(int ready)
{
    struct linger linger = { 1, 600 };
    int fd = filled(0);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    must(write(ready, "r", 1) == 1, "ready");
    printf("%d", close(fd));
}

// Calls whose bytes need not be copied: each is told of once, although they never arrive.
static void without_copies(int ready)
{
    int fd = connected(sink), one = 1;
    unsigned calls = 0, told = 0;
    must(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0, "zerocopy");
    while (send(fd, piece, sizeof piece, MSG_DONTWAIT | MSG_ZEROCOPY) > 0)
        calls++;
    must(write(ready, "r", 1) == 1, "ready");
    struct pollfd end = { .fd = fd, .events = POLLRDHUP };
    while (poll(&end, 1, -1) == 1 && !(end.revents & POLLHUP))
        usleep(10000);
    char control[200];
    struct msghdr message = { .msg_control = control, .msg_controllen = sizeof control };
    while (recvmsg(fd, &message, MSG_ERRQUEUE) >= 0) {
        struct sock_extended_err *said = (void *)CMSG_DATA(CMSG_FIRSTHDR(&message));
        told += said->ee_data - said->ee_info + 1;
        message.msg_controllen = sizeof control;
    }
    printf("%s, error %d", calls > 0 && told == calls ? "each once" : "NOT each once", error_of(fd));
}

static void polling(int ready)
{
    struct pollfd one = { .fd = connected(sink), .events = POLLIN | POLLRDHUP };
    must(write(ready, "r", 1) == 1, "ready");
    int count = poll(&one, 1, -1);
    printf("%d: %x, ", count, one.revents);
    say_errors(one.fd);
}

static void selecting(int ready)
{
    int fd = connected(sink);
    char byte;
    fd_set reads, excepts;
    FD_ZERO(&reads);
    FD_ZERO(&excepts);
    FD_SET(fd, &reads);
    FD_SET(fd, &excepts);
    must(write(ready, "r", 1) == 1, "ready");
    int count = select(fd + 1, &reads, NULL, &excepts, NULL);
    long got = read(fd, &byte, 1);
    printf("%d: %d, %ld errno %d", count, FD_ISSET(fd, &reads) != 0, got, errno);
}

// Many at once: each is told once.
static void watching(int ready)
{
    int set = epoll_create1(0), once = 0, twice = 0;
    char *told = calloc(1, connections + 64);
    for (int n = 0; n < connections; n++) {
        int fd = connected(sink);
        struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd };
        must(fd < connections + 64 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "watch");
    }
    must(write(ready, "r", 1) == 1, "ready");
    struct epoll_event events[64];
    for (int count; (count = epoll_wait(set, events, 64, once > 0 ? 1000 : -1)) > 0;)
        for (int n = 0; n < count; n++) {
            const unsigned all = EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP;
            must(events[n].events == all, "what is told");
            *(told[events[n].data.fd]++ ? &twice : &once) += 1;
        }
    printf("%s, %d twice", once == connections ? "all" : "NOT all", twice);
    if (once != connections)
        printf(" (%d)", once);
}

static void connecting(int ready)
{
    struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = inet_addr("10.0.2.77") };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(write(ready, "r", 1) == 1, "ready");
    int result = connect(fd, (void *)&nobody, sizeof nobody);
    printf("%d errno %d", result, errno);
}

static void connecting_without_waiting(int ready)
{
    struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = inet_addr("10.0.2.77") };
    struct pollfd one = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), .events = POLLOUT };
    must(connect(one.fd, (void *)&nobody, sizeof nobody) < 0 && errno == EINPROGRESS, "connect");
    must(write(ready, "r", 1) == 1, "ready");
    poll(&one, 1, -1);
    printf("%x, ", one.revents);
    say_errors(one.fd);
}

static void serve(int door)
{
    int fd = accept(door, NULL, NULL);
    must(fd >= 0, "accept");
    must(write(fd, "served", 6) == 6, "write");
    close(fd);
}

static void accepting(int ready)
{
    must(write(ready, "r", 1) == 1, "ready");
    serve(doors[0]);
    printf("served");
}

static void polled(int ready)
{
    struct pollfd one = { .fd = doors[1], .events = POLLIN };
    must(write(ready, "r", 1) == 1, "ready");
    int count = poll(&one, 1, -1);
    serve(doors[1]);
    printf("%d: %x, served", count, one.revents);
}

static void watched(int ready)
{
    int set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    epoll_ctl(set, EPOLL_CTL_ADD, doors[2], &event);
    must(write(ready, "r", 1) == 1, "ready");
    int count = epoll_wait(set, &event, 1, -1);
    serve(doors[2]);
    printf("%d: %x, served", count, event.events);
}

static void selected(int ready)
{
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(doors[3], &reads);
    must(write(ready, "r", 1) == 1, "ready");
    int count = select(doors[3] + 1, &reads, NULL, NULL, NULL);
    serve(doors[3]);
    printf("%d, served", count);
}

// A listener whose process is not waiting.
static void idle(int ready)
{
    must(write(ready, "r", 1) == 1, "ready");
    serve(doors[4]);
    printf("served");
}

static void receiving(int ready)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char bytes[20];
    must(write(ready, "r", 1) == 1, "ready");
    long count = recvfrom(datagrams, bytes, sizeof bytes, 0, (void *)&from, &length);
    int error = errno;
    sendto(datagrams, "served", 6, 0, (void *)&from, length);
    printf("%ld errno %d", count, count < 0 ? error : 0);
}

// An answer to an echo request, which is repeated until there is one.
static int pinged(int fd, int seconds)
{
    struct icmphdr request = { .type = ICMP_ECHO, .un.echo.id = htons(7) };
    struct sockaddr_in to = host(0);
    request.checksum = ~(htons(ICMP_ECHO << 8) + htons(7));
    for (int tries = 0; tries < 10 * seconds; tries++) {
        char packet[200];
        struct pollfd one = { .fd = fd, .events = POLLIN };
        sendto(fd, &request, sizeof request, 0, (void *)&to, sizeof to);
        while (poll(&one, 1, 100) == 1) {
            if (recv(fd, packet, sizeof packet, 0) < 28)
                return 0;
            struct icmphdr *answer = (void *)(packet + 20);
            if (answer->type == ICMP_ECHOREPLY && answer->un.echo.id == htons(7))
                return 1;
        }
    }
    return 0;
}

static void must_be_pinged(int ready)
{
    int before = pinged(raw, 10), fd = connected(sink);
    must(write(ready, "r", 1) == 1, "ready");
    struct pollfd end = { .fd = fd, .events = POLLIN };
    poll(&end, 1, -1);
    printf("%d, then %d", before, pinged(raw, 60));
}

// The first frame after the failure, which is waited for in a call.
static void capturing(int ready)
{
    char bytes[2000];
    int fd = connected(sink), count = 0;
    must(write(ready, "r", 1) == 1, "ready");
    struct pollfd end = { .fd = fd, .events = POLLIN };
    poll(&end, 1, -1);
    while (recv(frames, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    count = recv(frames, bytes, sizeof bytes, 0);
    printf("%d errno %d", count > 0, count < 0 ? errno : 0);
}

static const struct {
    const char *name;
    void (*waits)(int ready);
} cases[] = {
    { "read", reading },
    { "read all", reading_all },
    { "unread", unread },
    { "send", sending },
    { "sendfile", sending_a_file },
    { "splice", splicing },
    { "linger", lingering },
    { "zerocopy", without_copies },
    { "poll", polling },
    { "select", selecting },
    { "epoll", watching },
    { "connect", connecting },
    { "connect without waiting", connecting_without_waiting },
    { "accept", accepting },
    { "listener polled", polled },
    { "listener watched", watched },
    { "listener selected", selected },
    { "listener idle", idle },
    { "datagrams", receiving },
    { "ping", must_be_pinged },
    { "frames", capturing },
};
enum { CASES = sizeof cases / sizeof *cases };

// Sends a byte inside of the machine and reads it again, until it is killed; how often is counted for whoever looks.
static void inside(int counted)
{
    int door = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(70), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    must(bind(door, (void *)&at, sizeof at) == 0 && listen(door, 1) == 0, "inside");
    must(connect(fd, (void *)&at, sizeof at) == 0, "inside");
    int other = accept(door, NULL, NULL);
    for (char byte = 0;; byte++) {
        char back;
        if (write(fd, &byte, 1) != 1 || read(other, &back, 1) != 1 || back != byte)
            exit(1);
        if (write(other, &byte, 1) != 1 || read(fd, &back, 1) != 1 || back != byte)
            exit(1);
        must(write(counted, &byte, 1) == 1, "counted");
        usleep(2000);
    }
}

// What has come to a pipe meanwhile, counted.
static long drained(int fd)
{
    char bytes[4096];
    long sum = 0;
    for (long count; (count = read(fd, bytes, sizeof bytes)) > 0;)
        sum += count;
    return sum;
}

static int datagram_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = host(echo);
    connect(fd, (void *)&to, sizeof to);
    return fd;
}

// Has datagrams come back until a connection has ended: the same socket again and again.
static void load_until_it_fails(int fd)
{
    struct pollfd end = { .fd = connected(sink), .events = POLLIN };
    char bytes[100];
    struct timeval soon = { 0, 200000 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    while (poll(&end, 1, 0) == 0) {
        for (int n = 0; n < 8; n++)
            send(fd, bytes, sizeof bytes, 0);
        for (int n = 0; n < 8 && recv(fd, bytes, sizeof bytes, 0) > 0; n++)
            ;
    }
    close(end.fd);
}

// The same socket is answered again, once there is another server.
static int answered(int fd)
{
    char byte = 0;
    for (int tries = 0; tries < 300; tries++) {
        send(fd, &byte, 1, 0);
        if (recv(fd, &byte, 1, 0) == 1)
            return 1;
        usleep(20000);
    }
    return 0;
}

static void round_of(int number, int sender)
{
    int outputs[CASES], ready[2];
    char text[200], byte;
    printf("round %d\n", number), fflush(stdout);
    // Whoever waits for ever has said how far it came.
    alarm(2 * PATIENCE_S);
    must(pipe(ready) == 0, "pipe");
    for (int n = 0; n < CASES; n++) {
        int ends[2];
        must(pipe(ends) == 0, "pipe");
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], 1), close(ends[0]), close(ends[1]), close(ready[0]);
            alarm(PATIENCE_S);
            cases[n].waits(ready[1]);
            fflush(stdout);
            _exit(0);
        }
        must(child > 0, "fork");
        close(ends[1]);
        outputs[n] = ends[0];
        // One after the other: each has the way for itself.
        must(read(ready[0], &byte, 1) == 1, cases[n].name);
    }
    usleep(300000);
    load_until_it_fails(sender);
    printf("answered: %d\nfailed\n", answered(sender)), fflush(stdout);
    for (int n = 0; n < CASES; n++) {
        size_t length = 0;
        for (long count; (count = read(outputs[n], text + length, sizeof text - 1 - length)) > 0;)
            length += count;
        text[length] = 0;
        printf("%s: %s\n", cases[n].name, length ? text : "HANGS");
        close(outputs[n]);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    close(ready[0]), close(ready[1]);
}

static int bound(int type, int port)
{
    int fd = socket(AF_INET, type, 0), one = 1;
    // One of the own address, the others of any.
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    at.sin_addr.s_addr = port == FIRST_PORT ? inet_addr("10.0.2.15") : INADDR_ANY;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(fd, (void *)&at, sizeof at) == 0, "bind");
    return fd;
}

int main(int argc, char **argv)
{
    must(argc == 6, "arguments");
    sink = atoi(argv[1]), greeter = atoi(argv[2]), echo = atoi(argv[3]), connections = atoi(argv[5]);
    for (int n = 0; n < DOORS; n++) {
        doors[n] = bound(SOCK_STREAM, FIRST_PORT + n);
        must(listen(doors[n], 16) == 0, "listen");
    }
    datagrams = bound(SOCK_DGRAM, UDP_PORT);
    raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    frames = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    must(raw >= 0 && frames >= 0, "raw");
    int counted[2];
    must(pipe2(counted, O_NONBLOCK) == 0, "pipe");
    fcntl(counted[1], F_SETFL, 0);
    pid_t other = fork();
    if (other == 0)
        inside(counted[1]);
    int sender = datagram_socket();
    for (int number = 1; number <= atoi(argv[4]); number++) {
        drained(counted[0]);
        round_of(number, sender);
        usleep(100000);
        printf("inside: %s\n", drained(counted[0]) > 10 ? "goes on" : "STOPS");
    }
    kill(other, SIGKILL), waitpid(other, NULL, 0);
    return 0;
}
