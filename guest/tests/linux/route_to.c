// The way to one address, asked for by messages: what is in the answer, and in which order; who is told to have asked; what is refused.
// oracle: linux
// build: gcc
#include "test.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

struct request {
    struct nlmsghdr head;
    struct rtmsg way;
    char more[64];
};

static void add(struct request *r, int kind, const void *value, int len) {
    struct rtattr *a = (void *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));
    a->rta_type = kind, a->rta_len = RTA_LENGTH(len);
    memcpy(RTA_DATA(a), value, len);
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static struct request to(const char *text) {
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    struct request r = { { NLMSG_LENGTH(sizeof r.way), RTM_GETROUTE, NLM_F_REQUEST, 1, 0 }, { .rtm_family = family } };
    unsigned char ip[16];
    inet_pton(family, text, ip);
    r.way.rtm_dst_len = family == AF_INET ? 32 : 128;
    add(&r, RTA_DST, ip, family == AF_INET ? 4 : 16);
    return r;
}

static void attribute(struct rtattr *a, int family) {
    char text[64];
    printf("  %d (%d)", a->rta_type, (int)RTA_PAYLOAD(a));
    switch (a->rta_type) {
    case RTA_DST: case RTA_SRC: case RTA_PREFSRC: printf(" %s", inet_ntop(family, RTA_DATA(a), text, sizeof text)); break;
    case RTA_OIF: case RTA_TABLE: case RTA_UID: case RTA_PRIORITY: printf(" %u", *(unsigned *)RTA_DATA(a)); break;
    case RTA_CACHEINFO: printf(" %d %d", ((struct rta_cacheinfo *)RTA_DATA(a))->rta_clntref > 0, ((struct rta_cacheinfo *)RTA_DATA(a))->rta_error); break;
    case RTA_PREF: printf(" %d", *(unsigned char *)RTA_DATA(a)); break;
    }
    puts("");
}

static void ask(const char *what, struct request *r) {
    char buffer[8192] __attribute__((aligned(4)));
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    send(fd, r, r->head.nlmsg_len, 0);
    int len = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    struct nlmsghdr *h = (void *)buffer;
    printf("-- %s: type %d, all %d\n", what, h->nlmsg_type, len == (int)h->nlmsg_len);
    if (h->nlmsg_type == NLMSG_ERROR) {
        printf("  %s\n", strerror(-((struct nlmsgerr *)NLMSG_DATA(h))->error));
    } else {
        struct rtmsg *m = NLMSG_DATA(h);
        printf("  family %d /%d from /%d tos %d table %d maker %d scope %d kind %d flags %#x\n", m->rtm_family, m->rtm_dst_len, m->rtm_src_len,
               m->rtm_tos, m->rtm_table, m->rtm_protocol, m->rtm_scope, m->rtm_type, m->rtm_flags);
        int left = RTM_PAYLOAD(h);
        for (struct rtattr *a = RTM_RTA(m); RTA_OK(a, left); a = RTA_NEXT(a, left)) attribute(a, m->rtm_family);
    }
    close(fd);
}

// Who overlooks as many bytes at the end as a head is longer than it takes it to be, as nmap does, finds the interface.
static void carelessly(void) {
    struct request r = to("127.0.0.1");
    char buffer[512] __attribute__((aligned(4)));
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), found = 0;
    send(fd, &r, r.head.nlmsg_len, 0);
    int left = recv(fd, buffer, sizeof buffer, 0) - NLMSG_LENGTH(sizeof(struct nlmsghdr));
    for (struct rtattr *a = RTM_RTA(NLMSG_DATA((struct nlmsghdr *)buffer)); RTA_OK(a, left); a = RTA_NEXT(a, left)) found += a->rta_type == RTA_OIF;
    SHOW(found);
    close(fd);
}

int main(void) {
    struct request r = to("127.0.0.1");
    ask("127.0.0.1", &r);
    r = to("127.9.9.9"), ask("127.9.9.9", &r);
    r = to("::1"), ask("::1", &r);
    unsigned uid = 77;
    r = to("127.0.0.1"), add(&r, RTA_UID, &uid, 4), ask("as 77", &r);
    r = to("127.0.0.1"), r.way.rtm_dst_len = 0, ask("no bits", &r);
    r = to("127.0.0.1"), add(&r, RTA_UID, &uid, 2), ask("half a user", &r);
    r = (struct request){ { NLMSG_LENGTH(sizeof r.way), RTM_GETROUTE, NLM_F_REQUEST, 1, 0 }, { .rtm_family = AF_INET } };
    add(&r, RTA_DST, &uid, 2), ask("half an address", &r);
    r.head.nlmsg_len = NLMSG_LENGTH(sizeof r.way), ask("no address", &r);
    carelessly();
    if (!fork()) {
        CHECK(!setgid(12345) && !setuid(12345));
        r = to("127.0.0.1"), ask("by 12345", &r);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
