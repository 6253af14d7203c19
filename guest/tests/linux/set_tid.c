// clone3 with chosen process ids (set_tid).
// oracle: linux
#include "must.h"
#include <sched.h>
#include <sys/wait.h>

struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static long chosen(uint64_t flags, const void *ids, uint64_t count) {
    struct arguments it = {.flags = flags, .exit_signal = SIGCHLD, .set_tid = (uint64_t)ids, .set_tid_size = count};
    fflush(stdout);
    long pid = syscall(SYS_clone3, &it, sizeof it);
    return pid < 0 ? -errno : pid;
}

#define IDS(...) (pid_t[]){__VA_ARGS__}, sizeof(pid_t[]){__VA_ARGS__} / sizeof(pid_t)

static int end_of(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

// A child that says who it is, if there is one.
static void child(const char *what, uint64_t flags, const pid_t *ids, uint64_t count) {
    long pid = chosen(flags, ids, count);
    if (pid == 0) {
        printf("%s: it is %d\n", what, getpid());
        fflush(stdout);
        _exit(0);
    }
    int status = pid > 0 ? end_of(pid) : 0;
    // The last one that was chosen is that of this name space, unless they are fewer.
    printf("%s: %ld, status %x\n", what, pid < 0 ? pid : count > 0 && pid == ids[count - 1], status);
}

static void inner(void) {
    child("one of its own", 0, IDS(77));
    child("with one outside", 0, IDS(78, 6001));
    child("taken", 0, IDS(1));
    child("taken outside", 0, IDS(79, 1));
    child("too many", 0, IDS(79, 6002, 6003));
    child("the next", 0, NULL, 0);
}

static void refused(void) {
    printf("none: %ld\n", chosen(0, NULL, 1));
    pid_t one = 51;
    printf("no number: %ld %ld\n", chosen(0, &one, 0), chosen(0, &one, 33));
    printf("not there: %ld\n", chosen(0, (void *)8, 1));
    printf("bad ones: %ld %ld %ld\n", chosen(0, IDS(0)), chosen(0, IDS(-1)), chosen(0, IDS(0x7fffffff)));
    printf("a name space too many: %ld\n", chosen(0, IDS(51, 52)));
    printf("not the first: %ld\n", chosen(CLONE_NEWPID, IDS(2)));
    printf("used: %ld %ld\n", chosen(0, IDS(1)), chosen(0, IDS(getpid())));
}

static void user(void) {
    child("a user", 0, IDS(6100));
    child("in a name space", CLONE_NEWUSER | CLONE_NEWPID, IDS(1));
    child("outside of it", CLONE_NEWUSER | CLONE_NEWPID, IDS(1, 6101));
}

int main(void) {
    child("chosen", 0, IDS(4321));
    child("again", 0, IDS(4321));
    long pid = chosen(0, IDS(4322));
    if (pid == 0) _exit(0);
    siginfo_t info;
    waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
    printf("a zombie's: %ld\n", chosen(0, IDS(4322)));
    printf("then: %x\n", end_of(pid));
    child("of who was waited for", 0, IDS(4322));
    child("a vfork", CLONE_VFORK, IDS(4323));
    refused();
    child("the first", CLONE_NEWPID, IDS(1));
    child("the first and outside", CLONE_NEWPID, IDS(1, 5000));
    pid = chosen(CLONE_NEWPID, NULL, 0);
    if (pid == 0) {
        inner();
        _exit(0);
    }
    printf("inner: %x\n", end_of(pid));
    pid = fork();
    if (pid == 0) {
        if (setgid(1000) || setuid(1000)) _exit(1);
        user();
        _exit(0);
    }
    printf("user: %x\n", end_of(pid));
    return 0;
}
