// Signals that wait for a thread that is traced, told without being taken (PTRACE_PEEKSIGINFO): its own and those of its process, from a place on, more than one
// packet; what is refused. And what /proc says of one that has stopped for its tracer.
// build: gcc
// oracle: linux
#include "test.h"
#include <sys/ptrace.h>

enum { MANY = 400 };
static siginfo_t infos[MANY + 10];

static long peek(pid_t child, uint64_t first, unsigned flags, int count, void *to) {
    struct __ptrace_peeksiginfo_args which = {first, flags, count};
    return ptrace(PTRACE_PEEKSIGINFO, child, &which, to);
}

static void show(pid_t child, const char *what, uint64_t first, unsigned flags, int count) {
    memset(infos, 0, sizeof infos);
    errno = 0;
    long got = peek(child, first, flags, count, infos);
    printf("%s: %ld", what, got);
    if (got < 0) printf(", errno %d", errno);
    printf("\n");
    for (long i = 0; i < got && i < 8; i++)
        printf("  signal %d code %d value %d from the child %d\n", infos[i].si_signo, infos[i].si_code, infos[i].si_code == SI_QUEUE ? infos[i].si_value.sival_int : 0,
               infos[i].si_pid == child);
}

static void status(pid_t child) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", child);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        int tracer;
        if (strncmp(line, "State:", 6) == 0) printf("%s", line);
        if (sscanf(line, "TracerPid: %d", &tracer) == 1) printf("traced by this one %d, by nobody %d\n", tracer == getpid(), tracer == 0);
    }
    if (file) fclose(file);
}

static void child_does(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    syscall(SYS_tgkill, getpid(), getpid(), SIGUSR2);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    for (int i = 0; i < MANY; i++) sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 100 + i});
    raise(SIGSTOP);
    // Nothing was taken.
    sigset_t one = set_of(SIGRTMIN, 0, 0);
    siginfo_t info;
    int sum = 0;
    while (sigtimedwait(&one, &info, &(struct timespec){0, 0}) > 0) sum = sum * 10 + info.si_value.sival_int;
    _exit(sum == 123 ? 7 : 8);
}

int main(void) {
    int how;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) child_does();
    waitpid(child, &how, 0);
    SHOW(WIFSTOPPED(how) && WSTOPSIG(how) == SIGSTOP);
    status(child);
    show(child, "its own", 0, 0, 10);
    show(child, "of its process", 0, PTRACE_PEEKSIGINFO_SHARED, 6);
    show(child, "from the second on", 1, PTRACE_PEEKSIGINFO_SHARED, 2);
    show(child, "behind all", 1 + 3 + MANY, PTRACE_PEEKSIGINFO_SHARED, 2);
    show(child, "far behind", -1ull, PTRACE_PEEKSIGINFO_SHARED, 2);
    show(child, "none", 0, PTRACE_PEEKSIGINFO_SHARED, 0);
    show(child, "other flags", 0, 2, 1);
    show(child, "less than none", 0, 0, -1);
    SHOW(peek(child, 4, PTRACE_PEEKSIGINFO_SHARED, MANY + 10, infos));
    SHOW(infos[0].si_value.sival_int);
    SHOW(infos[MANY - 1].si_value.sival_int);
    SHOW(infos[MANY].si_signo);
    SHOW(ptrace(PTRACE_PEEKSIGINFO, child, 8, infos));
    SHOW(peek(child, 0, PTRACE_PEEKSIGINFO_SHARED, 1, (void *)8));
    char *last = pages(2, PROT_READ | PROT_WRITE);
    munmap(last + PAGE, PAGE);
    SHOW(peek(child, 0, PTRACE_PEEKSIGINFO_SHARED, 20, last + PAGE - 3 * sizeof(siginfo_t)));
    SHOW(((siginfo_t *)(last + PAGE))[-1].si_value.sival_int);
    SHOW(peek(getppid(), 0, 0, 1, infos));
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &how, 0);
    SHOW(WIFEXITED(how) ? WEXITSTATUS(how) : -1);
    return 0;
}
