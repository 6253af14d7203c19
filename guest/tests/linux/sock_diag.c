// What is told of sockets by NETLINK_SOCK_DIAG: local ones and those of the internet, of all and of one; which states, ports and programs choose; what is refused;
// more sockets than a queue has room for; two requests at once.
// build: gcc
// oracle: linux
// cores: 2
#include "test.h"
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MANY = 3000, ESTABLISHED = 1, CLOSE = 7, LISTEN = 10 };
static int diag;

static unsigned inode(int fd) {
    struct stat stat;
    fstat(fd, &stat);
    return stat.st_ino;
}

static char *attribute(void *from, char *end, int kind, int *len) {
    for (struct nlattr *at = from; (char *)(at + 1) <= end && at->nla_len >= 4; at = (void *)((char *)at + NLA_ALIGN(at->nla_len)))
        if (at->nla_type == kind) {
            *len = at->nla_len - 4;
            return (char *)(at + 1);
        }
    return NULL;
}

static char answers[1 << 16];

// Sends a request; 0, or the errno.
static int ask(int flags, const void *body, int len) {
    struct {
        struct nlmsghdr head;
        char body[512];
    } request = {{NLMSG_LENGTH(len), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | flags, 7, 0}, {0}};
    memcpy(request.body, body, len);
    return send(diag, &request, NLMSG_LENGTH(len), 0) < 0 ? errno : 0;
}

// Calls `each` for all answers. What the end says: 0, or an error, or 1 for one answer that is no part of several.
static int hear(void (*each)(struct nlmsghdr *)) {
    for (;;) {
        int len = recv(diag, answers, sizeof answers, 0);
        if (len < 0) return -errno;
        for (struct nlmsghdr *at = (void *)answers; NLMSG_OK(at, (unsigned)len); at = NLMSG_NEXT(at, len)) {
            if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) return *(int *)NLMSG_DATA(at);
            if (at->nlmsg_seq != 7) printf("number %u\n", at->nlmsg_seq);
            if (each) each(at);
            if (!(at->nlmsg_flags & NLM_F_MULTI)) return 1;
        }
    }
}

static struct {
    unsigned inode;
    const char *name;
} known[16];
static int knows;
static void know(int fd, const char *name) {
    known[knows].inode = inode(fd);
    known[knows++].name = name;
}
static const char *name_of(unsigned inode) {
    for (int i = 0; i < knows; i++)
        if (known[i].inode == inode) return known[i].name;
    return inode ? NULL : "nobody";
}

// In the order of `known`, whatever order they are told in.
static char lines[16][512];
static void show_lines(void) {
    for (int i = 0; i < 16; i++)
        if (lines[i][0]) {
            printf("  %s\n", lines[i]);
            lines[i][0] = 0;
        }
}
static char *line_of(unsigned inode) {
    for (int i = 0; i < knows; i++)
        if (known[i].inode == inode) return lines[i];
    return NULL;
}

static void local(struct nlmsghdr *at) {
    struct unix_diag_msg *msg = NLMSG_DATA(at);
    char *end = (char *)at + at->nlmsg_len, *value, *line = line_of(msg->udiag_ino);
    int len;
    if (!line) return;
    line += sprintf(line, "%s: type %d state %d", name_of(msg->udiag_ino), msg->udiag_type, msg->udiag_state);
    if ((value = attribute(msg + 1, end, UNIX_DIAG_NAME, &len)) != NULL) {
        line += sprintf(line, " name ");
        for (int i = 0; i < len; i++) line += sprintf(line, value[i] ? "%c" : "@", value[i]);
    }
    if ((value = attribute(msg + 1, end, UNIX_DIAG_VFS, &len)) != NULL) {
        struct stat stat = {0};
        stat.st_ino = 0;
        lstat("/tmp/of_file", &stat);
        line += sprintf(line, " file %d", ((struct unix_diag_vfs *)value)->udiag_vfs_ino == stat.st_ino);
    }
    if ((value = attribute(msg + 1, end, UNIX_DIAG_PEER, &len)) != NULL) line += sprintf(line, " peer %s", name_of(*(unsigned *)value));
    if ((value = attribute(msg + 1, end, UNIX_DIAG_ICONS, &len)) != NULL)
        for (int i = 0; i < len / 4; i++) line += sprintf(line, " waits %s", name_of(((unsigned *)value)[i]));
    if ((value = attribute(msg + 1, end, UNIX_DIAG_RQLEN, &len)) != NULL) {
        struct unix_diag_rqlen *queues = (void *)value;
        line += sprintf(line, " unread %u", queues->udiag_rqueue);
        if (msg->udiag_state == LISTEN) line += sprintf(line, " of %u", queues->udiag_wqueue);
    }
    if ((value = attribute(msg + 1, end, UNIX_DIAG_SHUTDOWN, &len)) != NULL) line += sprintf(line, " shut %d", *value);
    if ((value = attribute(msg + 1, end, UNIX_DIAG_UID, &len)) != NULL) line += sprintf(line, " of user %u", *(unsigned *)value);
}

static int named(int fd, const char *name, int len) {
    struct sockaddr_un address = {AF_UNIX, {0}};
    memcpy(address.sun_path, name, len);
    return bind(fd, (void *)&address, 2 + len);
}
static int to_name(int fd, const char *name, int len) {
    struct sockaddr_un address = {AF_UNIX, {0}};
    memcpy(address.sun_path, name, len);
    return connect(fd, (void *)&address, 2 + len);
}

static void locals(void) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), early = socket(AF_UNIX, SOCK_STREAM, 0), late = socket(AF_UNIX, SOCK_STREAM, 0);
    int file = socket(AF_UNIX, SOCK_DGRAM, 0), plain = socket(AF_UNIX, SOCK_SEQPACKET, 0), pair[2], gone[2];
    unlink("/tmp/of_file");
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    socketpair(AF_UNIX, SOCK_STREAM, 0, gone);
    SHOW(named(listener, "\0diag", 5));
    SHOW(named(file, "/tmp/of_file", 12));
    listen(listener, 5);
    to_name(early, "\0diag", 5);
    int accepted = accept(listener, NULL, NULL);
    to_name(late, "\0diag", 5);
    SHOW(write(pair[0], "abc", 3));
    SHOW(write(pair[0], "defgh", 5));
    shutdown(gone[1], SHUT_WR);
    know(listener, "listener"), know(early, "early"), know(late, "late"), know(accepted, "accepted");
    know(file, "file"), know(plain, "plain"), know(pair[0], "first"), know(pair[1], "second"), know(gone[0], "left"), know(gone[1], "half");
    struct unix_diag_req request = {AF_UNIX, 0, 0, -1u, 0, 0x5f, {0, 0}};
    printf("all\n");
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(hear(local));
    show_lines();
    printf("those that listen\n");
    request.udiag_states = 1 << LISTEN;
    request.udiag_show = UDIAG_SHOW_NAME;
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(hear(local));
    show_lines();
    printf("one\n");
    request.udiag_show = UDIAG_SHOW_PEER;
    request.udiag_states = 0;
    request.udiag_ino = inode(pair[0]);
    request.udiag_cookie[0] = request.udiag_cookie[1] = -1u;
    SHOW(ask(0, &request, sizeof request));
    SHOW(hear(local));
    show_lines();
    request.udiag_cookie[0] = 12345678;
    SHOW(ask(0, &request, sizeof request));
    SHOW(hear(local));
    request.udiag_ino = 0;
    SHOW(ask(0, &request, sizeof request));
    SHOW(hear(local));
    request.udiag_ino = 123456789;
    SHOW(ask(0, &request, sizeof request));
    SHOW(hear(local));
    // Who has gone is nobody.
    close(gone[1]);
    request.udiag_ino = inode(gone[0]);
    request.udiag_cookie[0] = -1u;
    SHOW(ask(0, &request, sizeof request));
    SHOW(hear(local));
    show_lines();
    for (int fd = diag + 1; fd < 32; fd++) close(fd);
    unlink("/tmp/of_file");
    knows = 0;
}

static unsigned short port;

static void inet(struct nlmsghdr *at) {
    struct inet_diag_msg *msg = NLMSG_DATA(at);
    char *end = (char *)at + at->nlmsg_len, *value, *line = line_of(msg->idiag_inode), from[64], to[64];
    int len;
    if (!line) return;
    inet_ntop(msg->idiag_family, msg->id.idiag_src, from, sizeof from);
    inet_ntop(msg->idiag_family, msg->id.idiag_dst, to, sizeof to);
    line += sprintf(line, "%s: family %d state %d from %s", name_of(msg->idiag_inode), msg->idiag_family, msg->idiag_state, from);
    if (msg->id.idiag_sport == port) line += sprintf(line, " the port");
    line += sprintf(line, " to %s%s", to, msg->id.idiag_dport == port ? " the port" : msg->id.idiag_dport ? " a port" : "");
    line += sprintf(line, " user %u", msg->idiag_uid);
    if (msg->idiag_state == LISTEN) line += sprintf(line, " waiting %u of %u", msg->idiag_rqueue, msg->idiag_wqueue);
    else if (msg->idiag_state == ESTABLISHED) line += sprintf(line, " unread %d", msg->idiag_rqueue > 0);
    if ((value = attribute(msg + 1, end, INET_DIAG_SHUTDOWN, &len)) != NULL) line += sprintf(line, " shut %d", *value);
    if ((value = attribute(msg + 1, end, INET_DIAG_SKV6ONLY, &len)) != NULL) line += sprintf(line, " v6 only %d", *value);
    if ((value = attribute(msg + 1, end, INET_DIAG_CONG, &len)) != NULL) line += sprintf(line, " control %d", len > 3);
    if ((value = attribute(msg + 1, end, INET_DIAG_INFO, &len)) != NULL) line += sprintf(line, " info %d", value[0]);
    if ((value = attribute(msg + 1, end, INET_DIAG_SKMEMINFO, &len)) != NULL) line += sprintf(line, " memory %d", len);
    if ((value = attribute(msg + 1, end, INET_DIAG_TOS, &len)) != NULL) line += sprintf(line, " tos %d", *value);
}

static struct {
    struct inet_diag_req_v2 about;
    struct nlattr code;
    unsigned char bytes[64];
} wanted;

// All of a protocol in these states, of a family or any.
static void about(const char *what, int family, int protocol, unsigned states, int more) {
    printf("%s\n", what);
    wanted.about = (struct inet_diag_req_v2){.sdiag_family = family, .sdiag_protocol = protocol, .idiag_ext = more, .idiag_states = states};
    SHOW(ask(NLM_F_DUMP, &wanted.about, sizeof wanted.about));
    SHOW(hear(inet));
    show_lines();
}

// The same of those that a program takes.
static void chosen(const char *what, const void *code, int len) {
    printf("%s\n", what);
    wanted.about = (struct inet_diag_req_v2){.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1u};
    wanted.code = (struct nlattr){4 + len, INET_DIAG_REQ_BYTECODE};
    memcpy(wanted.bytes, code, len);
    SHOW(ask(NLM_F_DUMP, &wanted, sizeof wanted.about + 4 + len));
    SHOW(hear(inet));
    show_lines();
}

static void programs(void) {
    struct inet_diag_bc_op is[2] = {{INET_DIAG_BC_S_LE, 8, 12}, {0, 0, ntohs(port)}};
    struct inet_diag_bc_op below[4] = {{INET_DIAG_BC_S_GE, 8, 20}, {0, 0, ntohs(port)}, {INET_DIAG_BC_S_LE, 8, 12}, {0, 0, ntohs(port)}};
    struct {
        struct inet_diag_bc_op op;
        struct inet_diag_hostcond host;
        unsigned address;
    } here = {{INET_DIAG_BC_D_COND, sizeof here, sizeof here + 4}, {.family = AF_INET, .prefix_len = 8, .port = -1}, htonl(0x7f000000)};
    chosen("ports up to ours", is, sizeof is);
    chosen("our port", below, sizeof below);
    chosen("connected to here", &here, sizeof here);
    below[0].no = 12;
    chosen("no leads into the middle", below, sizeof below);
    here.host.prefix_len = 33;
    chosen("too many bits", &here, sizeof here);
    is[0].yes = 4;
    chosen("into the middle", is, sizeof is);
    is[0].yes = 8, is[0].no = 2;
    chosen("not a whole word", is, sizeof is);
    is[0].no = 16;
    chosen("too far", is, sizeof is);
    is[0].code = 99, is[0].no = 12;
    chosen("no such instruction", is, sizeof is);
    chosen("half of one", is, 4);
}

static void internet(void) {
    struct sockaddr_in address = {AF_INET, htons(7431), {htonl(INADDR_LOOPBACK)}, {0}};
    struct sockaddr_in6 any = {AF_INET6, 0, 0, IN6ADDR_ANY_INIT, 0};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), six = socket(AF_INET6, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0), late = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0), far = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    SHOW(bind(listener, (void *)&address, sizeof address));
    getsockname(listener, (void *)&address, &len);
    port = address.sin_port;
    listen(listener, 6);
    SHOW(bind(six, (void *)&any, sizeof any));
    listen(six, 3);
    SHOW(connect(client, (void *)&address, sizeof address));
    int accepted = accept(listener, NULL, NULL);
    SHOW(connect(late, (void *)&address, sizeof address));
    write(client, "hello", 5);
    address.sin_port = 0;
    SHOW(bind(udp, (void *)&address, sizeof address));
    address.sin_port = port;
    SHOW(connect(far, (void *)&address, sizeof address));
    know(listener, "listener"), know(six, "six"), know(client, "client"), know(late, "late"), know(accepted, "accepted"), know(udp, "udp");
    know(far, "far");
    about("all of TCP over IPv4", AF_INET, IPPROTO_TCP, -1u, 0);
    about("all of TCP over IPv6", AF_INET6, IPPROTO_TCP, -1u, 0);
    about("those that listen", AF_INET, IPPROTO_TCP, 1 << LISTEN, 0);
    about("with more", AF_INET, IPPROTO_TCP, 1 << ESTABLISHED, 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1) | 1 << (INET_DIAG_TOS - 1) | 1 << (INET_DIAG_SKMEMINFO - 1));
    about("UDP", AF_INET, IPPROTO_UDP, -1u, 0);
    about("UDP that is connected", AF_INET, IPPROTO_UDP, 1 << ESTABLISHED, 0);
    printf("from a port\n");
    wanted.about = (struct inet_diag_req_v2){.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1u, .id.idiag_dport = port};
    SHOW(ask(NLM_F_DUMP, &wanted.about, sizeof wanted.about));
    SHOW(hear(inet));
    show_lines();
    programs();
    printf("one\n");
    wanted.about = (struct inet_diag_req_v2){.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1u};
    wanted.about.id = (struct inet_diag_sockid){port, 0, {htonl(INADDR_LOOPBACK)}, {0}, 0, {-1u, -1u}};
    SHOW(ask(0, &wanted.about, sizeof wanted.about));
    SHOW(hear(inet));
    show_lines();
    wanted.about.id.idiag_cookie[0] = 5;
    SHOW(ask(0, &wanted.about, sizeof wanted.about));
    SHOW(hear(inet));
    wanted.about.id.idiag_sport = htons(1);
    SHOW(ask(0, &wanted.about, sizeof wanted.about));
    SHOW(hear(inet));
    for (int fd = diag + 1; fd < 32; fd++) close(fd);
    knows = 0;
}

static void refused(void) {
    struct inet_diag_req_v2 request = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1u};
    SHOW(ask(NLM_F_DUMP, &request, 1));
    SHOW(hear(NULL));
    SHOW(ask(NLM_F_DUMP, &request, 8));
    SHOW(hear(NULL));
    request.sdiag_family = 200;
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(hear(NULL));
    request.sdiag_family = 0;
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(hear(NULL));
    request.sdiag_family = AF_INET, request.sdiag_protocol = 200;
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(hear(NULL));
    struct nlmsghdr none = {sizeof none, 21 + 5, NLM_F_REQUEST, 7, 0};
    SHOW(send(diag, &none, sizeof none, 0) == sizeof none);
    SHOW(hear(NULL));
    none = (struct nlmsghdr){sizeof none, NLMSG_NOOP, NLM_F_REQUEST | NLM_F_ACK, 7, 0};
    SHOW(send(diag, &none, sizeof none, 0) == sizeof none);
    SHOW(hear(NULL));
    SHOW(recv(diag, answers, sizeof answers, MSG_DONTWAIT));
    int domain, protocol;
    socklen_t len = sizeof domain;
    getsockopt(diag, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    getsockopt(diag, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);
    SHOW(domain);
    SHOW(protocol);
    SHOW(socket(AF_NETLINK, SOCK_RAW, 23));
    SHOW(socket(AF_NETLINK, SOCK_STREAM, NETLINK_SOCK_DIAG));
}

static int counted;
static void count(struct nlmsghdr *at) {
    struct unix_diag_msg *msg = NLMSG_DATA(at);
    if (msg->udiag_type == SOCK_SEQPACKET) counted++;
}

// More than fits into the queue of a socket.
static void many(void) {
    struct rlimit most = {2 * MANY, 2 * MANY};
    struct unix_diag_req request = {AF_UNIX, 0, 0, -1u, 0, UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_MEMINFO, {0, 0}};
    struct pollfd one = {diag, POLLIN, 0};
    setrlimit(RLIMIT_NOFILE, &most);
    for (int i = 0; i < MANY; i++) socket(AF_UNIX, SOCK_SEQPACKET, 0);
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(poll(&one, 1, 0));
    // Another one is not begun while the first goes on.
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    int said = 0, end = 0;
    while ((end = hear(count)) == -EBUSY) said++;
    SHOW(said);
    SHOW(end);
    SHOW(counted);
    // Now it may be.
    counted = 0;
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(hear(count));
    SHOW(counted);
    // What was not read goes with the socket.
    SHOW(ask(NLM_F_DUMP, &request, sizeof request));
    SHOW(close(diag));
}

int main(void) {
    diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    refused();
    locals();
    internet();
    many();
    return 0;
}
