// What does a fork cost beside idle processes, and a signal that is only asked about?
#include "scale.h"

enum { REPEATS = 15 };

static pid_t children[1000];
static int count;

static void grow_to(int wanted) {
    while (count < wanted) children[count++] = idle_child();
}

static void forks(void) {
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        pid_t child = fork();
        if (child == 0) _exit(0);
        sample(ticks() - from);
        wait_for(child);
    }
    report("fork_until_the_parent_returns", 1, "at=%d:processes", count);
}

static void kills(void) {
    for (int i = 0; i < 31; i++) {
        pid_t target = children[i * 37 % count];
        uint64_t from = ticks();
        int result = kill(target, 0);
        sample(ticks() - from);
        expect("kill(pid, 0)", result, 0);
    }
    report("kill(pid,_0)", 1, "at=%d:processes", count);
}

int main(void) {
    calibrate();
    static const int sizes[] = {0, 20, 50, 80, 149, 1000};
    for (int i = 0; i < 6; i++) {
        if (!wanted(sizes[i], 50)) break;
        grow_to(sizes[i]);
        forks();
        if (count > 0) kills();
    }
    end_children(children, count);
    expect("kill of nobody", kill(children[0], 0), -1);
    expect("its error", errno, ESRCH);
}
