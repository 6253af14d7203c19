// `ptrace` of a child: stops, memory, registers, system calls, single steps.
// oracle: linux
// build: gcc
#define _GNU_SOURCE
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <sys/user.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <linux/ptrace.h>
#include <linux/elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <stddef.h>

static void say_status(const char *what, int status) {
    if (WIFSTOPPED(status)) printf("%s: stopped %d event %d\n", what, WSTOPSIG(status), status >> 16);
    else if (WIFEXITED(status)) printf("%s: exited %d\n", what, WEXITSTATUS(status));
    else if (WIFSIGNALED(status)) printf("%s: killed %d\n", what, WTERMSIG(status));
    else printf("%s: %x\n", what, status);
    fflush(stdout);
}
static int w(const char *what, pid_t pid) {
    int st = 0; pid_t r = waitpid(pid, &st, __WALL);
    if (r != pid) { printf("%s: waitpid %d errno %d\n", what, r, errno); fflush(stdout); return -1; }
    say_status(what, st); return st;
}
volatile long word = 0x1122334455667788;
const long constant = 42;
static volatile int got;
static void handler(int s) { got = s; }

static long sc(long n) { long r; asm volatile("syscall" : "=a"(r) : "a"(n) : "rcx","r11","memory"); return r; }

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    /* 1: TRACEME, signal stops, peek, poke, registers */
    pid_t pid = fork();
    if (!pid) {
        signal(SIGUSR1, handler);
        printf("traceme %ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
        long v = ptrace(PTRACE_TRACEME, 0, 0, 0); printf("again %ld %d\n", v, errno);
        raise(SIGSTOP);
        printf("child: word %lx constant %ld\n", word, *(volatile const long *)&constant);
        raise(SIGUSR1);
        printf("child: got %d\n", got);
        got = 0; raise(SIGUSR1);
        printf("child: got %d\n", got);
        got = 0; raise(SIGTERM);
        printf("child: got %d\n", got);
        _exit(7);
    }
    w("first", pid);
    errno = 0;
    long v = ptrace(PTRACE_PEEKDATA, pid, &word, 0);
    printf("peek %lx %d\n", v, errno);
    printf("poke %ld\n", ptrace(PTRACE_POKEDATA, pid, &word, 0x99L));
    printf("poke constant %ld\n", ptrace(PTRACE_POKETEXT, pid, &constant, 43L));
    errno = 0; v = ptrace(PTRACE_PEEKDATA, pid, 8, 0); printf("peek bad %ld %d\n", v, errno);
    v = ptrace(PTRACE_POKEDATA, pid, 8, 1L); printf("poke bad %ld %d\n", v, errno);
    struct user_regs_struct r;
    printf("regs %ld\n", ptrace(PTRACE_GETREGS, pid, 0, &r));
    printf("cs %llx ss %llx orig %lld rax %lld\n", r.cs, r.ss, r.orig_rax, r.rax);
    errno = 0; v = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), 0); printf("rip equal %d\n", (unsigned long)v == r.rip);
    errno = 0; v = ptrace(PTRACE_PEEKUSER, pid, 3, 0); printf("peekuser bad %ld %d\n", v, errno);
    errno = 0; v = ptrace(PTRACE_PEEKUSER, pid, 10000, 0); printf("peekuser far %ld %d\n", v, errno);
    errno = 0; v = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, u_debugreg[7]), 0); printf("dr7 %ld %d\n", v, errno);
    siginfo_t si; printf("siginfo %ld\n", ptrace(PTRACE_GETSIGINFO, pid, 0, &si));
    printf("si %d %d %d\n", si.si_signo, si.si_code, si.si_pid == pid);
    v = ptrace(PTRACE_CONT, pid, 0, 65); printf("cont 65: %ld %d\n", v, errno);
    ptrace(PTRACE_CONT, pid, 0, 0);
    w("usr1", pid);
    ptrace(PTRACE_CONT, pid, 0, SIGUSR1);
    w("usr1", pid);
    ptrace(PTRACE_CONT, pid, 0, 0);
    w("term", pid);
    ptrace(PTRACE_CONT, pid, 0, SIGUSR1);
    w("end", pid);
    v = ptrace(PTRACE_CONT, pid, 0, 0); printf("after %ld %d\n", v, errno);

    /* 2: system calls */
    pid = fork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); long p = sc(SYS_getppid); printf("ppid result %ld\n", p); sc(1234); _exit(3); }
    w("stop", pid);
    printf("opts %ld\n", ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD|PTRACE_O_TRACEEXIT));
    v = ptrace(PTRACE_SETOPTIONS, pid, 0, 0x40000000); printf("badopts %ld %d\n", v, errno);
    for (int i = 0; i < 20; i++) {
        ptrace(PTRACE_SYSCALL, pid, 0, 0);
        int st = w("sys", pid);
        if (st < 0 || WIFEXITED(st)) break;
        if (st >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) { unsigned long m; ptrace(PTRACE_GETEVENTMSG, pid, 0, &m); printf("exit msg %lx\n", m); continue; }
        ptrace(PTRACE_GETREGS, pid, 0, &r);
        struct ptrace_syscall_info in; memset(&in, 0, sizeof in);
        long n = ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof in, &in);
        printf("info %ld op %d arch %x\n", n, in.op, in.arch);
        if (in.op == 1) printf("  enter %lld orig %lld rax %lld\n", in.entry.nr == SYS_write ? 1 : in.entry.nr, r.orig_rax, r.rax);
        if (in.op == 2) printf("  leave error %d orig %lld\n", in.exit.is_error, r.orig_rax);
        if (in.op == 2 && r.orig_rax == SYS_getppid) { r.rax = 777; ptrace(PTRACE_SETREGS, pid, 0, &r); }
        ptrace(PTRACE_GETSIGINFO, pid, 0, &si); printf("  si %d code %x\n", si.si_signo, si.si_code);
    }
    /* 3: step */
    pid = fork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); asm volatile("int3; nop; nop; mov $39, %%eax; syscall; nop; nop; int3" ::: "rax","rcx","r11"); _exit(0); }
    w("int3", pid);
    ptrace(PTRACE_GETREGS, pid, 0, &r); unsigned long base = r.rip;
    ptrace(PTRACE_GETSIGINFO, pid, 0, &si); printf("si %d code %x\n", si.si_signo, si.si_code);
    for (int i = 0; i < 7; i++) {
        ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
        w("step", pid);
        ptrace(PTRACE_GETREGS, pid, 0, &r); ptrace(PTRACE_GETSIGINFO, pid, 0, &si);
        printf("at +%ld code %x tf %d\n", r.rip - base, si.si_code, !!(r.eflags & 0x100));
    }
    struct iovec io = { &r, sizeof r };
    printf("regset %ld %zu\n", ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io), io.iov_len);
    static char xs[8192]; io.iov_base = xs; io.iov_len = sizeof xs;
    printf("xstate %ld %d\n", ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &io), io.iov_len >= 576);
    printf("set xstate %ld\n", ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &io));
    struct user_fpregs_struct fp; v = ptrace(PTRACE_GETFPREGS, pid, 0, &fp); printf("fp %ld cwd %x mxcsr %x\n", v, fp.cwd, fp.mxcsr);
    fp.mxcsr = 0xffffffff; v = ptrace(PTRACE_SETFPREGS, pid, 0, &fp); printf("bad mxcsr %ld %d\n", v, errno);
    v = ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, cs), 8L); printf("bad cs %ld %d\n", v, errno);
    unsigned long mask = 0; v = ptrace(PTRACE_GETSIGMASK, pid, 8, &mask); printf("mask %ld %lx\n", v, mask);
    v = ptrace(PTRACE_GETSIGMASK, pid, 4, &mask); printf("mask of 4 %ld %d\n", v, errno);
    ptrace(PTRACE_KILL, pid, 0, 0); w("killed", pid);
    /* 4: let go behind a step */
    pid = fork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); _exit(11); }
    w("stop", pid);
    ptrace(PTRACE_SINGLESTEP, pid, 0, 0); w("step", pid);
    ptrace(PTRACE_DETACH, pid, 0, 0); w("let go", pid);
    /* 5: one that steps itself */
    pid = fork();
    if (!pid) {
        signal(SIGTRAP, handler);
        asm volatile("pushf; orq $0x100, (%%rsp); popf; nop; pushf; andq $~0x100, (%%rsp); popf" ::: "memory", "cc");
        printf("stepped itself: %d\n", got);
        _exit(12);
    }
    w("end", pid);
    return 0;
}
