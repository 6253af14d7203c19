// What a handler finds in its frame, and what it may change there: registers, masks, vector state.
// oracle: linux
#include "test.h"
#include <fenv.h>
#include <math.h>
#include <sys/mman.h>
#include <ucontext.h>

static volatile int calls;
static char order[16];

// Registers and flags in the context are those of the program, and come back as they were.
static void see_registers(int signal, siginfo_t *info, void *raw) {
    ucontext_t *context = raw;
    greg_t *regs = context->uc_mcontext.gregs;
    printf("signal %d: rbx %llx r12 %llx r15 %llx carry %d\n", signal, regs[REG_RBX],
           regs[REG_R12], regs[REG_R15], (int)(regs[REG_EFL] & 1));
    printf("number %d, link %d, stack aligned %d\n", info->si_signo, context->uc_link != NULL,
           (uintptr_t)__builtin_frame_address(0) % 16 == 0);
    regs[REG_R12] = 0x1212;
    regs[REG_R15]++;
    regs[REG_EFL] ^= 1;
    calls++;
}

static void registers(void) {
    struct sigaction action = {.sa_sigaction = see_registers, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    unsigned long rbx = 0xb0b, r12 = 0, r15 = 0, carry;
    __asm__ volatile(
        "movq $0x1111, %%r12; movq $0x1515, %%r15; stc; int3; setc %%cl; movzbl %%cl, %%ecx"
        : "+b"(rbx), "=c"(carry)
        :
        : "r12", "r15", "memory", "cc");
    __asm__ volatile("movq $0x1111, %%r12; movq $0x1515, %%r15; int3; movq %%r12, %0; movq %%r15, %1"
                     : "=r"(r12), "=r"(r15)
                     : "b"(rbx)
                     : "r12", "r15", "memory", "cc");
    printf("after: rbx %lx carry %lu r12 %lx r15 %lx\n", rbx, carry, r12, r15);
}

// All general registers and the red zone survive a handler that comes at any point.
static void nothing(int signal) {
    volatile char stack[512];
    memset((char *)stack, 0xee, sizeof stack);
    (void)signal, calls++;
}

static void red_zone(void) {
    signal(SIGTRAP, nothing);
    unsigned long below;
    __asm__ volatile("movq $0x5afe, -128(%%rsp); int3; movq -128(%%rsp), %0" : "=r"(below)::"memory");
    printf("red zone: %lx\n", below);
}

// A handler may skip the instruction that faulted.
static void skip(int signal, siginfo_t *info, void *raw) {
    ucontext_t *context = raw;
    printf("signal %d code %d trap %lld error %lld cr2 %llx\n", signal, info->si_code,
           context->uc_mcontext.gregs[REG_TRAPNO], context->uc_mcontext.gregs[REG_ERR] & 7,
           context->uc_mcontext.gregs[REG_CR2]);
    context->uc_mcontext.gregs[REG_RIP] += 2;
    context->uc_mcontext.gregs[REG_RAX] = 77;
}

static void skipping(void) {
    struct sigaction action = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    unsigned long value = 0x1230;
    __asm__ volatile("movb (%%rax), %%al" : "+a"(value)::"memory");
    printf("skipped: %lu\n", value);
    value = 0x1230;
    __asm__ volatile("movb %%al, (%%rax)" : "+a"(value)::"memory");
    printf("skipped: %lu\n", value);
    sigaction(SIGILL, &action, NULL);
    __asm__ volatile("ud2" : "+a"(value)::"memory");
    printf("skipped: %lu\n", value);
}

// Two pending signals: the frame of the higher one lies on top, so its handler runs first.
static void note(int signal) { order[strlen(order)] = signal == SIGUSR1 ? '1' : '2'; }

static void stacking(void) {
    signal(SIGUSR1, note);
    signal(SIGUSR2, note);
    sigset_t both, old;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigprocmask(SIG_BLOCK, &both, &old);
    raise(SIGUSR2);
    raise(SIGUSR1);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("order: %s\n", order);
}

// The mask in the context is the one that comes back.
static void block_more(int signal, siginfo_t *info, void *raw) {
    (void)signal, (void)info;
    sigaddset(&((ucontext_t *)raw)->uc_sigmask, SIGHUP);
}

static void masks(void) {
    struct sigaction action = {.sa_sigaction = block_more, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("HUP %d USR1 %d\n", sigismember(&now, SIGHUP), sigismember(&now, SIGUSR1));
}

// A handler starts with fresh floating-point state, and may change the saved one.
static volatile double third;

static void change_vectors(int signal, siginfo_t *info, void *raw) {
    (void)signal, (void)info;
    ucontext_t *context = raw;
    volatile double one = 1, three = 3;
    printf("rounding in the handler %d\n", fegetround() == FE_TONEAREST);
    third = one / three;
    fesetround(FE_DOWNWARD);
    __asm__ volatile("pcmpeqd %%xmm3, %%xmm3; pcmpeqd %%xmm9, %%xmm9" ::: "xmm3", "xmm9");
    context->uc_mcontext.fpregs->_xmm[3].element[0] = 0x33333333;
}

static void vectors(void) {
    struct sigaction action = {.sa_sigaction = change_vectors, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    fesetround(FE_UPWARD);
    unsigned in = 0x77777777, three, nine;
    __asm__ volatile("movd %2, %%xmm3; movd %2, %%xmm9; int3; movd %%xmm3, %0; movd %%xmm9, %1"
                     : "=r"(three), "=r"(nine)
                     : "r"(in)
                     : "xmm3", "xmm9", "memory");
    printf("xmm3 %x xmm9 %x rounding kept %d third %.17g\n", three, nine,
           fegetround() == FE_UPWARD, third);
    fesetround(FE_TONEAREST);
    long double deep = 1.25L;
    __asm__ volatile("fldt %0; int3; fstpt %0" : "+m"(deep)::"memory");
    printf("x87 %Lg\n", deep);
}

// Wild frames end in SIGSEGV.
static int wild;

static void spoil(int signal, siginfo_t *info, void *raw) {
    (void)signal, (void)info;
    ucontext_t *context = raw;
    if (wild == 0) context->uc_mcontext.fpregs = (void *)0x123456789000;
    if (wild == 1) context->uc_mcontext.gregs[REG_RIP] = 0x1234567890123456;
    if (wild == 2) context->uc_mcontext.gregs[REG_RIP] = 0xffffffff80001000;
    if (wild == 3) context->uc_mcontext.fpregs->mxcsr = 0xffffffff;
    if (wild == 4) context->uc_mcontext.fpregs = (void *)((char *)context->uc_mcontext.fpregs + 4);
    if (wild == 5) memset((char *)context->uc_mcontext.fpregs + 512, 0xff, 64);
    if (wild == 6) memset((char *)context->uc_mcontext.fpregs + 464, 0, 48);
    if (wild == 7) context->uc_mcontext.fpregs = NULL;
}

static void wild_frames(void) {
    struct sigaction action = {.sa_sigaction = spoil, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGSEGV, SIG_DFL);
    for (wild = 0; wild < 8; wild++) {
        printf("%d ", wild);
        IN_CHILD("wild frame", raise(SIGUSR1));
    }
    IN_CHILD("sigreturn from nowhere", syscall(SYS_rt_sigreturn));
    signal(SIGUSR2, (void (*)(int))0x8000000000000000);
    IN_CHILD("handler nowhere", raise(SIGUSR2));
    signal(SIGUSR2, nothing);
    IN_CHILD("no stack", __asm__ volatile("xorl %%esp, %%esp; int3" ::: "memory"));
}

// A stack that is full is a fault, which the alternate stack can take.
static void on_overflow(int signal) {
    printf("overflow: %d\n", signal);
    _exit(3);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
static __attribute__((noinline)) int deeper(volatile char *above) {
    volatile char here[4096];
    here[0] = *above;
    return deeper(here) + here[1];
}

static void overflow(void) {
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    SHOW(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    char start = 0;
    IN_CHILD("overflow with an alternate stack", deeper(&start));
    action.sa_flags = 0;
    sigaction(SIGSEGV, &action, NULL);
    IN_CHILD("overflow without", deeper(&start));
}

int main(void) {
    registers();
    red_zone();
    skipping();
    stacking();
    masks();
    vectors();
    wild_frames();
    overflow();
    printf("calls %d\n", calls);
    return 0;
}
