// Times of messages between local sockets (`SO_TIMESTAMP` and its relatives), together with who has sent them and what is passed along.
// oracle: linux
// build: gcc
#include "test.h"
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#define NEW_TIMESTAMP 63
#define NEW_TIMESTAMPNS 64

static const int options[] = { SO_TIMESTAMP, SO_TIMESTAMPNS, NEW_TIMESTAMP, NEW_TIMESTAMPNS };
static long long before;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// What comes with a message, in order; whether its time is one between when it could have been sent first and now.
static void told(int fd, int flags) {
    char bytes[16], control[512];
    struct iovec iov = { bytes, sizeof bytes };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    errno = 0;
    long got = recvmsg(fd, &m, flags);
    printf("%ld bytes, errno %d, flags %#x:", got, errno, m.msg_flags);
    for (struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        printf(" %d of %d bytes", c->cmsg_type, (int)(c->cmsg_len - CMSG_LEN(0)));
        long long *words = (void *)CMSG_DATA(c);
        int is_micros = c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == NEW_TIMESTAMP;
        if (is_micros || c->cmsg_type == SO_TIMESTAMPNS || c->cmsg_type == NEW_TIMESTAMPNS) {
            long long at = words[0] * 1000000000ll + words[1] * (is_micros ? 1000 : 1);
            printf(at >= before - 1000 && at <= now() ? " (right)" : " (wrong)");
        }
        if (c->cmsg_type == SCM_RIGHTS) close(*(int *)CMSG_DATA(c));
    }
    puts("");
}

static void pass(int fd, int what) {
    char control[CMSG_SPACE(sizeof what)] = "";
    struct iovec iov = { "with", 4 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){ CMSG_LEN(sizeof what), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(c), &what, sizeof what);
    SHOW(sendmsg(fd, &m, 0));
}

int main(void) {
    int types[] = { SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM }, on = 1, off = 0, value;
    socklen_t len = sizeof value;
    for (int t = 0; t < 3; t++) {
        int ends[2];
        printf("-- type %d\n", types[t]);
        SHOW(socketpair(AF_UNIX, types[t], 0, ends));
        for (int i = 0; i < 4; i++) {
            SHOW(setsockopt(ends[0], SOL_SOCKET, options[i], &on, sizeof on));
            for (int j = 0; j < 4; j++) getsockopt(ends[0], SOL_SOCKET, options[j], &value, &len), printf("%d ", value);
            before = now();
            SHOW(send(ends[1], "bytes", 5, 0));
            told(ends[0], MSG_PEEK), told(ends[0], 0);
        }
        // What was sent before anybody asked has the time at which it is read.
        SHOW(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMP, &off, sizeof off));
        SHOW(send(ends[1], "early", 5, 0));
        told(ends[0], MSG_PEEK);
        usleep(2000);
        before = now();
        SHOW(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
        told(ends[0], 0);
        // One that waits has that at which it was sent.
        before = now();
        SHOW(send(ends[1], "waits", 5, 0));
        long long after = now();
        usleep(20000);
        char bytes[16], control[256];
        struct iovec iov = { bytes, sizeof bytes };
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        SHOW(recvmsg(ends[0], &m, 0));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (m.msg_controllen && c) {
            struct timeval *t = (void *)CMSG_DATA(c);
            long long at = t->tv_sec * 1000000000ll + t->tv_usec * 1000;
            CHECK(at >= before - 1000 && at <= after);
        }
        // Together with others.
        SHOW(setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
        before = now();
        pass(ends[1], 0);
        told(ends[0], 0);
        close(ends[0]), close(ends[1]);
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    SHOW(setsockopt(fd, SOL_SOCKET, SO_PASSSEC, &on, sizeof on));
    SHOW(getsockopt(fd, SOL_SOCKET, SO_PASSSEC, &value, &len)); SHOW(value);
    return 0;
}
