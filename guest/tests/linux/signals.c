// Handlers, masks, pending signals, the alternative stack, flags of sigaction.
// oracle: linux
#include "test.h"
#include <setjmp.h>

static volatile int count, nested, on_alternative;
static stack_t alternative;
static sigset_t seen_mask;

static void counting(int signal) {
    count++;
    if (nested && count < 3) raise(signal);
}

static void asking(int signal, siginfo_t *info, void *context) {
    (void)context;
    char here;
    uintptr_t base = (uintptr_t)alternative.ss_sp;
    on_alternative = (uintptr_t)&here - base < alternative.ss_size;
    sigprocmask(SIG_BLOCK, NULL, &seen_mask);
    printf("signal %d code %d from itself %d\n", signal, info->si_code, info->si_pid == getpid());
}

static void masks(void) {
    sigset_t set, old, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, counting);
    SHOW(sigprocmask(SIG_BLOCK, &set, &old));
    SHOW(raise(SIGUSR1));
    SHOW(raise(SIGUSR1));
    sigpending(&pending);
    printf("blocked: %d calls, pending %d\n", count, sigismember(&pending, SIGUSR1));
    SHOW(sigprocmask(SIG_SETMASK, &old, NULL));
    printf("unblocked: %d calls\n", count);
    SHOW(sigprocmask(77, &set, NULL));
    sigaddset(&set, SIGKILL);
    sigaddset(&set, SIGSTOP);
    SHOW(sigprocmask(SIG_BLOCK, &set, NULL));
    sigprocmask(SIG_SETMASK, &old, &set);
    printf("KILL and STOP cannot be blocked: %d %d\n", sigismember(&set, SIGKILL),
           sigismember(&set, SIGSTOP));
}

static void flags(void) {
    struct sigaction action = {.sa_handler = counting, .sa_flags = SA_NODEFER}, old;
    SHOW(sigaction(SIGUSR2, &action, NULL));
    count = 0, nested = 1;
    raise(SIGUSR2);
    printf("nested calls: %d\n", count);
    nested = 0;
    action.sa_flags = SA_RESETHAND;
    SHOW(sigaction(SIGUSR2, &action, &old));
    CHECK(old.sa_handler == counting && (old.sa_flags & SA_NODEFER));
    raise(SIGUSR2);
    sigaction(SIGUSR2, NULL, &old);
    CHECK(old.sa_handler == SIG_DFL);
    SHOW(sigaction(SIGKILL, &action, NULL));
    SHOW(sigaction(0, &action, NULL));
    SHOW(sigaction(65, &action, NULL));
}

static void stacks(void) {
    stack_t old;
    alternative = (stack_t){.ss_sp = malloc(65536), .ss_size = 65536};
    SHOW(sigaltstack(&alternative, &old));
    printf("before: flags %d\n", old.ss_flags);
    struct sigaction action = {.sa_sigaction = asking, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    printf("on it: %d, masked: %d %d %d\n", on_alternative, sigismember(&seen_mask, SIGUSR1),
           sigismember(&seen_mask, SIGUSR2), sigismember(&seen_mask, SIGHUP));
    kill(getpid(), SIGUSR2);
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    printf("on it: %d\n", on_alternative);
    stack_t tiny = {.ss_sp = alternative.ss_sp, .ss_size = 100};
    SHOW(sigaltstack(&tiny, NULL));
    stack_t wrong = {.ss_sp = alternative.ss_sp, .ss_size = 65536, .ss_flags = 99};
    SHOW(sigaltstack(&wrong, NULL));
    stack_t none = {.ss_flags = SS_DISABLE};
    SHOW(sigaltstack(&none, NULL));
}

static volatile int alarms;
static void on_alarm(int signal) { (void)signal, alarms++; }

static void interrupted(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    int ends[2];
    pipe(ends);
    char byte;
    alarm(1);
    SHOW(read(ends[0], &byte, 1));
    alarm(1);
    SHOW(pause());
    sigset_t set;
    sigemptyset(&set);
    alarm(1);
    SHOW(sigsuspend(&set));
    SHOW(alarm(0));
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    if (fork() == 0) {
        sleep(2);
        write(ends[1], "x", 1);
        _exit(0);
    }
    alarm(1);
    SHOW(read(ends[0], &byte, 1));
    wait(NULL);
    printf("alarms: %d\n", alarms);
}

int main(void) {
    masks();
    flags();
    stacks();
    interrupted();
    SHOW(kill(getpid(), 0));
    SHOW(kill(getpid(), 65));
    SHOW(kill(999999, 0));
    IN_CHILD("TERM", raise(SIGTERM));
    IN_CHILD("CHLD is ignored", raise(SIGCHLD));
    IN_CHILD("abort", abort());
    sigjmp_buf jump;
    if (sigsetjmp(jump, 1) == 0) siglongjmp(jump, 1);
    puts("end");
    return 0;
}
