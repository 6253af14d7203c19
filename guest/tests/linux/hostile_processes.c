// One user has as many processes as he can. He is told so with the error that Linux gives, another user
// and root can still work, and when his processes have ended he can have as many again.
//
// build: gcc
// mem: 2G
// timeout: 240
// keeps: 4194304
// expect-stdout: EAGAIN\nothers work\nas many again\npassed\n
#include "others.h"

enum { LEAST = 1000, MOST = 3900 };

// Forks until that is refused; says how often it was not, and why it was in the end.
static void user_forks(int tell, int go) {
    if (setuid(USER)) _exit(1);
    int got[2] = {0, 0};
    char byte;
    for (; got[0] < MOST; got[0]++) {
        pid_t pid = fork();
        if (pid < 0) {
            got[1] = errno;
            break;
        }
        if (pid == 0) {
            read(go, &byte, 1);
            _exit(0);
        }
    }
    write(tell, got, sizeof got);
    while (wait(NULL) > 0) continue;
    _exit(0);
}

static int round_of(int first) {
    int tell[2], go[2], got[2] = {-1, 0}, status = -1;
    pipe(tell);
    pipe(go);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        user_forks(tell[1], go[0]);
    }
    close(go[0]);
    read(tell[0], got, sizeof got);
    if (first) {
        printf("%s\n", got[1] == EAGAIN ? "EAGAIN" : strerror(got[1]));
        fflush(stdout);
        others_work();
    }
    // All of them end.
    close(go[1]);
    waitpid(pid, &status, 0);
    if (status) fail("the user", status);
    close(tell[0]);
    close(tell[1]);
    return got[0];
}

int main(void) {
    close(open("/tmp/shared", O_CREAT | O_RDWR, 0666));
    chmod("/tmp/shared", 0666);
    int most = round_of(1);
    if (most < LEAST) fail("processes", most);
    int again = round_of(0);
    if (again == most) printf("as many again\n");
    else fail("processes, the second time", again);
    if (!failed) printf("passed\n");
    return failed;
}
