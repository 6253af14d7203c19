// Threads that find out by faults what they may do with memory, and take chances. Whoever includes this has a `struct thread` with
// its `number` and a `state`, which is anything but 0.
#ifndef TRYING_H
#define TRYING_H
#include <setjmp.h>
#include <signal.h>

#include "test.h"

static _Thread_local sigjmp_buf out;
static _Thread_local volatile sig_atomic_t may_fault;

__attribute__((noreturn)) static void wrong(struct thread *t, const char *what, const volatile void *at) {
    dprintf(1, "WRONG: thread %d: %s at %p\n", t->number, what, at);
    _exit(1);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (!may_fault) {
        dprintf(1, "WRONG: a fault at %p\n", info->si_addr);
        _exit(1);
    }
    siglongjmp(out, 1);
}

static uint64_t below(struct thread *t, uint64_t limit) {
    t->state ^= t->state << 13;
    t->state ^= t->state >> 7;
    t->state ^= t->state << 17;
    return (t->state >> 11) % limit;
}

// Stores a byte; answers whether it could.
static inline int try_store(volatile char *at, char value) {
    if (sigsetjmp(out, 1) != 0) {
        may_fault = 0;
        return 0;
    }
    may_fault = 1;
    *at = value;
    may_fault = 0;
    return 1;
}

// Loads one; answers whether it could.
static inline int try_load(volatile char *at) {
    if (sigsetjmp(out, 1) != 0) {
        may_fault = 0;
        return 0;
    }
    may_fault = 1;
    (void)*at;
    may_fault = 0;
    return 1;
}
#endif
