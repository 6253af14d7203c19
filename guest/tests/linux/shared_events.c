// eventfd and timerfd behind a fork: parent and child have the same counter.
// oracle: linux
// link: -pthread
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

static uint64_t word;

static void show_read(const char *who, int fd) {
    word = 0;
    errno = 0;
    long count = read(fd, &word, 8);
    printf("%s reads %ld: %ld, errno %d\n", who, count, (long)word, count < 0 ? errno : 0);
}

static int add(int fd, uint64_t value) { return write(fd, &value, 8); }

static void written_by_the_child(void) {
    int fd = eventfd(3, EFD_NONBLOCK);
    IN_CHILD("child", {
        show_read("child", fd);
        SHOW(add(fd, 5));
        SHOW(add(fd, 2));
    });
    show_read("parent", fd);
    show_read("parent", fd);
    SHOW(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
    SHOW(read(fd, &word, 7));
    SHOW(add(fd, ~0ull));
    SHOW(add(fd, ~1ull));
    SHOW(add(fd, 1));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(pread(fd, &word, 8, 0));
    SHOW(ftruncate(fd, 0));
    close(fd);
}

static void semaphore(void) {
    int fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    IN_CHILD("child", SHOW(add(fd, 3)));
    for (int i = 0; i < 4; i++) show_read("parent", fd);
    close(fd);
}

static void waiting(void) {
    int fd = eventfd(0, 0), back = eventfd(0, 0);
    pid_t child = fork();
    if (child == 0) {
        read(fd, &word, 8);
        usleep(10000);
        add(back, word + 1);
        _exit(0);
    }
    usleep(10000);
    add(fd, 41);
    show_read("parent", back);
    waitpid(child, NULL, 0);
    // Flags are the description's.
    IN_CHILD("child", fcntl(fd, F_SETFL, O_NONBLOCK));
    show_read("parent", fd);
    close(fd), close(back);
}

static void polled(void) {
    int fd = eventfd(0, EFD_NONBLOCK), set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 7}}, found[2];
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    SHOW(poll(&one, 1, 0));
    printf("%#x\n", one.revents);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        add(fd, 1);
        usleep(20000);
        add(fd, 1);
        _exit(0);
    }
    one.events = POLLIN;
    SHOW(poll(&one, 1, 5000));
    printf("%#x\n", one.revents);
    SHOW(epoll_wait(set, found, 2, 5000));
    printf("%#x %d\n", found[0].events, (int)found[0].data.u64);
    // Nothing has been read, and still the next write is an edge.
    SHOW(epoll_wait(set, found, 2, 5000));
    waitpid(child, NULL, 0);
    SHOW(epoll_wait(set, found, 2, 0));
    show_read("parent", fd);
    close(fd), close(set);
}

static uint64_t taken;

static void *reader(void *fd) {
    read((int)(long)fd, &taken, 8);
    return NULL;
}

// A thread that waits already when the counter becomes shared.
static void waiting_thread(void) {
    int fd = eventfd(0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, reader, (void *)(long)fd);
    usleep(20000);
    IN_CHILD("child", add(fd, 6));
    pthread_join(thread, NULL);
    printf("thread reads %d\n", (int)taken);
    close(fd);
}

static void timers(void) {
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    // Long enough that a slow machine looks at it before it expires.
    struct itimerspec set = {{0, 0}, {0, 700000000}}, now;
    IN_CHILD("child", {
        show_read("child", fd);
        SHOW(timerfd_settime(fd, 0, &set, NULL));
    });
    struct pollfd one = {fd, POLLIN, 0};
    SHOW(timerfd_gettime(fd, &now));
    CHECK(now.it_value.tv_nsec > 0 && now.it_value.tv_nsec <= 700000000);
    SHOW(poll(&one, 1, 5000));
    IN_CHILD("child", show_read("child", fd));
    show_read("parent", fd);
    SHOW(timerfd_gettime(fd, &now));
    printf("%ld %ld\n", (long)now.it_value.tv_sec, now.it_value.tv_nsec);
    // A period.
    set.it_interval.tv_nsec = 5000000, set.it_value.tv_nsec = 20000000;
    SHOW(timerfd_settime(fd, 0, &set, NULL));
    usleep(60000);
    IN_CHILD("child", {
        read(fd, &word, 8);
        CHECK(word >= 5);
    });
    SHOW(timerfd_gettime(fd, &now));
    printf("%ld\n", now.it_interval.tv_nsec);
    // Turned off by the child.
    memset(&set, 0, sizeof set);
    IN_CHILD("child", timerfd_settime(fd, 0, &set, &now));
    show_read("parent", fd);
    SHOW(write(fd, &word, 8));
    close(fd);
}

// A read that waits for the timer, alone and shared.
static void timers_waiting(void) {
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec set = {{0, 0}, {0, 10000000}};
    timerfd_settime(fd, 0, &set, NULL);
    show_read("alone", fd);
    timerfd_settime(fd, 0, &set, NULL);
    IN_CHILD("child", show_read("child", fd));
    timerfd_settime(fd, 0, &set, NULL);
    show_read("shared", fd);
    close(fd);
}

int main(void) {
    written_by_the_child();
    semaphore();
    waiting();
    polled();
    waiting_thread();
    timers();
    timers_waiting();
    return 0;
}
