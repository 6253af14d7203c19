// Descriptors of other processes: pidfd_getfd, kcmp, and what else is asked of a process that is open (process_mrelease).
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <sys/prctl.h>

static int open_process(pid_t pid) { return syscall(SYS_pidfd_open, pid, 0); }
static int get(int process, int fd, unsigned flags) { return syscall(438, process, fd, flags); }
static long compare(pid_t a, pid_t b, int what, unsigned long i, unsigned long j) {
    long order = syscall(SYS_kcmp, a, b, what, i, j);
    // Which one is less is anybody's guess.
    return order > 1 ? 1 : order;
}

int main(void) {
    int ends[2], go[2];
    pipe(ends), pipe(go);
    char path[] = "/tmp/takenXXXXXX";
    int file = mkstemp(path);
    unlink(path);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int own[2];
        char byte;
        pipe(own);
        dup2(own[0], 20), dup2(own[1], 21);
        write(21, "from the child", 14);
        write(ends[1], "r", 1);
        close(go[1]);
        read(go[0], &byte, 1);
        _exit(0);
    }
    char text[32] = {0};
    read(ends[0], text, 1);
    int process = open_process(child), self = open_process(getpid());
    SHOW(get(process, 20, 1));
    SHOW(get(99, 20, 0));
    SHOW(get(file, 20, 0));
    SHOW(get(process, 99, 0));
    SHOW(get(process, -1, 0));
    int taken = get(process, 20, 0);
    SHOW(taken >= 0);
    SHOW(fcntl(taken, F_GETFD));
    SHOW(read(taken, text, sizeof text));
    printf("%s\n", text);
    int written = get(process, 21, 0);
    SHOW(write(written, "x", 1));
    SHOW(read(taken, text, sizeof text));
    SHOW(write(taken, "x", 1));
    // The own ones are the same files.
    int again = get(self, file, 0);
    SHOW(again >= 0);
    SHOW(write(again, "abc", 3));
    SHOW(lseek(file, 0, SEEK_CUR));
    pid_t own = getpid();
    SHOW(compare(own, own, 0, file, again));
    SHOW(compare(own, own, 0, file, file));
    SHOW(compare(own, own, 0, file, ends[0]));
    SHOW(compare(own, own, 0, file, 99));
    SHOW(compare(own, own, 0, 99, file));
    SHOW(compare(own, child, 0, taken, 20));
    SHOW(compare(own, child, 0, taken, 21));
    SHOW(compare(own, child, 0, ends[0], ends[0]));
    SHOW(compare(child, child, 0, 20, 21));
    SHOW(compare(own, child, 0, file, 99));
    for (int what = 1; what < 5; what++) {
        printf("%d: ", what);
        SHOW(compare(own, own, what, 0, 0));
        SHOW(compare(own, child, what, 0, 0));
    }
    SHOW(compare(own, own, 6, 0, 0));
    SHOW(compare(own, child, 6, 0, 0));
    SHOW(compare(own, own, 8, 0, 0));
    SHOW(compare(own, own, -1, 0, 0));
    SHOW(compare(own, 999999, 1, 0, 0));
    SHOW(compare(999999, own, 1, 0, 0));
    SHOW(compare(0, own, 1, 0, 0));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        SHOW(get(process, 20, 0));
        SHOW(compare(own, child, 1, 0, 0));
        SHOW(compare(getpid(), child, 0, 0, 0));
        SHOW(syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0));
        SHOW(syscall(SYS_pidfd_send_signal, process, 0, NULL, 0));
    });
    // Memory of one that goes on is not taken away.
    SHOW(syscall(448, process, 1));
    SHOW(syscall(448, 99, 0));
    SHOW(syscall(448, file, 0));
    SHOW(syscall(448, process, 0));
    SHOW(syscall(448, self, 0));
    SHOW(syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 8));
    SHOW(syscall(SYS_pidfd_send_signal, process, 65, NULL, 0));
    SHOW(syscall(SYS_pidfd_send_signal, 99, 0, NULL, 0));
    SHOW(syscall(SYS_pidfd_send_signal, file, 0, NULL, 0));
    SHOW(syscall(SYS_pidfd_send_signal, process, 0, (void *)8, 0));
    SHOW(syscall(SYS_pidfd_send_signal, process, 0, NULL, 0));
    SHOW(syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0));
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    SHOW(get(process, 20, 0));
    SHOW(syscall(448, process, 0));
    int status;
    waitpid(child, &status, 0);
    printf("%#x\n", status);
    SHOW(get(process, 20, 0));
    SHOW(syscall(448, process, 0));
    SHOW(syscall(SYS_pidfd_send_signal, process, 0, NULL, 0));
    // Both ends of the pipe are here now.
    SHOW(write(written, "y", 1));
    SHOW(read(taken, text, 1));
    return 0;
}
