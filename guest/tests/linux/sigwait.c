// Waiting for signals, and calls that signals interrupt: what is restarted and what is not.
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

static volatile int calls;
static void count(int signal) { (void)signal, calls++; }

static void in_ms(int ms) {
    struct itimerval timer = {.it_value = {0, ms * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void catch(int signal, int flags) {
    struct sigaction action = {.sa_handler = count, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

// The bare call: the libraries' functions change results or try again.
static int take(sigset_t *set, siginfo_t *info, struct timespec *time) {
    return syscall(SYS_rt_sigtimedwait, set, info, time, 8);
}

static void taking(void) {
    sigset_t set = set_of(SIGUSR1, SIGRTMIN + 2, 0), old;
    siginfo_t info = {0};
    struct timespec none = {0, 0}, some = {0, 30000000}, bad = {0, -1};
    sigprocmask(SIG_BLOCK, &set, &old);
    SHOW(take(&set, &info, &none));
    SHOW(take(&set, &info, &some));
    SHOW(take(&set, &info, &bad));
    union sigval value = {.sival_ptr = (void *)0x123456789abc};
    SHOW(sigqueue(getpid(), SIGRTMIN + 2, value));
    raise(SIGUSR1);
    SHOW(take(&set, &info, &some));
    CHECK(info.si_signo == SIGUSR1 && info.si_code == SI_TKILL && info.si_pid == getpid());
    CHECK(take(&set, &info, &some) == SIGRTMIN + 2);
    CHECK(info.si_code == SI_QUEUE && info.si_value.sival_ptr == value.sival_ptr);
    // What is for the thread comes first, whatever its number.
    kill(getpid(), SIGUSR1);
    syscall(SYS_tkill, getpid(), SIGRTMIN + 2);
    CHECK(take(&set, &info, &some) == SIGRTMIN + 2);
    CHECK(take(&set, &info, &some) == SIGUSR1);
    fflush(stdout);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        usleep(30000);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    int signal = 0;
    SHOW(sigwait(&set, &signal));
    printf("waited for %d\n", signal);
    waitpid(pid, NULL, 0);
    catch(SIGALRM, SA_RESTART);
    in_ms(30);
    SHOW(take(&set, &info, NULL));
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void suspending(void) {
    sigset_t blocked = set_of(SIGUSR1, SIGALRM, 0), old, now, empty = set_of(0, 0, 0);
    catch(SIGUSR1, SA_RESTART);
    sigprocmask(SIG_BLOCK, &blocked, &old);
    calls = 0;
    raise(SIGUSR1);
    SHOW(sigsuspend(&empty));
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("calls %d, blocked again %d\n", calls, sigismember(&now, SIGUSR1));
    raise(SIGUSR1);
    struct timespec some = {3, 0};
    SHOW(ppoll(NULL, 0, &some, &empty));
    printf("calls %d\n", calls);
    raise(SIGUSR1);
    SHOW(pselect(0, NULL, NULL, NULL, &some, &empty));
    struct timespec soon = {0, 1000000};
    SHOW(ppoll(NULL, 0, &soon, &blocked));
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("calls %d, blocked again %d\n", calls, sigismember(&now, SIGUSR1));
    sigprocmask(SIG_SETMASK, &old, NULL);
}

// Every kind of waiting, with a handler that restarts and one that does not.
static void interrupting(int flags) {
    int ends[2], status;
    char byte;
    printf("restart %d\n", flags == SA_RESTART);
    catch(SIGALRM, flags);
    pipe(ends);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(400000);
        write(ends[1], "x", 1);
        usleep(400000);
        _exit(5);
    }
    in_ms(30);
    SHOW(read(ends[0], &byte, 1));
    if (!(flags & SA_RESTART)) SHOW(read(ends[0], &byte, 1));
    in_ms(30);
    CHECK(waitpid(pid, &status, 0) == (flags & SA_RESTART ? pid : -1));
    waitpid(pid, &status, 0);
    struct timespec time = {3, 0}, left = {9, 9};
    in_ms(30);
    SHOW(nanosleep(&time, &left));
    CHECK(left.tv_sec < 3 && left.tv_nsec >= 0);
    struct pollfd poll_end = {.fd = ends[0], .events = POLLIN};
    in_ms(30);
    SHOW(poll(&poll_end, 1, 3000));
    in_ms(30);
    SHOW(pause());
    char big[4096];
    memset(big, 1, sizeof big);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], big, sizeof big) > 0) {}
    fcntl(ends[1], F_SETFL, 0);
    in_ms(30);
    if (!(flags & SA_RESTART)) SHOW(write(ends[1], big, sizeof big));
    in_ms(0);
    close(ends[0]), close(ends[1]);
}

// A signal that does nothing does not interrupt.
static void undisturbed(void) {
    signal(SIGWINCH, SIG_DFL);
    signal(SIGUSR2, SIG_IGN);
    pid_t parent = getpid();
    fflush(stdout);
    int ends[2];
    char byte;
    pipe(ends);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(30000);
        kill(parent, SIGWINCH);
        kill(parent, SIGUSR2);
        usleep(30000);
        write(ends[1], "x", 1);
        _exit(0);
    }
    SHOW(read(ends[0], &byte, 1));
    waitpid(pid, NULL, 0);
}

static void stopping(void) {
    int status, ends[2];
    char byte;
    fflush(stdout);
    pipe(ends);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        raise(SIGSTOP);
        // It must be seen to go on before it stops again.
        read(ends[0], &byte, 1);
        raise(SIGTSTP);
        _exit(4);
    }
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    printf("%#x\n", status);
    SHOW(waitpid(pid, &status, WUNTRACED | WNOHANG));
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, &status, WUNTRACED | WCONTINUED) == pid);
    printf("%#x\n", status);
    write(ends[1], "x", 1);
    close(ends[0]);
    close(ends[1]);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    printf("%#x\n", status);
    kill(pid, SIGTERM);
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("%#x\n", status);
}

// A process group without anybody to continue it is stopped by SIGSTOP only.
static void orphaned(void) {
    sigset_t set = set_of(SIGTTIN, 0, 0), old;
    IN_CHILD("orphaned", {
        setsid();
        raise(SIGTSTP);
        sigprocmask(SIG_BLOCK, &set, &old);
        raise(SIGTTIN);
        sigprocmask(SIG_SETMASK, &old, NULL);
        _exit(6);
    });
}

static void zombies(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_NOCLDWAIT | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    calls = 0;
    IN_CHILD("no zombie", _exit(1));
    SHOW(wait(NULL));
    printf("told of it: %d\n", calls);
    signal(SIGCHLD, SIG_DFL);
}

// What a thread waits for without blocking it does what it does by default.
static void unblocked(void) {
    sigset_t set = set_of(SIGUSR1, SIGCHLD, 0);
    struct timespec long_enough = {3, 0};
    sigset_t none = set_of(0, 0, 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGUSR1, SIG_DFL), signal(SIGCHLD, SIG_DFL);
    IN_CHILD("killed", {
        if (fork() == 0) {
            usleep(30000);
            kill(getppid(), SIGUSR1);
            _exit(0);
        }
        SHOW(take(&set, NULL, &long_enough));
    });
    IN_CHILD("ignored", {
        struct timespec some = {0, 100000000};
        signal(SIGUSR1, SIG_IGN);
        if (fork() == 0) {
            usleep(30000);
            kill(getppid(), SIGUSR1);
            _exit(0);
        }
        // Nor is it told of its child's end.
        SHOW(take(&set, NULL, &some));
    });
    IN_CHILD("caught", {
        calls = 0;
        catch(SIGUSR1, 0);
        if (fork() == 0) {
            usleep(30000);
            kill(getppid(), SIGUSR1);
            _exit(0);
        }
        CHECK(take(&set, NULL, &long_enough) == SIGUSR1);
        printf("calls %d\n", calls);
    });
}

int main(int argc, char **argv) {
    if (argc > 1) {
        struct sigaction now;
        sigset_t mask;
        sigaction(SIGUSR1, NULL, &now);
        printf("USR1 default %d\n", now.sa_handler == SIG_DFL);
        sigaction(SIGUSR2, NULL, &now);
        printf("USR2 ignored %d\n", now.sa_handler == SIG_IGN);
        sigprocmask(SIG_BLOCK, NULL, &mask);
        printf("HUP blocked %d\n", sigismember(&mask, SIGHUP));
        sigpending(&mask);
        printf("HUP pending %d\n", sigismember(&mask, SIGHUP));
        return 0;
    }
    taking();
    suspending();
    interrupting(0);
    interrupting(SA_RESTART);
    undisturbed();
    stopping();
    orphaned();
    IN_CHILD("unblocked", unblocked());
    zombies();
    sigset_t set = set_of(SIGHUP, 0, 0);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGHUP);
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "again", NULL);
    return 1;
}
