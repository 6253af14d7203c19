// System calls that a program makes itself: what is refused, which calls a signal tells of, with what, which instructions are exempt; threads, children, programs,
// handlers that return, a byte that says nothing.
// build: gcc
// oracle: linux
// cores: 2
#include "test.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define DISPATCH(mode, start, bytes, byte) prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, bytes, byte)

enum { OFF, ON };
enum { ALLOW, BLOCK };

// near(number, a, b, c): a call by an instruction of its own; far(…): by another one.
__asm__(".text\n.balign 64\nnear: mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nxor %r10d, %r10d\nxor %r8d, %r8d\nsyscall\nret\nnear_end:\n"
        ".balign 64\nfar: mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nxor %r10d, %r10d\nxor %r8d, %r8d\nsyscall\nfar_behind: ret\n");
extern long near(long, long, long, long), far(long, long, long, long);
extern char near_end[], far_behind[];

static volatile unsigned char byte;
static volatile int told;
static siginfo_t last;
static long number, result;
static unsigned long behind;

static void on_call(int signal, siginfo_t *info, void *context) {
    byte = ALLOW;
    ucontext_t *at = context;
    (void)signal;
    last = *info;
    told++;
    number = at->uc_mcontext.gregs[REG_RAX];
    behind = (unsigned long)at->uc_mcontext.gregs[REG_RIP];
    at->uc_mcontext.gregs[REG_RAX] = result;
}

static void hear(void) {
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
}

static void refused(void) {
    SHOW(DISPATCH(2, 0, 0, 0));
    SHOW(DISPATCH(1ul << 32, 0, 0, 0));
    SHOW(DISPATCH(OFF, 1, 0, 0));
    SHOW(DISPATCH(OFF, 0, 1, 0));
    SHOW(DISPATCH(OFF, 0, 0, &byte));
    SHOW(DISPATCH(ON, 1, 0, &byte));
    SHOW(DISPATCH(ON, 1, -1ul, &byte));
    SHOW(DISPATCH(ON, 4096, -4096ul, &byte));
    SHOW(DISPATCH(ON, 0, 0, -1ul));
    SHOW(DISPATCH(ON, 0, 0, 1ul << 63));
    SHOW(DISPATCH(OFF, 0, 0, 0));
}

static void told_of(void) {
    hear();
    SHOW(DISPATCH(ON, near, near_end - (char *)near, &byte));
    SHOW(far(SYS_getppid, 0, 0, 0) == getppid());
    result = 77;
    byte = BLOCK;
    long got = far(SYS_getppid, 1, 2, 3);
    SHOW(got);
    SHOW(told);
    SHOW(number == SYS_getppid);
    SHOW(behind == (unsigned long)far_behind);
    SHOW(last.si_signo);
    SHOW(last.si_code);
    SHOW(last.si_errno);
    SHOW(last.si_syscall == SYS_getppid);
    SHOW(last.si_call_addr == (void *)far_behind);
    SHOW(last.si_arch == 0xc000003e);
    // Also of calls that there are not.
    byte = BLOCK;
    got = far(100000, 0, 0, 0);
    SHOW(got);
    SHOW(last.si_syscall);
    // Those of the range are made in any case.
    byte = BLOCK;
    got = near(SYS_getpid, 0, 0, 0);
    byte = ALLOW;
    SHOW(got == getpid());
    SHOW(told);
    // Anew, without a byte: all others.
    DISPATCH(ON, near, near_end - (char *)near, 0);
    got = near(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, OFF, 0);
    SHOW(got);
    SHOW(told);
}

static void *thread(void *arg) {
    byte = BLOCK;
    long got = far(SYS_getppid, 0, 0, 0);
    byte = ALLOW;
    SHOW(got == getppid());
    return arg;
}

// Neither a thread, nor a child, nor a program has it.
static void inherited(char *self) {
    pthread_t other;
    told = 0;
    DISPATCH(ON, near, near_end - (char *)near, &byte);
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    IN_CHILD("a child", byte = BLOCK; long got = far(SYS_getppid, 0, 0, 0); byte = ALLOW; SHOW(got == getppid()));
    pid_t child = vfork();
    if (child == 0) {
        byte = BLOCK;
        far(SYS_getppid, 0, 0, 0);
        byte = ALLOW;
        execl(self, self, "executed", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    // This one has it still.
    result = 78;
    byte = BLOCK;
    long got = far(SYS_getppid, 0, 0, 0);
    SHOW(got);
    SHOW(told);
    DISPATCH(OFF, 0, 0, 0);
    byte = BLOCK;
    got = far(SYS_getppid, 0, 0, 0);
    byte = ALLOW;
    SHOW(got == getppid());
}

static void ends(void) {
    static volatile unsigned char own;
    IN_CHILD("no such word", hear(); DISPATCH(ON, 0, 0, &own); own = 2; far(SYS_getppid, 0, 0, 0));
    IN_CHILD("no memory", hear(); DISPATCH(ON, 0, 0, 4096ul); far(SYS_getppid, 0, 0, 0));
    IN_CHILD("nobody hears", DISPATCH(ON, 0, 0, &own); own = BLOCK; far(SYS_getppid, 0, 0, 0));
    IN_CHILD("held off", hear(); sigset_t set = set_of(SIGSYS, 0, 0); sigprocmask(SIG_BLOCK, &set, NULL); DISPATCH(ON, 0, 0, &own); own = BLOCK;
             far(SYS_getppid, 0, 0, 0));
}

// A tracer does not hear of calls that are not made.
static void traced(void) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        hear();
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        DISPATCH(ON, near, near_end - (char *)near, &byte);
        raise(SIGSTOP);
        byte = BLOCK;
        far(SYS_getppid, 0, 0, 0);
        far(SYS_gettid, 0, 0, 0);
        _exit(0);
    }
    waitpid(child, &status, 0);
    for (int stops = 0; stops < 40 && ptrace(PTRACE_SYSCALL, child, 0, WIFSTOPPED(status) && WSTOPSIG(status) == SIGSYS ? SIGSYS : 0) == 0; stops++) {
        struct user_regs_struct regs;
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
        ptrace(PTRACE_GETREGS, child, 0, &regs);
        printf("signal %d, call %ld\n", WSTOPSIG(status), (long)regs.orig_rax);
    }
    printf("status %x\n", status);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        byte = BLOCK;
        long got = far(SYS_getppid, 0, 0, 0);
        byte = ALLOW;
        SHOW(got == getppid());
        return 0;
    }
    refused();
    told_of();
    inherited(argv[0]);
    ends();
    traced();
    return 0;
}
