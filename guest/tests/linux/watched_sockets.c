// Who waits for many streams (`poll`, `select`, `epoll`) of which bytes come without a request hears of all of them, and of everything else
// that it waits for; whatever happens to the streams meanwhile.
//
// build: gcc, musl
// oracle: linux
// cores: 4
#include "test.h"
#include "chance.h"
#include "lent.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int add(int set, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

// A client: messages of all sizes, each of which comes back.
static void run_client(int fd, unsigned long seed) {
    state = seed;
    for (long turn = 0, at = 0; turn < 250; turn++) {
        long bytes = 1 + below(PICK(1, 10, 100, 100, 4000, 9000));
        write_on(fd, at, bytes);
        for (long done = 0; done < bytes;) done += read_on(fd, at + done, bytes - done);
        at += bytes;
        if (below(20) == 0) usleep(below(2000));
    }
    _exit(0);
}

// Something else than to serve.
static void do_otherwise(int fd) {
    int count;
    switch (below(6)) {
    case 0: ioctl(fd, FIONREAD, &count); break;
    case 1: poll(&(struct pollfd){fd, POLLIN | POLLOUT, 0}, 1, 0); break;
    case 2: {
        int pid = fork();
        if (pid == 0) _exit(poll(&(struct pollfd){fd, POLLIN, 0}, 1, below(3)) < 0);
        status_of(pid);
        break;
    }
    case 3: setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){100000}, sizeof(int)); break;
    case 4: set_nonblocking(fd, 0), set_nonblocking(fd, 1); break;
    case 5: recv(fd, &count, 1, MSG_PEEK | MSG_DONTWAIT); break;
    }
}

// Sends back what there is. 0: the client has gone.
static int serve(int fd, long *bytes, int reads_on) {
    char text[5000];
    for (;;) {
        ssize_t n = read(fd, text, sizeof text);
        if (n == 0 || (n < 0 && errno == ECONNRESET)) return 0;
        if (n < 0 && errno != EAGAIN) fail("serve");
        if (n < 0) return 1;
        *bytes += n;
        for (ssize_t done = 0, more; done < n; done += more)
            if ((more = write(fd, text + done, n - done)) < 0) {
                if (errno != EAGAIN) fail("answer");
                poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1), more = 0;
            }
        if (!reads_on) return 1;
    }
}

// A server with many clients, by sets of either kind or by `poll`.
static void many(int clients, unsigned events, int is_disturbed) {
    int fds[64], pids[64], left = clients, set = epoll_create1(0);
    long bytes = 0;
    for (int i = 0; i < clients; i++) {
        int ends[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        if ((pids[i] = fork()) == 0) {
            for (int j = 0; j < i; j++) close(fds[j]);
            close(ends[0]), close(set);
            run_client(ends[1], i + 1);
        }
        close(ends[1]);
        fds[i] = ends[0];
        set_nonblocking(ends[0], 1);
        if (events) add(set, ends[0], events);
    }
    while (left > 0) {
        struct epoll_event found[8];
        struct pollfd all[64];
        int n;
        if (events) {
            n = epoll_wait(set, found, 8, 20000);
        } else {
            for (int i = 0; i < clients; i++) all[i] = (struct pollfd){fds[i], POLLIN, 0};
            n = poll(all, clients, 20000);
        }
        if (n == 0) fail("nothing came");
        for (int i = 0; i < (events ? n : clients); i++) {
            int fd = events ? found[i].data.fd : all[i].revents ? all[i].fd : -1;
            if (fd < 0) continue;
            if (is_disturbed && below(8) == 0) do_otherwise(fd);
            if (serve(fd, &bytes, events & EPOLLET)) continue;
            for (int j = 0; j < clients; j++)
                if (fds[j] == fd) fds[j] = -1;
            close(fd), left--;
        }
    }
    int wrong = 0;
    for (int i = 0; i < clients; i++) wrong += status_of(pids[i]) != 0;
    close(set);
    printf("%d clients, %x, %d: %d wrong, %ld bytes\n", clients, events, is_disturbed, wrong, bytes);
}

// A process that does what it is told by each byte, and answers; what comes is lent to both by now.
static int helper(int *fd) {
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    int pid = fork();
    if (pid == 0) {
        close(ends[0]);
        char byte;
        while (read(ends[1], &byte, 1) == 1) {
            if (byte == 'l') usleep(60000);
            if (byte == 's') shutdown(ends[1], SHUT_WR), pause();
            if (byte == 'k') raise(SIGKILL);
            write(ends[1], &byte, 1);
            if (byte == '2') usleep(30000), write(ends[1], &byte, 1);
        }
        _exit(0);
    }
    close(ends[1]);
    *fd = ends[0];
    return pid;
}

static void warm(int fd, int set) {
    struct epoll_event found;
    for (int i = 0; i < 120; i++) {
        char byte = '.';
        write(fd, &byte, 1);
        if (epoll_wait(set, &found, 1, 5000) != 1 || read(fd, &byte, 1) != 1) fail("warm");
    }
}

static int wait_for(int set, int ms, unsigned *events) {
    struct epoll_event found = {0};
    int n = epoll_wait(set, &found, 1, ms);
    *events = found.events;
    return n;
}

// What is told of one stream, by either kind of set.
static void one(unsigned edge) {
    int fd, pid = helper(&fd), set = epoll_create1(0);
    unsigned events;
    char byte;
    add(set, fd, EPOLLIN | EPOLLRDHUP | edge);
    warm(fd, set);
    SHOW(wait_for(set, 0, &events));
    long before = now_ms();
    SHOW(wait_for(set, 30, &events));
    CHECK(now_ms() - before >= 30);
    // It comes while this process sleeps.
    write(fd, "l", 1);
    SHOW(wait_for(set, 5000, &events));
    SHOW(wait_for(set, 0, &events));
    // And more to what is there.
    write(fd, "l", 1);
    usleep(400000);
    SHOW(wait_for(set, 0, &events));
    SHOW(read(fd, &byte, 1));
    SHOW(wait_for(set, 0, &events));
    SHOW(read(fd, &byte, 1));
    SHOW(recv(fd, &byte, 1, MSG_DONTWAIT));
    SHOW(wait_for(set, 0, &events));
    write(fd, "2", 1);
    for (int i = 0; i < 2; i++) {
        SHOW(wait_for(set, 5000, &events));
        SHOW(read(fd, &byte, 1));
    }
    // A signal ends it, and what came meanwhile is there.
    on(SIGALRM, 0);
    alarm_in(20000);
    SHOW(wait_for(set, 5000, &events));
    write(fd, "l", 1);
    SHOW(wait_for(set, 5000, &events));
    SHOW(read(fd, &byte, 1));
    // The end of it.
    write(fd, edge ? "s" : "k", 1);
    SHOW(wait_for(set, 5000, &events));
    printf("%x\n", events);
    SHOW(read(fd, &byte, 1));
    close(fd);
    kill(pid, SIGKILL);
    SHOW(status_of(pid));
    close(set);
}

// Beside a stream that is quiet there is something else to hear.
static void with_others(void) {
    int fd, pid = helper(&fd), set = epoll_create1(0), ends[2];
    unsigned events;
    uint64_t value = 1;
    add(set, fd, EPOLLIN);
    warm(fd, set);
    pipe(ends);
    add(set, ends[0], EPOLLIN);
    if (fork() == 0) { usleep(30000), write(ends[1], "x", 1); _exit(0); }
    SHOW(wait_for(set, 5000, &events));
    read(ends[0], &value, 1), wait(NULL);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 20000000}, NULL);
    add(set, timer, EPOLLIN);
    SHOW(wait_for(set, 5000, &events));
    read(timer, &value, 8);
    int counter = eventfd(0, 0);
    add(set, counter, EPOLLIN);
    if (fork() == 0) { usleep(30000); value = 1; write(counter, &value, 8); _exit(0); }
    SHOW(wait_for(set, 5000, &events));
    read(counter, &value, 8), wait(NULL);
    warm(fd, set);
    sigset_t signals;
    sigemptyset(&signals), sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int heard = signalfd(-1, &signals, 0);
    add(set, heard, EPOLLIN);
    if (fork() == 0) { usleep(30000), kill(getppid(), SIGUSR1); _exit(0); }
    SHOW(wait_for(set, 5000, &events));
    struct signalfd_siginfo info;
    read(heard, &info, sizeof info), wait(NULL);
    write(fd, "l", 1);
    SHOW(wait_for(set, 5000, &events));
    char byte;
    read(fd, &byte, 1);
    warm(fd, set);
    // It starts another program meanwhile.
    char *args[] = {"watched", NULL, NULL, NULL, NULL};
    int other;
    posix_spawn(&other, "/proc/self/exe", NULL, NULL, args, (char *[]){"NOTHING=1", NULL});
    write(fd, "l", 1);
    SHOW(wait_for(set, 5000, &events));
    SHOW(read(fd, &byte, 1));
    SHOW(status_of(other));
    warm(fd, set);
    // By the other calls.
    write(fd, "l", 1);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    SHOW(select(fd + 1, &readable, NULL, NULL, NULL));
    read(fd, &byte, 1);
    // Somebody else looks: a child, which has the same description, and another program.
    write(fd, "l", 1);
    if (fork() == 0) _exit(poll(&(struct pollfd){fd, POLLIN, 0}, 1, 5000) != 1);
    SHOW(wait_for(set, 5000, &events));
    int status;
    wait(&status);
    SHOW(status);
    read(fd, &byte, 1);
    warm(fd, set);
    // And when something is there that this process has not heard of.
    write(fd, ".", 1);
    usleep(100000);
    if (fork() == 0) {
        int count = 0;
        ioctl(fd, FIONREAD, &count);
        _exit(count != 1);
    }
    wait(&status);
    SHOW(status);
    SHOW(wait_for(set, 5000, &events));
    read(fd, &byte, 1);
    warm(fd, set);
    close(fd), status_of(pid);
    close(set), close(ends[0]), close(ends[1]), close(timer), close(counter), close(heard);
}

static void *serve_one(void *fds) {
    int fd = *(int *)fds, set = epoll_create1(0);
    long bytes = 0;
    add(set, fd, EPOLLIN);
    for (;;) {
        struct epoll_event found;
        if (epoll_wait(set, &found, 1, 20000) != 1) fail("nothing came");
        if (!serve(fd, &bytes, 0)) break;
    }
    close(set);
    return (void *)bytes;
}

// Each thread has streams of its own.
static void with_threads(void) {
    enum { THREADS = 4 };
    int fds[THREADS], pids[THREADS], wrong = 0;
    pthread_t threads[THREADS];
    long bytes = 0;
    for (int i = 0; i < THREADS; i++) {
        int ends[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        if ((pids[i] = fork()) == 0) {
            for (int j = 0; j < i; j++) close(fds[j]);
            close(ends[0]);
            run_client(ends[1], i + 1);
        }
        close(ends[1]);
        fds[i] = ends[0];
        set_nonblocking(fds[i], 1);
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, serve_one, &fds[i]);
    for (int i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(threads[i], &done);
        bytes += (long)done, wrong += status_of(pids[i]) != 0, close(fds[i]);
    }
    printf("threads: %d wrong, %ld bytes\n", wrong, bytes);
}

// Another program goes on with a stream, and waits for it.
static void with_programs(void) {
    int fd, pid = helper(&fd), set = epoll_create1(EPOLL_CLOEXEC);
    add(set, fd, EPOLLIN);
    int server = fork();
    if (server == 0) {
        warm(fd, set);
        char word[24];
        snprintf(word, 24, "%d", fd);
        execl("/proc/self/exe", "watched", "wait", word, NULL);
        _exit(9);
    }
    close(fd);
    SHOW(status_of(server));
    SHOW(status_of(pid));
    close(set);
}

int main(int argc, char **argv) {
    if (getenv("NOTHING")) return 0;
    if (argc == 3) {
        int set = epoll_create1(0), fd = atoi(argv[2]);
        add(set, fd, EPOLLIN);
        warm(fd, set);
        unsigned events;
        char byte;
        write(fd, "l", 1);
        return wait_for(set, 5000, &events) != 1 || read(fd, &byte, 1) != 1;
    }
    state = 1;
    many(3, EPOLLIN, 0);
    many(3, EPOLLIN | EPOLLET, 0);
    many(3, 0, 0);
    many(12, EPOLLIN, 1);
    many(12, EPOLLIN | EPOLLET, 0);
    many(12, 0, 1);
    one(0);
    one(EPOLLET);
    with_others();
    with_threads();
    with_programs();
    return 0;
}
