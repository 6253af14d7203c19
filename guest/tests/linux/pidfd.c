// pidfd_open, pidfd_send_signal, waitid(P_PIDFD): a process as a file.
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/time.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static int pidfd_open_(pid_t pid, unsigned flags) { return syscall(434, pid, flags); }
static int pidfd_send_signal_(int fd, int sig, siginfo_t *info, unsigned flags) {
    return syscall(424, fd, sig, info, flags);
}

static char byte;

static void look(const char *when, int fd, int ms) {
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    int count = poll(&one, 1, ms);
    printf("%s: %d %#x\n", when, count, one.revents & ~POLLHUP);
}

static void arguments(void) {
    SHOW(pidfd_open_(0, 0));
    SHOW(pidfd_open_(-1, 0));
    SHOW(pidfd_open_(getpid(), 1));
    SHOW(pidfd_open_(31999, 0));
    int own = pidfd_open_(getpid(), 0);
    CHECK(own >= 0);
    CHECK(fcntl(own, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(own, F_GETFL) == O_RDWR);
    SHOW(read(own, &byte, 1));
    SHOW(write(own, &byte, 1));
    SHOW(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, own, 0) == MAP_FAILED);
    SHOW(fsync(own));
    SHOW(pidfd_send_signal_(own, 0, NULL, 0));
    SHOW(pidfd_send_signal_(own, 65, NULL, 0));
    SHOW(pidfd_send_signal_(own, 0, NULL, 77));
    SHOW(pidfd_send_signal_(0, 0, NULL, 0));
    SHOW(pidfd_send_signal_(99, 0, NULL, 0));
    look("own", own, 0);
    siginfo_t info;
    // A folder of /proc does for signals alone.
    int folder = open("/proc/self", O_RDONLY | O_DIRECTORY), other = open("/", O_RDONLY | O_DIRECTORY);
    int task = open("/proc/self/task", O_RDONLY | O_DIRECTORY), path = open("/proc/self", O_PATH);
    SHOW(pidfd_send_signal_(folder, 0, NULL, 0));
    SHOW(pidfd_send_signal_(folder, 65, NULL, 0));
    SHOW(pidfd_send_signal_(other, 0, NULL, 0));
    SHOW(pidfd_send_signal_(task, 0, NULL, 0));
    SHOW(pidfd_send_signal_(path, 0, NULL, 0));
    SHOW(waitid(P_PIDFD, folder, &info, WEXITED));
    SHOW(syscall(438, folder, 0, 0));
    memset(&info, 0, sizeof info);
    info.si_signo = SIGURG, info.si_code = SI_TKILL;
    SHOW(pidfd_send_signal_(folder, SIGURG, &info, 0));
    SHOW(pidfd_send_signal_(folder, SIGUSR1, &info, 0));
    pid_t gone = fork();
    if (gone == 0) pause();
    char name[40];
    snprintf(name, sizeof name, "/proc/%d", gone);
    int theirs = open(name, O_RDONLY | O_DIRECTORY);
    SHOW(pidfd_send_signal_(theirs, SIGURG, &info, 0));
    SHOW(pidfd_send_signal_(theirs, SIGKILL, NULL, 0));
    waitpid(gone, NULL, 0);
    SHOW(pidfd_send_signal_(theirs, 0, NULL, 0));
    close(folder), close(other), close(task), close(path), close(theirs);
    SHOW(waitid(P_PIDFD, own, &info, WEXITED));
    SHOW(waitid(P_PIDFD, 0, &info, WEXITED));
    SHOW(waitid(P_PIDFD, 99, &info, WEXITED));
    SHOW(waitid(P_PIDFD, -1, &info, WEXITED));
    close(own);
}

static void end_of_a_child(void) {
    int hold[2];
    pipe(hold);
    pid_t child = fork();
    if (child == 0) {
        close(hold[1]);
        read(hold[0], &byte, 1);
        _exit(7);
    }
    close(hold[0]);
    int fd = pidfd_open_(child, O_NONBLOCK);
    look("runs", fd, 0);
    siginfo_t info = {0};
    SHOW(waitid(P_PIDFD, fd, &info, WEXITED));
    SHOW(waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG));
    printf("%d\n", info.si_pid);
    int set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u64 = 5}}, found;
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SHOW(epoll_wait(set, &found, 1, 0));
    close(hold[1]);
    SHOW(epoll_wait(set, &found, 1, 5000));
    printf("%#x %d\n", found.events & ~EPOLLHUP, (int)found.data.u64);
    look("has ended", fd, 5000);
    SHOW(pidfd_send_signal_(fd, 0, NULL, 0));
    // Another one, of a process that has ended.
    int other = pidfd_open_(child, 0);
    look("other", other, 0);
    SHOW(waitid(P_PIDFD, fd, &info, WEXITED | WNOWAIT));
    SHOW(waitid(P_PIDFD, fd, &info, WEXITED));
    CHECK(info.si_pid == child);
    printf("%d %d\n", info.si_code == CLD_EXITED, info.si_status);
    look("has been waited for", fd, 0);
    SHOW(waitid(P_PIDFD, fd, &info, WEXITED));
    SHOW(pidfd_send_signal_(fd, SIGTERM, NULL, 0));
    SHOW(pidfd_open_(child, 0));
    close(fd), close(other), close(set);
}

static void signals(void) {
    pid_t child = fork();
    if (child == 0) {
        for (;;) pause();
    }
    int fd = pidfd_open_(child, 0);
    siginfo_t info = {0};
    // Behind a fork it is the same process.
    IN_CHILD("sender", SHOW(pidfd_send_signal_(fd, SIGTERM, NULL, 0)));
    look("killed", fd, 5000);
    IN_CHILD("brother", look("brother", fd, 0));
    SHOW(waitid(P_PIDFD, fd, &info, WEXITED));
    printf("%d %d\n", info.si_code == CLD_KILLED, info.si_status);
    close(fd);
}

static volatile int got, value;

static void handler(int signal, siginfo_t *info, void *context) {
    got = signal, value = info->si_value.sival_int;
}

static void own_signal(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    int fd = pidfd_open_(getpid(), 0);
    siginfo_t info = {0};
    info.si_signo = SIGUSR1, info.si_code = SI_QUEUE, info.si_value.sival_int = 99;
    SHOW(pidfd_send_signal_(fd, SIGUSR1, &info, 0));
    printf("%d %d\n", got == SIGUSR1, value);
    SHOW(pidfd_send_signal_(fd, SIGUSR2, &info, 0));
    SHOW(pidfd_send_signal_(fd, SIGUSR1, (siginfo_t *)8, 0));
    close(fd);
}

int main(void) {
    arguments();
    end_of_a_child();
    signals();
    own_signal();
    return 0;
}
