// The error queue of sockets: what is in it is read (`MSG_ERRQUEUE`) and shown. And sockets to fill it with.
#pragma once
#include "test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

// As in <linux/errqueue.h> and <linux/net_tstamp.h>, which not every C library has.
struct said {
    uint32_t ee_errno;
    uint8_t ee_origin, ee_type, ee_code, ee_pad;
    uint32_t ee_info, ee_data;
};
enum { ORIGIN_TIMESTAMPING = 4, ORIGIN_ZEROCOPY = 5 };
#ifndef SO_TIMESTAMPING
#define SO_TIMESTAMPING 37
#endif
#ifndef SO_SELECT_ERR_QUEUE
#define SO_SELECT_ERR_QUEUE 45
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
enum { SO_TIMESTAMPING_NEW_ = 65 };

static int on = 1, off = 0;

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} Address;

static inline socklen_t size_of(const Address *address) {
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

// This machine, as each family calls it.
static inline Address home(int family, int port) {
    Address address;
    memset(&address, 0, sizeof address);
    address.any.sa_family = family;
    if (family == AF_INET) {
        address.v4.sin_port = htons(port);
        address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        address.v6.sin6_port = htons(port);
        address.v6.sin6_addr = in6addr_loopback;
    }
    return address;
}

static inline Address name_of(int fd) {
    Address address;
    memset(&address, 0, sizeof address);
    socklen_t len = sizeof address;
    getsockname(fd, &address.any, &len);
    return address;
}

static inline int bound(int family, int type) {
    int fd = socket(family, type, 0);
    Address address = home(family, 0);
    if (bind(fd, &address.any, size_of(&address)) < 0) perror("bind");
    return fd;
}

// A socket of datagrams whose datagrams go to another one, which is `*to`.
static inline int sender(int family, int *to) {
    *to = bound(family, SOCK_DGRAM);
    int fd = bound(family, SOCK_DGRAM);
    Address address = name_of(*to);
    if (connect(fd, &address.any, size_of(&address)) < 0) perror("connect");
    return fd;
}

// The two ends of a stream.
static inline void streams(int family, int ends[2]) {
    int listener = bound(family, SOCK_STREAM);
    Address address = name_of(listener);
    if (listen(listener, 5) < 0) perror("listen");
    ends[0] = socket(family, SOCK_STREAM, 0);
    if (connect(ends[0], &address.any, size_of(&address)) < 0) perror("connect");
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

// An address that nobody has.
static inline Address nobody(int family) {
    int fd = bound(family, SOCK_DGRAM);
    Address address = name_of(fd);
    close(fd);
    return address;
}

static inline int value_of(int fd, int level, int option) {
    int value = -77;
    socklen_t len = sizeof value;
    return getsockopt(fd, level, option, &value, &len) < 0 ? -errno : value;
}

static inline int set(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof value) < 0 ? -errno : 0;
}

// What is ready within so long.
static inline int ready(int fd, int events, int ms) {
    struct pollfd one = {fd, events, 0};
    poll(&one, 1, ms);
    return one.revents;
}

// One entry of the queue.
struct entry {
    long got;               // bytes of it, or less than 0 and errno
    struct said said;
    int stamps, other;      // `SCM_TIMESTAMPING` messages, and messages of other kinds
    struct timespec times[3];
    char bytes[70000];
};

static inline struct entry *read_entry(int fd) {
    static struct entry entry;
    _Alignas(8) char control[512];
    memset(&entry, 0, sizeof entry);
    struct iovec part = {entry.bytes, sizeof entry.bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    entry.got = recvmsg(fd, &message, MSG_ERRQUEUE);
    if (entry.got < 0) return &entry;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        int level = one->cmsg_level, type = one->cmsg_type;
        if ((level == IPPROTO_IP && type == IP_RECVERR) || (level == IPPROTO_IPV6 && type == IPV6_RECVERR)) {
            memcpy(&entry.said, CMSG_DATA(one), sizeof entry.said);
        } else if (level == SOL_SOCKET && (type == SO_TIMESTAMPING || type == SO_TIMESTAMPING_NEW_)) {
            memcpy(entry.times, CMSG_DATA(one), sizeof entry.times);
            entry.stamps++;
        } else {
            entry.other++;
        }
    }
    return &entry;
}

static inline int is_recent(const struct timespec *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return at->tv_nsec >= 0 && at->tv_nsec < 1000000000 && at->tv_sec <= now.tv_sec && at->tv_sec >= now.tv_sec - 60;
}

// Shows a message with all that comes with it; one of the error queue with MSG_ERRQUEUE in `flags`.
static inline long show_message(int fd, int flags, size_t bytes, size_t room) {
    static char text[70000];
    _Alignas(8) char control[512];
    Address from;
    memset(&from, 0, sizeof from);
    struct iovec part = {text, bytes};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = room};
    long got = recvmsg(fd, &message, flags | MSG_DONTWAIT);
    if (got < 0) {
        printf("  nothing, errno %d\n", errno);
        return got;
    }
    printf("  %ld bytes, flags %#x, name %u, control %zu\n", got, message.msg_flags & ~MSG_CMSG_CLOEXEC, message.msg_namelen,
           (size_t)message.msg_controllen);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        int level = one->cmsg_level, type = one->cmsg_type;
        unsigned char *data = CMSG_DATA(one);
        printf("  level %d type %d, %zu:", level, type, (size_t)one->cmsg_len);
        if ((level == IPPROTO_IP && type == IP_RECVERR) || (level == IPPROTO_IPV6 && type == IPV6_RECVERR)) {
            struct said said;
            memcpy(&said, data, sizeof said);
            uint16_t family;
            memcpy(&family, data + sizeof said, sizeof family);
            printf(" errno %u origin %d type %d code %d info %u data %u, family %d", said.ee_errno, said.ee_origin,
                   said.ee_type, said.ee_code, said.ee_info, said.ee_data, family);
        } else if (level == SOL_SOCKET && (type == SO_TIMESTAMPING || type == SO_TIMESTAMPING_NEW_)) {
            struct timespec times[3];
            size_t whole = (one->cmsg_len - CMSG_LEN(0)) / sizeof *times;
            memcpy(times, data, whole * sizeof *times);
            for (size_t n = 0; n < whole; n++)
                printf(" %s", is_recent(&times[n]) ? "recent" : times[n].tv_sec || times[n].tv_nsec ? "WRONG" : "none");
        } else if (level == SOL_SOCKET) {
            struct timespec time;
            memcpy(&time, data, sizeof time);
            printf(" %s", is_recent(&time) ? "recent" : "WRONG");
        } else {
            for (size_t n = 0; n < one->cmsg_len - CMSG_LEN(0); n++) printf(" %02x", data[n]);
        }
        puts("");
    }
    return got;
}
