// Who has sent a signal: with a value a program says that itself, as on Linux; of a signal that is only sent, `si_pid` and `si_uid` are the
// server's to say, whatever a forged request claims.
//
// build: gcc
// expect-stdout: kill: as it is\ntkill: as it is\nsigqueue: as it was said\nto oneself: as it was said\n
#include "test.h"
#include "raw.h"

// As they are said to be: no byte of them is 0.
#define SAID "\1\1\1\1\2\2\2\2"
enum { SAID_PID = 0x01010101, SAID_UID = 0x02020202 };

static const int signals[] = {SIGUSR1, SIGUSR2, 40};

// Waits for a signal, and says who has sent it.
static siginfo_t told(int signal) {
    sigset_t set = set_of(signal, 0, 0);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (sigwaitinfo(&set, &info) != signal) _exit(9);
    return info;
}

static void said(const char *what, siginfo_t info, pid_t pid) {
    int is_said = info.si_pid == SAID_PID && info.si_uid == SAID_UID;
    int is_so = info.si_pid == pid && info.si_uid == getuid();
    printf("%s: %s\n", what, is_said ? "as it was said" : is_so ? "as it is" : "WRONG");
}

int main(void) {
    sigset_t set = set_of(signals[0], signals[1], signals[2]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t sender = getpid(), pid = fork();
    if (pid == 0) {
        said("kill", told(signals[0]), sender);
        said("tkill", told(signals[1]), sender);
        said("sigqueue", told(signals[2]), sender);
        _exit(0);
    }
    if (REQUEST(OP_KILL, SAID, pid, signals[0], SI_USER, 0)) printf("kill is refused\n");
    if (REQUEST(OP_KILL_THREAD, SAID, pid, pid, signals[1], (long)SI_TKILL, 0)) printf("tkill is refused\n");
    if (REQUEST(OP_KILL, SAID, pid, signals[2], (long)SI_QUEUE, 7)) printf("sigqueue is refused\n");
    int status = -1;
    waitpid(pid, &status, 0);
    if (status) printf("the child: %#x\n", status);
    if (REQUEST(OP_KILL, SAID, getpid(), signals[0], SI_USER, 0)) printf("it is refused\n");
    said("to oneself", told(signals[0]), sender);
    return 0;
}
