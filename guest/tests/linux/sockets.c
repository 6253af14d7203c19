// Local sockets: streams, datagrams and packets, names in the tree and abstract ones, what is passed along, who is told, what is
// ready, and the errors of each call.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// musl has no names of errors.
static const char *name_of(int number) {
    static const struct { int number; const char *name; } names[] = {
#define N(name) { name, #name }
        N(EADDRINUSE), N(EAGAIN), N(EBADF), N(ECONNREFUSED), N(ECONNRESET), N(EFAULT), N(EINVAL), N(EISCONN), N(EMSGSIZE),
        N(ENOENT), N(ENOTCONN), N(ENOTSOCK), N(EOPNOTSUPP), N(EPERM), N(EPIPE), N(EPROTONOSUPPORT), N(EPROTOTYPE),
        N(ESOCKTNOSUPPORT), N(EAFNOSUPPORT), N(ENOPROTOOPT), N(EDOM), N(ENXIO), N(EACCES), N(ENOTDIR), N(ESPIPE), N(ESRCH),
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) if (names[i].number == number) return names[i].name;
    return "?";
}

static const char *error(long result) {
    static char text[8][40];
    static int next;
    char *to = text[next++ % 8];
    if (result < 0) snprintf(to, 40, "%s", name_of(errno));
    else snprintf(to, 40, "%ld", result);
    return to;
}

static socklen_t address(struct sockaddr_un *to, const char *name) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    if (*name == '@') {
        memcpy(to->sun_path + 1, name + 1, strlen(name) - 1);
        return offsetof(struct sockaddr_un, sun_path) + strlen(name);
    }
    strcpy(to->sun_path, name);
    return offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1;
}

static int bind_to(int fd, const char *name) {
    struct sockaddr_un at;
    socklen_t len = address(&at, name);
    return bind(fd, (struct sockaddr *)&at, len);
}

static int connect_to(int fd, const char *name) {
    struct sockaddr_un at;
    socklen_t len = address(&at, name);
    return connect(fd, (struct sockaddr *)&at, len);
}

static void show_name(const char *what, int fd, int peer) {
    struct sockaddr_un at;
    socklen_t len = sizeof at;
    memset(&at, 'x', sizeof at);
    int result = peer ? getpeername(fd, (struct sockaddr *)&at, &len) : getsockname(fd, (struct sockaddr *)&at, &len);
    if (result) {
        printf("%s: %s\n", what, error(result));
        return;
    }
    char text[200] = "";
    for (unsigned n = 2; n < len; n++) {
        char c = at.sun_path[n - 2];
        sprintf(text + strlen(text), c ? "%c" : "\\0", c);
    }
    printf("%s: family %d length %u '%s'\n", what, at.sun_family, len, text);
}

static int option(int fd, int which) {
    int value = -7;
    socklen_t len = sizeof value;
    if (getsockopt(fd, SOL_SOCKET, which, &value, &len)) return -errno;
    return value;
}

static const char *ready(int fd) {
    static char text[4][16];
    static int next;
    struct pollfd one = { fd, POLLIN | POLLOUT | POLLRDHUP, 0 };
    poll(&one, 1, 0);
    char *to = text[next++ % 4];
    sprintf(to, "%x", one.revents);
    return to;
}

static void calls(void) {
    printf("-- calls\n");
    int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM, 0, 9, SOCK_STREAM | 0x100 };
    for (unsigned n = 0; n < sizeof types / sizeof *types; n++) {
        int fd = socket(AF_UNIX, types[n], 0);
        printf("type %#x: %s", types[n], error(fd < 0 ? fd : 0));
        if (fd >= 0) printf(" type %d domain %d protocol %d", option(fd, SO_TYPE), option(fd, SO_DOMAIN), option(fd, SO_PROTOCOL));
        printf("\n");
        close(fd);
    }
    printf("protocol 1: %s", error(socket(AF_UNIX, SOCK_STREAM, 1) < 0 ? -1 : 0));
    printf(", 2: %s\n", error(socket(AF_UNIX, SOCK_STREAM, 2)));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    printf("flags %d %x\n", fcntl(fd, F_GETFD), fcntl(fd, F_GETFL));
    struct stat st;
    fstat(fd, &st);
    printf("mode %o size %ld\n", st.st_mode, (long)st.st_size);
    printf("lseek %s\n", error(lseek(fd, 0, SEEK_SET)));
    char byte;
    printf("read %s", error(read(fd, &byte, 1)));
    printf(" write %s\n", error(write(fd, "x", 1)));
    printf("listen %s", error(listen(fd, 1)));
    printf(" accept %s", error(accept(fd, NULL, NULL)));
    printf(" shutdown %s", error(shutdown(fd, SHUT_RD)));
    printf(" %s\n", error(shutdown(fd, 7)));
    show_name("name", fd, 0);
    show_name("peer", fd, 1);
    struct sockaddr_un at;
    socklen_t len = address(&at, "x");
    printf("bind lengths:");
    for (int n = 0; n < 4; n++) {
        int one = socket(AF_UNIX, SOCK_STREAM, 0);
        static const int lengths[] = { 0, 1, 111, -1 };
        printf(" %s", error(bind(one, (struct sockaddr *)&at, lengths[n])));
        close(one);
    }
    at.sun_family = AF_INET;
    printf(" family %s", error(bind(fd, (struct sockaddr *)&at, len)));
    printf(" connect %s\n", error(connect(fd, (struct sockaddr *)&at, len)));
    printf("connect nowhere %s", error(connect_to(fd, "nowhere")));
    printf(" %s", error(connect_to(fd, "@nobody")));
    printf(" %s", error(connect_to(fd, "/dev/null")));
    printf(" %s\n", error(connect_to(fd, "/dev/null/x")));
    int file = open("/dev/null", O_RDWR);
    printf("no socket: %s", error(listen(file, 1)));
    printf(" %s", error(accept(file, NULL, NULL)));
    printf(" %s", error(send(file, "x", 1, 0)));
    printf(" %s", error(recv(99, &byte, 1, 0)));
    int value = 1;
    printf(" %s\n", error(setsockopt(file, SOL_SOCKET, SO_PASSCRED, &value, sizeof value)));
    printf("options: %d", option(fd, SO_ACCEPTCONN));
    printf(" %d %d", option(fd, SO_SNDBUF), option(fd, SO_RCVBUF));
    printf(" %d", option(fd, 12345));
    printf(" %s", error(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, 3)));
    printf(" %s", error(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, sizeof value)));
    printf(" %d", option(fd, SO_PASSCRED));
    printf(" %s", error(setsockopt(fd, 77, 1, &value, sizeof value)));
    value = 5000;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value);
    printf(" %d\n", option(fd, SO_SNDBUF));
    close(file);
    close(fd);
}

static void streams(const char *name) {
    printf("-- stream %s\n", name);
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    printf("bind %s", error(bind_to(server, name)));
    printf(" again %s", error(bind_to(server, "other")));
    printf(" another %s\n", error(bind_to(client, name)));
    if (*name != '@') {
        struct stat st;
        stat(name, &st);
        printf("file %o, open %s\n", st.st_mode & ~0777, error(open(name, O_RDWR)));
    }
    printf("connect early %s\n", error(connect_to(client, name)));
    printf("listen %s", error(listen(server, 1)));
    printf(" ready %s\n", ready(server));
    show_name("server", server, 0);
    printf("client %s", ready(client));
    printf(" connect %s", error(connect_to(client, name)));
    printf(" again %s", error(connect_to(client, name)));
    printf(" ready %s %s\n", ready(client), ready(server));
    int second = socket(AF_UNIX, SOCK_STREAM, 0), third = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    printf("second %s", error(connect_to(second, name)));
    printf(" third %s\n", error(connect_to(third, name)));
    struct sockaddr_un from;
    socklen_t len = sizeof from;
    int end = accept4(server, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
    printf("accept %d length %u flags %d %x\n", end >= 0, len, fcntl(end, F_GETFD), fcntl(end, F_GETFL));
    show_name("client", client, 0);
    show_name("client's peer", client, 1);
    show_name("end", end, 0);
    show_name("end's peer", end, 1);
    struct ucred who;
    len = sizeof who;
    getsockopt(end, SOL_SOCKET, SO_PEERCRED, &who, &len);
    printf("peer: own %d uid %u length %u\n", who.pid == getpid(), who.uid - getuid(), len);
    char buffer[64] = "";
    printf("empty: %s", error(recv(client, buffer, 10, 0)));
    printf(" %s", error(recv(end, buffer, 10, MSG_DONTWAIT)));
    printf(" zero %s\n", error(recv(end, buffer, 0, MSG_DONTWAIT)));
    send(client, "hello ", 6, 0);
    write(client, "world", 5);
    int waiting = 0;
    ioctl(end, FIONREAD, &waiting);
    printf("waiting %d ready %s", waiting, ready(end));
    printf(" peek %ld", (long)recv(end, buffer, 3, MSG_PEEK));
    printf(" trunc %ld", (long)recv(end, buffer, 3, MSG_TRUNC));
    printf(" all %ld '%s'\n", (long)recv(end, buffer + 3, 60, 0), buffer);
    printf("sendto %s", error(sendto(client, "x", 1, 0, (struct sockaddr *)&from, 0)));
    len = address(&from, name);
    printf(" %s\n", error(sendto(client, "x", 1, 0, (struct sockaddr *)&from, len)));
    recv(end, buffer, 60, MSG_DONTWAIT);
    // Until it is full.
    char block[4096] = "";
    long sent = 0, got;
    while ((got = send(client, block, sizeof block, 0)) > 0) sent += got;
    printf("full: %s some %d ready %s\n", error(got), sent > 100000, ready(client));
    long received = 0;
    while (received < sent && (got = recv(end, block, sizeof block, 0)) > 0) received += got;
    printf("all of it %d ready %s\n", received == sent, ready(client));
    printf("shutdown %s", error(shutdown(client, SHUT_WR)));
    printf(" ready %s %s", ready(client), ready(end));
    printf(" read %s", error(recv(end, buffer, 9, 0)));
    signal(SIGPIPE, SIG_IGN);
    printf(" write %s back %s\n", error(send(client, "x", 1, 0)), error(send(end, "back", 4, 0)));
    close(end);
    printf("closed: ready %s", ready(client));
    printf(" read %s", error(recv(client, buffer, 9, 0)));
    printf(" then %s\n", error(recv(client, buffer, 9, 0)));
    show_name("client's peer", client, 1);
    end = accept(server, NULL, NULL);
    send(second, "unread", 6, 0);
    close(end);
    printf("reset: ready %s", ready(second));
    printf(" error %d", option(second, SO_ERROR) == ECONNRESET);
    printf(" read %s", error(recv(second, buffer, 9, 0)));
    printf(" write %s\n", error(send(second, "x", 1, MSG_NOSIGNAL)));
    printf("third %s", error(connect_to(third, name)));
    close(server);
    printf(" server gone: read %s", error(recv(third, buffer, 9, 0)));
    int late = socket(AF_UNIX, SOCK_STREAM, 0);
    printf(" late %s\n", error(connect_to(late, name)));
    close(client), close(second), close(third), close(late);
    if (*name != '@') printf("unlink %s\n", error(unlink(name)));
}

static void packets(int type, const char *what) {
    printf("-- %s\n", what);
    int fds[2];
    socketpair(AF_UNIX, type, 0, fds);
    char buffer[64];
    printf("send %s", error(send(fds[0], "first", 5, 0)));
    printf(" %s", error(send(fds[0], "", 0, 0)));
    printf(" %s\n", error(send(fds[0], "second", 6, 0)));
    int waiting = 0;
    ioctl(fds[1], FIONREAD, &waiting);
    struct iovec vec = { buffer, 3 };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1 };
    printf("waiting %d", waiting);
    printf(" recv %s", error(recvmsg(fds[1], &message, 0)));
    printf(" flags %x", message.msg_flags);
    printf(" empty %s", error(recv(fds[1], buffer, 9, 0)));
    printf(" trunc %s", error(recv(fds[1], buffer, 2, MSG_TRUNC)));
    printf(" none %s\n", error(recv(fds[1], buffer, 9, MSG_DONTWAIT)));
    struct mmsghdr many[4];
    char texts[4][8];
    struct iovec vecs[4];
    memset(many, 0, sizeof many);
    for (int n = 0; n < 4; n++) {
        vecs[n] = (struct iovec){ texts[n], 1 + n };
        memset(texts[n], 'a' + n, 8);
        many[n].msg_hdr = (struct msghdr){ .msg_iov = &vecs[n], .msg_iovlen = 1 };
    }
    printf("sendmmsg %s", error(sendmmsg(fds[1], many, 3, 0)));
    for (int n = 0; n < 4; n++) vecs[n].iov_len = 8;
    int got = recvmmsg(fds[0], many, 4, MSG_WAITFORONE, NULL);
    printf(" recvmmsg %d: %u %u %u %c%c%c\n", got, many[0].msg_len, many[1].msg_len, many[2].msg_len, texts[0][0], texts[1][1],
           texts[2][2]);
    printf("too long %s\n", error(send(fds[0], calloc(1, 300000), 300000, 0)));
    printf("ready %s", ready(fds[0]));
    close(fds[1]);
    printf(" closed %s", ready(fds[0]));
    printf(" send %s", error(send(fds[0], "x", 1, MSG_NOSIGNAL)));
    printf(" recv %s\n", error(recv(fds[0], buffer, 9, MSG_DONTWAIT)));
    close(fds[0]);
}

static void datagrams(void) {
    printf("-- names of datagrams\n");
    int server = socket(AF_UNIX, SOCK_DGRAM, 0), client = socket(AF_UNIX, SOCK_DGRAM, 0);
    int stream = socket(AF_UNIX, SOCK_STREAM, 0);
    bind_to(server, "@dgrams");
    struct sockaddr_un to, from;
    socklen_t len = address(&to, "@dgrams"), from_len = sizeof from;
    printf("no target %s", error(send(client, "x", 1, 0)));
    printf(" listen %s", error(listen(server, 1)));
    printf(" accept %s", error(accept(server, NULL, NULL)));
    printf(" stream %s\n", error(connect_to(stream, "@dgrams")));
    sendto(client, "nameless", 8, 0, (struct sockaddr *)&to, len);
    char buffer[32];
    long got = recvfrom(server, buffer, 32, 0, (struct sockaddr *)&from, &from_len);
    printf("nameless %ld length %u\n", got, from_len);
    from.sun_family = AF_UNIX;
    printf("choose a name %s", error(bind(client, (struct sockaddr *)&from, 2)));
    from_len = sizeof from;
    getsockname(client, (struct sockaddr *)&from, &from_len);
    printf(" length %u first %d\n", from_len, from.sun_path[0]);
    sendto(client, "named", 5, 0, (struct sockaddr *)&to, len);
    struct sockaddr_un back;
    socklen_t back_len = sizeof back;
    got = recvfrom(server, buffer, 32, 0, (struct sockaddr *)&back, &back_len);
    printf("named %ld same %d\n", got, back_len == from_len && !memcmp(&back, &from, from_len));
    printf("reply %s", error(sendto(server, "reply", 5, 0, (struct sockaddr *)&back, back_len)));
    printf(" %s\n", error(recv(client, buffer, 32, 0)));
    printf("connect %s", error(connect_to(client, "@dgrams")));
    printf(" send %s", error(send(client, "abc", 3, 0)));
    int other = socket(AF_UNIX, SOCK_DGRAM, 0);
    printf(" to one who is connected %s\n", error(sendto(other, "x", 1, 0, (struct sockaddr *)&back, back_len)));
    int n = 0;
    fcntl(client, F_SETFL, O_NONBLOCK);
    while (send(client, "x", 1, 0) == 1) n++;
    printf("full %s some %d ready %s\n", error(-1), n > 5, ready(client));
    to.sun_family = AF_UNSPEC;
    printf("disconnect %s", error(connect(client, (struct sockaddr *)&to, sizeof to)));
    printf(" send %s\n", error(send(client, "x", 1, 0)));
    connect_to(client, "@dgrams");
    close(server);
    printf("gone: %s", error(send(client, "x", 1, 0)));
    printf(" %s\n", error(send(client, "x", 1, 0)));
    close(client), close(stream), close(other);
}

static long pass(int fd, const char *text, const int *fds, int count) {
    union { struct cmsghdr head; char bytes[CMSG_SPACE(16 * sizeof(int))]; } control;
    memset(&control, 0, sizeof control);
    struct iovec vec = { (void *)text, strlen(text) };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
    return sendmsg(fd, &message, 0);
}

static int take(int fd, char *text, int *fds, int room, int flags, struct ucred *who) {
    union { struct cmsghdr head; char bytes[256]; } control;
    memset(text, 0, 32);
    struct iovec vec = { text, 31 };
    int space = (who ? CMSG_SPACE(sizeof *who) : 0) + (room ? CMSG_LEN(room * sizeof(int)) : 0);
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = space };
    long got = recvmsg(fd, &message, flags);
    int count = 0;
    for (struct cmsghdr *one = got < 0 ? NULL : CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_type == SCM_RIGHTS) {
            count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(one), count * sizeof(int));
        }
        if (one->cmsg_type == SCM_CREDENTIALS && who) memcpy(who, CMSG_DATA(one), sizeof *who);
    }
    printf("[%s '%s' %d along, flags %x]", error(got), text, count, message.msg_flags & ~MSG_CMSG_CLOEXEC);
    return count;
}

static void along(int type) {
    printf("-- passed along by %d\n", type);
    int fds[2], ends[2], got[16], pipes[2];
    char text[32];
    socketpair(AF_UNIX, type, 0, fds);
    pipe(pipes);
    printf("bad %s", error(pass(fds[0], "x", (int[]){ 99 }, 1)));
    printf(" pass %s\n", error(pass(fds[0], "one", (int[]){ pipes[0], pipes[1] }, 2)));
    write(fds[0], "two", 3);
    pass(fds[0], "three", (int[]){ pipes[0], pipes[1], pipes[1] }, 3);
    int count = take(fds[1], text, got, 4, MSG_CMSG_CLOEXEC, NULL);
    printf(" cloexec %d\n", count == 2 && fcntl(got[0], F_GETFD));
    write(got[1], "through", 7);
    printf("it works: %s\n", error(read(pipes[0], text, 32)));
    // What came is the same, and another descriptor.
    close(got[0]), close(got[1]);
    write(pipes[1], "still", 5);
    printf("closed: %s\n", error(read(pipes[0], text, 32)));
    take(fds[1], text, got, 4, MSG_DONTWAIT, NULL);
    take(fds[1], text, got, 2, MSG_DONTWAIT, NULL);
    printf("\n");
    pass(fds[0], "cut", (int[]){ pipes[0], pipes[1], pipes[1] }, 3);
    take(fds[1], text, got, 2, 0, NULL);
    pass(fds[0], "none", (int[]){ pipes[0] }, 1);
    take(fds[1], text, got, 0, 0, NULL);
    printf("\n");
    // A file keeps its offset, whoever has it; and what an eventfd counts.
    int file = open("along", O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(file, "0123456789", 10);
    lseek(file, 4, SEEK_SET);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        take(fds[1], text, got, 2, 0, NULL);
        char byte = 0;
        read(got[0], &byte, 1);
        printf(" read %c\n", byte);
        fflush(stdout);
        _exit(0);
    }
    pass(fds[0], "file", &file, 1);
    waitpid(child, NULL, 0);
    printf("offset %ld\n", (long)lseek(file, 0, SEEK_CUR));
    // It goes on after whoever has sent it has closed it.
    pass(fds[0], "kept", &pipes[1], 1);
    close(pipes[1]);
    take(fds[1], text, &pipes[1], 1, 0, NULL);
    write(pipes[1], "later", 5);
    printf(" later %s\n", error(read(pipes[0], text, 32)));
    // What nobody takes is closed.
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pass(fds[0], "lost", &ends[1], 1);
    close(ends[1]);
    printf("on its way: %s", ready(ends[0]));
    close(fds[1]);
    printf(" lost: %s\n", ready(ends[0]));
    close(fds[0]), close(ends[0]), close(pipes[0]), close(pipes[1]);
    unlink("along");
}

static void users(void) {
    printf("-- who has sent it\n");
    int fds[2], none[4], on = 1;
    char text[32];
    struct ucred who = { 0, 0, 0 };
    socketpair(AF_UNIX, SOCK_DGRAM, 0, fds);
    setsockopt(fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    write(fds[0], "hi", 2);
    take(fds[1], text, none, 0, 0, &who);
    printf(" own %d\n", who.pid == getpid() && who.uid == getuid() && who.gid == getgid());
    union { struct cmsghdr head; char bytes[CMSG_SPACE(sizeof who)]; } control;
    struct iovec vec = { "claim", 5 };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof who) };
    memcpy(CMSG_DATA(&control.head), &who, sizeof who);
    printf("true %s", error(sendmsg(fds[0], &message, 0)));
    take(fds[1], text, none, 0, 0, &who);
    // Who may say that he is somebody else may not say that he is nobody.
    struct ucred nobody = { 0x3fffff, who.uid, who.gid };
    memcpy(CMSG_DATA(&control.head), &nobody, sizeof nobody);
    printf(" nobody %s\n", error(sendmsg(fds[0], &message, 0)));
    memcpy(CMSG_DATA(&control.head), &who, sizeof who);
    control.head.cmsg_len--;
    printf(" short %s\n", error(sendmsg(fds[0], &message, 0)));
    close(fds[0]), close(fds[1]);
}

// Two processes talk, with more than there is room for, and one is killed.
static void two(void) {
    printf("-- two processes\n");
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    bind_to(server, "meeting");
    listen(server, 5);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        connect_to(client, "meeting");
        unsigned char block[7000];
        unsigned long sum = 0;
        for (int n = 0; n < 300; n++) {
            for (unsigned i = 0; i < sizeof block; i++) sum += block[i] = n * 31 + i;
            for (size_t done = 0; done < sizeof block;) done += write(client, block + done, sizeof block - done);
        }
        shutdown(client, SHUT_WR);
        unsigned long other = 0;
        recv(client, &other, sizeof other, MSG_WAITALL);
        printf("sums are equal: %d\n", sum == other);
        fflush(stdout);
        recv(client, &other, sizeof other, 0);
        _exit(0);
    }
    int end = accept(server, NULL, NULL);
    unsigned char block[5000];
    unsigned long sum = 0, bytes = 0;
    for (long got; (got = read(end, block, sizeof block)) > 0; bytes += got) for (long i = 0; i < got; i++) sum += block[i];
    printf("bytes %lu\n", bytes);
    fflush(stdout);
    write(end, &sum, 3);
    write(end, (char *)&sum + 3, sizeof sum - 3);
    // It has printed when it reads again.
    usleep(200000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("killed: ready %s", ready(end));
    printf(" write %s\n", error(send(end, "x", 1, MSG_NOSIGNAL)));
    struct timeval time = { 0, 30000 };
    int fds[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    printf("time-out %s\n", error(read(fds[0], block, 1)));
    close(fds[0]), close(fds[1]), close(end), close(server);
    unlink("meeting");
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    alarm(30);
    calls();
    streams("@tessera-test");
    streams("socket-file");
    packets(SOCK_SEQPACKET, "packets");
    packets(SOCK_DGRAM, "datagrams");
    datagrams();
    along(SOCK_STREAM);
    along(SOCK_DGRAM);
    users();
    two();
    return 0;
}
