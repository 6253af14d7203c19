// What a stream has no room for stays with its sender: whoever sends without waiting, in pieces longer than what is there, while
// somebody reads, loses no byte and sends none too early. By every call that sends, over both kinds of streams.
// oracle: linux
// cores: 4
#define _GNU_SOURCE
#include "must.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PIECE (1u << 20)
#define ALL (24ul << 20)

// The byte at a place of the stream: its period divides no length of a buffer.
static unsigned char byte_at(size_t place) { return (unsigned char)(place % 65521 * 31 >> 4); }

static void tcp_pair(int both[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    MUST(bind(listener, (void *)&address, len) == 0 && listen(listener, 1) == 0);
    MUST(getsockname(listener, (void *)&address, &len) == 0);
    both[0] = socket(AF_INET, SOCK_STREAM, 0);
    MUST(connect(both[0], (void *)&address, len) == 0);
    MUST((both[1] = accept(listener, NULL, NULL)) >= 0);
    close(listener);
}

static void local_pair(int both[2]) { MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0); }

// Reads to the end, by pieces of many lengths, and answers at which byte it was not what was sent; the length if at none.
static size_t read_all(int fd) {
    static unsigned char buffer[70000];
    size_t place = 0;
    for (unsigned turn = 0;; turn++) {
        ssize_t got = read(fd, buffer, 1 + turn * 7919 % sizeof buffer);
        MUST(got >= 0);
        if (got == 0) return place;
        for (ssize_t i = 0; i < got; i++, place++)
            if (buffer[i] != byte_at(place)) return place;
    }
}

static unsigned char *pattern;
static int file;

// Each sends up to `bytes` bytes of the pattern from `from` on, and answers how many it has sent, or -1.
static ssize_t by_send(int fd, size_t from, size_t bytes) { return send(fd, pattern + from, bytes, MSG_DONTWAIT); }
static ssize_t by_write(int fd, size_t from, size_t bytes) { return write(fd, pattern + from, bytes); }
static ssize_t by_writev(int fd, size_t from, size_t bytes) {
    struct iovec parts[] = {{pattern + from, bytes / 3}, {pattern + from + bytes / 3, bytes - bytes / 3}};
    return writev(fd, parts, 2);
}
static ssize_t by_sendmsg(int fd, size_t from, size_t bytes) {
    struct iovec parts[] = {{pattern + from, bytes / 3}, {pattern + from + bytes / 3, bytes - bytes / 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(fd, &message, MSG_DONTWAIT);
}
static ssize_t by_sendmmsg(int fd, size_t from, size_t bytes) {
    enum { PARTS = 4 };
    struct iovec parts[PARTS];
    struct mmsghdr messages[PARTS] = {};
    size_t each = bytes / PARTS;
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct iovec){pattern + from + i * each, i == PARTS - 1 ? bytes - i * each : each};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    // Not musl's function, which is a loop of `sendmsg` that goes on behind a short one.
    int count = syscall(SYS_sendmmsg, fd, messages, PARTS, MSG_DONTWAIT);
    if (count < 0) return -1;
    ssize_t sent = 0;
    for (int i = 0; i < count; i++) {
        // Nothing is sent behind what was not sent whole.
        MUST(i == count - 1 || messages[i].msg_len == parts[i].iov_len);
        sent += messages[i].msg_len;
    }
    return sent;
}
static ssize_t by_sendfile(int fd, size_t from, size_t bytes) {
    off_t at = from;
    ssize_t sent = sendfile(fd, file, &at, bytes);
    MUST(at == (off_t)(from + (sent > 0 ? sent : 0)));
    return sent;
}

static void run(const char *what, void (*pair)(int[2]), ssize_t (*send_some)(int, size_t, size_t)) {
    int both[2];
    pair(both);
    fflush(stdout);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        close(both[0]);
        size_t read = read_all(both[1]);
        if (read != ALL) printf("%s: wrong at %zu\n", what, read);
        exit(read != ALL);
    }
    close(both[1]);
    MUST(fcntl(both[0], F_SETFL, O_NONBLOCK) == 0);
    for (size_t done = 0; done < ALL;) {
        ssize_t sent = send_some(both[0], done, ALL - done < PIECE ? ALL - done : PIECE);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd wait = {both[0], POLLOUT, 0};
            MUST(poll(&wait, 1, -1) == 1);
            continue;
        }
        if (sent < 0) {
            // The reader has found a wrong byte.
            printf("%s: errno %d\n", what, errno);
            break;
        }
        done += sent;
    }
    close(both[0]);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("%s: %s\n", what, status ? "NOT what was sent" : "what was sent");
}

// What went before a place that cannot be read was sent, and is said to be.
static void short_of_a_fault(const char *what, void (*pair)(int[2])) {
    int both[2];
    pair(both);
    unsigned char *at = pages(64, PROT_READ | PROT_WRITE);
    MUST(mprotect(at + 63 * PAGE, PAGE, PROT_NONE) == 0);
    // The lengths that are taken at once are the system's: only that what is told is what comes.
    ssize_t sent = send(both[0], at, 64 * PAGE, MSG_DONTWAIT);
    MUST(sent > 0 && close(both[0]) == 0);
    size_t came = 0;
    static char buffer[64 * PAGE];
    for (ssize_t got; (got = read(both[1], buffer, sizeof buffer)) > 0;) came += got;
    printf("%s: %s\n", what, came == (size_t)sent ? "as much came as was sent" : "NOT as much came as was sent");
    close(both[1]);
    munmap(at, 64 * PAGE);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    file = open("stream_order.bytes", O_RDWR | O_CREAT | O_EXCL, 0600);
    MUST(file >= 0 && unlink("stream_order.bytes") == 0 && ftruncate(file, ALL) == 0);
    pattern = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(pattern != MAP_FAILED);
    for (size_t i = 0; i < ALL; i++) pattern[i] = byte_at(i);
#define BOTH(call)                             \
    run("tcp, " #call, tcp_pair, by_##call);   \
    run("local, " #call, local_pair, by_##call)
    BOTH(send);
    BOTH(write);
    BOTH(writev);
    BOTH(sendmsg);
    BOTH(sendmmsg);
    BOTH(sendfile);
    short_of_a_fault("tcp", tcp_pair);
    short_of_a_fault("local", local_pair);
    return 0;
}
