// signalfd: signals that are read.
// oracle: linux
// link: -pthread
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/uio.h>

// The bare call: the libraries hide the size of the set.
static int signalfd_(int fd, const void *set, size_t bytes, int flags) {
    return syscall(SYS_signalfd4, fd, set, bytes, flags);
}

static struct signalfd_siginfo info[8];
static volatile int handled;

static void handler(int signal) { handled = signal; }

static int of(int a, int b, int flags) {
    sigset_t set = set_of(a, b, 0);
    return signalfd_(-1, &set, 8, flags);
}

static void change(int fd, int a, int b) {
    sigset_t set = set_of(a, b, 0);
    SHOW(signalfd_(fd, &set, 8, 0) == fd);
}

static void look(const char *when, int fd, int ms) {
    struct pollfd one = {fd, POLLIN | POLLOUT | POLLRDNORM, 0};
    int count = poll(&one, 1, ms);
    printf("%s: %d %#x\n", when, count, one.revents);
}

// Reads and shows what was read.
static void take(const char *when, int fd, int count) {
    memset(info, 0x55, sizeof info);
    errno = 0;
    long bytes = read(fd, info, count * sizeof *info);
    printf("%s: %ld", when, bytes);
    if (bytes < 0) printf(", errno %d", errno);
    for (int i = 0; i < bytes / (long)sizeof *info; i++) {
        struct signalfd_siginfo *one = &info[i];
        // The first real-time signal is not the same for all libraries.
        int number = one->ssi_signo, is_late = number > 31;
        printf(" [%s%d code %d value %d %#llx errno %d status %d]", is_late ? "RTMIN+" : "",
               is_late ? number - SIGRTMIN : number, one->ssi_code, one->ssi_int,
               (unsigned long long)one->ssi_ptr, one->ssi_errno, one->ssi_status);
    }
    printf("\n");
}

static void drain(int fd) {
    while (read(fd, info, sizeof info) > 0) {}
}

static void after(int ms, pid_t pid, int signal) {
    if (fork() == 0) {
        usleep(ms * 1000);
        kill(pid, signal);
        _exit(0);
    }
}

static void arguments(void) {
    sigset_t set = set_of(SIGUSR1, 0, 0);
    SHOW(signalfd_(-1, &set, 4, 0));
    SHOW(signalfd_(-1, &set, 16, 0));
    SHOW(signalfd_(-1, NULL, 8, 0));
    SHOW(signalfd_(-1, (void *)8, 8, 0));
    SHOW(signalfd_(-1, (void *)-8l, 8, 0));
    SHOW(signalfd_(-1, (void *)8, 8, 1));
    SHOW(signalfd_(-1, &set, 8, 1));
    SHOW(signalfd_(-2, &set, 8, 0));
    SHOW(signalfd_(99, &set, 8, 0));
    SHOW(signalfd_(99, &set, 8, 1));
    SHOW(signalfd_(1, &set, 8, 0));
    int place = open("/proc/self/exe", O_PATH);
    SHOW(signalfd_(place, &set, 8, 0));
    close(place);
    SHOW(syscall(SYS_signalfd, 99, &set, 8));
    SHOW(syscall(SYS_signalfd, -1, &set, 9));
    int fd = syscall(SYS_signalfd, -1, &set, 8);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL));
    // Flags of a second call do nothing.
    SHOW(signalfd_(fd, &set, 8, SFD_CLOEXEC | SFD_NONBLOCK) == fd);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL));
    close(fd);
    fd = of(SIGUSR1, 0, SFD_CLOEXEC | SFD_NONBLOCK);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL));
    char byte = 0, name[64] = {0}, path[64];
    SHOW(write(fd, &byte, 1));
    SHOW(pread(fd, info, sizeof info, 0));
    SHOW(lseek(fd, 5, SEEK_SET));
    SHOW(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
    SHOW(fsync(fd));
    SHOW(ftruncate(fd, 0));
    SHOW(syscall(SYS_getdents64, fd, info, sizeof info));
    int count;
    SHOW(syscall(SYS_ioctl, fd, 0x541b, &count));
    struct stat stat;
    SHOW(fstat(fd, &stat));
    printf("%#o %ld\n", stat.st_mode, (long)stat.st_size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    SHOW(readlink(path, name, sizeof name - 1));
    printf("%s\n", name);
    close(fd);
}

static void reading(void) {
    int fd = of(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
    take("nothing", fd, 1);
    SHOW(read(fd, info, 127));
    SHOW(read(fd, info, 0));
    look("nothing", fd, 0);
    kill(getpid(), SIGUSR2);
    SHOW(read(fd, info, 127));
    look("one", fd, 0);
    take("one", fd, 8);
    CHECK(info[0].ssi_pid == (unsigned)getpid() && info[0].ssi_uid == getuid());
    take("none", fd, 8);
    // One of each, however often it was sent; the lowest first, and not others.
    kill(getpid(), SIGUSR2), kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2), kill(getpid(), SIGWINCH);
    take("two", fd, 8);
    take("other", fd, 8);
    kill(getpid(), SIGUSR2), kill(getpid(), SIGUSR1);
    take("first", fd, 1);
    look("second", fd, 0);
    take("second", fd, 1);
    look("all", fd, 0);
    // What is for the thread comes before what is for the process.
    kill(getpid(), SIGUSR1), raise(SIGUSR2);
    take("own first", fd, 2);
    CHECK(info[0].ssi_pid == (unsigned)getpid());
    change(fd, SIGRTMIN + 3, SIGRTMIN + 1);
    union sigval value = {.sival_ptr = (void *)0x123456789abc};
    SHOW(sigqueue(getpid(), SIGRTMIN + 3, value));
    value.sival_ptr = (void *)77;
    SHOW(sigqueue(getpid(), SIGRTMIN + 1, value));
    take("queued", fd, 8);
    // What was taken one way is not there the other way.
    change(fd, SIGUSR1, SIGWINCH);
    kill(getpid(), SIGUSR1);
    sigset_t set = set_of(SIGUSR1, SIGWINCH, 0);
    int signal;
    SHOW(sigwait(&set, &signal));
    SHOW(sigwait(&set, &signal));
    look("waited for", fd, 0);
    take("waited for", fd, 1);
    kill(getpid(), SIGUSR1);
    set = set_of(SIGUSR1, 0, 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("handled %d\n", handled == SIGUSR1);
    take("handled", fd, 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    // The kernel does not give these away.
    change(fd, SIGKILL, SIGSTOP);
    look("none", fd, 0);
    close(fd);
}

static void several_buffers(void) {
    int fd = of(SIGUSR1, SIGUSR2, SFD_NONBLOCK);
    char *half = pages(3, PROT_READ | PROT_WRITE);
    mprotect(half + 2 * PAGE, PAGE, PROT_NONE);
    struct iovec parts[3] = {{half, 100}, {half + 1000, 28}, {half + 2000, 200}};
    kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2);
    SHOW(readv(fd, parts, 3));
    struct signalfd_siginfo *second = (void *)(half + 2000);
    printf("%u %d\n", *(unsigned *)half, second->ssi_signo);
    kill(getpid(), SIGUSR1);
    SHOW(readv(fd, parts, 1));
    SHOW(readv(fd, parts, 2));
    // As much as there is room for.
    kill(getpid(), SIGUSR1);
    SHOW(read(fd, half + 2 * PAGE - 128, 256));
    kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2);
    SHOW(read(fd, half + 2 * PAGE - 128, 256));
    drain(fd);
    SHOW(read(fd, half + 2 * PAGE, 128));
    kill(getpid(), SIGUSR1);
    SHOW(read(fd, half + 2 * PAGE, 128));
    kill(getpid(), SIGUSR1);
    SHOW(read(fd, half + 2 * PAGE - 64, 128));
    SHOW(read(fd, (void *)8, 127));
    // Whether what cannot be stored is lost depends on the system.
    drain(fd);
    SHOW(read(fd, (void *)8, 128));
    kill(getpid(), SIGUSR1);
    SHOW(read(fd, (void *)0xffff800000000000, 128));
    drain(fd);
    munmap(half, 3 * PAGE);
    close(fd);
}

static void waiting(void) {
    int fd = of(SIGUSR1, SIGUSR2, 0), status;
    after(30, getpid(), SIGUSR1);
    take("read", fd, 8);
    wait(&status);
    after(30, getpid(), SIGUSR2);
    look("poll", fd, 5000);
    take("polled", fd, 1);
    wait(&status);
    after(30, getpid(), SIGUSR1);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    SHOW(select(fd + 1, &reads, NULL, NULL, NULL));
    take("selected", fd, 1);
    wait(&status);
    // A signal that has a handler interrupts; one of another mask does not.
    after(30, getpid(), SIGALRM);
    take("interrupted", fd, 1);
    wait(&status);
    struct sigaction restart = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &restart, NULL);
    after(30, getpid(), SIGALRM), after(60, getpid(), SIGTERM), after(120, getpid(), SIGUSR2);
    take("restarted", fd, 1);
    while (wait(&status) > 0) {}
    struct sigaction none = {.sa_handler = handler};
    sigaction(SIGALRM, &none, NULL);
    sigset_t set = set_of(SIGTERM, 0, 0);
    int signal;
    SHOW(sigwait(&set, &signal));
    look("over", fd, 20);
    close(fd);
}

// Ignored signals come while they are blocked, and what is not blocked does what it does.
static void actions(void) {
    int fd = of(SIGUSR1, SIGCHLD, SFD_NONBLOCK);
    sigset_t set = set_of(SIGUSR1, 0, 0);
    drain(fd);
    signal(SIGUSR1, SIG_IGN);
    kill(getpid(), SIGUSR1);
    take("ignored", fd, 1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    take("not blocked", fd, 1);
    fcntl(fd, F_SETFL, 0);
    IN_CHILD("killed", {
        signal(SIGUSR1, SIG_DFL);
        after(30, getpid(), SIGUSR1);
        take("killed", fd, 1);
    });
    IN_CHILD("ignored", {
        after(30, getpid(), SIGUSR1);
        take("child of it", fd, 1);
        CHECK(info[0].ssi_pid != 0 && info[0].ssi_uid == getuid());
    });
    take("child", fd, 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, handler);
    pid_t child = fork();
    if (child == 0) _exit(9);
    take("exit", fd, 1);
    CHECK(info[0].ssi_pid == (unsigned)child);
    waitpid(child, NULL, 0);
    child = fork();
    if (child == 0) for (;;) pause();
    kill(child, SIGKILL);
    take("kill", fd, 1);
    waitpid(child, NULL, 0);
    close(fd);
}

static int control(int set, int how, int fd, unsigned events, int number) {
    struct epoll_event event = {events, {.u64 = number}};
    return epoll_ctl(set, how, fd, &event);
}

static void events(const char *when, int set, int ms) {
    struct epoll_event found[8];
    int count = epoll_wait(set, found, 8, ms);
    printf("%s: %d", when, count);
    for (int i = 0; i < count; i++) printf(" %d:%#x", (int)found[i].data.u64, found[i].events);
    printf("\n");
}

static void sets(void) {
    int fd = of(SIGUSR1, SIGUSR2, SFD_NONBLOCK), set = epoll_create1(0), outer = epoll_create1(0), ends[2];
    pipe(ends);
    SHOW(control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 2));
    SHOW(control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLRDNORM, 1));
    events("nothing", set, 0);
    after(30, getpid(), SIGUSR1);
    events("came", set, 5000);
    events("still", set, 0);
    take("came", fd, 8);
    events("read", set, 0);
    wait(NULL);
    SHOW(control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 1));
    events("nothing", set, 0);
    kill(getpid(), SIGUSR1);
    events("edge", set, 0);
    events("edge", set, 0);
    kill(getpid(), SIGUSR2);
    events("another", set, 0);
    events("another", set, 0);
    take("two", fd, 8);
    events("two", set, 0);
    kill(getpid(), SIGUSR1);
    SHOW(control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 1));
    events("once", set, 0);
    events("once", set, 0);
    SHOW(control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 1));
    SHOW(control(outer, EPOLL_CTL_ADD, set, EPOLLIN, 3));
    events("outer", outer, 0);
    take("outer", fd, 8);
    events("outer", outer, 0);
    after(30, getpid(), SIGUSR2);
    events("outer came", outer, 5000);
    // Other signals are waited for when the mask is another one.
    change(fd, SIGUSR1, 0);
    events("changed", set, 0);
    change(fd, SIGUSR2, 0);
    events("changed back", set, 0);
    take("changed back", fd, 8);
    wait(NULL);
    write(ends[1], "x", 1);
    events("pipe", set, 0);
    close(fd);
    kill(getpid(), SIGUSR2);
    events("closed", set, 0);
    sigset_t signals = set_of(SIGUSR2, 0, 0);
    int signal;
    SHOW(sigwait(&signals, &signal));
    close(set), close(outer), close(ends[0]), close(ends[1]);
}

// What most programs do: the set is there before the children, and tells of their ends.
static void children(void) {
    int fd = of(SIGCHLD, SIGTERM, SFD_CLOEXEC | SFD_NONBLOCK), set = epoll_create1(EPOLL_CLOEXEC);
    SHOW(control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
    drain(fd);
    for (int i = 1; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            _exit(i);
        }
        events("a child", set, 5000);
        take("a child", fd, 8);
        CHECK(info[0].ssi_pid == (unsigned)child);
        waitpid(child, NULL, 0);
        events("no child", set, 0);
    }
    pid_t child;
    char *words[] = {"sh", "-c", "exit 5", NULL}, *none[] = {NULL};
    SHOW(posix_spawn(&child, "/bin/sh", NULL, NULL, words, none));
    events("spawned", set, 5000);
    take("spawned", fd, 8);
    waitpid(child, NULL, 0);
    SHOW(control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 1));
    kill(getpid(), SIGTERM);
    events("edge", set, 0);
    events("edge", set, 0);
    take("edge", fd, 8);
    close(fd), close(set);
}

// Parent and child have the same mask, and each reads what waits for itself.
static void shared(void) {
    int fd = of(SIGUSR1, 0, SFD_NONBLOCK), go[2], done[2];
    char byte;
    pipe(go), pipe(done);
    kill(getpid(), SIGUSR1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        look("child", fd, 0);
        take("child", fd, 1);
        raise(SIGUSR1);
        take("child's own", fd, 1);
        change(fd, SIGUSR2, 0);
        write(done[1], "x", 1);
        read(go[0], &byte, 1);
        look("child's, sent by its parent", fd, 5000);
        take("child's, sent by its parent", fd, 1);
        CHECK(info[0].ssi_pid == (unsigned)getppid());
        fcntl(fd, F_SETFL, 0);
        fflush(stdout);
        _exit(0);
    }
    read(done[0], &byte, 1);
    look("another mask", fd, 0);
    kill(child, SIGUSR2), write(go[1], "x", 1);
    waitpid(child, NULL, 0);
    SHOW(fcntl(fd, F_GETFL));
    kill(getpid(), SIGUSR2);
    int copy = dup(fd);
    change(copy, SIGUSR1, SIGUSR2);
    take("both", fd, 8);
    close(fd);
    after(20, getpid(), SIGUSR1);
    take("copy", copy, 8);
    wait(NULL);
    close(copy), close(go[0]), close(go[1]), close(done[0]), close(done[1]);
}

// A set tells of the signals of who has added the member.
static void added_by_others(void) {
    int fd = of(SIGUSR1, 0, SFD_NONBLOCK), set = epoll_create1(0);
    IN_CHILD("adds", SHOW(control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1)));
    SHOW(control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 2));
    SHOW(control(set, EPOLL_CTL_DEL, fd, 0, 0));
    SHOW(control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 3));
    IN_CHILD("adds to its own", {
        int own = epoll_create1(0);
        SHOW(control(own, EPOLL_CTL_ADD, fd, EPOLLIN, 4));
        raise(SIGUSR1);
        events("its own", own, 0);
        look("by another", fd, 0);
    });
    events("not the parent's", set, 0);
    raise(SIGUSR1);
    events("the parent's", set, 0);
    close(fd);
    events("closed", set, 0);
    fd = of(SIGUSR1, 0, SFD_NONBLOCK);
    take("again", fd, 1);
    close(fd), close(set);
}

static void many(void) {
    struct pollfd all[100];
    for (int i = 0; i < 100; i++) all[i] = (struct pollfd){of(SIGUSR1, 0, SFD_NONBLOCK), POLLIN, 0};
    after(30, getpid(), SIGUSR1);
    SHOW(poll(all, 100, 5000));
    take("the last", all[99].fd, 1);
    wait(NULL);
    after(30, getpid(), SIGUSR1);
    SHOW(poll(all + 90, 10, 5000));
    take("the first", all[0].fd, 1);
    SHOW(poll(all, 100, 0));
    wait(NULL);
    for (int i = 0; i < 100; i++) close(all[i].fd);
}

static pid_t tid_of_reader;
static int reader_fd;
static volatile int readers;

static void *reader(void *argument) {
    struct signalfd_siginfo one = {0};
    tid_of_reader = syscall(SYS_gettid);
    __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
    long bytes = read(reader_fd, &one, sizeof one);
    return (void *)(bytes == sizeof one ? (long)one.ssi_signo : -(long)errno);
}

static void *poller(void *argument) {
    struct pollfd one = {reader_fd, POLLIN, 0};
    __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
    return (void *)(long)poll(&one, 1, (long)argument);
}

static pthread_t start(void *(*main)(void *), long argument) {
    pthread_t thread;
    int before = readers;
    pthread_create(&thread, NULL, main, (void *)argument);
    while (readers == before) usleep(1000);
    usleep(20000);
    return thread;
}

static long end(pthread_t thread) {
    void *result;
    pthread_join(thread, &result);
    return (long)result;
}

static void threads(void) {
    reader_fd = of(SIGUSR1, SIGUSR2, 0);
    pthread_t one = start(reader, 0), other;
    kill(getpid(), SIGUSR1);
    printf("for the process: %d\n", end(one) == SIGUSR1);
    one = start(reader, 0);
    syscall(SYS_tgkill, getpid(), tid_of_reader, SIGUSR2);
    printf("for the thread: %d\n", end(one) == SIGUSR2);
    // What is for another thread is not for this one.
    one = start(reader, 0);
    raise(SIGUSR1);
    usleep(20000);
    look("own", reader_fd, 0);
    kill(getpid(), SIGUSR2);
    printf("not for the thread: %d\n", end(one) == SIGUSR2);
    one = start(poller, 100);
    printf("polls in vain: %ld\n", end(one));
    take("own", reader_fd, 1);
    // Two read, and each gets one.
    one = start(reader, 0), other = start(reader, 0);
    kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2);
    printf("each: %ld\n", end(one) + end(other));
    // All that look are told.
    one = start(poller, 5000), other = start(poller, 5000);
    kill(getpid(), SIGUSR2);
    printf("both: %ld %ld\n", end(one), end(other));
    take("both", reader_fd, 8);
    one = start(poller, 5000);
    syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
    usleep(20000);
    kill(getpid(), SIGUSR2);
    printf("the process's: %ld\n", end(one));
    take("both", reader_fd, 8);
    // Whoever waits goes by the new mask.
    change(reader_fd, SIGUSR1, 0);
    kill(getpid(), SIGUSR2);
    one = start(reader, 0), other = start(poller, 5000);
    change(reader_fd, SIGUSR2, 0);
    printf("new mask: %d", end(one) == SIGUSR2);
    kill(getpid(), SIGUSR2);
    printf(" %ld\n", end(other));
    take("new mask", reader_fd, 8);
    close(reader_fd);
}

static char number[16];

static void again(int fd) {
    sigset_t set;
    sigprocmask(SIG_BLOCK, NULL, &set);
    printf("blocked %d\n", sigismember(&set, SIGUSR1));
    struct stat stat;
    int closed = atoi(number);
    SHOW(fstat(closed, &stat));
    take("after exec", fd, 8);
    kill(getpid(), SIGUSR1);
    take("new program", fd, 8);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        strncpy(number, argv[2], sizeof number - 1);
        again(atoi(argv[1]));
        return 0;
    }
    signal(SIGUSR1, handler), signal(SIGUSR2, handler);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    sigset_t set = set_of(SIGUSR1, SIGUSR2, SIGWINCH);
    sigaddset(&set, SIGCHLD), sigaddset(&set, SIGTERM), sigaddset(&set, SIGRTMIN + 1), sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    arguments();
    reading();
    several_buffers();
    waiting();
    actions();
    sets();
    shared();
    added_by_others();
    many();
    threads();
    children();
    int fd = of(SIGUSR1, SIGUSR2, SFD_NONBLOCK), closed = of(SIGUSR1, 0, SFD_CLOEXEC);
    kill(getpid(), SIGUSR2);
    char first[16], second[16];
    snprintf(first, sizeof first, "%d", fd), snprintf(second, sizeof second, "%d", closed);
    fflush(stdout);
    execl("/proc/self/exe", argv[0], first, second, NULL);
    return 1;
}
