// One user takes what he can have, and meanwhile root and another user still work.
#include "test.h"
#include <sys/stat.h>

enum { USER = 1000, OTHER = 1001 };

static int failed;
static void fail(const char *what, long value) {
    printf("FAILED %s: %ld, errno %d (%s)\n", what, value, errno, strerror(errno));
    failed = 1;
}

static inline void check(const char *what, long got, long expected) {
    if (got != expected) fail(what, got);
}

// A child of a user; 0 is root.
static inline pid_t as_user(uid_t user, void (*body)(int), int argument) {
    pid_t pid = fork();
    if (pid) return pid;
    if (user && setuid(user)) _exit(90);
    failed = 0;
    body(argument);
    _exit(failed ? 91 : 0);
}

static inline void ends(const char *what, pid_t pid, int expected) {
    int status = -1;
    waitpid(pid, &status, 0);
    check(what, status, expected);
}

// Opens files of its own, locks parts of one, and has children. 0, or where it failed.
static int work(void) {
    for (int i = 0; i < 20; i++) {
        int fd = open("/tmp/shared", O_RDWR);
        if (fd < 0) return 1;
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 2000000 + 10 * i, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock)) return 2;
    }
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        int status;
        if (pid < 0) return 3;
        if (waitpid(pid, &status, 0) != pid || status) return 4;
    }
    return 0;
}

static void others_work(void) {
    int ok = 1;
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (i == 1 && setuid(OTHER)) _exit(9);
            _exit(work());
        }
        int status = -1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
            fail(i ? "another user" : "root", status);
            ok = 0;
        }
    }
    if (ok) printf("others work\n");
}
