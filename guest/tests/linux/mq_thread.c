// Message queues whose messages are told to a thread of the C library (SIGEV_THREAD), and what the library makes that of.
// oracle: linux
// link: -pthread -lrt
#include "test.h"
#include "must.h"
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>

static sem_t told;
static mqd_t queue;

static void on_message(union sigval value) {
    char text[64] = "";
    unsigned priority = 0;
    long bytes = mq_receive(queue, text, sizeof text, &priority);
    printf("told %d: %ld bytes, %s, priority %u\n", value.sival_int, bytes, text, priority);
    sem_post(&told);
}

static void by_library(void) {
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};
    mq_unlink("/told");
    queue = mq_open("/told", O_RDWR | O_CREAT, 0600, &attributes);
    MUST(queue != (mqd_t)-1);
    sem_init(&told, 0, 0);
    for (int i = 0; i < 3; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_message};
        event.sigev_value.sival_int = 40 + i;
        SHOW(mq_notify(queue, &event));
        errno = 0;
        long again = mq_notify(queue, &event);
        printf("twice: %ld, errno %d\n", again, errno);
        SHOW(mq_send(queue, "hello", 6, 5 + i));
        sem_wait(&told);
    }
    mq_close(queue);
    mq_unlink("/told");
}

struct event {
    uint64_t value;
    uint32_t signal, how;
    uint64_t rest[6];
};
static long notify(int fd, struct event *event) {
    long result = syscall(SYS_mq_notify, fd, event);
    return result < 0 ? -errno : result;
}

static void show_next(int socket) {
    unsigned char bytes[64];
    struct pollfd one = {socket, POLLIN, 0};
    if (poll(&one, 1, 0) == 0) {
        printf("nothing\n");
        return;
    }
    long count = recv(socket, bytes, sizeof bytes, 0);
    printf("%ld bytes: %d %d .. %d\n", count, bytes[0], bytes[1], bytes[31]);
}

static void by_hand(void) {
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};
    mqd_t fd = mq_open("/hand", O_RDWR | O_CREAT | O_NONBLOCK, 0600, &attributes);
    MUST(fd != (mqd_t)-1);
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), local = socket(AF_UNIX, SOCK_DGRAM, 0);
    int inet = socket(AF_INET, SOCK_DGRAM, 0);
    unsigned char cookie[32] = {1, 2, 3};
    struct event event = {(uint64_t)cookie, netlink, SIGEV_THREAD, {0}};
    struct event other = event;
    printf("no address %ld\n", (other.value = 8, notify(fd, &other)));
    printf("no descriptor %ld\n", (other = event, other.signal = 99, notify(fd, &other)));
    printf("no socket %ld\n", (other.signal = fd, notify(fd, &other)));
    printf("a local one %ld\n", (other.signal = local, notify(fd, &other)));
    printf("one of the network %ld\n", (other.signal = inet, notify(fd, &other)));
    printf("no queue %ld\n", notify(netlink, &event));
    printf("another way %ld\n", (other = event, other.how = 3, notify(fd, &other)));
    printf("asked %ld %ld\n", notify(fd, &event), notify(fd, &event));
    show_next(netlink);
    MUST(mq_send(fd, "x", 1, 0) == 0);
    show_next(netlink);
    // It was for once, and for a queue that was empty.
    MUST(mq_send(fd, "x", 1, 0) == 0);
    show_next(netlink);
    printf("asked %ld\n", notify(fd, &event));
    MUST(mq_send(fd, "x", 1, 0) == 0);
    show_next(netlink);
    printf("no more %ld %ld\n", notify(fd, NULL), notify(fd, NULL));
    show_next(netlink);
    printf("asked %ld\n", notify(fd, &event));
    // What another process does with its queue is not this one's.
    IN_CHILD("a child", mq_close(fd));
    show_next(netlink);
    IN_CHILD("one that asks", {
        printf("asks %ld, no more %ld\n", notify(fd, &event), notify(fd, NULL));
    });
    show_next(netlink);
    mqd_t second = mq_open("/hand", O_RDWR | O_NONBLOCK);
    mq_close(second);
    show_next(netlink);
    printf("asked %ld\n", notify(fd, &event));
    mq_close(fd);
    show_next(netlink);
    // The socket goes first.
    fd = mq_open("/hand", O_RDWR | O_NONBLOCK);
    char text[64];
    while (mq_receive(fd, text, sizeof text, NULL) > 0) continue;
    printf("asked %ld\n", notify(fd, &event));
    MUST(close(netlink) == 0);
    netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    MUST(mq_send(fd, "x", 1, 0) == 0);
    show_next(netlink);
    mq_close(fd);
    mq_unlink("/hand");
}

int main(void) {
    by_library();
    by_hand();
    return 0;
}
