// What does a system call cost that does nothing?
#include "bench.h"

int main(void) {
    calibrate();
    pid_t parent = getppid();
    for (int i = 0; i < 101; i++) {
        uint64_t from = ticks();
        pid_t now = syscall(SYS_getppid);
        sample(ticks() - from);
        expect("getppid", now, parent);
    }
    report("getppid", 1, "");
}
