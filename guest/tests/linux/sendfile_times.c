// Times of bytes of a stream that come from a file or a pipe (`sendfile`, `splice`) where the socket wants those of all that it sends.
// oracle: linux
// build: gcc
#include "test.h"
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>

static int ends[2];

// Entries of the error queue: which stage, of which byte.
static void told(void) {
    for (;;) {
        char control[512], byte;
        struct iovec iov = { &byte, 1 };
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        struct pollfd one = { ends[0], 0, 0 };
        poll(&one, 1, 100);
        if (recvmsg(ends[0], &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) { puts("no more"); return; }
        int has_time = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) has_time = ((struct timespec *)CMSG_DATA(c))->tv_sec > 0;
            if (c->cmsg_level == SOL_IP) {
                struct sock_extended_err *e = (void *)CMSG_DATA(c);
                printf("stage %u, byte %u, origin %d, error %d, time %d\n", e->ee_info, e->ee_data, e->ee_origin, e->ee_errno, has_time);
            }
        }
    }
}

int main(void) {
    int door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    bind(door, (void *)&at, sizeof at), listen(door, 1), getsockname(door, (void *)&at, &len);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(ends[0], (void *)&at, sizeof at));
    ends[1] = accept(door, NULL, NULL);
    char bytes[300] = "bytes";
    int file = memfd_create("file", 0), pipes[2];
    SHOW(write(file, bytes, sizeof bytes)); SHOW(pipe(pipes));
    // Nobody has asked.
    off_t from = 0;
    SHOW(sendfile(ends[0], file, &from, 10));
    told();
    int flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags));
    SHOW(sendfile(ends[0], file, &from, 100));
    told();
    SHOW(write(pipes[1], bytes, 70)); SHOW(splice(pipes[0], NULL, ends[0], NULL, 70, 0));
    told();
    SHOW(splice(file, &from, pipes[1], NULL, 40, 0)); SHOW(splice(pipes[0], NULL, ends[0], NULL, 40, 0));
    told();
    SHOW(write(ends[0], bytes, 5));
    told();
    // With every stage.
    flags |= SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_ACK;
    SHOW(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags));
    from = 0;
    SHOW(sendfile(ends[0], file, &from, 200));
    told();
    static char got[1024];
    SHOW(recv(ends[1], got, sizeof got, MSG_WAITALL | MSG_DONTWAIT));
    return 0;
}
