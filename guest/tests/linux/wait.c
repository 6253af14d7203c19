// fork, exit and wait: statuses, SIGCHLD, process groups, orphans' statuses.
// oracle: linux
#include "test.h"

static volatile int children, last_code, last_status;
static volatile pid_t last_pid;

static void on_child(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    children++, last_code = info->si_code, last_status = info->si_status, last_pid = info->si_pid;
}

static pid_t child(int status, int delay_ms) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(delay_ms * 1000);
        if (status < 0) kill(getpid(), -status);
        _exit(status);
    }
    return pid;
}

int main(void) {
    int status;
    SHOW(wait(&status));
    IN_CHILD("exit 0", _exit(0));
    IN_CHILD("exit 42", _exit(42));
    IN_CHILD("exit 256 + 3", _exit(259));
    IN_CHILD("KILL", raise(SIGKILL));
    pid_t pid = child(5, 200);
    SHOW(waitpid(pid, &status, WNOHANG));
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("%#x\n", status);
    SHOW(waitpid(pid, &status, 0));
    SHOW(waitpid(getpid(), &status, 0));
    SHOW(waitpid(pid, &status, 0x1000000));

    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    pid = child(9, 0);
    waitpid(pid, &status, 0);
    printf("SIGCHLD: %d, code %d status %d, right pid %d\n", children, last_code, last_status,
           last_pid == pid);
    pid = child(-SIGTERM, 0);
    waitpid(pid, &status, 0);
    printf("SIGCHLD: %d, code %d status %d, right pid %d\n", children, last_code, last_status,
           last_pid == pid);
    signal(SIGCHLD, SIG_DFL);

    pid_t many[20];
    for (int i = 0; i < 20; i++) many[i] = child(i, 0);
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        pid_t one = wait(&status);
        for (int j = 0; j < 20; j++)
            if (many[j] == one) sum += WEXITSTATUS(status) == j;
    }
    printf("right statuses: %d\n", sum);
    SHOW(wait(NULL));

    siginfo_t info = {0};
    pid = child(11, 0);
    SHOW(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
    printf("%d %d %d\n", info.si_signo, info.si_code, info.si_status);
    CHECK(waitpid(pid, &status, 0) == pid);

    pid = child(0, 50);
    CHECK(setpgid(pid, pid) == 0 && getpgid(pid) == pid);
    SHOW(waitpid(-getpgrp(), &status, 0));
    CHECK(waitpid(-pid, &status, 0) == pid);
    SHOW(setpgid(999999, 0));
    CHECK(getppid() > 0 && getsid(0) > 0);
    IN_CHILD("new session", CHECK(setsid() == getpid() && getpgrp() == getpid()));

    signal(SIGCHLD, SIG_IGN);
    child(1, 0);
    SHOW(wait(&status));
    return 0;
}
