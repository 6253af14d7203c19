// MSG_ZEROCOPY: which sockets can do so, which calls are counted, and what the error queue tells of them: ranges of calls whose bytes the program
// may use again. Inside of a machine these were copied, here as on Linux.
// oracle: linux
// build: gcc, musl
// cores: 4
#include "errqueue.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/un.h>

static char much[1 << 20];

static void options(void) {
    puts("-- options");
    struct { int domain, type, protocol; const char *text; } all[] = {
        {AF_INET, SOCK_STREAM, 0, "tcp"}, {AF_INET6, SOCK_STREAM, 0, "tcp6"}, {AF_INET, SOCK_DGRAM, 0, "udp"},
        {AF_INET6, SOCK_DGRAM, 0, "udp6"}, {AF_INET, SOCK_RAW, IPPROTO_ICMP, "raw"},
        {AF_UNIX, SOCK_STREAM, 0, "unix stream"}, {AF_UNIX, SOCK_DGRAM, 0, "unix datagram"},
        {AF_NETLINK, SOCK_RAW, 0, "netlink"},
    };
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        int fd = socket(all[n].domain, all[n].type, all[n].protocol);
        printf("%s: at first %d;", all[n].text, value_of(fd, SOL_SOCKET, SO_ZEROCOPY));
        int values[] = {2, -1, 1, 1, 0, 1};
        for (int m = 0; m < 6; m++) {
            printf(" %d: %d,", values[m], set(fd, SOL_SOCKET, SO_ZEROCOPY, values[m]));
            printf(" %d;", value_of(fd, SOL_SOCKET, SO_ZEROCOPY));
        }
        puts("");
        close(fd);
    }
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, 3));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, (void *)1, 4));
    close(fd);
}

static int sends(int fd, size_t bytes, int flags) { return send(fd, much, bytes, MSG_ZEROCOPY | flags); }

static void datagrams(int family) {
    printf("-- datagrams, %s\n", family == AF_INET ? "IPv4" : "IPv6");
    int to, fd = sender(family, &to);
    puts("not asked for:");
    SHOW(sends(fd, 10, 0));
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    puts("plain, and empty:");
    SHOW(send(fd, much, 10, 0));
    SHOW(sends(fd, 0, 0));
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 0));
    puts("one:");
    SHOW(sends(fd, 10, 0));
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 1000));
    SHOW(ready(fd, 0, 0));
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    SHOW(recv(fd, much, 1, MSG_DONTWAIT));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("three, the last one long:");
    SHOW(sends(fd, 1, 0));
    SHOW(sends(fd, 2, 0));
    SHOW(sends(fd, 40000, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("little room:");
    SHOW(sends(fd, 1, 0));
    show_message(fd, MSG_ERRQUEUE, 0, 0);
    SHOW(sends(fd, 1, 0));
    show_message(fd, MSG_ERRQUEUE | MSG_PEEK, 0, 24);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("that fail:");
    SHOW(sends(fd, 70000, 0));
    SHOW(send(fd, (void *)1, 10, MSG_ZEROCOPY));
    int lost = bound(family, SOCK_DGRAM);
    setsockopt(lost, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on);
    SHOW(sends(lost, 10, 0));
    SHOW(ready(lost, 0, 0));
    close(lost);
    SHOW(sends(fd, 10, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("in parts:");
    SHOW(sends(fd, 10, MSG_MORE));
    SHOW(sends(fd, 10, MSG_MORE));
    SHOW(ready(fd, 0, 0));
    SHOW(sends(fd, 10, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("several:");
    struct iovec part = {much, 10};
    struct mmsghdr three[3];
    memset(three, 0, sizeof three);
    for (int n = 0; n < 3; n++) three[n].msg_hdr.msg_iov = &part, three[n].msg_hdr.msg_iovlen = 1;
    SHOW(sendmmsg(fd, three, 3, MSG_ZEROCOPY));
    SHOW(sendmsg(fd, &three[0].msg_hdr, MSG_ZEROCOPY));
    Address address = name_of(to);
    SHOW(sendto(fd, much, 5, MSG_ZEROCOPY, &address.any, size_of(&address)));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("turned off while there is one:");
    SHOW(sends(fd, 10, 0));
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &off, sizeof off));
    SHOW(sends(fd, 10, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    SHOW(sends(fd, 10, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("nobody reads:");
    while (recv(to, much, sizeof much, MSG_DONTWAIT) >= 0) continue;
    int sent = 0;
    for (int n = 0; n < 5000; n++) sent += sends(fd, 1, 0) == 1;
    printf("sent %d\n", sent);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    close(fd);
    close(to);
}

static void with_errors(int family) {
    printf("-- with errors, %s\n", family == AF_INET ? "IPv4" : "IPv6");
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, option = family == AF_INET ? IP_RECVERR : IPV6_RECVERR;
    int fd = bound(family, SOCK_DGRAM);
    Address gone = nobody(family), here = name_of(fd);
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    SHOW(setsockopt(fd, level, option, &on, sizeof on));
    SHOW(sendto(fd, "one", 3, MSG_ZEROCOPY, &here.any, size_of(&here)));
    SHOW(sendto(fd, "two", 3, MSG_ZEROCOPY, &gone.any, size_of(&gone)));
    SHOW(sendto(fd, "three", 5, MSG_ZEROCOPY, &here.any, size_of(&here)));
    SHOW(sendto(fd, "four", 4, MSG_ZEROCOPY, &here.any, size_of(&here)));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("an error behind a call is what fails next:");
    SHOW(sendto(fd, "five", 4, MSG_ZEROCOPY, &gone.any, size_of(&gone)));
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("errors are not wanted any more:");
    SHOW(sendto(fd, "six", 3, MSG_ZEROCOPY, &here.any, size_of(&here)));
    SHOW(sendto(fd, "seven", 5, 0, &gone.any, size_of(&gone)));
    SHOW(setsockopt(fd, level, option, &off, sizeof off));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    SHOW(sendto(fd, "eight", 5, MSG_ZEROCOPY, &here.any, size_of(&here)));
    SHOW(setsockopt(fd, level, option, &off, sizeof off));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(sendto(fd, "nine", 4, MSG_ZEROCOPY, &here.any, size_of(&here)));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("too many that cannot be merged:");
    SHOW(setsockopt(fd, level, option, &on, sizeof on));
    int sent = 0, error = 0;
    for (int n = 0; n < 1000 && !error; n++) {
        if (sendto(fd, "x", 1, MSG_ZEROCOPY, &gone.any, size_of(&gone)) == 1) sent++;
        else if (errno != ECONNREFUSED) error = errno;
    }
    printf("%d, errno %d\n", sent, error);
    SHOW(sendto(fd, "x", 1, 0, &here.any, size_of(&here)));
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    SHOW(sendto(fd, "x", 1, 0, &here.any, size_of(&here)));
    SHOW(sendto(fd, "x", 1, MSG_ZEROCOPY, &here.any, size_of(&here)));
    int calls = 0, errors = 0, in_order = 1;
    uint32_t next = 0;
    for (struct entry *entry; (entry = read_entry(fd))->got >= 0;) {
        if (entry->said.ee_origin != ORIGIN_ZEROCOPY) {
            errors++;
            continue;
        }
        in_order &= !calls || entry->said.ee_info == next;
        next = entry->said.ee_data + 1;
        calls++;
    }
    printf("%d of calls, %d errors, %s\n", calls, errors, in_order ? "one after the other" : "NOT IN ORDER");
    SHOW(sendto(fd, "x", 1, MSG_ZEROCOPY, &here.any, size_of(&here)));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    close(fd);
}

static void mapped(void) {
    puts("-- to an address of IPv4 from a socket of IPv6");
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), to = bound(AF_INET, SOCK_DGRAM);
    Address address = home(AF_INET6, ntohs(name_of(to).v4.sin_port));
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.v6.sin6_addr);
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    SHOW(sendto(fd, "old", 3, MSG_ZEROCOPY, &address.any, size_of(&address)));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    close(fd);
    close(to);
}

// Waits until the calls up to this one are complete, and shows from which one on. Answers how many bytes of data came with that.
static void completed(int fd, uint32_t last) {
    uint32_t first = 0;
    int is_first = 1, copied = 0, control = 0;
    for (;;) {
        if (!(ready(fd, 0, 5000) & POLLERR)) {
            puts("  NOT ALL");
            return;
        }
        struct entry *entry = read_entry(fd);
        if (entry->got != 0 || entry->said.ee_origin != ORIGIN_ZEROCOPY || entry->said.ee_errno || entry->said.ee_type) puts("  WRONG");
        if (is_first) first = entry->said.ee_info;
        else if (entry->said.ee_info > entry->said.ee_data) puts("  NO RANGE");
        is_first = 0;
        copied |= entry->said.ee_code;
        control += entry->other + entry->stamps;
        if (entry->said.ee_data >= last) {
            printf("  calls %u to %u, code %d, other messages %d\n", first, entry->said.ee_data, copied, control);
            return;
        }
    }
}

static void *reader(void *fd) {
    static char room[1 << 16];
    size_t all = 0;
    for (long got; (got = recv(*(int *)fd, room, sizeof room, 0)) > 0; all += got) continue;
    return (void *)all;
}

static void stream(int family) {
    printf("-- streams, %s\n", family == AF_INET ? "IPv4" : "IPv6");
    int ends[2];
    int alone = socket(family, SOCK_STREAM, 0);
    SHOW(setsockopt(alone, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    SHOW(sends(alone, 10, MSG_NOSIGNAL));
    SHOW(ready(alone, 0, 0));
    show_message(alone, MSG_ERRQUEUE, 100, 512);
    close(alone);
    streams(family, ends);
    puts("not asked for:");
    SHOW(sends(ends[0], 10, 0));
    SHOW(recv(ends[1], much, 100, 0));
    SHOW(ready(ends[0], POLLIN | POLLOUT | POLLPRI, 0));
    show_message(ends[0], MSG_ERRQUEUE, 100, 512);
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    puts("plain, and empty:");
    SHOW(send(ends[0], much, 10, 0));
    SHOW(sends(ends[0], 0, 0));
    SHOW(recv(ends[1], much, 100, 0));
    SHOW(ready(ends[0], 0, 0));
    puts("one:");
    SHOW(sends(ends[0], 10, 0));
    SHOW(recv(ends[1], much, 100, 0));
    SHOW(ready(ends[0], POLLIN | POLLOUT | POLLPRI, 1000));
    SHOW(value_of(ends[0], SOL_SOCKET, SO_ERROR));
    SHOW(recv(ends[0], much, 1, MSG_DONTWAIT));
    show_message(ends[0], MSG_ERRQUEUE, 100, 512);
    SHOW(ready(ends[0], POLLIN | POLLOUT | POLLPRI, 0));
    show_message(ends[0], MSG_ERRQUEUE, 100, 512);
    puts("three:");
    for (int n = 0; n < 3; n++) SHOW(sends(ends[0], 100, 0));
    SHOW(recv(ends[1], much, 300, MSG_WAITALL));
    completed(ends[0], 3);
    puts("that fails:");
    SHOW(send(ends[0], (void *)1, 10, MSG_ZEROCOPY));
    puts("nothing fits any more:");
    SHOW(fcntl(ends[0], F_SETFL, O_NONBLOCK));
    uint32_t calls = 4;
    size_t all = 0;
    for (long sent; (sent = sends(ends[0], sizeof much, 0)) > 0; calls++) all += sent;
    printf("errno %d\n", errno);
    SHOW(sends(ends[0], 10, 0));
    for (long got; all > 0 && (got = recv(ends[1], much, sizeof much, 0)) > 0; all -= got) continue;
    printf("not read: %zu\n", all);
    for (;;) {
        // How many these were is the machine's affair.
        if (!(ready(ends[0], 0, 5000) & POLLERR)) {
            puts("NOT ALL");
            break;
        }
        if (read_entry(ends[0])->said.ee_data == calls - 1) break;
    }
    show_message(ends[0], MSG_ERRQUEUE, 100, 512);
    fcntl(ends[0], F_SETFL, 0);
    close(ends[0]);
    close(ends[1]);

    puts("long ones:");
    streams(family, ends);
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    pthread_t thread;
    pthread_create(&thread, NULL, reader, &ends[1]);
    for (int n = 0; n < 4; n++) SHOW(sends(ends[0], sizeof much, 0));
    SHOW(sends(ends[0], 5, MSG_MORE));
    struct iovec parts[2] = {{much, 300000}, {much, 400000}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    SHOW(sendmsg(ends[0], &message, MSG_ZEROCOPY));
    completed(ends[0], 5);
    SHOW(shutdown(ends[0], SHUT_WR));
    void *got;
    pthread_join(thread, &got);
    printf("received %zu\n", (size_t)got);
    puts("no more can be sent:");
    SHOW(sends(ends[0], 10, MSG_NOSIGNAL));
    SHOW(ready(ends[0], 0, 0));
    show_message(ends[0], MSG_ERRQUEUE, 100, 512);
    close(ends[0]);
    close(ends[1]);

    puts("what is accepted can do what its listener can:");
    int listener = bound(family, SOCK_STREAM);
    SHOW(setsockopt(listener, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    Address address = name_of(listener);
    listen(listener, 5);
    ends[0] = socket(family, SOCK_STREAM, 0);
    SHOW(connect(ends[0], &address.any, size_of(&address)));
    ends[1] = accept(listener, NULL, NULL);
    printf("%d\n", value_of(ends[1], SOL_SOCKET, SO_ZEROCOPY));
    SHOW(sends(ends[1], 10, 0));
    SHOW(recv(ends[0], much, 10, 0));
    completed(ends[1], 0);
    puts("the other end is gone, and the queue is still there:");
    SHOW(sends(ends[1], 10, 0));
    SHOW(recv(ends[0], much, 10, 0));
    ready(ends[1], 0, 1000);
    close(ends[0]);
    completed(ends[1], 1);
    close(ends[1]);
    close(listener);
}

static void nobody_reads(void) {
    puts("-- of a stream nobody reads");
    int ends[2];
    streams(AF_INET, ends);
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    SHOW(setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    int wrong = 0;
    for (int n = 0; n < 2000; n++) {
        wrong += sends(ends[0], 10, 0) != 10;
        wrong += recv(ends[1], much, 10, MSG_WAITALL) != 10;
    }
    printf("wrong: %d\n", wrong);
    completed(ends[0], 1999);
    close(ends[0]);
    close(ends[1]);
}

static void on_alarm(int signal) { (void)signal; }

// Reads until there was nothing for a while. Answers whether that was something, and less than all.
static int is_part(int fd, size_t all) {
    size_t got = 0;
    while (ready(fd, POLLIN, 300) & POLLIN) {
        long more = recv(fd, much, sizeof much, MSG_DONTWAIT);
        if (more <= 0) break;
        got += more;
    }
    return got > 0 && got < all;
}

// How much was sent, if that is more than nothing and less than all.
static void show_part(long sent, long all) {
    if (sent < 0) printf("errno %d\n", errno);
    else puts(sent > 0 && sent < all ? "some" : "ALL, OR NOTHING");
}

// A stream, of which nobody reads yet.
static void slow(int ends[2]) {
    streams(AF_INET, ends);
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
}

// What was sent arrives; that was a call, and so is the next one.
static void show_ended(int ends[2], size_t all) {
    SHOW(is_part(ends[1], all));
    completed(ends[0], 0);
    SHOW(sends(ends[0], 10, 0));
    SHOW(recv(ends[1], much, 10, MSG_WAITALL));
    completed(ends[0], 1);
    close(ends[0]);
    close(ends[1]);
}

static void ended(void) {
    puts("-- calls that are ended in the middle");
    static char more[16 << 20];
    int ends[2], status;
    puts("by a signal:");
    slow(ends);
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    show_part(send(ends[0], more, sizeof more, MSG_ZEROCOPY), sizeof more);
    show_ended(ends, sizeof more);
    puts("by the end of its process:");
    slow(ends);
    pid_t pid = fork();
    if (pid == 0) {
        send(ends[0], more, sizeof more, MSG_ZEROCOPY);
        _exit(1);
    }
    SHOW(ready(ends[1], POLLIN, 5000) & POLLIN);
    usleep(300000);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("status %#x\n", status);
    show_ended(ends, sizeof more);
    puts("by the time that it may take:");
    slow(ends);
    struct timeval soon = {0, 200000};
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon));
    show_part(send(ends[0], more, sizeof more, MSG_ZEROCOPY), sizeof more);
    show_ended(ends, sizeof more);
    puts("by memory that is not there:");
    slow(ends);
    char *edge = pages(40, PROT_READ | PROT_WRITE);
    munmap(edge + 39 * PAGE, PAGE);
    show_part(send(ends[0], edge + PAGE, 39 * PAGE, MSG_ZEROCOPY), 39 * PAGE);
    show_ended(ends, 39 * PAGE);
}

enum { THREADS = 4, CALLS = 300 };
static int shared, failed;

static void *sending(void *unused) {
    (void)unused;
    for (int n = 0; n < CALLS; n++)
        if (sends(shared, 10, 0) != 10) __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void together(const char *what, int fd) {
    pthread_t threads[THREADS];
    shared = fd;
    failed = 0;
    SHOW(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, sending, NULL);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    printf("%s, failed: %d\n", what, failed);
}

static void many(void) {
    puts("-- by several threads");
    int to, fd = sender(AF_INET, &to), ends[2];
    together("datagrams", fd);
    completed(fd, THREADS * CALLS - 1);
    close(fd);
    close(to);
    streams(AF_INET, ends);
    together("streams", ends[0]);
    SHOW(recv(ends[1], much, 10 * THREADS * CALLS, MSG_WAITALL));
    completed(ends[0], THREADS * CALLS - 1);
    close(ends[0]);
    close(ends[1]);
}

static void local(void) {
    puts("-- AF_UNIX does not look at it");
    int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}, ends[2];
    for (int n = 0; n < 3; n++) {
        if (socketpair(AF_UNIX, types[n], 0, ends) < 0) perror("socketpair");
        SHOW(sends(ends[0], 10, 0));
        SHOW(recv(ends[1], much, 100, 0));
        SHOW(ready(ends[0], 0, 0));
        close(ends[0]);
        close(ends[1]);
    }
}

int main(void) {
    options();
    datagrams(AF_INET);
    datagrams(AF_INET6);
    with_errors(AF_INET);
    with_errors(AF_INET6);
    mapped();
    stream(AF_INET);
    stream(AF_INET6);
    nobody_reads();
    ended();
    many();
    local();
    return 0;
}
