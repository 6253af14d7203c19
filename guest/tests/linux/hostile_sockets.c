// A hostile user at the sockets of others: who may connect, who may say what of itself, what can be taken away from others, and
// what descriptions that were passed along are good for.
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

static int with(int (*what)(int, const struct sockaddr *, socklen_t), int fd, const char *name) {
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    socklen_t len = offsetof(struct sockaddr_un, sun_path) + strlen(name);
    memcpy(at.sun_path, name, strlen(name));
    if (*name == '@') *at.sun_path = 0;
    else len++;
    return what(fd, (struct sockaddr *)&at, len);
}

static int new_socket(int type) { return socket(AF_UNIX, type, 0); }

static long claim(int fd, pid_t pid, uid_t uid, gid_t gid) {
    struct ucred who = { pid, uid, gid };
    union { struct cmsghdr head; char bytes[CMSG_SPACE(sizeof who)]; } control;
    struct iovec vec = { "me", 2 };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof who) };
    memcpy(CMSG_DATA(&control.head), &who, sizeof who);
    return sendmsg(fd, &message, MSG_DONTWAIT);
}

static long pass(int fd, int what, int flags) {
    union { struct cmsghdr head; char bytes[CMSG_SPACE(sizeof what)]; } control;
    memset(&control, 0, sizeof control);
    struct iovec vec = { "x", 1 };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof what) };
    control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof what) };
    memcpy(CMSG_DATA(&control.head), &what, sizeof what);
    return sendmsg(fd, &message, flags);
}

static int take(int fd) {
    union { struct cmsghdr head; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    char byte;
    struct iovec vec = { &byte, 1 };
    struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    if (recvmsg(fd, &message, 0) < 0 || message.msg_controllen < CMSG_LEN(sizeof(int))) return -1;
    int got;
    memcpy(&got, CMSG_DATA(&control.head), sizeof got);
    return got;
}

static int alive(int server) {
    int client = new_socket(SOCK_STREAM), end, ok = 0;
    char byte = 0;
    if (with(connect, client, "@open") == 0 && (end = accept(server, NULL, NULL)) >= 0) {
        ok = write(client, "y", 1) == 1 && read(end, &byte, 1) == 1 && byte == 'y';
        close(end);
    }
    close(client);
    return ok;
}

static void user(int kept, int tell) {
    int type = SOCK_STREAM, fd = new_socket(type);
    SHOW(with(connect, fd, "closed"));
    SHOW(with(connect, fd, "folder/inside"));
    SHOW(with(bind, fd, "/own"));
    SHOW(with(bind, fd, "@open"));
    SHOW(with(connect, fd, "readable"));
    SHOW(with(connect, fd, "writable"));
    SHOW(chmod("closed", 0777));
    SHOW(unlink("closed"));
    int dgram = new_socket(SOCK_DGRAM);
    SHOW(with(connect, dgram, "@dgram"));
    SHOW(claim(dgram, getpid(), getuid(), getgid()));
    SHOW(claim(dgram, 1, getuid(), getgid()));
    SHOW(claim(dgram, getpid(), 0, getgid()));
    SHOW(claim(dgram, getpid(), getuid(), 0));
    // What it was given of a file is what that was opened for.
    char byte;
    SHOW(pread(kept, &byte, 1, 0));
    SHOW(write(kept, "x", 1));
    SHOW(open("/proc/self/fd/9", O_RDWR) < 0);
    // Sockets that hold each other, and go.
    for (int n = 0; n < 200; n++) {
        int ends[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        if (pass(ends[0], ends[0], 0) < 0 || pass(ends[1], ends[1], 0) < 0) break;
        close(ends[0]), close(ends[1]);
    }
    // As much as it can have: many connections that nobody accepts, many bytes that nobody reads.
    for (int n = 0; n < 300; n++) {
        int one = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        with(connect, one, "@open");
    }
    static char block[65536];
    for (int n = 0; n < 200; n++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends)) break;
        while (write(ends[0], block, sizeof block) > 0);
    }
    fflush(stdout);
    write(tell, "d", 1);
    pause();
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    signal(SIGPIPE, SIG_IGN);
    char folder[] = "/tmp/socketsXXXXXX";
    mkdtemp(folder), chmod(folder, 0755), chdir(folder), umask(0);
    mkdir("folder", 0700);
    int closed = new_socket(SOCK_STREAM), inside = new_socket(SOCK_STREAM), server = new_socket(SOCK_STREAM);
    int readable = new_socket(SOCK_STREAM), writable = new_socket(SOCK_STREAM), dgram = new_socket(SOCK_DGRAM);
    with(bind, closed, "closed"), with(bind, inside, "folder/inside"), with(bind, server, "@open");
    with(bind, readable, "readable"), with(bind, writable, "writable"), with(bind, dgram, "@dgram");
    chmod("closed", 0700), chmod("readable", 0444), chmod("writable", 0722);
    listen(closed, 5), listen(inside, 5), listen(server, 5), listen(readable, 5), listen(writable, 5);
    int file = open("secret", O_RDWR | O_CREAT, 0600), read_only = open("secret", O_RDONLY);
    write(file, "secret", 6);
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pass(ends[0], read_only, 0);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        close(file), close(read_only);
        if (setgid(1234) || setuid(1234)) _exit(1);
        int got = take(ends[1]);
        dup2(got, 9);
        user(9, ends[1]);
    }
    char byte;
    read(ends[0], &byte, 1);
    // Connections that wait are taken first.
    fcntl(server, F_SETFL, O_NONBLOCK);
    for (int end; (end = accept(server, NULL, NULL)) >= 0;) close(end);
    printf("others go on: %d\n", alive(server));
    int own[2];
    SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, own));
    SHOW(write(own[0], "z", 1));
    struct ucred who;
    socklen_t len = sizeof who;
    int end = accept(writable, NULL, NULL);
    getsockopt(end, SOL_SOCKET, SO_PEERCRED, &who, &len);
    printf("it is told who it is: %d %u %u\n", who.pid == child, who.uid, who.gid);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    struct pollfd one = { end, POLLIN, 0 };
    poll(&one, 1, 1000);
    printf("it has gone: %x\n", one.revents);
    printf("still: %d\n", alive(server));
    const char *names[] = { "closed", "folder/inside", "readable", "writable", "secret" };
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++) unlink(names[n]);
    rmdir("folder"), chdir("/"), rmdir(folder);
    return 0;
}
