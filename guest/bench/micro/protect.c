// What do mprotect and faults on protected pages cost a program that uses them, as garbage
// collectors and checkpointers do? The last three are Appel and Li's (ASPLOS 1991).
#include "bench.h"
#include <ucontext.h>

enum { PAGES = 100 };

static char *region;
static volatile long faults;
static void *volatile last_address;
static volatile int last_code;

static void protect(void *at, size_t pages, int rights) {
    expect("mprotect", mprotect(at, pages * PAGE, rights), 0);
}

static void catch_with(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    expect("sigaction", sigaction(SIGSEGV, &action, NULL), 0);
}

static void mprotects(size_t pages) {
    char *at = map(pages);
    for (int i = 0; i < 31; i++) {
        memset(at, i, pages * PAGE);
        uint64_t from = ticks();
        int result = mprotect(at, pages * PAGE, PROT_READ);
        sample(ticks() - from);
        expect("mprotect", result, 0);
        expect("the last byte", at[pages * PAGE - 1], i);
        protect(at, pages, PROT_READ | PROT_WRITE);
    }
    unmap(at, pages);
    report("mprotect,_rw_to_r", 1, "at=%zu:pages", pages);
}

// Lets the program go on by changing the register that it writes through.
static void step_aside(int signal, siginfo_t *info, void *context) {
    (void)signal;
    faults++;
    last_address = info->si_addr;
    last_code = info->si_code;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] = (greg_t)(region + PAGE);
}

static void trap(void) {
    catch_with(step_aside);
    protect(region, 1, PROT_READ);
    for (int i = 0; i < 101; i++) {
        char *target = region + 24;
        uint64_t from = ticks();
        __asm__ volatile("movb $1, (%0)" : "+b"(target)::"memory");
        sample(ticks() - from);
        expect("the address of the fault", (char *)last_address - region, 24);
    }
    protect(region, 1, PROT_READ | PROT_WRITE);
    expect("faults", faults, 101);
    check("si_code", last_code);
    report("trap:_write,_handler,_return", 1, "");
}

// Makes the page that was written to writable.
static void unprotect_one(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    faults++;
    void *page = (void *)((uintptr_t)info->si_addr & -(uintptr_t)PAGE);
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

// The same pages in an order that is not that of their addresses.
static volatile char *scattered(int i) { return region + (size_t)(i * 37 % PAGES) * PAGE; }

static void prot1_trap_unprot(void) {
    catch_with(unprotect_one);
    faults = 0;
    for (int round = 0; round < 7; round++) {
        uint64_t from = ticks();
        for (int i = 0; i < PAGES; i++) {
            protect((void *)scattered(i), 1, PROT_READ);
            *scattered(i) = round;
        }
        sample(ticks() - from);
    }
    expect("faults", faults, 7 * PAGES);
    report("prot1,_trap,_unprot,_per_page", PAGES, "");
}

static void protn_trap_unprot(void) {
    faults = 0;
    for (int round = 0; round < 7; round++) {
        uint64_t from = ticks();
        protect(region, PAGES, PROT_READ);
        for (int i = 0; i < PAGES; i++) *scattered(i) = round;
        sample(ticks() - from);
        for (int i = 0; i < PAGES; i++) expect("a page", *scattered(i), round);
    }
    expect("faults", faults, 7 * PAGES);
    report("protN,_trap,_unprot,_per_page", PAGES, "");
}

int main(void) {
    calibrate();
    for (size_t pages = 1; pages <= 512; pages = pages == 2 ? 8 : pages * (pages == 1 ? 2 : 4))
        mprotects(pages);
    region = map(PAGES);
    memset(region, 1, PAGES * PAGE);
    trap();
    prot1_trap_unprot();
    protn_trap_unprot();
}
