// SO_TIMESTAMPING: which flags there are, when datagrams and bytes of streams were received, and when they were sent: what the error queue tells,
// for which calls, with what of the packet; SIOCGSTAMP; and a queue that nobody reads. Times are only looked at for whether they can be.
// oracle: linux
// build: gcc, musl
#include "errqueue.h"
#include <sys/un.h>

enum {
    TX_HARDWARE = 1, TX_SOFTWARE = 2, RX_HARDWARE = 4, RX_SOFTWARE = 8, SOFTWARE = 16, SYS_HARDWARE = 32, RAW_HARDWARE = 64,
    OPT_ID = 128, TX_SCHED = 256, TX_ACK = 512, OPT_CMSG = 1024, OPT_TSONLY = 2048, OPT_STATS = 4096, OPT_PKTINFO = 8192,
    OPT_TX_SWHW = 16384, BIND_PHC = 32768, OPT_ID_TCP = 65536,
};
// As programs name them in control messages.
enum { SENT = 0, SCHEDULED = 1, ACKNOWLEDGED = 2 };

static int stamps(int fd, int flags) { return set(fd, SOL_SOCKET, SO_TIMESTAMPING, flags); }

static void show_flags(int fd, int option) {
    int values[3] = {-7, -7, -7};
    socklen_t len = sizeof values;
    if (getsockopt(fd, SOL_SOCKET, option, values, &len) < 0) printf("errno %d\n", errno);
    else printf("%u bytes: %#x %d %d\n", len, values[0], values[1], values[2]);
}

static void options(void) {
    puts("-- options");
    struct { int domain, type, protocol; const char *text; } all[] = {
        {AF_INET, SOCK_DGRAM, 0, "udp"}, {AF_INET6, SOCK_DGRAM, 0, "udp6"}, {AF_INET, SOCK_STREAM, 0, "tcp"},
        {AF_INET, SOCK_RAW, IPPROTO_ICMP, "raw"},
    };
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        int fd = socket(all[n].domain, all[n].type, all[n].protocol);
        printf("%s:", all[n].text);
        // Bits 17 and 18 are newer.
        for (int bit = 0; bit < 32; bit++)
            if (bit != 17 && bit != 18) printf(" %d", stamps(fd, 1u << bit));
        puts("");
        printf("stats alone %d, with %d;", stamps(fd, OPT_STATS), stamps(fd, OPT_STATS | OPT_TSONLY));
        printf(" all %d;", stamps(fd, 0x7fff & ~OPT_ID));
        show_flags(fd, SO_TIMESTAMPING);
        printf("unknown ones change nothing: %d ", stamps(fd, 1 << 30));
        show_flags(fd, SO_TIMESTAMPING);
        int both[2] = {SOFTWARE, 0}, many[3] = {RX_SOFTWARE, 5, 5};
        SHOW(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, both, sizeof both));
        show_flags(fd, SO_TIMESTAMPING);
        SHOW(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, many, sizeof many));
        SHOW(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, both, 3));
        show_flags(fd, SO_TIMESTAMPING);
        SHOW(set(fd, SOL_SOCKET, SO_TIMESTAMPING_NEW_, SOFTWARE | RX_SOFTWARE));
        show_flags(fd, SO_TIMESTAMPING);
        show_flags(fd, SO_TIMESTAMPING_NEW_);
        int value = -7;
        socklen_t len = 2;
        SHOW(getsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &value, &len));
        SHOW(value_of(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE));
        SHOW(set(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 7));
        SHOW(value_of(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE));
        close(fd);
    }
    puts("identifiers of a stream:");
    int alone = socket(AF_INET, SOCK_STREAM, 0), ends[2];
    SHOW(stamps(alone, OPT_ID));
    Address address = home(AF_INET, 0);
    bind(alone, &address.any, size_of(&address));
    listen(alone, 1);
    SHOW(stamps(alone, OPT_ID));
    close(alone);
    streams(AF_INET, ends);
    SHOW(stamps(ends[0], OPT_ID));
    SHOW(stamps(ends[0], OPT_ID_TCP));
    SHOW(stamps(ends[0], OPT_ID | OPT_ID_TCP));
    close(ends[0]);
    close(ends[1]);
}

static void received(int family) {
    printf("-- datagrams that are received, %s\n", family == AF_INET ? "IPv4" : "IPv6");
    int to, fd = sender(family, &to);
    SHOW(stamps(to, RX_SOFTWARE | SOFTWARE));
    usleep(100000);
    SHOW(send(fd, "one", 3, 0));
    show_message(to, MSG_PEEK, 100, 512);
    show_message(to, 0, 100, 512);
    puts("with the other option:");
    SHOW(set(to, SOL_SOCKET, SO_TIMESTAMPNS, 1));
    SHOW(send(fd, "two", 3, 0));
    show_message(to, 0, 100, 512);
    SHOW(set(to, SOL_SOCKET, SO_TIMESTAMP, 1));
    SHOW(send(fd, "three", 5, 0));
    show_message(to, 0, 100, 512);
    SHOW(set(to, SOL_SOCKET, SO_TIMESTAMP, 0));
    puts("little room:");
    SHOW(send(fd, "four", 4, 0));
    show_message(to, 0, 100, 24);
    puts("made, and not told:");
    SHOW(stamps(to, RX_SOFTWARE));
    SHOW(send(fd, "five", 4, 0));
    show_message(to, 0, 100, 512);
    puts("told as of now on, made before:");
    SHOW(send(fd, "six", 3, 0));
    SHOW(stamps(to, SOFTWARE));
    show_message(to, 0, 100, 512);
    puts("without anything:");
    SHOW(stamps(to, 0));
    SHOW(send(fd, "seven", 5, 0));
    show_message(to, 0, 100, 512);
    puts("of the other name:");
    SHOW(set(to, SOL_SOCKET, SO_TIMESTAMPING_NEW_, RX_SOFTWARE | SOFTWARE));
    SHOW(send(fd, "eight", 5, 0));
    show_message(to, 0, 100, 512);
    close(fd);
    close(to);
}

// What the error queue has, one line for each; without OPT_TSONLY what is in the packet. Answers how many.
static int told(int fd, int family, const char *text) {
    int count = 0;
    for (struct entry *entry; ready(fd, 0, 200) & POLLERR && (entry = read_entry(fd))->got >= 0; count++) {
        struct said *said = &entry->said;
        if (said->ee_origin == ORIGIN_ZEROCOPY) {
            printf("  calls %u to %u, code %d\n", said->ee_info, said->ee_data, said->ee_code);
            continue;
        }
        printf("  errno %u origin %d type %d code %d, %s %u, %d of times, %s, %d others, ", said->ee_errno, said->ee_origin, said->ee_type,
               said->ee_code, said->ee_info == SENT ? "sent" : said->ee_info == SCHEDULED ? "scheduled" : "acknowledged", said->ee_data,
               entry->stamps, !entry->stamps || is_recent(&entry->times[0]) ? "recent" : "WRONG", entry->other);
        long head = 14 + (family == AF_INET ? 20 : 40) + 8, len = strlen(text);
        if (entry->got != head + len) {
            printf("%ld bytes\n", entry->got);
            continue;
        }
        unsigned char *at = (unsigned char *)entry->bytes, *ip = at + 14, *udp = at + head - 8;
        printf("type %02x%02x, version %d, bytes %d, ports %d %d, bytes %d, %.*s\n", at[12], at[13], ip[0] >> 4,
               family == AF_INET ? ip[2] << 8 | ip[3] : ip[4] << 8 | ip[5], (udp[0] << 8 | udp[1]) == ntohs(name_of(fd).v4.sin_port),
               (udp[2] << 8 | udp[3]) != 0, udp[4] << 8 | udp[5], (int)len, entry->bytes + head);
        static const unsigned char loopback[4] = {127, 0, 0, 1};
        if (family == AF_INET && (memcmp(ip + 12, loopback, 4) || memcmp(ip + 16, loopback, 4) || ip[9] != 17 || ip[8] != 64)) puts("  WRONG HEAD");
        if (family == AF_INET6 && (memcmp(ip + 8, &in6addr_loopback, 16) || memcmp(ip + 24, &in6addr_loopback, 16) || ip[6] != 17 || ip[7] != 64)) puts("  WRONG HEAD");
    }
    return count;
}

static long send_asking(int fd, int type, const void *data, size_t bytes) {
    union { struct cmsghdr head; char bytes[CMSG_SPACE(8)]; } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {"asked", 5};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(bytes)};
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = type;
    control.head.cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(&control.head), data, bytes);
    return sendmsg(fd, &message, 0);
}

static long asks(int fd, int flags) { return send_asking(fd, SO_TIMESTAMPING, &flags, sizeof flags); }

static void sent(int family) {
    printf("-- datagrams that are sent, %s\n", family == AF_INET ? "IPv4" : "IPv6");
    int to, fd = sender(family, &to);
    SHOW(stamps(fd, TX_SOFTWARE | SOFTWARE));
    SHOW(send(fd, "one", 3, 0));
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 1000));
    SHOW(value_of(fd, SOL_SOCKET, SO_ERROR));
    SHOW(recv(fd, (char[8]){0}, 8, MSG_DONTWAIT));
    SHOW(told(fd, family, "one"));
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 0));
    SHOW(set(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1));
    SHOW(send(fd, "two", 3, 0));
    SHOW(ready(fd, POLLIN | POLLOUT | POLLPRI, 1000));
    SHOW(told(fd, family, "two"));
    puts("as they are read:");
    SHOW(send(fd, "three", 5, 0));
    show_message(fd, MSG_ERRQUEUE, 4, 512);
    puts("with a name:");
    SHOW(set(fd, SOL_SOCKET, SO_TIMESTAMP, 1));
    SHOW(send(fd, "three", 5, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(set(fd, SOL_SOCKET, SO_TIMESTAMP, 0));
    puts("a long one:");
    static char much[60000];
    SHOW(send(fd, much, sizeof much, 0));
    SHOW(told(fd, family, ""));
    puts("both stages, with identifiers:");
    SHOW(stamps(fd, TX_SOFTWARE | TX_SCHED | SOFTWARE | OPT_ID));
    SHOW(send(fd, "a", 1, 0));
    SHOW(send(fd, "a", 1, 0));
    SHOW(told(fd, family, "a"));
    SHOW(stamps(fd, TX_SOFTWARE | TX_SCHED | SOFTWARE | OPT_ID | OPT_TSONLY));
    SHOW(send(fd, "b", 1, 0));
    SHOW(told(fd, family, "b"));
    puts("anew:");
    SHOW(stamps(fd, 0));
    SHOW(send(fd, "c", 1, 0));
    SHOW(stamps(fd, TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY));
    SHOW(send(fd, "c", 1, 0));
    SHOW(write(fd, "c", 1));
    SHOW(send(fd, "", 0, 0));
    SHOW(told(fd, family, "c"));
    puts("not told, and never acknowledged:");
    SHOW(stamps(fd, TX_SOFTWARE | TX_ACK | OPT_TSONLY));
    SHOW(send(fd, "d", 1, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("with the interface:");
    SHOW(set(fd, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, family == AF_INET ? IP_PKTINFO : IPV6_RECVPKTINFO, 1));
    SHOW(stamps(fd, TX_SOFTWARE | SOFTWARE | OPT_CMSG));
    SHOW(send(fd, "e", 1, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(stamps(fd, TX_SOFTWARE | SOFTWARE));
    SHOW(send(fd, "e", 1, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    SHOW(stamps(fd, TX_SOFTWARE | SOFTWARE | OPT_CMSG | OPT_TSONLY));
    SHOW(send(fd, "e", 1, 0));
    show_message(fd, MSG_ERRQUEUE, 100, 512);
    puts("of one call:");
    SHOW(stamps(fd, SOFTWARE | OPT_TSONLY | OPT_ID));
    SHOW(send(fd, "f", 1, 0));
    SHOW(asks(fd, TX_SOFTWARE));
    SHOW(asks(fd, TX_SCHED | TX_SOFTWARE));
    SHOW(asks(fd, 0));
    SHOW(asks(fd, TX_ACK));
    SHOW(asks(fd, SOFTWARE));
    SHOW(asks(fd, OPT_ID | TX_SOFTWARE));
    SHOW(send_asking(fd, SO_TIMESTAMPING, "12345678", 8));
    SHOW(send_asking(fd, SO_TIMESTAMPING, "12", 2));
    SHOW(send_asking(fd, 12345, "1234", 4));
    SHOW(send_asking(fd, SO_TIMESTAMPING_NEW_, "\2\0\0", 4));
    SHOW(told(fd, family, "asked"));
    SHOW(stamps(fd, TX_SOFTWARE | SOFTWARE | OPT_TSONLY | OPT_ID));
    SHOW(asks(fd, 0));
    SHOW(asks(fd, TX_SCHED));
    SHOW(told(fd, family, "asked"));
    puts("in parts:");
    SHOW(send(fd, "g", 1, MSG_MORE));
    SHOW(send(fd, "g", 1, 0));
    SHOW(told(fd, family, "gg"));
    puts("to nobody, and nowhere:");
    int lost = bound(family, SOCK_DGRAM);
    Address gone = nobody(family);
    SHOW(stamps(lost, TX_SOFTWARE | SOFTWARE | OPT_TSONLY | OPT_ID));
    SHOW(send(lost, "h", 1, 0));
    SHOW(sendto(lost, "h", 1, 0, &gone.any, size_of(&gone)));
    SHOW(told(lost, family, "h"));
    SHOW(set(lost, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, family == AF_INET ? IP_RECVERR : IPV6_RECVERR, 1));
    SHOW(sendto(lost, "h", 1, 0, &gone.any, size_of(&gone)));
    show_message(lost, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(lost, SOL_SOCKET, SO_ERROR));
    show_message(lost, MSG_ERRQUEUE, 100, 512);
    SHOW(value_of(lost, SOL_SOCKET, SO_ERROR));
    SHOW(sendto(lost, "h", 1, 0, &gone.any, size_of(&gone)));
    SHOW(set(lost, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, family == AF_INET ? IP_RECVERR : IPV6_RECVERR, 0));
    SHOW(told(lost, family, "h"));
    close(lost);
    puts("with the calls that may use their bytes again:");
    SHOW(set(fd, SOL_SOCKET, SO_ZEROCOPY, 1));
    SHOW(stamps(fd, TX_SOFTWARE | TX_SCHED | SOFTWARE | OPT_TSONLY | OPT_ID));
    SHOW(send(fd, "i", 1, MSG_ZEROCOPY));
    SHOW(send(fd, "i", 1, 0));
    SHOW(send(fd, "i", 1, MSG_ZEROCOPY));
    SHOW(told(fd, family, "i"));
    puts("nobody reads:");
    for (int n = 0; n < 3000; n++) {
        if (send(fd, "j", 1, 0) != 1) puts("WRONG");
        recv(to, (char[8]){0}, 8, MSG_DONTWAIT);
    }
    int count = 0;
    uint32_t last = 0;
    for (struct entry *entry; (entry = read_entry(fd))->got >= 0; count++) last = entry->said.ee_data;
    // How many there is room for is the machine's affair; what there is no room for is lost.
    printf("%s, %s\n", count > 50 && count < 3000 ? "some" : "TOO MANY, OR FEW", last < 2000 ? "the first ones" : "OTHERS");
    SHOW(send(fd, "j", 1, 0));
    SHOW(told(fd, family, "j"));
    close(fd);
    close(to);
}

static void stream(int family) {
    printf("-- streams, %s\n", family == AF_INET ? "IPv4" : "IPv6");
    int ends[2];
    char text[256];
    streams(family, ends);
    SHOW(set(ends[0], IPPROTO_TCP, TCP_NODELAY, 1));
    puts("received:");
    SHOW(stamps(ends[1], RX_SOFTWARE | SOFTWARE));
    usleep(100000);
    SHOW(send(ends[0], "one", 3, 0));
    show_message(ends[1], MSG_PEEK, 100, 512);
    show_message(ends[1], 0, 2, 512);
    show_message(ends[1], 0, 100, 512);
    SHOW(set(ends[1], SOL_SOCKET, SO_TIMESTAMPNS, 1));
    SHOW(send(ends[0], "two", 3, 0));
    show_message(ends[1], 0, 100, 512);
    SHOW(set(ends[1], SOL_SOCKET, SO_TIMESTAMPNS, 0));
    SHOW(stamps(ends[1], 0));
    SHOW(send(ends[0], "three", 5, 0));
    show_message(ends[1], 0, 100, 512);
    puts("sent:");
    SHOW(stamps(ends[0], TX_SOFTWARE | TX_SCHED | TX_ACK | SOFTWARE | OPT_ID | OPT_TSONLY));
    SHOW(send(ends[0], "four", 4, 0));
    SHOW(recv(ends[1], text, sizeof text, 0));
    SHOW(ready(ends[0], POLLIN | POLLOUT | POLLPRI, 1000));
    SHOW(value_of(ends[0], SOL_SOCKET, SO_ERROR));
    SHOW(told(ends[0], family, "four"));
    SHOW(ready(ends[0], POLLIN | POLLOUT | POLLPRI, 0));
    SHOW(send(ends[0], "seventeen letters", 17, 0));
    SHOW(recv(ends[1], text, sizeof text, 0));
    SHOW(told(ends[0], family, "seventeen letters"));
    SHOW(send(ends[0], "", 0, 0));
    SHOW(told(ends[0], family, ""));
    puts("only acknowledged:");
    SHOW(stamps(ends[0], TX_ACK | SOFTWARE | OPT_ID | OPT_TSONLY));
    SHOW(send(ends[0], "five", 4, 0));
    SHOW(recv(ends[1], text, sizeof text, 0));
    SHOW(told(ends[0], family, "five"));
    puts("anew, and of one call:");
    SHOW(stamps(ends[0], 0));
    SHOW(stamps(ends[0], SOFTWARE | OPT_ID | OPT_TSONLY));
    SHOW(send(ends[0], "123456", 6, 0));
    SHOW(asks(ends[0], TX_ACK));
    SHOW(asks(ends[0], 0));
    SHOW(asks(ends[0], RX_SOFTWARE));
    SHOW(recv(ends[1], text, 16, MSG_WAITALL));
    SHOW(told(ends[0], family, "asked"));
    puts("without identifiers:");
    SHOW(stamps(ends[0], TX_SOFTWARE | SOFTWARE | OPT_TSONLY));
    SHOW(write(ends[0], "six", 3));
    SHOW(recv(ends[1], text, sizeof text, 0));
    show_message(ends[0], MSG_ERRQUEUE, 100, 512);
    puts("a long one:");
    static char much[300000];
    SHOW(stamps(ends[0], TX_ACK | SOFTWARE | OPT_ID | OPT_TSONLY));
    pid_t pid = fork();
    if (pid == 0) {
        size_t all = 0;
        for (long got; all < sizeof much && (got = recv(ends[1], much, sizeof much, 0)) > 0;) all += got;
        _exit(all != sizeof much);
    }
    SHOW(send(ends[0], much, sizeof much, 0));
    int status;
    SHOW(waitpid(pid, &status, 0) == pid && status == 0);
    SHOW(told(ends[0], family, ""));
    puts("with the calls that may use their bytes again:");
    SHOW(set(ends[0], SOL_SOCKET, SO_ZEROCOPY, 1));
    SHOW(send(ends[0], "seven", 5, MSG_ZEROCOPY));
    SHOW(recv(ends[1], text, sizeof text, 0));
    SHOW(told(ends[0], family, "seven"));
    puts("selected for:");
    SHOW(set(ends[0], SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1));
    SHOW(send(ends[0], "eight", 5, 0));
    SHOW(recv(ends[1], text, sizeof text, 0));
    SHOW(ready(ends[0], 0, 1000));
    SHOW(ready(ends[0], POLLIN | POLLOUT | POLLPRI, 1000));
    SHOW(told(ends[0], family, "eight"));
    close(ends[0]);
    close(ends[1]);
    puts("what is accepted does as its listener:");
    int listener = bound(family, SOCK_STREAM);
    SHOW(stamps(listener, TX_ACK | SOFTWARE | OPT_TSONLY));
    Address address = name_of(listener);
    listen(listener, 5);
    ends[0] = socket(family, SOCK_STREAM, 0);
    SHOW(connect(ends[0], &address.any, size_of(&address)));
    ends[1] = accept(listener, NULL, NULL);
    show_flags(ends[1], SO_TIMESTAMPING);
    SHOW(send(ends[1], "nine", 4, 0));
    SHOW(recv(ends[0], text, sizeof text, 0));
    SHOW(told(ends[1], family, "nine"));
    close(ends[0]);
    close(ends[1]);
    close(listener);
}

#ifndef SIOCGSTAMP
#define SIOCGSTAMP 0x8906
#endif
#ifndef SIOCGSTAMPNS
#define SIOCGSTAMPNS 0x8907
#endif
// With the size in it, as for programs whose times have 64 bits everywhere.
#define STAMP_64 0x80108906ul
#define STAMPNS_64 0x80108907ul

// Asks when the last one came. The time is between two others.
static void last(int fd, unsigned long command, const struct timespec *before) {
    long times[2] = {-7, -7}, unit = (command & 0xff) == 7 ? 1 : 1000;
    struct timespec now;
    int result = ioctl(fd, command, times);
    if (result < 0) {
        printf("  %#lx: errno %d\n", command, errno);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    long at = times[0] * 1000000000 + times[1] * unit;
    long first = before->tv_sec * 1000000000 + before->tv_nsec - unit, end = now.tv_sec * 1000000000 + now.tv_nsec;
    printf("  %#lx: %d, %s\n", command, result, at >= first && at <= end ? "since then" : "another time");
}

static void last_one(void) {
    puts("-- SIOCGSTAMP");
    char text[16];
    int to, fd = sender(AF_INET, &to);
    struct timespec start, later;
    clock_gettime(CLOCK_REALTIME, &start);
    last(to, SIOCGSTAMP, &start);
    SHOW(send(fd, "one", 3, 0));
    SHOW(recv(to, text, sizeof text, 0));
    puts("once something has come:");
    last(to, SIOCGSTAMP, &start);
    last(to, SIOCGSTAMPNS, &start);
    last(to, STAMP_64, &start);
    last(to, STAMPNS_64, &start);
    SHOW(ioctl(to, SIOCGSTAMP, (void *)1));
    usleep(50000);
    puts("of the last one that was read:");
    clock_gettime(CLOCK_REALTIME, &start);
    SHOW(send(fd, "two", 3, 0));
    clock_gettime(CLOCK_REALTIME, &later);
    usleep(20000);
    SHOW(recv(to, text, sizeof text, 0));
    last(to, SIOCGSTAMPNS, &start);
    last(to, SIOCGSTAMPNS, &later);
    last(to, SIOCGSTAMP, &start);
    close(fd);
    close(to);
    puts("of others:");
    int ends[2];
    streams(AF_INET, ends);
    SHOW(send(ends[0], "one", 3, 0));
    SHOW(recv(ends[1], text, sizeof text, 0));
    last(ends[1], SIOCGSTAMP, &start);
    close(ends[0]);
    close(ends[1]);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    last(ends[1], SIOCGSTAMP, &start);
    puts("AF_UNIX has no such flags of a call:");
    SHOW(asks(ends[0], TX_SOFTWARE));
    SHOW(send(ends[0], "x", 1, 0));
    close(ends[0]);
    close(ends[1]);
    pipe(ends);
    last(ends[1], SIOCGSTAMP, &start);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    options();
    received(AF_INET);
    received(AF_INET6);
    sent(AF_INET);
    sent(AF_INET6);
    stream(AF_INET);
    stream(AF_INET6);
    last_one();
    return 0;
}
