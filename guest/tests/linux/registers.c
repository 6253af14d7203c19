// Every register of the program over system calls, faults, signals, forks and preemption: general
// ones, flags, x87, SSE, the upper halves of AVX, and the control words.
// oracle: linux
// build: gcc
#include "test.h"
#include <cpuid.h>
#include <sys/time.h>

struct vector_state {
    unsigned char low[16][16], high[16][16];
    unsigned mxcsr;
    unsigned short x87_control;
    double x87[8];
};

static int has_avx;
static volatile int handled;

static void fill(struct vector_state *state, int seed) {
    memset(state, 0, sizeof *state);
    for (int i = 0; i < 256; i++) state->low[i / 16][i % 16] = seed + i * 7;
    for (int i = 0; i < 256; i++) state->high[i / 16][i % 16] = seed * 3 + i * 5;
    state->mxcsr = 0x1f80 | (seed % 4) << 13;
    state->x87_control = (0x37f & ~0xc00) | (seed % 4) << 10;
    for (int i = 0; i < 8; i++) state->x87[i] = seed + i + 0.5;
}

#define FOR_ALL(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15)

// Loads everything, does `action`, stores everything.
#define AROUND(before, after, action)                                                          \
    do {                                                                                       \
        if (has_avx) { FOR_ALL(LOAD_HIGH) }                                                    \
        FOR_ALL(LOAD_LOW)                                                                      \
        __asm__ volatile("fninit; fldcw %0; ldmxcsr %1" ::"m"((before)->x87_control),          \
                         "m"((before)->mxcsr));                                                \
        for (int i_ = 7; i_ >= 0; i_--) __asm__ volatile("fldl %0" ::"m"((before)->x87[i_]));  \
        action;                                                                                \
        for (int i_ = 0; i_ < 8; i_++) __asm__ volatile("fstpl %0" : "=m"((after)->x87[i_]));  \
        __asm__ volatile("fnstcw %0; stmxcsr %1" : "=m"((after)->x87_control),                 \
                         "=m"((after)->mxcsr));                                                \
        FOR_ALL(STORE_LOW)                                                                     \
        if (has_avx) { FOR_ALL(STORE_HIGH) }                                                   \
    } while (0)

static struct vector_state before, after;
#define LOAD_LOW(n) __asm__ volatile("movdqu %0, %%xmm" #n ::"m"(before.low[n]));
#define LOAD_HIGH(n)                                                                           \
    __asm__ volatile("vinsertf128 $1, %0, %%ymm" #n ", %%ymm" #n ::"m"(before.high[n]));
#define STORE_LOW(n) __asm__ volatile("movdqu %%xmm" #n ", %0" : "=m"(after.low[n]));
#define STORE_HIGH(n) __asm__ volatile("vextractf128 $1, %%ymm" #n ", %0" : "=m"(after.high[n]));

// A system call without a function of the library, which may use any of these registers.
static inline long bare_call(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

static void spoil(int signal) {
    (void)signal;
    static const unsigned mxcsr = 0x1fc0;
    __asm__ volatile("fninit; fldpi; fldz; ldmxcsr %0" ::"m"(mxcsr));
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; movdqa %%xmm0, %%xmm3; movdqa %%xmm0, %%xmm8;"
                     "movdqa %%xmm0, %%xmm15" ::: "xmm0", "xmm3", "xmm8", "xmm15");
    if (has_avx) __asm__ volatile("vzeroall" ::: "memory");
    handled++;
}

static void fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    spoil(0);
    bare_call(SYS_mprotect, (long)info->si_addr & ~(PAGE - 1), PAGE, PROT_READ | PROT_WRITE, 0);
}

static void compare(const char *what) {
    before.mxcsr &= ~0x3f, after.mxcsr &= ~0x3f;
    if (!has_avx) memset(before.high, 0, sizeof before.high), memset(after.high, 0, sizeof after.high);
    printf("%s: %s %s %s %s\n", what, memcmp(before.low, after.low, 256) ? "SSE LOST" : "sse",
           memcmp(before.high, after.high, 256) ? "AVX LOST" : "avx",
           memcmp(before.x87, after.x87, 64) ? "X87 LOST" : "x87",
           before.mxcsr != after.mxcsr || before.x87_control != after.x87_control ? "CONTROL LOST" : "control");
}

static void vectors(void) {
    static volatile char *page;
    page = pages(2, PROT_READ | PROT_WRITE);
    int self = getpid();
    fill(&before, 1);
    AROUND(&before, &after, bare_call(SYS_getpid, 0, 0, 0, 0));
    compare("system call");
    fill(&before, 2);
    AROUND(&before, &after, page[0] = 1);
    compare("page fault");
    fill(&before, 3);
    AROUND(&before, &after, bare_call(SYS_kill, self, SIGUSR1, 0, 0));
    compare("signal");
    mprotect((void *)page, PAGE, PROT_READ);
    fill(&before, 4);
    AROUND(&before, &after, page[0] = 2);
    compare("fault with a handler");
    fill(&before, 5);
    static volatile long pid;
    static int status;
    AROUND(&before, &after, pid = bare_call(SYS_fork, 0, 0, 0, 0));
    if (pid == 0) {
        compare("fork, child");
        _exit(0);
    }
    struct vector_state kept = after;
    waitpid(pid, &status, 0);
    after = kept;
    compare("fork, parent");
    fill(&before, 6);
    AROUND(&before, &after, {
        pid = bare_call(SYS_fork, 0, 0, 0, 0);
        if (pid == 0) {
            spoil(0);
            bare_call(SYS_exit, 0, 0, 0, 0);
        }
        bare_call(SYS_wait4, pid, (long)&status, 0, 0);
    });
    compare("waiting for a child that spoils its own");
    fill(&before, 7);
    handled = 0;
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    AROUND(&before, &after, while (handled < 20) {});
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    compare("twenty timer signals");
}

// Two processes that compute at the same time, each with its own values.
static void preempted(void) {
    pid_t pids[3];
    for (int n = 0; n < 3; n++) {
        fflush(stdout);
        pids[n] = fork();
        if (pids[n] != 0) continue;
        int lost = 0;
        for (int round = 0; round < 60; round++) {
            fill(&before, 10 * n + round);
            AROUND(&before, &after, for (volatile int i = 0; i < 200000; i++) {});
            before.mxcsr &= ~0x3f, after.mxcsr &= ~0x3f;
            lost += memcmp(before.low, after.low, 256) || memcmp(before.x87, after.x87, 64) ||
                    (has_avx && memcmp(before.high, after.high, 256)) || before.mxcsr != after.mxcsr;
        }
        _exit(lost);
    }
    for (int n = 0; n < 3; n++) {
        int status;
        waitpid(pids[n], &status, 0);
        printf("process %d of three: %d rounds lost something\n", n, WEXITSTATUS(status));
    }
}

// General registers and flags over a system call: all but rax, rcx and r11.
static void general(void) {
    unsigned long got[14], flags;
    __asm__ volatile(
        "push %%rbx; push %%rbp; push %%rdi\n"
        "mov $1, %%rbx; mov $2, %%rbp; mov $3, %%r8; mov $4, %%r9; mov $5, %%r10; mov $6, %%r12\n"
        "mov $7, %%r13; mov $8, %%r14; mov $9, %%r15; mov $10, %%rdx; mov $11, %%rsi; mov $12, %%rdi\n"
        "mov $39, %%eax; std; stc; syscall; pushf; cld\n"
        "mov 8(%%rsp), %%rax\n"
        "mov %%rbx, 0(%%rax); mov %%rbp, 8(%%rax); mov %%r8, 16(%%rax); mov %%r9, 24(%%rax)\n"
        "mov %%r10, 32(%%rax); mov %%r12, 40(%%rax); mov %%r13, 48(%%rax); mov %%r14, 56(%%rax)\n"
        "mov %%r15, 64(%%rax); mov %%rdx, 72(%%rax); mov %%rsi, 80(%%rax); mov %%rdi, 88(%%rax)\n"
        "pop %%rdi; mov %%rdi, 96(%%rax); pop %%rdi; pop %%rbp; pop %%rbx\n" ::"D"(got)
        : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    for (int i = 0; i < 12; i++) printf("%lu ", got[i]);
    flags = got[12];
    printf("%s %s\n", flags & 0x400 ? "direction" : "DIRECTION LOST", flags & 1 ? "carry" : "CARRY LOST");
}

// Flags that a program may try to set by sigreturn but must not get, and a wild context.
static void change_flags(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    // IOPL 3, interrupts off, NT, VM.
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x3000 | 0x4000 | 0x20000;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x200;
}
static void change_rip(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = 0x800000000000;
}
static void change_cs(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] = 0x10;
}

static void contexts(void) {
    struct sigaction action = {.sa_sigaction = change_flags, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &action, NULL);
    IN_CHILD("flags of the system in a context", {
        raise(SIGUSR2);
        unsigned long flags;
        __asm__ volatile("pushf; pop %0" : "=r"(flags));
        CHECK((flags & 0x200) != 0);
        CHECK((flags & 0x3000) == 0);
    });
    action.sa_sigaction = change_rip;
    sigaction(SIGUSR2, &action, NULL);
    IN_CHILD("a context that goes on nowhere", raise(SIGUSR2));
    action.sa_sigaction = change_cs;
    sigaction(SIGUSR2, &action, NULL);
    int status;
    pid_t pid = fork();
    if (pid == 0) raise(SIGUSR2), _exit(0);
    waitpid(pid, &status, 0);
    printf("a context with the kernel's segment: %s\n", status == 0 || WIFSIGNALED(status) ? "no harm" : "?");
    IN_CHILD("a context out of nothing", {
        __asm__ volatile("mov $15, %%eax; mov $8, %%rsp; syscall" ::: "memory");
    });
    IN_CHILD("privileged instruction", __asm__ volatile("cli"));
    IN_CHILD("input and output", __asm__ volatile("in $0x60, %%al" ::: "rax"));
    IN_CHILD("invalid instruction", __asm__ volatile("ud2"));
    IN_CHILD("division by zero", __asm__ volatile("xor %%ecx, %%ecx; mov $1, %%eax; cltd; idivl %%ecx" ::: "rax", "rcx", "rdx"));
    IN_CHILD("breakpoint", __asm__ volatile("int3"));
    IN_CHILD("another interrupt", __asm__ volatile("int $0x31"));
    IN_CHILD("address that is not canonical", *(volatile char *)0x800000000000 = 1);
    IN_CHILD("jump that is not canonical", ((void (*)(void))0x800000000000)());
    IN_CHILD("stack that is not canonical", __asm__ volatile("mov $0x800000000000, %%rsp; push %%rax" ::: "memory"));
    IN_CHILD("no stack at all", __asm__ volatile("xor %%esp, %%esp; push %%rax" ::: "memory"));
    IN_CHILD("machine-specific register", __asm__ volatile("rdmsr" ::: "rax", "rdx"));
    IN_CHILD("control register", __asm__ volatile("mov %%cr0, %%rax" ::: "rax"));
    IN_CHILD("halt", __asm__ volatile("hlt"));
}

int main(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    has_avx = (c & bit_OSXSAVE) && (c & bit_AVX);
    struct sigaction action = {.sa_handler = spoil};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    action.sa_sigaction = fault, action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    vectors();
    signal(SIGSEGV, SIG_DFL);
    preempted();
    general();
    contexts();
    return 0;
}
