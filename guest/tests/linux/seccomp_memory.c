// Who decides about a call looks into the memory of who makes it, as seccomp_unotify(2) says; and calls that are left only to end
// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).
// oracle: linux
// cores: 2
#include "notices.h"
#include <poll.h>
#include <sys/uio.h>

enum { KILLABLE = 32 };
#define SET_FLAGS _IOW('!', 4, uint64_t)

static long answer(int fd, uint64_t id, int64_t value) {
    struct response response = {id, value, 0, 0};
    return result_of(ioctl(fd, SEND, &response));
}

static volatile int handled;
static void noticed(int signal) { handled = signal; }

static void asks(int socket, unsigned flags) {
    long fd = install(SYS_mkdir, LISTENER | flags);
    give(socket, fd);
    close(fd);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "/nowhere/%d", i);
        long result = syscall(SYS_mkdir, name, 0700);
        printf("made %d: %ld, now %s\n", i, result == -1 ? -errno : result, name);
    }
    struct sigaction action = {.sa_handler = noticed};
    sigaction(SIGUSR1, &action, NULL);
    long result = syscall(SYS_mkdir, "/told", 0700);
    printf("with a signal: %ld, handled %d\n", result == -1 ? -errno : result, handled == SIGUSR1);
    fflush(stdout);
    syscall(SYS_mkdir, "/last", 0700);
    _exit(3);
}

static void supervise(unsigned flags) {
    printf("-- flags %u\n", flags);
    int pair[2], said[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(said) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        // What it says comes at the end.
        dup2(said[1], 1);
        asks(pair[1], flags);
    }
    close(said[1]);
    int fd = taken(pair[0]);
    for (int i = 0; i < 3; i++) {
        struct notice one = next(fd);
        char path[64], name[64] = "", there[64] = "";
        snprintf(path, sizeof path, "/proc/%u/mem", one.pid);
        int memory = open(path, O_RDWR);
        MUST(memory >= 0);
        printf("valid %d, ", is_valid(fd, one.id));
        long bytes = pread(memory, name, sizeof name - 1, one.data.arguments[0]);
        printf("read %d: %s, valid %d\n", bytes > 0, name, is_valid(fd, one.id));
        struct iovec here = {there, sizeof there - 1}, from = {(void *)one.data.arguments[0], sizeof there - 1};
        bytes = syscall(SYS_process_vm_readv, one.pid, &here, 1, &from, 1, 0);
        printf("another way %d: %s, valid %d\n", bytes > 0, there, is_valid(fd, one.id));
        if (i == 1) {
            MUST(pwrite(memory, "/changed", 9, one.data.arguments[0]) == 9);
            printf("written, valid %d\n", is_valid(fd, one.id));
        }
        close(memory);
        printf("decided %ld\n", answer(fd, one.id, 100 + i));
    }
    struct notice one = next(fd);
    kill(child, SIGUSR1);
    if (flags & KILLABLE) {
        usleep(200 * 1000);
        printf("stays: %d\n", is_valid(fd, one.id));
    } else {
        while (is_valid(fd, one.id) == 0) usleep(1000);
        printf("left\n");
    }
    long decided = answer(fd, one.id, 7);
    printf("decided %ld\n", decided);
    one = next(fd);
    // What ends it is waited for by nobody.
    kill(child, SIGTERM);
    int status;
    waitpid(child, &status, 0);
    printf("ended %#x, valid %d\n", status, is_valid(fd, one.id));
    close(fd);
    char text[2000];
    for (long bytes; (bytes = read(said[0], text, sizeof text)) > 0;) MUST(fwrite(text, 1, bytes, stdout) == (size_t)bytes);
    close(said[0]);
}

// A signal that came before anybody was told is as any.
static void before(void) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = noticed};
        sigaction(SIGUSR1, &action, NULL);
        give(pair[1], install(SYS_mkdir, LISTENER | KILLABLE));
        long result = syscall(SYS_mkdir, "/early", 0700);
        printf("before: %ld, handled %d\n", result == -1 ? -errno : result, handled == SIGUSR1);
        fflush(stdout);
        _exit(0);
    }
    int fd = taken(pair[0]);
    struct pollfd one = {fd, POLLIN, 0};
    MUST(poll(&one, 1, 10000) == 1);
    kill(child, SIGUSR1);
    int status;
    waitpid(child, &status, 0);
    printf("ended %#x\n", status);
    close(fd);
}

int main(void) {
    printf("without a listener: %ld\n", install(SYS_mkdir, KILLABLE));
    printf("with all threads: %ld\n", install(SYS_mkdir, KILLABLE | TSYNC));
    printf("with others: %ld\n", install(SYS_mkdir, LISTENER | KILLABLE | 64));
    IN_CHILD("flags", {
        int fd = install(SYS_mkdir, LISTENER);
        SHOW(ioctl(fd, SET_FLAGS, 0));
        SHOW(ioctl(fd, SET_FLAGS, 1));
        SHOW(ioctl(fd, SET_FLAGS, 2));
        SHOW(ioctl(fd, SET_FLAGS, 1ul << 40));
    });
    IN_CHILD("both", {
        SHOW(install(SYS_mkdir, LISTENER | KILLABLE | TSYNC | TSYNC_ESRCH) >= 0);
    });
    supervise(0);
    supervise(KILLABLE);
    before();
    return 0;
}
