// What does it cost to ask about many descriptors when none, or one, of them is ready, and to have many in a fork?
#include "scale.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

enum { MOST = 1000, REPEATS = 31 };

static int reading[MOST], writing[MOST], count, set;
static struct pollfd polled[MOST];

static void add(int fd, int number) {
    struct epoll_event event = {EPOLLIN, {.u32 = number}};
    expect("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
    polled[number] = (struct pollfd){fd, POLLIN, 0};
}

static void new_pipe(int number) {
    int ends[2];
    expect("pipe", pipe(ends), 0);
    reading[number] = ends[0], writing[number] = ends[1];
    add(ends[0], number);
}

static void new_event(int number) {
    reading[number] = writing[number] = eventfd(0, 0);
    expect("eventfd failed", reading[number] < 0, 0);
    add(reading[number], number);
}

static void none_ready(const char *kind) {
    char name[80];
    struct epoll_event found[8];
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        int ready = epoll_wait(set, found, 8, 0);
        sample(ticks() - from);
        expect("epoll_wait", ready, 0);
    }
    snprintf(name, sizeof name, "epoll__wait,_none_ready,_%s", kind);
    report(name, 1, "at=%d:descriptors", count);
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        int ready = poll(polled, count, 0);
        sample(ticks() - from);
        expect("poll", ready, 0);
    }
    snprintf(name, sizeof name, "poll,_none_ready,_each,_%s", kind);
    report(name, count, "at=%d:descriptors", count);
}

static void one_ready(const char *kind) {
    static const uint64_t word = 1;
    char name[80];
    struct epoll_event found[8];
    for (int i = 0; i < REPEATS; i++) {
        uint64_t back;
        int number = i * 37 % count;
        expect("write", write(writing[number], &word, 8), 8);
        uint64_t from = ticks();
        int ready = epoll_wait(set, found, 8, 0);
        sample(ticks() - from);
        expect("epoll_wait", ready, 1);
        expect("who is ready", found[0].data.u32, number);
        expect("read", read(reading[number], &back, 8), 8);
        expect("epoll_wait", epoll_wait(set, found, 8, 0), 0);
    }
    snprintf(name, sizeof name, "epoll__wait,_one_ready,_%s", kind);
    report(name, 1, "at=%d:descriptors", count);
}

static void measure(const char *kind, void (*make)(int)) {
    static const int sizes[] = {10, 100, 1000};
    set = epoll_create1(0);
    count = 0;
    for (int i = 0; i < 3; i++) {
        if (!wanted(sizes[i], 100)) break;
        while (count < sizes[i]) make(count++);
        none_ready(kind);
        one_ready(kind);
    }
    for (int i = 0; i < count; i++) {
        close(reading[i]);
        if (writing[i] != reading[i]) close(writing[i]);
    }
    close(set);
}

// The first fork makes what only one process had into what two have.
static void first_fork(int number) {
    for (int i = 0; i < number; i++) {
        reading[i] = eventfd(0, 0);
        expect("eventfd failed", reading[i] < 0, 0);
    }
    uint64_t from = ticks();
    pid_t child = fork();
    if (child == 0) _exit(0);
    sample(ticks() - from);
    int status = -1;
    expect("waitpid", waitpid(child, &status, 0), child);
    expect("status", status, 0);
    report("first_fork,_each,_eventfds", number, "at=%d:descriptors", number);
    for (int i = 0; i < number; i++) close(reading[i]);
}

int main(void) {
    calibrate();
    raise_file_limit();
    measure("pipes", new_pipe);
    measure("eventfds", new_event);
    first_fork(100);
    if (wanted(MOST, 100)) first_fork(MOST);
}
