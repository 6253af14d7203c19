// Faults: signal, code and address, for every way to be wrong; and going on after a handler.
// oracle: linux
#include "test.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int caught, code;
static char *volatile where;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    caught = signal, code = info->si_code, where = info->si_addr;
    siglongjmp(back, 1);
}

static void try(const char *what, char *at, char how) {
    caught = code = 0;
    where = NULL;
    if (sigsetjmp(back, 1) == 0) {
        if (how == 'r') (void)*(volatile char *)at;
        if (how == 'w') *(volatile char *)at = 1;
        if (how == 'x') ((void (*)(void))at)();
    }
    printf("%s: signal %d code %d address %s\n", what, caught, code,
           where == at ? "exact" : where == NULL ? "null" : "WRONG");
}

static char *page;
static volatile int protected_writes;

static void unprotect(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    protected_writes++;
    mprotect((void *)((uintptr_t)info->si_addr & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    char *p = pages(8, PROT_READ | PROT_WRITE);
    memset(p, 0xc3, 8 * PAGE);
    munmap(p + 7 * PAGE, PAGE);
    try("read of null", NULL, 'r');
    try("write of address 8", (char *)8, 'w');
    try("read of a hole", p + 7 * PAGE + 123, 'r');
    try("write to a hole", p + 7 * PAGE, 'w');
    try("execute a hole", p + 7 * PAGE, 'x');
    try("execute writable memory", p + 5, 'x');
    mprotect(p + PAGE, PAGE, PROT_READ);
    try("write to read-only memory", p + PAGE + 4095, 'w');
    mprotect(p + PAGE, PAGE, PROT_NONE);
    try("read of forbidden memory", p + PAGE, 'r');
    try("write to forbidden memory", p + PAGE + 1, 'w');
    mprotect(p + PAGE, PAGE, PROT_READ | PROT_WRITE);
    try("allowed again", p + PAGE, 'w');
    mprotect(p + 2 * PAGE, PAGE, PROT_READ | PROT_EXEC);
    try("execute (returns)", p + 2 * PAGE, 'x');
    char *fresh = pages(1, PROT_NONE);
    try("untouched forbidden memory", fresh, 'r');
    fresh = pages(1, PROT_READ);
    try("read of untouched memory", fresh, 'r');
    try("write to it", fresh, 'w');
    try("write to the program's code", (char *)(uintptr_t)try, 'w');
    try("read above the lower half", (char *)0x800000000000, 'r');
    try("read of a kernel address", (char *)0xffffffff80000000, 'r');

    action.sa_sigaction = unprotect;
    sigaction(SIGSEGV, &action, NULL);
    page = pages(4, PROT_READ);
    for (int i = 0; i < 4; i++) page[i * PAGE + i] = i + 1;
    printf("handled %d, values %d %d\n", protected_writes, page[0], page[3 * PAGE + 3]);

    signal(SIGSEGV, SIG_DFL);
    IN_CHILD("unhandled", *(volatile int *)0 = 1);
    signal(SIGSEGV, SIG_IGN);
    IN_CHILD("ignored", *(volatile int *)0 = 1);
    IN_CHILD("illegal instruction", __asm__ volatile("ud2"));
    IN_CHILD("division", __asm__ volatile("xorl %%ecx, %%ecx; xorl %%eax, %%eax; cltd; idivl %%ecx" ::
                                              : "eax", "ecx", "edx"));
    IN_CHILD("breakpoint", __asm__ volatile("int3"));
    IN_CHILD("privileged", __asm__ volatile("hlt"));
    IN_CHILD("stack without end", {
        signal(SIGSEGV, SIG_DFL);
        for (volatile char *stack = __builtin_alloca(1 << 20);; stack -= PAGE) *stack = 1;
    });
    return 0;
}
