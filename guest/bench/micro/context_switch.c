// What does it cost to switch between two processes that give way to each other?
#include "bench.h"
#include <sched.h>

enum { TURNS = 500 };

// What both processes see: whose turn it was last, and how often that changed.
static volatile int *shared;

static void take_turns(int own) {
    for (int i = 0; i < TURNS; i++) {
        if (shared[0] != own) shared[1]++;
        shared[0] = own;
        sched_yield();
    }
}

int main(void) {
    calibrate();
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect("mmap(MAP_SHARED) failed", shared == MAP_FAILED, 0);
    for (int i = 0; i < 7; i++) {
        shared[0] = shared[1] = 0;
        pid_t child = fork();
        if (child == 0) {
            shared[2] = 1;
            take_turns(2);
            _exit(0);
        }
        while (!shared[2]) sched_yield();
        uint64_t from = ticks();
        take_turns(1);
        uint64_t time = ticks() - from;
        wait_for(child);
        shared[2] = 0;
        // They really did alternate: else this is the price of a system call.
        if (shared[1] > TURNS) sample(2 * TURNS * time / shared[1]);
    }
    report("sched__yield_to_another_process", 2 * TURNS, "");
}
