// A process that forks without end harms only itself: the others go on, and its children end.
// mem: 128M
// expect-stdout: refused in the end: 1\nothers go on\n
// why: on the host it would be a fork bomb
#include "test.h"

int main(void) {
    int ends[2];
    pipe(ends);
    fflush(stdout);
    pid_t group = fork();
    if (group == 0) {
        setpgid(0, 0);
        int count = 0;
        for (; count < 100000; count++) {
            pid_t pid = fork();
            if (pid < 0) break;
            if (pid == 0) for (;;) pause();
        }
        char refused = count > 0 && count < 100000;
        write(ends[1], &refused, 1);
        for (;;) pause();
    }
    char refused = 9;
    read(ends[0], &refused, 1);
    printf("refused in the end: %d\n", refused);
    kill(-group, SIGKILL);
    while (wait(NULL) > 0) {}
    puts("others go on");
    return 0;
}
