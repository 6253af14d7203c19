// Who becomes the parent of orphans, and timer slack.
// oracle: linux
// build: gcc, musl
// cores: 4
#include "test.h"
#include <sys/prctl.h>

static int reaps(void) {
    int value = -1;
    prctl(PR_GET_CHILD_SUBREAPER, &value);
    return value;
}

// A child has a child, and ends before or after that one.
static pid_t orphan(int first, int status) {
    int pipes[2], gate[2];
    pid_t pid;
    pipe(pipes);
    pipe(gate);
    pid_t child = fork();
    if (child == 0) {
        if ((pid = fork()) == 0) {
            char byte;
            close(gate[1]);
            if (!first) read(gate[0], &byte, 1);
            _exit(status);
        }
        write(pipes[1], &pid, sizeof pid);
        // A zombie is left.
        if (first) waitid(P_PID, pid, NULL, WEXITED | WNOWAIT);
        _exit(0);
    }
    read(pipes[0], &pid, sizeof pid);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) close(pipes[i]), close(gate[i]);
    return pid;
}

static volatile int told;
static void on_child(int signal) { told++; }

int main(void) {
    SHOW(reaps());
    SHOW(prctl(PR_SET_CHILD_SUBREAPER, 1));
    SHOW(reaps());
    SHOW(prctl(PR_SET_CHILD_SUBREAPER, 7, 1, 2, 3));
    SHOW(reaps());
    SHOW(prctl(PR_GET_CHILD_SUBREAPER, 8));
    IN_CHILD("of a child", SHOW(reaps()));
    int status;
    for (int first = 0; first < 2; first++) {
        pid_t pid = orphan(first, 5 + first);
        CHECK(waitpid(pid, &status, 0) == pid);
        printf("status %#x\n", status);
    }
    // Its children's children, too; and the nearest one gets them.
    IN_CHILD("a nearer one", prctl(PR_SET_CHILD_SUBREAPER, 1); pid_t pid = orphan(0, 3); CHECK(waitpid(pid, &status, 0) == pid));
    IN_CHILD("one that is none", pid_t pid = orphan(0, 3); CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD));
    CHECK(wait(&status) > 0);
    printf("status %#x\n", status);
    CHECK(wait(&status) == -1 && errno == ECHILD);
    // They are told.
    signal(SIGCHLD, on_child);
    pid_t pid = orphan(0, 9);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR);
    CHECK(told >= 1);
    signal(SIGCHLD, SIG_IGN);
    pid = orphan(0, 9);
    CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);
    SHOW(prctl(PR_SET_CHILD_SUBREAPER, 0));
    pid = orphan(0, 9);
    CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
    SHOW(prctl(PR_GET_TIMERSLACK));
    SHOW(prctl(PR_SET_TIMERSLACK, 1234));
    SHOW(prctl(PR_GET_TIMERSLACK));
    IN_CHILD("slack of a child", SHOW(prctl(PR_GET_TIMERSLACK)); SHOW(prctl(PR_SET_TIMERSLACK, 99));
             SHOW(prctl(PR_SET_TIMERSLACK, 0)); SHOW(prctl(PR_GET_TIMERSLACK)));
    SHOW(prctl(PR_SET_TIMERSLACK, 0));
    SHOW(prctl(PR_GET_TIMERSLACK));
    return 0;
}
