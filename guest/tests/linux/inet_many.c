// Many connections over loopback: a thousand at once with epoll, a backlog that is full, several processes that accept from one
// socket, and a kill in the middle of it, after which everything is free again.
// oracle: linux
// build: gcc, musl
// cores: 4
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 1000, ROUNDS = 3 };

static struct sockaddr_in address = { .sin_family = AF_INET };
static int tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int listener(int backlog) {
    int fd = tcp(), one = 1;
    socklen_t len = sizeof address;
    address.sin_port = 0;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, backlog)) { perror("listener"); exit(1); }
    getsockname(fd, (struct sockaddr *)&address, &len);
    return fd;
}
static int client(void) {
    int fd = tcp();
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) { close(fd); return -1; }
    return fd;
}

// Answers everybody with what it has read, until nobody is left.
static void serve(int door, int clients) {
    int set = epoll_create1(0), gone = 0;
    fcntl(door, F_SETFL, O_NONBLOCK);
    struct epoll_event event = { EPOLLIN, { .fd = door } }, events[64];
    epoll_ctl(set, EPOLL_CTL_ADD, door, &event);
    while (gone < clients) {
        int count = epoll_wait(set, events, 64, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == door) {
                int end;
                while ((end = accept4(door, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    event = (struct epoll_event){ EPOLLIN | EPOLLRDHUP, { .fd = end } };
                    epoll_ctl(set, EPOLL_CTL_ADD, end, &event);
                }
                continue;
            }
            char bytes[256];
            long got = read(fd, bytes, sizeof bytes);
            if (got > 0) got = write(fd, bytes, got);
            else if (got == 0 || errno != EAGAIN) close(fd), gone++;
        }
    }
    _exit(0);
}

static void at_once(void) {
    int door = listener(MANY), status;
    pid_t server = fork();
    if (!server) serve(door, MANY);
    static int fds[MANY];
    int made = 0, right = 0;
    for (int i = 0; i < MANY; i++) made += (fds[i] = client()) >= 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[32], back[32];
        for (int i = 0; i < MANY; i++) write(fds[i], text, sprintf(text, "%d-%d", i, round));
        for (int i = 0; i < MANY; i++) {
            int len = sprintf(text, "%d-%d", i, round);
            right += recv(fds[i], back, len, MSG_WAITALL) == len && !memcmp(text, back, len);
        }
    }
    for (int i = 0; i < MANY; i++) close(fds[i]);
    waitpid(server, &status, 0);
    printf("at once: %d made, %d answers, server %d\n", made, right, status);
    close(door);
}

// A backlog of 2: some wait until others are accepted.
static void narrow(void) {
    int door = listener(2), status, all = 0;
    for (int i = 0; i < 8; i++) {
        if (!fork()) {
            int fd = client();
            char byte;
            _exit(fd < 0 || write(fd, "x", 1) != 1 || read(fd, &byte, 1) != 1);
        }
    }
    usleep(100000);
    for (int i = 0; i < 8; i++) {
        int end = accept(door, NULL, NULL);
        char byte;
        if (read(end, &byte, 1) == 1) all += write(end, &byte, 1);
        close(end);
    }
    int failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    printf("narrow: %d served, %d failed\n", all, failed);
    close(door);
}

// Four accept from one socket; four connect, one after the other; one of those who accept is killed.
static void together(void) {
    int door = listener(64), status;
    pid_t servers[4], clients[4];
    for (int i = 0; i < 4; i++) {
        if ((servers[i] = fork())) continue;
        for (;;) {
            int end = accept(door, NULL, NULL);
            char bytes[64];
            long got;
            while ((got = read(end, bytes, sizeof bytes)) > 0)
                if (write(end, bytes, got) != got) break;
            close(end);
        }
    }
    for (int i = 0; i < 4; i++) {
        if ((clients[i] = fork())) continue;
        int whole = 0;
        for (int n = 0; n < 200; n++) {
            int fd = client();
            char bytes[64];
            // Who is served by the one that is killed is reset, or sees the end.
            if (fd >= 0 && send(fd, "0123456789", 10, MSG_NOSIGNAL) == 10 && recv(fd, bytes, 10, MSG_WAITALL) == 10) whole++;
            close(fd);
        }
        _exit(whole >= 190 ? 0 : 1);
    }
    usleep(30000);
    kill(servers[0], SIGKILL);
    int failed = 0;
    for (int i = 0; i < 4; i++) waitpid(clients[i], &status, 0), failed += status != 0;
    for (int i = 1; i < 4; i++) kill(servers[i], SIGTERM);
    while (wait(&status) > 0);
    close(door);
    // The port is free again.
    int fd = tcp();
    int again = connect(fd, (struct sockaddr *)&address, sizeof address);
    printf("together: %d failed, connect again %d, errno %d\n", failed, again, errno);
    close(fd);
}

// One of both ends is killed while it sends and the other one reads slowly.
static void killed(void) {
    int door = listener(4), status;
    pid_t child = fork();
    static char much[100000];
    if (!child) {
        int fd = client();
        for (;;) if (write(fd, much, sizeof much) < 0) _exit(1);
    }
    int end = accept(door, NULL, NULL);
    long all = 0, got;
    for (int i = 0; i < 5; i++) all += read(end, much, 1000);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    while ((got = read(end, much, sizeof much)) > 0) all += got;
    printf("killed: some came %d, end %ld\n", all > 5000, got);
    close(end), close(door);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rlimit limit = { 4096, 4096 };
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGPIPE, SIG_IGN);
    at_once();
    narrow();
    together();
    killed();
    return 0;
}
