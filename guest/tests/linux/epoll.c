// epoll in full: edges, one shot, sets in sets, descriptors that share a file, children, threads, time.
// oracle: linux
// link: -pthread
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static struct epoll_event found[64];
static char bytes[65536];

static int control(int set, int how, int fd, unsigned events, int number) {
    struct epoll_event event = {events, {.u64 = number}};
    return epoll_ctl(set, how, fd, &event);
}

static int compare(const void *a, const void *b) {
    const struct epoll_event *one = a, *other = b;
    return (one->data.u64 > other->data.u64) - (one->data.u64 < other->data.u64);
}

static void look(const char *when, int set, int ms) {
    int count = epoll_wait(set, found, 64, ms);
    printf("%s: %d", when, count);
    if (count > 0) qsort(found, count, sizeof found[0], compare);
    for (int i = 0; i < count; i++) printf(" %d:%#x", (int)found[i].data.u64, found[i].events);
    printf("\n");
}

static void edges(void) {
    int ends[2], set = epoll_create1(0);
    pipe2(ends, O_NONBLOCK);
    SHOW(control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 1));
    look("empty", set, 0);
    write(ends[1], "abc", 3);
    look("written", set, 0);
    look("not read", set, 0);
    read(ends[0], bytes, 1);
    look("read a part", set, 0);
    write(ends[1], "d", 1);
    look("written more", set, 0);
    look("again", set, 0);
    SHOW(control(set, EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLET, 2));
    look("modified", set, 0);
    look("again", set, 0);
    read(ends[0], bytes, 10);
    look("drained", set, 0);
    SHOW(control(set, EPOLL_CTL_ADD, ends[1], EPOLLOUT | EPOLLET, 3));
    look("can be written", set, 0);
    look("again", set, 0);
    while (write(ends[1], bytes, 4096) > 0) {}
    look("full", set, 0);
    look("again", set, 0);
    while (read(ends[0], bytes, sizeof bytes) > 0) {}
    look("drained", set, 0);
    look("again", set, 0);
    close(ends[1]);
    look("hung up", set, 0);
    look("again", set, 0);
    close(ends[0]), close(set);
    set = epoll_create1(0);
    int event = eventfd(0, EFD_NONBLOCK);
    uint64_t one = 1;
    control(set, EPOLL_CTL_ADD, event, EPOLLIN | EPOLLET, 4);
    look("event 0", set, 0);
    write(event, &one, 8);
    look("event 1", set, 0);
    look("again", set, 0);
    write(event, &one, 8);
    look("event 2", set, 0);
    read(event, &one, 8);
    look("event read", set, 0);
    close(event), close(set);
}

static void once(void) {
    int ends[2], set = epoll_create1(0);
    pipe(ends);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLONESHOT, 1);
    write(ends[1], "abc", 3);
    look("once", set, 0);
    look("disabled", set, 0);
    write(ends[1], "d", 1);
    look("disabled", set, 0);
    SHOW(control(set, EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT, 2));
    look("armed", set, 0);
    close(ends[1]);
    look("disabled, hung up", set, 0);
    SHOW(control(set, EPOLL_CTL_MOD, ends[0], 0, 3));
    look("nothing wanted", set, 0);
    SHOW(control(set, EPOLL_CTL_DEL, ends[0], 0, 0));
    SHOW(control(set, EPOLL_CTL_DEL, ends[0], 0, 0));
    SHOW(control(set, EPOLL_CTL_MOD, ends[0], 0, 0));
    SHOW(epoll_wait(set, found, -1, 0));
    SHOW(epoll_wait(set, found, 0x7fffffff, 0));
    SHOW(epoll_wait(set, NULL, 1, 0));
    SHOW(control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 3));
    SHOW(epoll_wait(set, (void *)8, 1, 0));
    look("not lost", set, 0);
    close(ends[0]), close(set);
}

static void turns(void) {
    int event[5], set = epoll_create1(0);
    for (int i = 0; i < 5; i++) {
        event[i] = eventfd(1, 0);
        control(set, EPOLL_CTL_ADD, event[i], EPOLLIN, i);
    }
    // Nobody is left out by who asks for few.
    for (int i = 0; i < 5; i++) {
        int count = epoll_wait(set, found, 2, 0);
        printf("%d: %d %d\n", count, (int)found[0].data.u64, (int)found[1].data.u64);
    }
    for (int i = 0; i < 5; i++) close(event[i]);
    look("all closed", set, 0);
    close(set);
}

static void files(void) {
    int ends[2], set = epoll_create1(0);
    pipe(ends);
    int copy = dup(ends[0]);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 1);
    SHOW(control(set, EPOLL_CTL_ADD, copy, EPOLLIN, 2));
    write(ends[1], "x", 1);
    look("both", set, 0);
    close(ends[0]);
    look("one closed", set, 0);
    SHOW(control(set, EPOLL_CTL_MOD, ends[0], EPOLLIN, 3));
    int other = eventfd(0, 0);
    printf("the same number: %d\n", other == ends[0]);
    SHOW(control(set, EPOLL_CTL_MOD, other, EPOLLIN, 3));
    SHOW(control(set, EPOLL_CTL_ADD, other, EPOLLIN | EPOLLOUT, 3));
    look("three", set, 0);
    close(copy);
    look("the pipe is closed", set, 0);
    SHOW(control(set, EPOLL_CTL_ADD, set, EPOLLIN, 3));
    int file = open("/proc/self/exe", O_RDONLY);
    SHOW(control(set, EPOLL_CTL_ADD, file, EPOLLIN, 3));
    SHOW(control(other, EPOLL_CTL_ADD, set, EPOLLIN, 3));
    SHOW(control(set, 4, other, EPOLLIN, 3));
    close(file), close(other), close(ends[1]), close(set);
}

static void nests(void) {
    int sets[8], event = eventfd(0, 0);
    uint64_t word = 1;
    for (int i = 0; i < 8; i++) sets[i] = epoll_create1(0);
    SHOW(control(sets[0], EPOLL_CTL_ADD, event, EPOLLIN, 10));
    for (int i = 0; i < 7; i++) SHOW(control(sets[i + 1], EPOLL_CTL_ADD, sets[i], EPOLLIN, i));
    SHOW(control(sets[0], EPOLL_CTL_ADD, sets[3], EPOLLIN, 99));
    struct pollfd polled = {sets[3], POLLIN, 0};
    SHOW(poll(&polled, 1, 0));
    look("outer", sets[3], 0);
    write(event, &word, 8);
    SHOW(poll(&polled, 1, 0));
    for (int i = 0; i < 4; i++) look("in turn", sets[i], 0);
    read(event, &word, 8);
    SHOW(poll(&polled, 1, 0));
    look("outer", sets[3], 0);
    write(event, &word, 8);
    look("outer", sets[3], 0);
    close(sets[1]);
    look("cut", sets[3], 0);
    close(event);
    for (int i = 0; i < 8; i++)
        if (i != 1) close(sets[i]);
}

static void children(void) {
    int ends[2], set = epoll_create1(0);
    pipe(ends);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 1);
    look("before", set, 0);
    IN_CHILD("child", {
        look("in the child", set, 0);
        write(ends[1], "x", 1);
        look("in the child", set, 0);
        read(ends[0], bytes, 1);
        look("read in the child", set, 0);
        _exit(0);
    });
    look("in the parent", set, 0);
    close(set), close(ends[0]), close(ends[1]);
}

static void child_and_parent(void) {
    int ends[2], set = epoll_create1(0);
    pipe(ends);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 1);
    look("before", set, 0);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            write(ends[1], "y", 1);
            _exit(0);
        }
        look("a child has written", set, 5000);
        read(ends[0], bytes, 1);
        look("read", set, 0);
        waitpid(child, NULL, 0);
    }
    pid_t child = vfork();
    if (child == 0) {
        write(ends[1], "z", 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    look("after vfork", set, 0);
    close(ends[1]);
    look("and closed", set, 0);
    close(ends[0]), close(set);
}

static int thread_set, thread_event, thread_ends[2];

static void *writer(void *unused) {
    uint64_t one = 1;
    usleep(20000);
    write(thread_event, &one, 8);
    usleep(20000);
    write(thread_ends[1], "x", 1);
    usleep(20000);
    control(thread_set, EPOLL_CTL_ADD, thread_ends[1], EPOLLOUT, 3);
    return unused;
}

static void threads(void) {
    pthread_t thread;
    uint64_t word;
    thread_set = epoll_create1(0), thread_event = eventfd(0, 0);
    pipe(thread_ends);
    control(thread_set, EPOLL_CTL_ADD, thread_event, EPOLLIN, 1);
    control(thread_set, EPOLL_CTL_ADD, thread_ends[0], EPOLLIN, 2);
    pthread_create(&thread, NULL, writer, NULL);
    look("event by a thread", thread_set, 5000);
    read(thread_event, &word, 8);
    look("pipe by a thread", thread_set, 5000);
    read(thread_ends[0], bytes, 1);
    look("added by a thread", thread_set, 5000);
    pthread_join(thread, NULL);
    close(thread_set), close(thread_event), close(thread_ends[0]), close(thread_ends[1]);
}

static void timers(void) {
    int set = epoll_create1(0), one = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int other = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec soon = {{0, 0}, {0, 20000000}}, late = {{0, 20000000}, {0, 50000000}};
    uint64_t word;
    control(set, EPOLL_CTL_ADD, one, EPOLLIN, 1);
    control(set, EPOLL_CTL_ADD, other, EPOLLIN | EPOLLET, 2);
    look("off", set, 10);
    timerfd_settime(one, 0, &soon, NULL);
    timerfd_settime(other, 0, &late, NULL);
    look("set", set, 0);
    look("the first", set, 5000);
    SHOW(read(one, &word, 8));
    look("read", set, 0);
    look("the second", set, 5000);
    look("it goes on when it is read", set, 100);
    CHECK(read(other, &word, 8) == 8 && word >= 2);
    look("and then again", set, 5000);
    close(other);
    look("closed", set, 30);
    close(one), close(set);
}

static void many(void) {
    enum { COUNT = 300 };
    static int ends[COUNT][2];
    static struct pollfd polled[2 * COUNT];
    int set = epoll_create1(0), wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        pipe(ends[i]);
        control(set, EPOLL_CTL_ADD, ends[i][0], EPOLLIN, i);
        polled[2 * i] = (struct pollfd){ends[i][0], POLLIN, 0};
        polled[2 * i + 1] = (struct pollfd){ends[i][1], POLLIN, 0};
    }
    for (int round = 0; round < 2000; round++) {
        int i = round * 7919 % COUNT, j = round * 104729 % COUNT;
        write(ends[i][1], "x", 1);
        if (j != i) write(ends[j][1], "y", 1);
        int want = i == j ? 1 : 2;
        if (epoll_wait(set, found, 64, 0) != want) wrong++;
        if (round % 20 == 0) {
            if (poll(polled, 2 * COUNT, 0) != want) wrong++;
            if (!polled[2 * i].revents || !polled[2 * j].revents) wrong++;
        }
        read(ends[i][0], bytes, 1);
        if (j != i) read(ends[j][0], bytes, 1);
        if (round % 3 == 0 && epoll_wait(set, found, 64, 0) != 0) wrong++;
    }
    printf("wrong: %d\n", wrong);
    for (int i = 0; i < COUNT; i++) close(ends[i][i % 2]);
    SHOW(epoll_wait(set, found, 64, 0));
    SHOW(poll(polled, 2 * COUNT, 0));
    for (int i = 0; i < COUNT; i++) close(ends[i][1 - i % 2]);
    SHOW(epoll_wait(set, found, 64, 0));
    close(set);
}

// More descriptions of one pipe than anybody is told about.
static void crowd(void) {
    enum { COUNT = 100 };
    int ends[2], more[COUNT], set = epoll_create1(0);
    char path[64];
    pipe(ends);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    int opened = 0;
    for (int i = 0; i < COUNT; i++) {
        more[i] = open(path, O_RDONLY | O_NONBLOCK);
        opened += more[i] >= 0;
        control(set, EPOLL_CTL_ADD, more[i], EPOLLIN, i);
    }
    SHOW(opened);
    SHOW(epoll_wait(set, found, 64, 0));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        write(ends[1], "x", 1);
        _exit(0);
    }
    CHECK(epoll_wait(set, found, 64, -1) > 0);
    waitpid(child, NULL, 0);
    struct pollfd last = {more[COUNT - 1], POLLIN, 0};
    SHOW(poll(&last, 1, -1));
    read(ends[0], bytes, 1);
    SHOW(poll(&last, 1, 10));
    SHOW(epoll_wait(set, found, 64, 0));
    for (int i = 0; i < COUNT; i++) close(more[i]);
    close(ends[0]), close(ends[1]), close(set);
}

static void pairs(void) {
    int ends[2], set = epoll_create1(0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLOUT, 1);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN, 2);
    look("pair", set, 0);
    write(ends[0], "abc", 3);
    look("written", set, 0);
    read(ends[1], bytes, 3);
    look("read", set, 0);
    close(ends[0]);
    int count = epoll_wait(set, found, 64, 0);
    printf("%d %d\n", count, !!(found[0].events & EPOLLHUP));
    close(ends[1]), close(set);
}

// EPOLLEXCLUSIVE goes with few other flags, not to a set, and is not changed.
static void exclusive(void) {
    int ends[2], set = epoll_create1(0), inner = epoll_create1(0);
    pipe(ends);
    struct epoll_event event = {EPOLLEXCLUSIVE};
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, inner, &event));
    SHOW(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
    static const unsigned others[] = {EPOLLPRI, EPOLLRDNORM, EPOLLONESHOT, EPOLLRDHUP, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLET, EPOLLWAKEUP | EPOLLIN};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        event.events = EPOLLEXCLUSIVE | others[i];
        SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
        SHOW(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL));
    }
    event.events = EPOLLEXCLUSIVE | EPOLLIN;
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    event.events = EPOLLIN;
    SHOW(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
    write(ends[1], "x", 1);
    SHOW(epoll_wait(set, found, 64, 0));
    // The same, once another process may have it.
    pid_t child = fork();
    if (child == 0) {
        SHOW(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
        event.events = EPOLLEXCLUSIVE | EPOLLPRI;
        SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event));
        event.events = EPOLLEXCLUSIVE;
        SHOW(epoll_ctl(set, EPOLL_CTL_ADD, inner, &event));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    close(ends[0]), close(ends[1]), close(set), close(inner);
}

int main(void) {
    exclusive();
    fflush(stdout);
    edges(), once(), turns(), files(), nests(), children(), child_and_parent();
    threads(), timers(), many(), crowd(), pairs();
}
