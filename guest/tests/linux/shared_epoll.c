// epoll behind a fork: parent and child have the same set.
// oracle: linux
// link: -pthread
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static struct epoll_event found[8];
static uint64_t word;

static int control(int set, int how, int fd, unsigned events, int number) {
    struct epoll_event event = {events, {.u64 = number}};
    return epoll_ctl(set, how, fd, &event);
}

static int compare(const void *a, const void *b) {
    const struct epoll_event *one = a, *other = b;
    return (one->data.u64 > other->data.u64) - (one->data.u64 < other->data.u64);
}

static void look(const char *when, int set, int ms) {
    int count = epoll_wait(set, found, 8, ms);
    printf("%s: %d", when, count);
    if (count > 0) qsort(found, count, sizeof found[0], compare);
    for (int i = 0; i < count; i++) printf(" %d:%#x", (int)found[i].data.u64, found[i].events);
    printf("\n");
}

static int add(int fd, uint64_t value) { return write(fd, &value, 8); }

static void members(void) {
    int set = epoll_create1(0), ends[2], event = eventfd(0, EFD_NONBLOCK);
    pipe2(ends, O_NONBLOCK);
    SHOW(control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 1));
    IN_CHILD("child adds", {
        SHOW(control(set, EPOLL_CTL_ADD, event, EPOLLIN, 2));
        SHOW(control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 3));
        SHOW(control(set, EPOLL_CTL_ADD, ends[1], EPOLLOUT | EPOLLONESHOT, 4));
    });
    look("writable", set, 0);
    look("once", set, 0);
    SHOW(add(event, 1));
    write(ends[1], "x", 1);
    look("both", set, 0);
    look("still", set, 0);
    IN_CHILD("child reads", SHOW(read(event, &word, 8)));
    look("one", set, 0);
    IN_CHILD("child changes", {
        SHOW(control(set, EPOLL_CTL_MOD, ends[1], EPOLLOUT, 5));
        SHOW(control(set, EPOLL_CTL_DEL, ends[0], 0, 0));
        SHOW(control(set, EPOLL_CTL_DEL, ends[0], 0, 0));
    });
    look("changed", set, 0);
    SHOW(control(set, EPOLL_CTL_MOD, ends[0], EPOLLIN, 1));
    SHOW(control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 6));
    SHOW(control(set, EPOLL_CTL_ADD, set, EPOLLIN, 1));
    SHOW(control(set, EPOLL_CTL_ADD, 99, EPOLLIN, 1));
    SHOW(control(set, 77, ends[0], EPOLLIN, 1));
    int file = open("/proc/self/exe", O_RDONLY);
    SHOW(control(set, EPOLL_CTL_ADD, file, EPOLLIN, 1));
    SHOW(epoll_wait(set, found, 0, 0));
    SHOW(lseek(set, 0, SEEK_SET));
    SHOW(read(set, &word, 8));
    look("before", set, 0);
    close(ends[0]), close(ends[1]);
    look("closed", set, 0);
    close(set), close(event), close(file);
}

static void edges(void) {
    int set = epoll_create1(0), ends[2];
    pipe2(ends, O_NONBLOCK);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 1);
    write(ends[1], "a", 1);
    look("edge", set, 0);
    // Nothing new by the fork alone.
    IN_CHILD("child", look("child", set, 0));
    look("parent", set, 0);
    write(ends[1], "b", 1);
    // Only one of both is told.
    IN_CHILD("child", look("child", set, 0));
    look("parent", set, 0);
    IN_CHILD("child writes", write(ends[1], "c", 1));
    look("parent", set, 1000);
    look("parent", set, 0);
    close(ends[0]), close(ends[1]), close(set);
}

static void waiting(void) {
    int set = epoll_create1(0), event = eventfd(0, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    control(set, EPOLL_CTL_ADD, event, EPOLLIN, 1);
    control(set, EPOLL_CTL_ADD, timer, EPOLLIN, 2);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        add(event, 1);
        _exit(0);
    }
    look("waits", set, 5000);
    read(event, &word, 8);
    waitpid(child, NULL, 0);
    struct itimerspec when = {{0, 0}, {0, 10000000}};
    IN_CHILD("child", timerfd_settime(timer, 0, &when, NULL));
    look("timer", set, 5000);
    read(timer, &word, 8);
    look("time is over", set, 10);
    // Ends of a member's other side.
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLOUT | EPOLLET, 3);
    look("pair", set, 0);
    IN_CHILD("child writes", write(ends[1], "x", 1));
    look("pair", set, 1000);
    struct pollfd one = {set, POLLIN, 0};
    SHOW(poll(&one, 1, 0));
    close(ends[0]), close(ends[1]);
    look("gone", set, 0);
    close(set), close(event), close(timer);
}

static void nested(void) {
    int outer = epoll_create1(0), inner = epoll_create1(0), event = eventfd(0, 0);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 1);
    control(inner, EPOLL_CTL_ADD, event, EPOLLIN, 2);
    IN_CHILD("child", SHOW(control(inner, EPOLL_CTL_ADD, outer, EPOLLIN, 3)));
    look("quiet", outer, 0);
    struct pollfd one = {outer, POLLIN, 0};
    SHOW(poll(&one, 1, 0));
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        add(event, 1);
        _exit(0);
    }
    SHOW(poll(&one, 1, 5000));
    waitpid(child, NULL, 0);
    look("outer", outer, 0);
    look("inner", inner, 0);
    read(event, &word, 8);
    look("outer", outer, 0);
    // A set of this process's own, with a shared one in it.
    int own = epoll_create1(0);
    SHOW(control(own, EPOLL_CTL_ADD, outer, EPOLLIN, 4));
    add(event, 1);
    look("own", own, 1000);
    close(outer), close(inner), close(event), close(own);
}

static int waited_set;

static void *waiter(void *unused) {
    look("thread", waited_set, 5000);
    return NULL;
}

// A thread that waits already when the set becomes shared.
static void waiting_thread(void) {
    int event = eventfd(0, 0);
    waited_set = epoll_create1(0);
    control(waited_set, EPOLL_CTL_ADD, event, EPOLLIN, 1);
    pthread_t thread;
    pthread_create(&thread, NULL, waiter, NULL);
    usleep(20000);
    pid_t child = fork();
    if (child == 0) {
        add(event, 6);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    pthread_join(thread, NULL);
    close(event), close(waited_set);
}

int main(void) {
    members();
    edges();
    waiting();
    nested();
    waiting_thread();
    return 0;
}
