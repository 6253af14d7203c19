// eventfd, timerfd, epoll, socketpair.
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static uint64_t word;

static void events(void) {
    int fd = eventfd(3, EFD_NONBLOCK);
    SHOW(read(fd, &word, 8));
    printf("%d\n", (int)word);
    SHOW(read(fd, &word, 8));
    SHOW(read(fd, &word, 7));
    word = 5;
    SHOW(write(fd, &word, 8));
    SHOW(write(fd, &word, 8));
    SHOW(write(fd, &word, 4));
    word = ~0ull;
    SHOW(write(fd, &word, 8));
    word = ~1ull;
    SHOW(write(fd, &word, 8));
    SHOW(read(fd, &word, 8));
    printf("%d\n", (int)word);
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(pread(fd, &word, 8, 0));
    int one = eventfd(2, EFD_NONBLOCK | EFD_SEMAPHORE);
    SHOW(read(one, &word, 8));
    SHOW(read(one, &word, 8));
    SHOW(read(one, &word, 8));
    SHOW(eventfd(0, 77));
    close(fd), close(one);
}

static void timers(void) {
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    SHOW(read(fd, &word, 8));
    struct itimerspec set = {{0, 2000000}, {0, 1000000}}, old;
    SHOW(timerfd_settime(fd, 0, &set, &old));
    printf("%ld %ld\n", (long)old.it_value.tv_sec, old.it_value.tv_nsec);
    struct pollfd polled = {fd, POLLIN, 0};
    SHOW(poll(&polled, 1, 1000));
    SHOW(read(fd, &word, 8));
    CHECK(word >= 1);
    usleep(10000);
    SHOW(read(fd, &word, 8));
    CHECK(word >= 2);
    set.it_value.tv_nsec = 1000000000;
    SHOW(timerfd_settime(fd, 0, &set, NULL));
    SHOW(timerfd_create(99, 0));
    SHOW(timerfd_settime(1, 0, &old, NULL));
    close(fd);
}

static void polling(void) {
    int ends[2], set = epoll_create1(EPOLL_CLOEXEC);
    pipe(ends);
    struct epoll_event event = {EPOLLIN, {.u64 = 77}}, found[4];
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, 99, &event));
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
    SHOW(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], &event));
    SHOW(epoll_wait(set, found, 4, 0));
    SHOW(epoll_wait(set, found, 0, 0));
    write(ends[1], "x", 1);
    SHOW(epoll_wait(set, found, 4, -1));
    printf("%#x %d\n", found[0].events, (int)found[0].data.u64);
    event.events = EPOLLOUT | EPOLLONESHOT, event.data.u64 = 78;
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event));
    SHOW(epoll_wait(set, found, 4, -1));
    SHOW(epoll_wait(set, found, 4, -1));
    close(ends[1]);
    read(ends[0], &word, 1);
    SHOW(epoll_wait(set, found, 4, -1));
    printf("%#x %d\n", found[0].events, (int)found[0].data.u64);
    SHOW(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL));
    SHOW(epoll_wait(set, found, 4, 10));
    SHOW(epoll_wait(ends[0], found, 4, 10));
    close(ends[0]), close(set);
}

static void pairs(void) {
    int ends[2];
    SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    SHOW(write(ends[0], "there", 5));
    SHOW(send(ends[1], "back", 4, 0));
    char text[10] = "";
    SHOW(read(ends[1], text, 9));
    puts(text);
    SHOW(recv(ends[0], text, 9, 0));
    puts(text);
    struct pollfd polled = {ends[0], POLLIN | POLLOUT, 0};
    SHOW(poll(&polled, 1, 0));
    printf("%#x\n", polled.revents);
    write(ends[0], "twice ", 6);
    IN_CHILD("child", {
        close(ends[0]);
        char all[100];
        int count = read(ends[1], all, 100);
        write(ends[1], all, count), write(ends[1], all, count);
    });
    SHOW(read(ends[0], text, 9));
    SHOW(read(ends[0], text, 9));
    SHOW(lseek(ends[0], 0, SEEK_SET));
    SHOW(send(1, "x", 1, 0));
    close(ends[1]);
    signal(SIGPIPE, SIG_IGN);
    SHOW(write(ends[0], "x", 1));
    SHOW(read(ends[0], text, 9));
}

int main(void) {
    events();
    timers();
    polling();
    pairs();
    return 0;
}
