// What must hold or the program ends, and accesses that may end in a signal.
#include "test.h"
#include <setjmp.h>

static void must(int holds, int line, const char *what) {
    if (!holds) {
        printf("line %d: %s, errno %d\n", line, what, errno);
        exit(1);
    }
}
#define MUST(e) must(e, __LINE__, #e)

static sigjmp_buf back;

static void on_signal(int signal) { siglongjmp(back, signal); }

// From here on a bad access goes back to where `back` was set last.
static inline void catch_faults(void) {
    struct sigaction action = {.sa_handler = on_signal};
    MUST(sigaction(SIGBUS, &action, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
}

// The signal that an access to a byte ends in, or 0.
static inline int signal_of(volatile void *at, int writes) {
    volatile char *byte = at;
    int signal = sigsetjmp(back, 1);
    if (!signal) {
        if (writes) *byte = 7;
        else (void)*byte;
    }
    return signal;
}
