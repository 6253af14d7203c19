// membarrier: which commands there are, who must register, flags, a child and an executed program; and that the barrier orders what other threads do
// (two threads write one flag each and read the other's: that neither sees the other's is what the barrier forbids).
// build: gcc, musl
// cores: 2
// oracle: linux
#include "test.h"
#include <pthread.h>

enum { QUERY = 0, GLOBAL = 1, GLOBAL_NOW = 2, TO_GLOBAL = 4, PRIVATE = 8, TO_PRIVATE = 16, CODE = 32, TO_CODE = 64, REGISTRATIONS = 512 };
static long barrier(int command, unsigned flags) { return syscall(SYS_membarrier, command, flags, 0); }

static volatile int mine, theirs;
static int seen_by_slow[2];
static volatile int seen_by_fast, stop;
static volatile unsigned turn, done;
#define COMPILER() __asm__ volatile("" ::: "memory")

// The side that is meant to be fast: no barrier of its own.
static void *fast(void *arg) {
    for (unsigned last = 0; !stop;) {
        for (int i = 0; turn == last && i < 1000; i++) COMPILER();
        if (turn == last) {
            sched_yield();
            continue;
        }
        last = turn;
        mine = 1;
        COMPILER();
        seen_by_fast = theirs;
        COMPILER();
        done = last;
    }
    return arg;
}
static int both_missed(int command, unsigned rounds) {
    pthread_t thread;
    int missed = 0;
    stop = turn = done = 0;
    pthread_create(&thread, NULL, fast, NULL);
    for (unsigned round = 1; round <= rounds; round++) {
        mine = theirs = 0;
        __sync_synchronize();
        turn = round;
        // So long that both write at about the same time, some time.
        for (volatile unsigned i = 0; i < round % 64; i++) COMPILER();
        theirs = 1;
        COMPILER();
        if (barrier(command, 0)) perror("membarrier");
        int seen = mine;
        while (done != round) sched_yield();
        missed += !seen && !seen_by_fast;
    }
    stop = 1;
    pthread_join(thread, NULL);
    return missed;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        SHOW(barrier(PRIVATE, 0));
        SHOW(barrier(REGISTRATIONS, 0));
        return 0;
    }
    SHOW(barrier(QUERY, 0) & 0x7f);
    SHOW(barrier(QUERY, 1));
    SHOW(barrier(-1, 0));
    SHOW(barrier(3, 0));
    SHOW(barrier(1 << 10, 0));
    SHOW(barrier(REGISTRATIONS, 0));
    SHOW(barrier(GLOBAL, 0));
    SHOW(barrier(GLOBAL, 1));
    SHOW(barrier(GLOBAL_NOW, 0));
    SHOW(barrier(PRIVATE, 0));
    SHOW(barrier(CODE, 0));
    SHOW(barrier(TO_PRIVATE, 1));
    SHOW(barrier(TO_PRIVATE, 2));
    SHOW(barrier(PRIVATE, 0));
    SHOW(barrier(TO_PRIVATE, 0));
    SHOW(barrier(TO_PRIVATE, 0));
    SHOW(barrier(PRIVATE, 0));
    SHOW(barrier(PRIVATE, 1));
    SHOW(barrier(CODE, 0));
    SHOW(barrier(REGISTRATIONS, 0));
    SHOW(barrier(REGISTRATIONS, 1));
    SHOW(barrier(TO_CODE, 0));
    SHOW(barrier(CODE, 0));
    SHOW(barrier(TO_GLOBAL, 0));
    SHOW(barrier(TO_GLOBAL, 1));
    SHOW(barrier(REGISTRATIONS, 0));
    IN_CHILD("a child is registered", SHOW(barrier(PRIVATE, 0)); SHOW(barrier(REGISTRATIONS, 0)));
    IN_CHILD("a program is not", execl("/proc/self/exe", argv[0], "again", NULL));
    SHOW(both_missed(PRIVATE, 2000));
    SHOW(both_missed(CODE, 2000));
    SHOW(both_missed(GLOBAL_NOW, 2000));
    SHOW(both_missed(GLOBAL, 20));
    return 0;
}
