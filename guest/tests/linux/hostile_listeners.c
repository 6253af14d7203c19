// Users with listeners for calls (seccomp): requests to be heard by somebody else's, or to decide where there is nothing to decide; more
// listeners than a process may have; one that never decides, with those that wait for it killed on four cores; and one that goes
// while they wait. Afterwards there is as much memory as before.
// build: gcc
// cores: 4
// mem: 512M
// timeout: 300
// expect-stdout: not heard: 38 of 38\nnothing to decide: 9 9 9\nmany: 64, 24\nthose that are gone do not count: yes\nnever decided: 0\nleft alone: 0\nmemory is back: yes\n
#include "spaces.h"
#include "raw.h"
#include "bpf.h"
#include <poll.h>
#include <sys/prctl.h>

enum { OP_HEAR_CALLS = 304, OP_CALL_NOTICE, OP_NOTICE_RECEIVE, OP_NOTICE_ANSWER, OP_NOTICE_VALID, MANY = 20, ROUNDS = 30 };

static int listens(void) {
    struct instruction code[] = {{0x20, 0, 0, 0}, {0x15, 0, 1, SYS_getppid}, {6, 0, 0, 0x7fc00000}, {6, 0, 0, 0x7fff0000}};
    struct program program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, 1, 8, &program);
}

// A call that waits, or one that is refused: what a forged request would have to say.
static const char call[] = "0123456789012345678901234567890123456789012345678901234567890123";

static void not_heard(void) {
    int to[2];
    if (pipe(to)) return;
    pid_t victim = fork();
    if (victim == 0) {
        if (as_user(1001)) _exit(1);
        int fd = listens();
        char byte = fd >= 0;
        if (write(to[1], &byte, 1) != 1) _exit(2);
        struct pollfd one = {fd, POLLIN, 0};
        // Nobody makes such a call here.
        _exit(poll(&one, 1, 2000) != 0);
    }
    char byte = 0;
    if (read(to[0], &byte, 1) != 1 || !byte) return;
    pid_t other = fork();
    if (other == 0) {
        if (as_user(1002)) _exit(99);
        alarm(30);
        // Each number that it may have.
        int refused = 0;
        for (int number = 0; number < 38; number++) refused += REQUEST(OP_CALL_NOTICE, call, number) == ENOSYS;
        _exit(refused);
    }
    int refused = wait_for(other) >> 8;
    int heard = wait_for(victim);
    printf("not heard: %d of %d\n", heard ? -1 : refused, 38);
    close(to[0]), close(to[1]);
}

static void many(void) {
    pid_t child = fork();
    if (child == 0) {
        if (as_user(1001)) _exit(1);
        printf("nothing to decide: %ld %ld %ld\n", REQUEST(OP_NOTICE_RECEIVE, 0, 77777), REQUEST(OP_NOTICE_ANSWER, 0, 77777, 1),
               REQUEST(OP_NOTICE_VALID, 0, 77777, 1));
        int made = 0;
        long error;
        while ((error = REQUEST(OP_HEAR_CALLS, 0, 0)) == 0) made++;
        printf("many: %d, %ld\n", made, error);
        fflush(stdout);
        _exit(0);
    }
    wait_for(child);
    child = fork();
    if (child == 0) {
        if (as_user(1001)) _exit(1);
        for (int n = 0; n < 300; n++) {
            // One filter more each time, of a child; the listener is closed with it.
            pid_t one = fork();
            if (one == 0) _exit(listens() < 0);
            if (wait_for(one)) _exit(2);
        }
        _exit(0);
    }
    printf("those that are gone do not count: %s\n", wait_for(child) ? "no" : "yes");
}

// 0, or what was wrong. With `goes` the listener goes, else those are killed that wait.
static int never_decided(int goes) {
    if (as_user(1001)) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t first = fork();
        if (first == 0) {
            int fd = listens();
            if (fd < 0) _exit(9);
            pid_t pids[MANY];
            for (int n = 0; n < MANY; n++) {
                pids[n] = fork();
                if (pids[n] == 0) {
                    close(fd);
                    // One that nobody decides about.
                    long result = syscall(SYS_getppid);
                    _exit(result == -1 && errno == ENOSYS ? 7 : 8);
                }
            }
            struct pollfd one = {fd, POLLIN, 0};
            if (poll(&one, 1, 5000) != 1) _exit(10);
            usleep(round * 7919 % 3000);
            if (goes) close(fd);
            for (int n = 0; n < MANY; n++) {
                if (!goes) kill(pids[n], SIGKILL);
                int status = wait_for(pids[n]);
                if (status != (goes ? 7 << 8 : SIGKILL)) _exit(11);
            }
            _exit(0);
        }
        int status = wait_for(first);
        if (status) return status >> 8;
    }
    return 0;
}

int main(void) {
    unsigned long before = free_pages();
    not_heard();
    many();
    for (int goes = 0; goes < 2; goes++) {
        pid_t child = fork();
        if (child == 0) _exit(never_decided(goes));
        int status = wait_for(child);
        printf("%s: %d\n", goes ? "left alone" : "never decided", status >> 8);
        fflush(stdout);
    }
    for (int tries = 0; tries < 100 && free_pages() + 2000 < before; tries++) usleep(50000);
    printf("memory is back: %s\n", free_pages() + 2000 >= before ? "yes" : "no");
    return 0;
}
