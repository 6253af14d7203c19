// Filters of system calls: what is refused, what each action does, how filters are inherited, and what a tracer decides.
// build: gcc
// oracle: linux
// cores: 4
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ALLOW SECCOMP_RET_ALLOW
#define LD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define LDK(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define RET(what) BPF_STMT(BPF_RET | BPF_K, what)
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define COUNT(array) (unsigned short)(sizeof(array) / sizeof *(array))

static int set(unsigned flags, struct sock_filter *code, unsigned short len) {
    struct sock_fprog program = {len, code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
// This call becomes this, everything else is allowed.
static int refuse_with(unsigned flags, int call, unsigned what) {
    struct sock_filter code[] = {LD(nr), IF(call, 0, 1), RET(what), RET(ALLOW)};
    return set(flags, code, COUNT(code));
}
static int refuse(int call, unsigned what) { return refuse_with(0, call, what); }

// In a child of its own; its status.
static void in_child(const char *name, void (*what)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        what();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) printf("%s: signal %d\n", name, WTERMSIG(status));
    else printf("%s: exit %d\n", name, WEXITSTATUS(status));
}
static void say(const char *what, long result) {
    if (result == -1) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}
static void statuses(void) {
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) if (!strncmp(line, "Seccomp", 7)) printf("%s", line);
    if (f) fclose(f);
    say("PR_GET_SECCOMP", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
}

static void errors(void) {
    struct sock_filter pass[] = {RET(ALLOW)};
    struct sock_fprog program = {1, pass}, none = {0, pass}, much = {4097, pass}, nowhere = {1, (void *)8};
    say("operation 99", syscall(SYS_seccomp, 99, 0, 0));
    say("strict with flags", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0));
    say("strict with args", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &program));
    say("unknown flag", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, &program));
    say("no program", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0));
    say("bad address", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 8));
    say("empty", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &none));
    say("too long", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &much));
    say("code nowhere", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nowhere));
    unsigned known[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO, SECCOMP_RET_TRACE,
                        SECCOMP_RET_LOG, ALLOW, 0x12340000, SECCOMP_RET_ERRNO | 1};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        printf("%08x ", known[i]);
        say("available", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &known[i]));
    }
    say("available with flags", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 1, known));
    say("available nowhere", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, 8));
    say("PR_SET_SECCOMP 0", prctl(PR_SET_SECCOMP, 0, 0, 0, 0));
    say("PR_SET_SECCOMP 3", prctl(PR_SET_SECCOMP, 3, 0, 0, 0));
    say("PR_SET_SECCOMP 2 nothing", prctl(PR_SET_SECCOMP, 2, 0, 0, 0));
    struct { const char *name; struct sock_filter code[4]; unsigned short len; } bad[] = {
        {"no return", {LD(nr)}, 1},
        {"behind the structure", {LDK(64), RET(0)}, 2},
        {"not a word", {LDK(2), RET(0)}, 2},
        {"half a word", {BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0), RET(0)}, 2},
        {"indirect", {BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), RET(0)}, 2},
        {"remainder", {BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3), RET(0)}, 2},
        {"division by zero", {BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RET(0)}, 2},
        {"division by X", {BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), RET(ALLOW)}, 2},
        {"shift by 32", {BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), RET(0)}, 2},
        {"jump out", {BPF_STMT(BPF_JMP | BPF_JA, 1), RET(0)}, 2},
        {"branch out", {IF(0, 0, 1), RET(0)}, 2},
        {"cell 16", {BPF_STMT(BPF_ST, 16), RET(0)}, 2},
        {"cell not written", {BPF_STMT(BPF_LD | BPF_MEM, 0), RET(0)}, 2},
        {"written on one way", {IF(0, 0, 1), BPF_STMT(BPF_ST, 1), BPF_STMT(BPF_LD | BPF_MEM, 1), RET(0)}, 4},
        {"return X", {BPF_STMT(BPF_RET | BPF_X, 0)}, 1},
        {"nothing leads there", {BPF_STMT(BPF_JMP | BPF_JA, 1), BPF_STMT(BPF_LD | BPF_MEM, 1), RET(ALLOW)}, 3},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (!pid) {
            int r = set(0, bad[i].code, bad[i].len);
            // Who is divided by zero makes no call any more.
            if (r == 0 && i == 7) _exit(0);
            say(bad[i].name, r);
            fflush(stdout);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status)) printf("%s: signal %d\n", bad[i].name, WTERMSIG(status));
    }
}
static void rights(void) {
    struct sock_filter pass[] = {RET(ALLOW)};
    // A uid without capabilities, in a process that may still gain some.
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        if (setresuid(1000, 1000, 1000)) _exit(9);
        say("without rights", set(0, pass, 1));
        say("nonsense without rights", set(0, pass, 0));
        struct sock_fprog nowhere = {1, (void *)8};
        say("nowhere without rights", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nowhere));
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        say("with no new ones", set(0, pass, 1));
        statuses();
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
}

static void error_numbers(void) {
    refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV);
    say("EXDEV", syscall(SYS_getppid));
    refuse(SYS_getpgid, SECCOMP_RET_ERRNO | 0);
    say("no error", syscall(SYS_getpgid, 0));
    refuse(SYS_getsid, SECCOMP_RET_ERRNO | 5000);
    say("too large", syscall(SYS_getsid, 0));
    say("a number that is none, allowed", syscall(999));
    refuse(999, SECCOMP_RET_ERRNO | EDOM);
    say("a number that is none, refused", syscall(999));
    refuse(SYS_getuid, SECCOMP_RET_LOG);
    say("logged", syscall(SYS_getuid) >= 0);
    refuse(SYS_getgid, SECCOMP_RET_TRACE | 7);
    say("no tracer", syscall(SYS_getgid));
    // The strictest counts, and of equals the newest.
    refuse(SYS_getegid, SECCOMP_RET_ERRNO | 11);
    refuse(SYS_getegid, SECCOMP_RET_ERRNO | 12);
    refuse(SYS_getegid, SECCOMP_RET_TRACE);
    refuse(SYS_getegid, SECCOMP_RET_LOG);
    say("strictest", syscall(SYS_getegid));
    statuses();
}
static void arguments(void) {
    // lseek of descriptor 7 is EDOM if its offset is 0x1234567890; the rest is as always.
    struct sock_filter code[] = {
        LD(nr), IF(SYS_lseek, 0, 7), LDK(16), IF(7, 0, 5), LDK(24), IF(0x34567890, 0, 3), LDK(28), IF(0x12, 0, 1),
        RET(SECCOMP_RET_ERRNO | EDOM), RET(ALLOW)};
    say("set", set(0, code, COUNT(code)));
    say("all", syscall(SYS_lseek, 7, 0x1234567890, 0));
    say("upper half differs", syscall(SYS_lseek, 7, 0x1334567890, 0));
    say("lower half differs", syscall(SYS_lseek, 7, 0x1234567891, 0));
    say("descriptor", syscall(SYS_lseek, 8, 0x1234567890, 0));
    // The upper half of a descriptor is looked at by the filter only.
    say("long descriptor", syscall(SYS_lseek, 7 | 1L << 32, 0x1234567890, 0));
    // Calls of this architecture come from this one.
    struct sock_filter arch[] = {LD(arch), IF(AUDIT_ARCH_X86_64, 1, 0), RET(SECCOMP_RET_KILL_PROCESS), RET(ALLOW)};
    say("architecture", set(0, arch, COUNT(arch)));
    // Behind which instruction: only calls from this function.
    extern char behind[];
    uintptr_t at = (uintptr_t)behind;
    struct sock_filter place[] = {LD(nr), IF(SYS_alarm, 0, 5), LDK(8), IF((unsigned)at, 0, 2), LDK(12), IF((unsigned)(at >> 32), 1, 0),
                                  RET(SECCOMP_RET_ERRNO | EXDEV), RET(ALLOW)};
    say("place", set(0, place, COUNT(place)));
    long r;
    __asm__ volatile("syscall\nbehind:" : "=a"(r) : "a"(SYS_alarm), "D"(0) : "rcx", "r11", "memory");
    printf("from there: %ld\n", r);
    say("from elsewhere", syscall(SYS_alarm, 0));
}

static volatile int trapped;
static void on_sys(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    printf("signal %d code %d errno %d call %d arch %x at the call %d rax %lld\n", signal, info->si_code, info->si_errno, info->si_syscall,
           info->si_arch, (long long)(uintptr_t)info->si_call_addr == uc->uc_mcontext.gregs[REG_RIP], uc->uc_mcontext.gregs[REG_RAX]);
    trapped++;
    uc->uc_mcontext.gregs[REG_RAX] = 4711;
}
static void traps(void) {
    struct sigaction action = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    refuse(SYS_getppid, SECCOMP_RET_TRAP | 0x123);
    say("its handler says", syscall(SYS_getppid));
    say("once more", syscall(SYS_getppid));
    printf("%d\n", trapped);
}
static void trap_default(void) {
    refuse(SYS_getppid, SECCOMP_RET_TRAP);
    syscall(SYS_getppid);
    printf("goes on\n");
}
static void trap_blocked(void) {
    struct sigaction action = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    trap_default();
}
static void kill_process(void) {
    refuse(SYS_getppid, SECCOMP_RET_KILL_PROCESS);
    syscall(SYS_getppid);
    printf("goes on\n");
}
static void unknown_action(void) {
    refuse(SYS_getppid, 0x00010000);
    syscall(SYS_getppid);
    printf("goes on\n");
}
static void kill_alone(void) {
    refuse(SYS_getppid, SECCOMP_RET_KILL_THREAD);
    syscall(SYS_getppid);
    printf("goes on\n");
}
static void handler_does_not_help(void) {
    struct sigaction action = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    kill_process();
}

static void *makes_call(void *arg) {
    (void)arg;
    return (void *)(syscall(SYS_getppid) == -1 ? (long)errno : 0L);
}
static void kill_thread(void) {
    refuse(SYS_getppid, SECCOMP_RET_KILL_THREAD);
    pthread_t thread;
    pthread_create(&thread, 0, makes_call, 0);
    // It ends without telling anybody but those who wait for its id.
    struct timespec little = {0, 50000000};
    nanosleep(&little, 0);
    printf("the others go on\n");
    fflush(stdout);
    _exit(7);
}
static void *outlives(void *arg) {
    (void)arg;
    struct timespec little = {0, 50000000};
    nanosleep(&little, 0);
    if (write(1, "outlived\n", 9) != 9) _exit(1);
    syscall(SYS_exit, 3);
    return 0;
}
static void kill_first_thread(void) {
    refuse(SYS_getppid, SECCOMP_RET_KILL_THREAD);
    pthread_t thread;
    fflush(stdout);
    pthread_create(&thread, 0, outlives, 0);
    syscall(SYS_getppid);
}
static void kill_process_of_thread(void) {
    refuse(SYS_getppid, SECCOMP_RET_KILL_PROCESS);
    pthread_t thread;
    pthread_create(&thread, 0, makes_call, 0);
    pthread_join(thread, 0);
    printf("goes on\n");
}

// Threads: a filter is that of who sets it, and of those that it makes; or of all.
static volatile int go, ended;
static volatile pid_t other;
static void *waits(void *arg) {
    other = syscall(SYS_gettid);
    while (!go) sched_yield();
    long r = (long)makes_call(0);
    *(long *)arg = r;
    if (go == 2) refuse(SYS_getpgid, SECCOMP_RET_ERRNO | 1);
    ended = 1;
    while (go != 3) sched_yield();
    return 0;
}
static void threads(void) {
    pthread_t before, after;
    long result = -1;
    pthread_create(&before, 0, waits, &result);
    while (!other) sched_yield();
    refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV);
    go = 1;
    while (!ended) sched_yield();
    printf("made before: %ld\n", result);
    go = 3;
    pthread_join(before, 0);
    void *said;
    pthread_create(&after, 0, makes_call, 0);
    pthread_join(after, &said);
    printf("made after: %ld\n", (long)said);
}
static void all_threads(void) {
    pthread_t before;
    long result = -1;
    pthread_create(&before, 0, waits, &result);
    while (!other) sched_yield();
    say("all threads", refuse_with(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | EXDEV));
    go = 1;
    while (!ended) sched_yield();
    printf("made before: %ld\n", result);
    go = 3;
    pthread_join(before, 0);
}
static void thread_has_another(void) {
    pthread_t before;
    long result = -1;
    pthread_create(&before, 0, waits, &result);
    while (!other) sched_yield();
    go = 2;
    while (!ended) sched_yield();
    long said = refuse_with(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | EXDEV);
    printf("says which: %d\n", said == other);
    say("or not", refuse_with(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, SYS_getppid, SECCOMP_RET_ERRNO | EXDEV));
    say("nothing was set", syscall(SYS_getppid) > 0);
    statuses();
    go = 3;
    pthread_join(before, 0);
}

static void forks(void) {
    refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV);
    refuse(SYS_getpgid, SECCOMP_RET_ERRNO | EDOM);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        say("child", syscall(SYS_getppid));
        refuse(SYS_getsid, SECCOMP_RET_ERRNO | 1);
        statuses();
        fflush(stdout);
        execl("/proc/self/exe", "seccomp", "executed", (char *)0);
        _exit(1);
    }
    waitpid(pid, 0, 0);
    say("parent's own", syscall(SYS_getsid, 0) > 0);
    // A child that shares memory sets a filter for itself.
    pid = vfork();
    if (!pid) {
        refuse(SYS_getsid, SECCOMP_RET_ERRNO | 1);
        execl("/proc/self/exe", "seccomp", "executed", (char *)0);
        _exit(1);
    }
    waitpid(pid, 0, 0);
    say("parent's own", syscall(SYS_getsid, 0) > 0);
    statuses();
}
static void executed(void) {
    say("executed: getppid", syscall(SYS_getppid));
    say("executed: getpgid", syscall(SYS_getpgid, 0));
    say("executed: getsid", syscall(SYS_getsid, 0));
    statuses();
}

static void strict(void) {
    statuses();
    fflush(stdout);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) syscall(SYS_exit, 8);
    if (write(1, "written\n", 8) != 8) syscall(SYS_exit, 9);
    syscall(SYS_exit, 5);
}
static void strict_killed(void) {
    fflush(stdout);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    syscall(SYS_getpid);
    syscall(SYS_exit, 5);
}
static void strict_after_filter(void) {
    refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV);
    say("strict after a filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
}
static void *be_strict(void *arg) {
    (void)arg;
    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0);
    if (write(1, "strict thread\n", 14) != 14) syscall(SYS_exit, 1);
    syscall(SYS_getpid);
    return 0;
}
static void strict_thread(void) {
    pthread_t thread;
    fflush(stdout);
    pthread_create(&thread, 0, be_strict, 0);
    struct timespec little = {0, 50000000};
    nanosleep(&little, 0);
    int fd = open("/dev/null", O_RDONLY);
    printf("the others are not: %d\n", fd >= 0);
    fflush(stdout);
    _exit(6);
}

static void interrupted_handler(int signal) { (void)signal; }
static void interrupted(void) {
    struct sigaction action = {.sa_handler = interrupted_handler};
    sigaction(SIGALRM, &action, 0);
    refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV);
    struct timespec due = {0, 20000000}, long_time = {5, 0};
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec spec = {.it_value = due};
    timer_settime(timer, 0, &spec, 0);
    say("interrupted", nanosleep(&long_time, 0));
    // One that is repeated, and passes the filter a second time.
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    int ends[2];
    char byte;
    if (pipe(ends)) return;
    timer_settime(timer, 0, &spec, 0);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        struct timespec while_ = {0, 100000000};
        nanosleep(&while_, 0);
        _exit(write(ends[1], "x", 1) != 1);
    }
    say("repeated", read(ends[0], &byte, 1));
    waitpid(pid, 0, 0);
}

static void long_chain(void) {
    static struct sock_filter code[4096];
    for (int i = 0; i < 4096; i++) code[i] = (struct sock_filter)RET(ALLOW);
    // How many there can be depends on what they are translated to.
    int n = 0;
    while (set(0, code, 4096) == 0) n++;
    printf("some: %d, then error %d\n", n >= 3 && n < 9, errno);
    while (set(0, code, 1) == 0) n++;
    printf("error %d\n", errno);
    say("calls are made", syscall(SYS_getppid) > 0);
}

// What a tracer decides.
static void tracee(void) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    struct sock_filter code[] = {LD(nr), IF(SYS_getppid, 0, 1), RET(SECCOMP_RET_TRACE | 0x4242), IF(SYS_getpgid, 0, 1),
                                 RET(SECCOMP_RET_ERRNO | EDOM), RET(ALLOW)};
    set(0, code, COUNT(code));
    for (int i = 0; i < 4; i++) {
        long r = syscall(SYS_getppid, 1, 2, 3, 4, 5, 6);
        if (i == 0) printf("tracee: %s\n", r > 0 ? "as it was" : "an error");
        else say("tracee", r);
    }
}
static void traced(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        // Its parent's own calls are not counted in what it says.
        tracee();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP)) say("options", -1);
    for (int n = 0;; n++) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        waitpid(pid, &status, 0);
        if (!WIFSTOPPED(status)) break;
        unsigned long message;
        struct user_regs_struct regs;
        ptrace(PTRACE_GETEVENTMSG, pid, 0, &message);
        ptrace(PTRACE_GETREGS, pid, 0, &regs);
        struct { unsigned char op; unsigned char pad[3]; unsigned arch; uint64_t rip, rsp, nr, args[6]; unsigned data; } info = {0};
        long bytes = ptrace(0x420e, pid, sizeof info, &info);
        printf("stop %x message %lx call %lld rax %lld; info %ld bytes op %d call %d args %d %d data %x\n", status >> 8, message, regs.orig_rax,
               regs.rax, bytes, info.op, (int)info.nr, (int)info.args[0], (int)info.args[5], info.data);
        if (n == 1) regs.orig_rax = -1, regs.rax = 77;
        // Another call, which its filter refuses.
        if (n == 2) regs.orig_rax = SYS_getpgid;
        if (n == 3) regs.orig_rax = SYS_dup, regs.rdi = -1;
        ptrace(PTRACE_SETREGS, pid, 0, &regs);
    }
    printf("status %x\n", status);
}

// What is given up holds for whoever runs after that, too.
static void gives_up(void) {
    struct sock_filter code[] = {LD(nr), IF(SYS_openat, 6, 0), IF(SYS_open, 5, 0), IF(SYS_socket, 4, 0), IF(SYS_socketpair, 3, 0),
                                 IF(SYS_creat, 2, 0), IF(SYS_openat2, 1, 0), RET(ALLOW), RET(SECCOMP_RET_ERRNO | EDOM)};
    int fd = open("/dev/null", O_RDONLY);
    say("set", set(0, code, COUNT(code)));
    say("open", open("/dev/null", O_RDONLY));
    say("socket", socket(AF_UNIX, SOCK_STREAM, 0));
    struct stat st;
    say("stat", stat("/dev/null", &st));
    say("fstat", fstat(fd, &st));
    say("dup", dup(fd) > 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "executed")) return executed(), fflush(stdout), 0;
    statuses();
    in_child("errors", errors);
    rights();
    in_child("error numbers", error_numbers);
    in_child("arguments", arguments);
    in_child("traps", traps);
    in_child("trap without a handler", trap_default);
    in_child("trap that is blocked", trap_blocked);
    in_child("kill process", kill_process);
    in_child("unknown action", unknown_action);
    in_child("kill the only thread", kill_alone);
    in_child("a handler does not help", handler_does_not_help);
    in_child("kill thread", kill_thread);
    in_child("kill first thread", kill_first_thread);
    in_child("kill process of thread", kill_process_of_thread);
    in_child("threads", threads);
    in_child("all threads", all_threads);
    in_child("a thread has another", thread_has_another);
    in_child("forks", forks);
    in_child("strict", strict);
    in_child("strict, killed", strict_killed);
    in_child("strict after a filter", strict_after_filter);
    in_child("strict thread", strict_thread);
    in_child("interrupted", interrupted);
    in_child("long chain", long_chain);
    in_child("gives up", gives_up);
    traced();
    return 0;
}
