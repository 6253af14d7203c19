// POSIX message queues: names, limits, order, who waits and how that ends, who is told.
// build: gcc, musl
// link: -pthread
// oracle: linux
// cores: 4
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

struct attributes {
    long flags, most, size, count, rest[4];
};
static int mq(const char *name, int flags, int mode, struct attributes *attributes) {
    return syscall(SYS_mq_open, name, flags, mode, attributes);
}
static long gone(const char *name) { return syscall(SYS_mq_unlink, name); }
static long put(int fd, const char *text, unsigned priority, const struct timespec *until) {
    return syscall(SYS_mq_timedsend, fd, text, strlen(text), priority, until);
}
static char in[20000];
static unsigned got_priority;
static long take(int fd, const struct timespec *until) {
    memset(in, 0, sizeof in);
    got_priority = 77;
    return syscall(SYS_mq_timedreceive, fd, in, sizeof in, &got_priority, until);
}
static void taken(int fd) {
    long got = take(fd, NULL);
    if (got < 0) printf("errno %d\n", errno);
    else printf("%ld '%s' of priority %u\n", got, in, got_priority);
}
static long tell(int fd, int how, int signal, int value) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = how, event.sigev_signo = signal, event.sigev_value.sival_int = value;
    return syscall(SYS_mq_notify, fd, &event);
}
static long untell(int fd) { return syscall(SYS_mq_notify, fd, NULL); }
static struct attributes state;
static long attr(int fd, struct attributes *new) { return syscall(SYS_mq_getsetattr, fd, new, &state); }
static void show(int fd) {
    if (attr(fd, NULL)) printf("errno %d\n", errno);
    else printf("flags %lo, %ld of %ld messages of %ld bytes\n", state.flags, state.count, state.most, state.size);
}
static struct timespec soon(long ms) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += ms * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000, at.tv_nsec %= 1000000000;
    return at;
}

static void names(void) {
    char name[300];
    memset(name, 'q', sizeof name), name[256] = 0;
    SHOW(mq("absent", O_RDWR, 0, NULL));
    SHOW(mq("", O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq("a/b", O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq("/a", O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq(".", O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq("..", O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq(name, O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq(NULL, O_RDWR | O_CREAT, 0600, NULL));
    SHOW(mq("test", O_RDWR | O_CREAT, 0600, (void *)8));
    SHOW(gone("absent"));
    SHOW(gone(""));
    SHOW(gone("a/b"));
    SHOW(gone(name));
    SHOW(gone(NULL));
    umask(022);
    int fd = mq("test", O_RDWR | O_CREAT | O_EXCL, 0666, NULL);
    SHOW(fd >= 0);
    show(fd);
    struct stat st;
    SHOW(fstat(fd, &st));
    printf("mode %o, %ld bytes, user %d\n", st.st_mode, (long)st.st_size, st.st_uid);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL));
    SHOW(mq("test", O_RDWR | O_CREAT | O_EXCL, 0666, NULL));
    SHOW(mq("test", O_WRONLY | O_RDWR, 0, NULL));
    int second = mq("test", O_RDONLY | O_NONBLOCK, 0, NULL), third = mq("test", O_WRONLY | O_CREAT, 0, NULL);
    SHOW(second >= 0 && third >= 0);
    show(second);
    SHOW(put(second, "x", 0, NULL));
    SHOW(take(third, NULL));
    SHOW(put(third, "x", 0, NULL));
    SHOW(take(second, NULL));
    SHOW(take(second, NULL));
    SHOW(gone("test"));
    SHOW(gone("test"));
    SHOW(put(fd, "still", 1, NULL));
    taken(second);
    int other = mq("test", O_RDWR | O_CREAT, 0600, NULL);
    SHOW(put(fd, "old", 1, NULL));
    show(other);
    SHOW(gone("test"));
    close(fd), close(second), close(third), close(other);
}

static void attributes(void) {
    struct attributes a = {0, 3, 100};
    int fd = mq("test", O_RDWR | O_CREAT, 0600, &a);
    show(fd);
    a = (struct attributes){O_NONBLOCK, 9, 9, 9};
    SHOW(attr(fd, &a));
    show(fd);
    SHOW(fcntl(fd, F_GETFL));
    SHOW(take(fd, NULL));
    SHOW(fcntl(fd, F_SETFL, 0));
    show(fd);
    a.flags = O_APPEND;
    SHOW(attr(fd, &a));
    a.flags = O_NONBLOCK | 1;
    SHOW(attr(fd, &a));
    SHOW(syscall(SYS_mq_getsetattr, fd, (void *)8, NULL));
    SHOW(syscall(SYS_mq_getsetattr, fd, NULL, (void *)8));
    SHOW(syscall(SYS_mq_getsetattr, fd, NULL, NULL));
    SHOW(attr(99, NULL));
    SHOW(attr(0, NULL));
    gone("test"), close(fd);
    struct attributes bad[] = {{0, 0, 10}, {0, 10, 0}, {0, -1, 10}, {0, 10, -1}, {0, 65537, 10}, {0, 10, 16777217}};
    for (int i = 0; i < 6; i++) SHOW(mq("test", O_RDWR | O_CREAT, 0600, &bad[i]));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        struct attributes b = {0, 11, 10}, c = {0, 10, 8193}, d = {0, 10, 8192};
        SHOW(mq("test", O_RDWR | O_CREAT, 0600, &b));
        SHOW(mq("test", O_RDWR | O_CREAT, 0600, &c));
        int own = mq("test", O_RDWR | O_CREAT, 0600, &d);
        show(own);
        SHOW(gone("test"));
    });
}

static void messages(void) {
    struct attributes a = {0, 5, 10};
    int fd = mq("test", O_RDWR | O_CREAT | O_NONBLOCK, 0600, &a);
    SHOW(put(fd, "low", 1, NULL));
    SHOW(put(fd, "high", 9, NULL));
    SHOW(put(fd, "high 2", 9, NULL));
    SHOW(put(fd, "", 32767, NULL));
    SHOW(put(fd, "none", 0, NULL));
    show(fd);
    SHOW(put(fd, "more", 0, NULL));
    SHOW(put(fd, "too long for it", 0, NULL));
    SHOW(put(fd, "x", 32768, NULL));
    SHOW(put(fd, "x", -1, NULL));
    for (int i = 0; i < 6; i++) taken(fd);
    SHOW(put(99, "x", 0, NULL));
    SHOW(put(0, "x", 0, NULL));
    SHOW(syscall(SYS_mq_timedsend, fd, NULL, 1, 0, NULL));
    SHOW(syscall(SYS_mq_timedsend, fd, NULL, 0, 0, NULL));
    SHOW(syscall(SYS_mq_timedsend, fd, NULL, 11, 0, NULL));
    SHOW(syscall(SYS_mq_timedreceive, fd, in, 9, NULL, NULL));
    SHOW(syscall(SYS_mq_timedreceive, fd, NULL, 10, NULL, NULL));
    SHOW(put(fd, "abc", 0, NULL));
    SHOW(syscall(SYS_mq_timedreceive, fd, in, 10, (void *)8, NULL));
    show(fd);
    SHOW(put(fd, "abc", 0, NULL));
    SHOW(syscall(SYS_mq_timedreceive, fd, in, 10, NULL, NULL));
    SHOW(read(fd, in, 4) == 4 && !memcmp(in, "QSIZ", 4));
    SHOW(write(fd, "x", 1));
    gone("test"), close(fd);
}

static void times(void) {
    struct attributes a = {0, 1, 10};
    int fd = mq("test", O_RDWR | O_CREAT, 0600, &a);
    struct timespec bad[] = {{0, -1}, {0, 1000000000}, {-1, 0}}, past = {1, 0}, later = soon(30);
    for (int i = 0; i < 3; i++) {
        SHOW(take(fd, &bad[i]));
        SHOW(put(fd, "x", 0, &bad[i]));
    }
    SHOW(take(99, &bad[0]));
    SHOW(take(fd, (void *)8));
    SHOW(take(fd, &past));
    SHOW(take(fd, &later));
    SHOW(put(fd, "1", 0, &past));
    SHOW(put(fd, "2", 0, &past));
    later = soon(30);
    SHOW(put(fd, "2", 0, &later));
    taken(fd);
    gone("test"), close(fd);
}

static void nothing(int signal) { (void)signal; }

static void *sends(void *fd) {
    usleep(30000);
    put((long)fd, "late", 3, NULL);
    return NULL;
}

static void waits(void) {
    struct attributes a = {0, 1, 10};
    int fd = mq("test", O_RDWR | O_CREAT, 0600, &a);
    pthread_t thread;
    pthread_create(&thread, NULL, sends, (void *)(long)fd);
    taken(fd);
    pthread_join(thread, NULL);
    // A signal ends it, or does not.
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval timer = {.it_value.tv_usec = 30000, .it_interval.tv_usec = 30000}, off = {0};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    SHOW(take(fd, NULL));
    put(fd, "full", 0, NULL);
    SHOW(put(fd, "more", 0, NULL));
    setitimer(ITIMER_REAL, &off, NULL);
    taken(fd);
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    timer.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    struct timespec later = soon(150);
    SHOW(take(fd, &later));
    // Processes: many senders wait for room.
    fflush(stdout);
    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            int own = mq("test", O_WRONLY, 0, NULL);
            for (int n = 0; n < 20; n++) put(own, "m", i, NULL);
            _exit(0);
        }
    long sum = 0, count = 0;
    for (int i = 0; i < 160; i++) {
        if (take(fd, NULL) == 1) count++, sum += got_priority;
    }
    for (int i = 0; i < 8; i++) wait(NULL);
    printf("%ld messages, %ld\n", count, sum);
    show(fd);
    // A receiver that is killed takes nothing.
    pid_t child = fork();
    if (child == 0) {
        take(fd, NULL);
        _exit(1);
    }
    usleep(20000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SHOW(put(fd, "kept", 0, NULL));
    taken(fd);
    gone("test"), close(fd);
}

static volatile int signals, told_value, told_code, told_pid;
static void told(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    signals++, told_value = info->si_value.sival_int, told_code = info->si_code, told_pid = info->si_pid == getpid();
}

static void notices(void) {
    struct sigaction action = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    struct attributes a = {0, 3, 10};
    int fd = mq("test", O_RDWR | O_CREAT | O_NONBLOCK, 0600, &a);
    SHOW(untell(fd));
    SHOW(tell(fd, 7, SIGUSR1, 0));
    SHOW(tell(fd, SIGEV_SIGNAL, 65, 0));
    SHOW(tell(fd, SIGEV_SIGNAL, -1, 0));
    SHOW(tell(99, SIGEV_SIGNAL, SIGUSR1, 0));
    SHOW(tell(0, SIGEV_SIGNAL, SIGUSR1, 0));
    SHOW(syscall(SYS_mq_notify, fd, (void *)8));
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 42));
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 42));
    SHOW(put(fd, "1", 0, NULL));
    printf("%d signals, value %d, code %d, own %d\n", signals, told_value, told_code, told_pid);
    SHOW(put(fd, "2", 0, NULL));
    // Of one that is not empty only the next one after it was.
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 43));
    SHOW(put(fd, "3", 0, NULL));
    printf("%d signals\n", signals);
    for (int i = 0; i < 3; i++) taken(fd);
    SHOW(put(fd, "4", 0, NULL));
    printf("%d signals, value %d\n", signals, told_value);
    taken(fd);
    SHOW(tell(fd, SIGEV_NONE, 0, 0));
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 0));
    SHOW(put(fd, "5", 0, NULL));
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 0));
    taken(fd);
    SHOW(untell(fd));
    SHOW(put(fd, "6", 0, NULL));
    printf("%d signals\n", signals);
    taken(fd);
    // Of another process.
    IN_CHILD("a child", {
        SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 1));
        SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 1));
    });
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 44));
    IN_CHILD("another", {
        SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 1));
        SHOW(untell(fd));
        SHOW(put(fd, "7", 0, NULL));
    });
    printf("%d signals, value %d, own %d\n", signals, told_value, told_pid);
    taken(fd);
    // Who waits for a message gets it, and nobody is told.
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 45));
    fcntl(fd, F_SETFL, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        take(fd, NULL);
        _exit(in[0]);
    }
    usleep(700000);
    SHOW(put(fd, "A", 0, NULL));
    int status;
    waitpid(child, &status, 0);
    printf("child %#x, %d signals\n", status, signals);
    SHOW(put(fd, "B", 0, NULL));
    printf("%d signals\n", signals);
    taken(fd);
    SHOW(tell(fd, SIGEV_SIGNAL, SIGUSR1, 46));
    int second = mq("test", O_RDWR, 0, NULL);
    close(fd);
    SHOW(put(second, "C", 0, NULL));
    printf("%d signals\n", signals);
    gone("test"), close(second);
}

static void polled(void) {
    struct attributes a = {0, 1, 10};
    int fd = mq("test", O_RDWR | O_CREAT, 0600, &a), set = epoll_create1(0);
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    SHOW(poll(&one, 1, 0));
    printf("%#x\n", one.revents);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 5};
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SHOW(epoll_wait(set, &event, 1, 0));
    SHOW(put(fd, "x", 0, NULL));
    SHOW(poll(&one, 1, 0));
    printf("%#x\n", one.revents);
    SHOW(epoll_wait(set, &event, 1, 0));
    printf("%#x %u\n", event.events, event.data.u32);
    SHOW(epoll_wait(set, &event, 1, 0));
    taken(fd);
    SHOW(epoll_wait(set, &event, 1, 0));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(30000);
        put(fd, "y", 0, NULL);
        _exit(0);
    }
    one.events = POLLIN;
    SHOW(poll(&one, 1, 5000));
    SHOW(epoll_wait(set, &event, 1, 1000));
    waitpid(child, NULL, 0);
    taken(fd);
    gone("test"), close(fd), close(set);
}

static void users(void) {
    umask(0);
    int fd = mq("test", O_RDWR | O_CREAT, 0604, NULL);
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        SHOW(mq("test", O_RDONLY, 0, NULL) >= 0);
        SHOW(mq("test", O_WRONLY, 0, NULL));
        SHOW(mq("test", O_RDWR | O_CREAT, 0666, NULL));
        SHOW(gone("test"));
        int own = mq("own", O_RDWR | O_CREAT, 0600, NULL);
        SHOW(put(own, "kept", 0, NULL));
        long made = 0;
        char name[20];
        for (int i = 0; i < 20; i++) {
            sprintf(name, "own%d", i);
            if (mq(name, O_RDWR | O_CREAT, 0600, NULL) < 0) break;
            made++;
        }
        printf("%ld more, then errno %d\n", made, errno);
        struct rlimit limit = {100, 100};
        for (int i = 0; i < 20; i++) sprintf(name, "own%d", i), gone(name);
        SHOW(setrlimit(RLIMIT_MSGQUEUE, &limit));
        SHOW(mq("more", O_RDWR | O_CREAT, 0600, NULL));
    });
    int own = mq("own", O_RDONLY, 0, NULL);
    taken(own);
    SHOW(gone("own"));
    SHOW(fchmod(fd, 0606));
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        SHOW(mq("test", O_RDWR, 0, NULL) >= 0);
        SHOW(gone("test"));
    });
    SHOW(gone("test"));
    close(fd), close(own);
}

int main(void) {
    names();
    attributes();
    messages();
    times();
    waits();
    notices();
    polled();
    users();
    return 0;
}
