// What does it cost to send oneself a signal and handle it, and to be told of a child's end?
#include "bench.h"

static volatile int handled, last_signal;

static void handler(int signal) {
    handled++;
    last_signal = signal;
}

int main(void) {
    calibrate();
    struct sigaction action = {.sa_handler = handler}, old;
    for (int i = 0; i < 101; i++) {
        uint64_t from = ticks();
        int result = sigaction(SIGUSR1, &action, &old);
        sample(ticks() - from);
        expect("sigaction", result, 0);
    }
    report("sigaction", 1, "");
    for (int i = 0; i < 101; i++) {
        uint64_t from = ticks();
        raise(SIGUSR1);
        sample(ticks() - from);
        expect("signals handled", handled, i + 1);
    }
    check("signal", last_signal);
    report("raise,_handler,_return", 1, "");
    for (int i = 0; i < 101; i++) {
        uint64_t from = ticks();
        kill(getpid(), SIGUSR1);
        sample(ticks() - from);
        expect("signals handled", handled, 101 + i + 1);
    }
    report("kill_of_oneself,_handler,_return", 1, "");
}
