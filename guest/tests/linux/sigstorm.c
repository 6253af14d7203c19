// Many signals: none is lost between looking and waiting, and nothing else suffers.
// oracle: linux
#include "test.h"
#include <math.h>
#include <setjmp.h>
#include <sys/time.h>

static volatile int turns, ticks, reaped, jumps;

static void turn(int signal) { (void)signal, turns++; }

// Two processes wake each other in turn.
static void ping_pong(int rounds) {
    sigset_t set, open;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &open);
    signal(SIGUSR1, turn);
    pid_t parent = getpid();
    fflush(stdout);
    pid_t child = fork();
    for (int i = 1; i <= rounds; i++) {
        if (child != 0) kill(child, SIGUSR1);
        while (turns < i) sigsuspend(&open);
        if (child == 0) kill(parent, SIGUSR1);
    }
    if (child == 0) _exit(turns == rounds ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    printf("ping %d pong %#x\n", turns, status);
    sigprocmask(SIG_SETMASK, &open, NULL);
}

static char stack[65536];

static void tick(int signal) {
    (void)signal;
    volatile double noise = ticks;
    for (int i = 0; i < 20; i++) noise = sqrt(noise + i);
    ticks++;
}

// Memory, system calls, forks and arithmetic while a timer interrupts.
static void storm(int flags) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART | flags};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 700}, {0, 700}}, off = {0};
    ticks = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    double sum = 0;
    unsigned long check = 0;
    for (int round = 0; round < 30 || ticks < 20; round++) {
        char *at = pages(16, PROT_READ | PROT_WRITE);
        for (int i = 0; i < 16; i++) at[i * PAGE + round % 97] = i + 1;
        for (int i = 0; i < 16; i++) check += at[i * PAGE + round % 97] != i + 1;
        munmap(at, 16 * PAGE);
        double part = 0;
        for (int i = 1; i < 2000; i++) part += 1.0 / i;
        check += fabs(part - 8.1778681036102) > 1e-9;
        sum += part;
        if (getpid() <= 0 || getppid() <= 0) check++;
        if (round % 10 == 0) {
            pid_t pid = fork();
            if (pid == 0) _exit(7);
            int status;
            if (waitpid(pid, &status, 0) != pid || status != 0x700) check++;
        }
    }
    setitimer(ITIMER_REAL, &off, NULL);
    printf("storm: %lu wrong, enough ticks %d\n", check, ticks >= 20 && sum > 0);
}

static void reap(int signal) {
    (void)signal;
    int saved = errno, status;
    while (waitpid(-1, &status, WNOHANG) > 0) reaped += status == 0x300;
    errno = saved;
}

static void children(void) {
    struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    fflush(stdout);
    for (int i = 0; i < 40; i++)
        if (fork() == 0) _exit(3);
    sigset_t set, open;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &open);
    while (reaped < 40) sigsuspend(&open);
    sigprocmask(SIG_SETMASK, &open, NULL);
    printf("reaped %d\n", reaped);
    signal(SIGCHLD, SIG_DFL);
}

static sigjmp_buf back;

static void jump(int signal) {
    (void)signal;
    jumps++;
    siglongjmp(back, 1);
}

static void jumping(int flags) {
    struct sigaction action = {.sa_handler = jump, .sa_flags = flags};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    jumps = 0;
    while (jumps < 300)
        if (sigsetjmp(back, 1) == 0) {
            if (jumps % 2) raise(SIGUSR2);
            *(volatile char *)(uintptr_t)(jumps % 7) = 1;
        }
    printf("jumps %d\n", jumps);
}

// Processes are killed while they do all kinds of things.
static void killing(void) {
    int right = 0;
    fflush(stdout);
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGUSR1, turn);
            for (;;) {
                char *at = pages(4, PROT_READ | PROT_WRITE);
                memset(at, i, 4 * PAGE);
                raise(SIGUSR1);
                munmap(at, 4 * PAGE);
                if (i % 3 == 0) usleep(100);
            }
        }
        usleep(1000 * i);
        int signal = i % 2 ? SIGKILL : SIGTERM, status;
        kill(pid, signal);
        waitpid(pid, &status, 0);
        right += WIFSIGNALED(status) && WTERMSIG(status) == signal;
    }
    printf("killed as wanted: %d\n", right);
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    ping_pong(300);
    storm(0);
    storm(SA_ONSTACK);
    children();
    jumping(0);
    jumping(SA_ONSTACK);
    killing();
    return 0;
}
