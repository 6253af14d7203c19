// A native program of a user does not reach the monitor, with which it could work on other cores, use up the
// machine's books and run its checks; one of the administrator does.
//
// build: gcc
// cores: 2
// expect-stdout: passed\n
#include "test.h"

// What `nativetest jobs`, which asks the monitor, says to a user.
static int asks_monitor(uid_t user, char *said, size_t bytes) {
    int ends[2], status;
    pipe(ends);
    pid_t pid = fork();
    if (pid == 0) {
        setresgid(user, user, user), setresuid(user, user, user);
        dup2(ends[1], 1);
        close(ends[0]), close(ends[1]);
        execl("/bin/nativetest", "nativetest", "jobs", NULL);
        _exit(99);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, bytes - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 99 ? -1 : !strncmp(said, "Ok", 2);
}

int main(void) {
    char said[200];
    int failures = 0;
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    if (asks_monitor(0, said, sizeof said) != 1) failures++, printf("FAILED: the administrator: %s\n", said);
    if (asks_monitor(1000, said, sizeof said) != 0) failures++, printf("FAILED: a user: %s\n", said);
    if (!failures) printf("passed\n");
    return 0;
}
