// One user takes all descriptions and locks that he can have. He gets the errors that Linux
// gives, another user and root can still work, and what he gives back can be had again.
//
// build: gcc
// timeout: 240
// keeps: 2097152
// expect-stdout: descriptions: ENFILE\nothers work\nlocks: ENOLCK\nothers work\npassed\n
#include "others.h"
#include <sys/file.h>

// What a process of the user does: takes until it is refused for a reason other than `own`, the limit of
// a process, and answers that errno; 0 when its own limit is reached.
static int take_descriptions(void) {
    for (;;) {
        if (open("/tmp/shared", O_RDONLY) < 0) return errno == EMFILE ? 0 : errno;
    }
}
static int take_locks(void) {
    int fd = open("/tmp/shared", O_RDWR);
    if (fd < 0) return errno;
    for (int i = 0; i < 1000; i++) {
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 4 * i, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock)) return errno;
    }
    return 0;
}

static void holder(int (*take)(void), int tell, int go) {
    int got = take();
    char byte;
    write(tell, &got, sizeof got);
    read(go, &byte, 1);
    _exit(0);
}

// Processes of the user, each of which takes its part, until one is refused.
static void user_takes(int (*take)(void), int tell, int go) {
    if (setuid(USER)) _exit(1);
    int answer[2], got = 0, started = 0;
    pipe(answer);
    while (got == 0 && started < 64) {
        pid_t pid = fork();
        if (pid < 0) _exit(2);
        if (pid == 0) holder(take, answer[1], go);
        started++;
        read(answer[0], &got, sizeof got);
    }
    write(tell, &got, sizeof got);
    while (wait(NULL) > 0) continue;
    _exit(0);
}

static const char *name(int error) {
    switch (error) {
    case ENFILE: return "ENFILE";
    case ENOLCK: return "ENOLCK";
    case EAGAIN: return "EAGAIN";
    default: return strerror(error);
    }
}

static void round_of(const char *what, int (*take)(void), int again) {
    int tell[2], go[2], got = -1, status = -1;
    pipe(tell);
    pipe(go);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        user_takes(take, tell[1], go[0]);
    }
    close(go[0]);
    read(tell[0], &got, sizeof got);
    if (!again) printf("%s: %s\n", what, name(got));
    fflush(stdout);
    if (!again) others_work();
    // All of them end.
    close(go[1]);
    waitpid(pid, &status, 0);
    if (status) fail(what, status);
    if (again && got <= 0) fail("the second time", got);
    close(tell[0]);
    close(tell[1]);
}

int main(void) {
    close(open("/tmp/shared", O_CREAT | O_RDWR, 0666));
    chmod("/tmp/shared", 0666);
    round_of("descriptions", take_descriptions, 0);
    round_of("descriptions", take_descriptions, 1);
    round_of("locks", take_locks, 0);
    round_of("locks", take_locks, 1);
    if (!failed) printf("passed\n");
    return failed;
}
