// Debug registers: what a tracer has watched, with the processor's help.
// oracle: linux
// build: gcc
// cores: 2
#define _GNU_SOURCE
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <sys/user.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DR(n) offsetof(struct user, u_debugreg[n])
enum { EXECUTED = 0, WRITTEN = 1, PORT = 2, TOUCHED = 3 };
enum { ONE = 0, TWO = 1, EIGHT = 2, FOUR = 3 };

static volatile struct { uint64_t before, word, after; } w __attribute__((aligned(64)));
static volatile long calls;

static long kind(int n, int type, int bytes) { return 1L << (2 * n) | (long)(type | bytes << 2) << (16 + 4 * n); }

static void set(const char *what, pid_t pid, int n, unsigned long value) {
    errno = 0;
    long r = ptrace(PTRACE_POKEUSER, pid, DR(n), value);
    if (what) printf("%s: %ld %s\n", what, r, r ? strerror(errno) : "");
    else if (r) printf("dr%d: %s\n", n, strerror(errno));
}
static unsigned long get(pid_t pid, int n) {
    errno = 0;
    return ptrace(PTRACE_PEEKUSER, pid, DR(n), 0);
}
static int wait_for(pid_t pid) {
    int status = 0;
    if (waitpid(pid, &status, __WALL) != pid) printf("no child: %s\n", strerror(errno));
    return status;
}
static int go(const char *what, int request, pid_t pid, int signal) {
    if (ptrace(request, pid, 0, signal)) printf("%s: cannot go on: %s\n", what, strerror(errno));
    int status = wait_for(pid);
    if (WIFEXITED(status)) { printf("%s: exited %d\n", what, WEXITSTATUS(status)); return status; }
    if (WIFSIGNALED(status)) { printf("%s: killed by %d\n", what, WTERMSIG(status)); return status; }
    siginfo_t info;
    memset(&info, 0, sizeof info);
    ptrace(PTRACE_GETSIGINFO, pid, 0, &info);
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    int trap = WSTOPSIG(status) == SIGTRAP;
    printf("%s: signal %d event %d code %d", what, WSTOPSIG(status), status >> 16, info.si_code);
    if (trap) printf(" dr6 %lx at its address %d", get(pid, 6), (uintptr_t)info.si_addr == regs.rip);
    printf("\n");
    return status;
}
static pid_t traced(void (*child)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        child();
        _exit(0);
    }
    wait_for(pid);
    return pid;
}
static void end(pid_t pid) {
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, __WALL);
}

static void writes(void) {
    w.before = 1;
    w.word = 2;
    w.after = 3;
    uint64_t seen = w.word;
    w.after = seen;
    ((volatile uint8_t *)&w.word)[7] = 9;
    ((volatile uint16_t *)&w.word)[1] = 9;
    raise(SIGUSR1);
}
__attribute__((noinline, noclone)) static void called(void) { calls++; asm volatile("" ::: "memory"); }
static void calls_it(void) {
    for (int i = 0; i < 5; i++) called();
    raise(SIGUSR1);
}
static void by_calls(void) {
    int fd[2];
    pipe(fd);
    write(fd[1], "12345678", 8);
    read(fd[0], (void *)&w.word, 8);
    raise(SIGUSR1);
    w.word = 1;
    raise(SIGUSR2);
}
static void *thread(void *unused) { w.word = 5; return unused; }
static void others(void) {
    pid_t pid = fork();
    if (!pid) { w.word = 3; _exit(w.word == 3 ? 0 : 1); }
    int status;
    waitpid(pid, &status, 0);
    pid_t v = vfork();
    if (!v) { w.word = 4; _exit(5); }
    int vstatus;
    waitpid(v, &vstatus, 0);
    if (status || WEXITSTATUS(vstatus) != 5) _exit(9);
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    raise(SIGUSR1);
    w.word = 6;
    raise(SIGUSR2);
}
static void executes(void) {
    execl("/proc/self/exe", "ptrace_watch", "again", (char *)0);
}
static void handler(int s) { (void)s; w.word = 7; }
static void handles(void) {
    signal(SIGTRAP, handler);
    w.word = 1;
    raise(SIGUSR1);
}
// Hostile: the exception is held back until the kernel is in.
static void holds_back(void) {
    static volatile uint16_t ss;
    for (int i = 0; i < 100; i++) {
        long r = 39;
        asm volatile("mov %%ss, %0" : "=m"(w.word));
        asm volatile("mov %1, %%ss\n syscall" : "+a"(r) : "m"(w.word) : "rcx", "r11", "memory");
        if (r != getpid()) _exit(8);
        asm volatile("mov %0, %%ss\n int3" :: "m"(w.word) : "memory");
        ss++;
    }
    raise(SIGUSR1);
}
// Everything around the stack is watched while calls are made.
static void uses_stack(void) {
    for (int i = 0; i < 200; i++) {
        called();
        getppid();
        char name[64];
        readlink("/proc/self/exe", name, sizeof name);
    }
    raise(SIGUSR1);
}

static void *worker(void *core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((long)core, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < 2000; i++) { w.before++; if (i % 100 == 0) sched_yield(); }
    return 0;
}
static void many(void) {
    pthread_t t[2];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, worker, (void *)i);
    for (int i = 0; i < 50; i++) { w.word = i; sched_yield(); }
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    raise(SIGUSR1);
}

int main(int argc, char **argv) {
    (void)argv;
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 1) { raise(SIGUSR1); w.word = 1; _exit(0); }
    pid_t pid;

    printf("-- what is read at first, and what cannot be set\n");
    pid = traced(writes);
    for (int n = 0; n < 8; n++) printf("dr%d %lx errno %d\n", n, get(pid, n), errno);
    set("dr4", pid, 4, 0);
    set("dr5", pid, 5, 1);
    set("odd", pid, 0, (unsigned long)&w.word + 1);
    set("two bytes at an odd address", pid, 7, kind(0, WRITTEN, TWO));
    printf("dr7 %lx\n", get(pid, 7));
    set("port", pid, 7, kind(1, PORT, ONE));
    set("an instruction of eight bytes", pid, 7, kind(1, EXECUTED, EIGHT));
    set("beyond all", pid, 2, -1UL);
    set("reserved", pid, 7, 0xfc00);
    printf("dr7 %lx\n", get(pid, 7));
    set("both switches", pid, 7, 0x300 | 3 | kind(0, WRITTEN, ONE));
    printf("dr7 %lx dr0 %d\n", get(pid, 7), get(pid, 0) == (unsigned long)&w.word + 1);
    set("dr6", pid, 6, 0);
    printf("dr6 %lx\n", get(pid, 6));
    set("not a word", pid, 0, 0);
    printf("between: %ld", ptrace(PTRACE_POKEUSER, pid, DR(1) + 4, 0));
    printf(" %s\n", strerror(errno));
    end(pid);

    printf("-- written, by size\n");
    for (int bytes = 0; bytes < 4; bytes++) {
        pid = traced(writes);
        set(0, pid, 0, (unsigned long)&w.word);
        set(0, pid, 7, kind(0, WRITTEN, bytes));
        char what[32];
        snprintf(what, sizeof what, "length %d", bytes);
        while (WIFSTOPPED(go(what, PTRACE_CONT, pid, 0)))
            printf("  word %lx\n", ptrace(PTRACE_PEEKDATA, pid, &w.word, 0));
    }

    printf("-- touched, with two breakpoints\n");
    pid = traced(writes);
    set(0, pid, 2, (unsigned long)&w.word);
    set(0, pid, 3, (unsigned long)&w.after);
    set(0, pid, 7, kind(2, TOUCHED, EIGHT) | kind(3, WRITTEN, EIGHT));
    while (WIFSTOPPED(go("touched", PTRACE_CONT, pid, 0))) {}

    printf("-- an instruction\n");
    pid = traced(calls_it);
    set(0, pid, 0, (unsigned long)called);
    set(0, pid, 7, kind(0, EXECUTED, ONE));
    for (int i = 0; i < 3; i++) {
        go("called", PTRACE_CONT, pid, 0);
        printf("  calls %ld\n", ptrace(PTRACE_PEEKDATA, pid, &calls, 0));
    }
    go("a step from there", PTRACE_SINGLESTEP, pid, 0);
    set(0, pid, 7, 0);
    go("not watched any more", PTRACE_CONT, pid, 0);
    go("end", PTRACE_CONT, pid, 0);

    printf("-- steps onto it\n");
    pid = traced(writes);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 7, kind(0, WRITTEN, EIGHT));
    for (int i = 0; i < 3000; i++) {
        ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
        int status = wait_for(pid);
        if (!WIFSTOPPED(status)) { printf("ended\n"); break; }
        if (get(pid, 6) & 0xf) { printf("dr6 %lx\n", get(pid, 6)); break; }
    }
    end(pid);

    printf("-- written by a call\n");
    pid = traced(by_calls);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 7, kind(0, TOUCHED, EIGHT));
    while (WIFSTOPPED(go("call", PTRACE_CONT, pid, 0))) {}

    printf("-- not by children, other threads\n");
    pid = traced(others);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 7, kind(0, WRITTEN, EIGHT));
    int status;
    while (WIFSTOPPED(status = go("others", PTRACE_CONT, pid, 0)))
        if (WSTOPSIG(status) == SIGCHLD) continue;

    printf("-- another program\n");
    pid = traced(executes);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 7, kind(0, WRITTEN, EIGHT));
    go("executed", PTRACE_CONT, pid, 0);
    printf("dr0 %lx dr7 %lx\n", get(pid, 0), get(pid, 7));
    go("its signal", PTRACE_CONT, pid, 0);
    go("its end", PTRACE_CONT, pid, 0);

    printf("-- the signal is handed on\n");
    pid = traced(handles);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 7, kind(0, WRITTEN, EIGHT));
    go("trap", PTRACE_CONT, pid, 0);
    go("in the handler", PTRACE_CONT, pid, SIGTRAP);
    go("usr1", PTRACE_CONT, pid, 0);
    go("end", PTRACE_CONT, pid, 0);

    printf("-- held back\n");
    pid = traced(holds_back);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 7, kind(0, TOUCHED, EIGHT));
    for (;;) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        status = wait_for(pid);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) break;
    }
    printf("ends with %d\n", WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
    end(pid);

    printf("-- the stack\n");
    pid = traced(uses_stack);
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    for (int n = 0; n < 4; n++) set(0, pid, n, (regs.rsp & -8) - 64 + 32 * n);
    set(0, pid, 7, kind(0, TOUCHED, EIGHT) | kind(1, TOUCHED, EIGHT) | kind(2, TOUCHED, EIGHT) | kind(3, TOUCHED, EIGHT));
    for (;;) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        status = wait_for(pid);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) break;
    }
    printf("ends with %d\n", WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
    end(pid);

    printf("-- beside threads on other cores\n");
    pid = traced(many);
    set(0, pid, 0, (unsigned long)&w.word);
    set(0, pid, 1, (unsigned long)&w.before);
    set(0, pid, 7, kind(0, WRITTEN, EIGHT) | kind(1, WRITTEN, EIGHT));
    int hits = 0;
    for (;;) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        status = wait_for(pid);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) break;
        if (get(pid, 6) & 1) hits++;
        if (get(pid, 6) & 2) printf("a thread was watched\n");
    }
    printf("hits %d, ends with %d\n", hits, WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
    end(pid);
    return 0;
}
