// signalfd under load: threads that read, and threads that wait for edges and levels. Every signal is read once.
// oracle: linux
// cores: 4
// link: -pthread
#include "test.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#define ROUNDS 400

// Of those that read, by SIGUSR1, and of those that poll, by SIGUSR2.
static long counts[2];
static int waiting, polled, ended;

static void *end(const char *what) {
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    return (void *)what;
}

static void *reads(void *argument) {
    struct signalfd_siginfo info[4];
    for (;;) {
        long bytes = read(waiting, info, sizeof info);
        if (bytes <= 0) return "read failed";
        for (int i = 0; i < bytes / (long)sizeof *info; i++) {
            if (info[i].ssi_signo == SIGTERM) return end("reader ended");
            __atomic_add_fetch(&counts[0], 1, __ATOMIC_SEQ_CST);
        }
    }
}

static void *polls(void *argument) {
    struct epoll_event event = {EPOLLIN | (unsigned)(long)argument, {0}};
    struct signalfd_siginfo info;
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, polled, &event);
    for (;;) {
        if (epoll_wait(set, &event, 1, -1) < 0) return "epoll_wait failed";
        while (read(polled, &info, sizeof info) > 0) {
            if (info.ssi_signo == SIGHUP) return end("poller ended");
            __atomic_add_fetch(&counts[1], 1, __ATOMIC_SEQ_CST);
        }
    }
}

static int of(int a, int b, int flags) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, a), sigaddset(&set, b);
    return signalfd(-1, &set, flags);
}

static int are(long wanted) {
    for (int i = 0; i < 10000; i++) {
        if (__atomic_load_n(&counts[0], __ATOMIC_SEQ_CST) == wanted &&
            __atomic_load_n(&counts[1], __ATOMIC_SEQ_CST) == wanted)
            return 1;
        usleep(500);
    }
    return 0;
}

int main(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    waiting = of(SIGUSR1, SIGTERM, 0), polled = of(SIGUSR2, SIGHUP, SFD_NONBLOCK);
    pthread_t threads[4];
    pthread_create(&threads[0], NULL, reads, NULL);
    pthread_create(&threads[1], NULL, reads, NULL);
    pthread_create(&threads[2], NULL, polls, (void *)(long)EPOLLET);
    pthread_create(&threads[3], NULL, polls, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        // Behind the first fork the sets are the server's.
        if (i % 100 == 50 && fork() == 0) _exit(0);
        kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2);
        if (!are(i)) {
            printf("%d: %ld %ld\n", i, counts[0], counts[1]);
            return 1;
        }
    }
    printf("%ld %ld\n", counts[0], counts[1]);
    for (int i = 0; i < 4; i++) {
        kill(getpid(), i < 2 ? SIGTERM : SIGHUP);
        while (__atomic_load_n(&ended, __ATOMIC_SEQ_CST) == i) usleep(500);
    }
    for (int i = 0; i < 4; i++) {
        void *end;
        pthread_join(threads[i], &end);
        printf("%s\n", (char *)end);
    }
    while (wait(NULL) > 0) {}
    return 0;
}
