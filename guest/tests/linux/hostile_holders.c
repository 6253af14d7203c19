// A user whose processes hold all that they may: 12,000 descriptions each, until no further one can be made. Another user has its
// own share meanwhile, who has few is told nothing, who has more cannot be given what others pass, and when they have ended all is as before.
//
// build: musl
// mem: 512M
// expect-stdout: no further process: EAGAIN\nmany of them: yes\nwith few descriptions one more: yes\nit is given as many as all may have: yes\nanother user makes five: yes\nagain as many: yes\n
#include "test.h"
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { OPEN = 12000, MOST = 200, FEW = 1024 };

static void be(int uid) {
    if (setresuid(uid, uid, uid)) _exit(90);
}

static void open_many(int count) {
    for (int n = 0; n < count; n++)
        if (open("/etc/passwd", O_RDONLY) < 0 && open("/", O_RDONLY) < 0) _exit(91);
}

// Makes processes that have what this one has, until there is an error; they end when the other end of `wait` is closed.
static int fill(int wait, int most, int *error) {
    int made = 0;
    for (; made < most; made++) {
        int pid = fork();
        if (pid < 0) break;
        if (pid == 0) {
            char byte;
            read(wait, &byte, 1);
            _exit(0);
        }
    }
    *error = made < most ? errno : 0;
    return made;
}

enum { AT_ONCE = 50 };
union control {
    char bytes[CMSG_SPACE(AT_ONCE * sizeof(int))];
    struct cmsghdr head;
};

// Receives what another process opens and passes, until something is left out; how many.
static int given(void) {
    int ends[2], all = 0;
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends);
    union control control;
    char byte = 0;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int sender = fork();
    if (sender == 0) {
        int *files = (int *)CMSG_DATA(&control.head);
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int[AT_ONCE])), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        for (;;) {
            for (int n = 0; n < AT_ONCE; n++) files[n] = open("/", O_RDONLY);
            if (sendmsg(ends[0], &message, 0) < 0) _exit(0);
            for (int n = 0; n < AT_ONCE; n++) close(files[n]);
        }
    }
    open_many(FEW - 100);
    do {
        message.msg_controllen = sizeof control;
        if (recvmsg(ends[1], &message, 0) < 0) break;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        if (head) all += (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    } while (!(message.msg_flags & MSG_CTRUNC));
    kill(sender, SIGKILL);
    return all;
}

int main(void) {
    struct rlimit limit = {OPEN + 200, OPEN + 200};
    int wait[2], ask[2], answer[2], made = 0, again = 0, error;
    if (setrlimit(RLIMIT_NOFILE, &limit) || pipe(ask) || pipe(answer)) return 1;
    // Whoever is left is waited for here.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    // Twice, since the second time as many fit if nothing was lost.
    for (int round = 0; round < 2; round++) {
        pipe(wait);
        int first = fork();
        if (first == 0) {
            close(wait[1]);
            be(1000);
            open_many(OPEN);
            int count = fill(wait[0], MOST, &error);
            // What is left of the user's share is filled with smaller ones.
            for (int size = OPEN / 2; size > FEW + 20; size /= 2) {
                syscall(SYS_close_range, answer[1] + size, ~0u, 0);
                int other;
                count += fill(wait[0], MOST, &other);
            }
            write(answer[1], &count, sizeof count);
            write(answer[1], &error, sizeof error);
            // With few of them it has room for one more, that has few; this one is given what there is room for.
            syscall(SYS_close_range, answer[1] + 1, ~0u, 0);
            int few = fork();
            if (few == 0) {
                int got = given();
                if (got < 80 || got > 900) printf("%d are given\n", got);
                _exit(got >= 80 && got <= 900 ? 7 : 8);
            }
            int status = -1;
            waitpid(few, &status, 0);
            write(answer[1], &few, sizeof few);
            write(answer[1], &status, sizeof status);
            char byte;
            read(ask[0], &byte, 1);
            _exit(0);
        }
        int few, status;
        read(answer[0], round ? &again : &made, sizeof made);
        read(answer[0], &error, sizeof error);
        read(answer[0], &few, sizeof few);
        read(answer[0], &status, sizeof status);
        if (round == 0) {
            printf("no further process: %s\n", error == EAGAIN ? "EAGAIN" : strerror(error));
            printf("many of them: %s\n", made >= 20 && made < MOST ? "yes" : "NO");
            printf("with few descriptions one more: %s\n", few > 0 ? "yes" : "NO");
            printf("it is given as many as all may have: %s\n", status == 7 << 8 ? "yes" : "NO");
            int other_user = fork();
            if (other_user == 0) {
                setpgid(0, 0);
                be(1001);
                open_many(5000);
                int other[2];
                pipe(other);
                int five = fill(other[0], 5, &error);
                close(other[1]);
                printf("another user makes five: %s\n", five == 5 ? "yes" : "NO");
                // They have the other end, too.
                kill(0, SIGKILL);
            }
            waitpid(other_user, NULL, 0);
        }
        close(wait[0]), close(wait[1]);
        write(ask[1], "x", 1);
        while (waitpid(-1, NULL, 0) > 0) continue;
    }
    printf("again as many: %s\n", made == again ? "yes" : "NO");
    if (made != again) printf("%d and %d\n", made, again);
    return 0;
}
