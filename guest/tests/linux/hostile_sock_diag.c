// Hostile users of NETLINK_SOCK_DIAG beside ten thousand sockets: who asks with a long program that takes none of them, again and again, while another process's
// requests are served; a hundred who ask at once; who never reads, and is killed in the middle; sockets that go meanwhile; another user, and another network
// name space. It all ends twice, and the second time leaves as much memory as the first.
// build: gcc
// cores: 4
// mem: 512M
// timeout: 600
// expect-stdout: others go on: yes\nall at once: 100\nnever read, killed: 20\nwhile they go: yes\nanother user: yes, marks: 1\nanother space: 0\nothers go on: yes\nall at once: 100\nnever read, killed: 20\nwhile they go: yes\nanother user: yes, marks: 1\nanother space: 0\nmemory is back: yes\n
#include "spaces.h"
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { CROWD = 10, EACH = 500, SOCKETS = 2 * CROWD * EACH, STEPS = 255, ASKERS = 100, MUTE = 20, USER = 1001, DUMPS = 3 };

static struct sockaddr_in at = { .sin_family = AF_INET };

static int diag(void) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) exit(2);
    return fd;
}

struct request {
    struct nlmsghdr head;
    struct inet_diag_req_v2 about;
    struct nlattr code;
    struct inet_diag_bc_op steps[2 * STEPS];
};

// A request for all streams that a program takes: so many times the comparison with a port that each fails at its end only.
static void ask(int fd, int steps, int code) {
    static struct request all;
    int bytes = sizeof all.head + sizeof all.about;
    all.about = (struct inet_diag_req_v2){ .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1u };
    for (int i = 0; i < steps; i++) {
        int is_last = i == steps - 1;
        all.steps[2 * i] = (struct inet_diag_bc_op){ is_last ? INET_DIAG_BC_S_LE : INET_DIAG_BC_S_GE, 8, 8 * (steps - i) + 4 };
        all.steps[2 * i + 1] = (struct inet_diag_bc_op){ 0, 0, 0 };
    }
    if (code) {
        all.steps[0] = (struct inet_diag_bc_op){ code, 12, 16 };
        all.steps[1] = all.steps[2] = (struct inet_diag_bc_op){ 0, 0, 0 };
    }
    if (steps || code) {
        int length = code ? 12 : 8 * steps;
        all.code = (struct nlattr){ 4 + length, INET_DIAG_REQ_BYTECODE };
        bytes += 4 + length;
    }
    all.head = (struct nlmsghdr){ bytes, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 7, 0 };
    if (send(fd, &all, bytes, 0) != bytes) exit(3);
}

// How many were told, or the error.
static int hear(int fd) {
    static char answers[1 << 16];
    for (int count = 0;;) {
        int len = recv(fd, answers, sizeof answers, 0);
        if (len < 0) return -errno;
        for (struct nlmsghdr *one = (void *)answers; NLMSG_OK(one, (unsigned)len); one = NLMSG_NEXT(one, len)) {
            if (one->nlmsg_type == NLMSG_DONE) return *(int *)NLMSG_DATA(one) ? *(int *)NLMSG_DATA(one) : count;
            if (one->nlmsg_type == NLMSG_ERROR) return *(int *)NLMSG_DATA(one);
            count++;
        }
    }
}

static int told(int steps, int code) {
    int fd = diag();
    ask(fd, steps, code);
    int count = hear(fd);
    close(fd);
    return count;
}

static int listening(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof at;
    at.sin_port = 0, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (void *)&at, sizeof at) || listen(fd, 64) || getsockname(fd, (void *)&at, &len)) exit(4);
    return fd;
}

static void pair(int door, int ends[2]) {
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], (void *)&at, sizeof at)) exit(5);
    ends[1] = accept(door, NULL, NULL);
    if (ends[1] < 0) exit(6);
}

static pid_t crowd[CROWD];

// Processes that have five hundred connections each, with both ends.
static void gather(void) {
    int word[2];
    char byte;
    if (pipe(word)) exit(7);
    for (int n = 0; n < CROWD; n++) {
        if ((crowd[n] = fork()) != 0) continue;
        struct rlimit many = { 2 * EACH + 100, 2 * EACH + 100 };
        setrlimit(RLIMIT_NOFILE, &many);
        int door = listening(), ends[2];
        for (int i = 0; i < EACH; i++) pair(door, ends);
        if (write(word[1], "r", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(word[1]);
    for (int n = 0; n < CROWD; n++)
        if (read(word[0], &byte, 1) != 1) exit(8);
    close(word[0]);
}

static void scatter(void) {
    for (int n = 0; n < CROWD; n++) kill(crowd[n], SIGKILL), waitpid(crowd[n], NULL, 0);
}

// Requests of this process that are served while another one is told of all sockets a few times, for each time.
static void others(void) {
    int word[2], door = listening(), ends[2];
    char byte = 1;
    pair(door, ends);
    if (pipe2(word, O_NONBLOCK)) exit(9);
    fflush(stdout);
    pid_t asker = fork();
    if (asker == 0) {
        for (int i = 0; i < DUMPS; i++)
            if (told(STEPS, 0) != 0) _exit(1);
        _exit(write(word[1], "d", 1) != 1);
    }
    long served = 0;
    while (read(word[0], &byte, 1) != 1) {
        if (write(ends[0], &byte, 1) != 1 || read(ends[1], &byte, 1) != 1) exit(10);
        served++;
    }
    int status;
    waitpid(asker, &status, 0);
    printf("others go on: %s\n", status == 0 && served > 100 * DUMPS ? "yes" : "NO");
    if (status || served <= 100 * DUMPS) printf("%ld, status %x\n", served, status);
    close(ends[0]), close(ends[1]), close(door), close(word[0]), close(word[1]);
}

static void at_once(void) {
    int right = 0, status;
    fflush(stdout);
    for (int n = 0; n < ASKERS; n++)
        if (fork() == 0) _exit(told(0, 0) < SOCKETS);
    for (int n = 0; n < ASKERS; n++) right += wait(&status) > 0 && status == 0;
    printf("all at once: %d\n", right);
}

// Of each, the first packet stays where it is, and what was asked for ends with it.
static void mute(void) {
    int killed = 0, status;
    pid_t all[MUTE];
    for (int n = 0; n < MUTE; n++)
        if ((all[n] = fork()) == 0) {
            ask(diag(), n % 2 ? STEPS : 0, 0);
            for (;;) pause();
        }
    usleep(100000);
    for (int n = 0; n < MUTE; n++) kill(all[n], SIGKILL), killed += waitpid(all[n], &status, 0) == all[n];
    printf("never read, killed: %d\n", killed);
}

static void while_they_go(void) {
    int fd = diag();
    ask(fd, 0, 0);
    kill(crowd[0], SIGKILL);
    int count = hear(fd);
    waitpid(crowd[0], NULL, 0);
    printf("while they go: %s\n", count >= SOCKETS - 2 * EACH && count <= SOCKETS + CROWD + 10 ? "yes" : "NO");
    close(fd);
}

static void another_user(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (as_user(USER)) _exit(1);
        printf("another user: %s, marks: %d\n", told(0, 0) >= SOCKETS - 2 * EACH ? "yes" : "NO", -told(0, INET_DIAG_BC_MARK_COND));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void another_space(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNET)) _exit(1);
        printf("another space: %d\n", told(0, 0));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void once(void) {
    gather();
    others();
    at_once();
    mute();
    while_they_go();
    another_user();
    another_space();
    scatter();
}

int main(void) {
    once();
    usleep(300000);
    unsigned long before = free_pages();
    once();
    // Pieces of the server's heap that are not whole: 69, 63 and 32 pages after one time, two and three. Of the sockets there are twelve hundred.
    enum { SLACK = 128 };
    for (int tries = 0; tries < 100 && free_pages() + SLACK < before; tries++) usleep(50000);
    unsigned long after = free_pages();
    printf("memory is back: %s\n", after + SLACK >= before ? "yes" : "NO");
    if (after + SLACK < before) printf("%ld pages are missing\n", (long)(before - after));
}
