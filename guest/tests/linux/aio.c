// Native asynchronous input and output: contexts, requests, events, and who is told.
// build: gcc
// link: -pthread
// oracle: linux
// cores: 2
#include "test.h"
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

static aio_context_t context;
static char block[4 * PAGE];

static long setup(unsigned count, aio_context_t *to) { return syscall(SYS_io_setup, count, to); }
static long destroy(aio_context_t id) { return syscall(SYS_io_destroy, id); }
static long submit(struct iocb *one) { return syscall(SYS_io_submit, context, 1l, &one); }
static long take(struct io_event *to, long least, long most, struct timespec *until) {
    return syscall(SYS_io_getevents, context, least, most, to, until);
}
static struct iocb request(int what, int fd, void *at, size_t bytes, long offset) {
    struct iocb one;
    memset(&one, 0, sizeof one);
    one.aio_lio_opcode = what, one.aio_fildes = fd, one.aio_buf = (uintptr_t)at, one.aio_nbytes = bytes;
    one.aio_offset = offset, one.aio_data = 77;
    return one;
}
// Submits one and shows what becomes of it.
static void run(const char *what, struct iocb one) {
    struct io_event event = {0};
    errno = 0;
    long done = submit(&one);
    if (done != 1) {
        printf("%s: %ld, errno %d\n", what, done, errno);
        return;
    }
    done = take(&event, 1, 1, NULL);
    printf("%s: %ld, data %lu, own %d, result %ld, %ld\n", what, done, (long)event.data, event.obj == (uintptr_t)&one,
           (long)event.res, (long)event.res2);
}

static void contexts(void) {
    aio_context_t other = 0;
    SHOW(setup(0, &other));
    SHOW(setup(1, NULL));
    SHOW(setup(1, (void *)8));
    other = 1;
    SHOW(setup(1, &other));
    other = 0;
    SHOW(setup(0x10000001, &other));
    SHOW(setup(1000000, &other));
    SHOW(setup(4, &other));
    SHOW(other != 0);
    SHOW(setup(4, &other));
    SHOW(destroy(other));
    SHOW(destroy(other));
    SHOW(destroy(0));
    SHOW(destroy(-1));
    SHOW(setup(64, &context));
}

static void files(void) {
    char path[] = "/tmp/aioXXXXXX";
    int fd = mkstemp(path), reads = open(path, O_RDONLY), writes = open(path, O_WRONLY), dir = open("/tmp", O_RDONLY);
    unlink(path);
    for (size_t i = 0; i < sizeof block; i++) block[i] = 'a' + i % 23;
    run("write", request(IOCB_CMD_PWRITE, fd, block, 3 * PAGE, 100));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_END));
    static char back[4 * PAGE];
    run("read", request(IOCB_CMD_PREAD, fd, back, sizeof back, 100));
    SHOW(memcmp(back, block, 3 * PAGE));
    run("read at the end", request(IOCB_CMD_PREAD, fd, back, 10, 100 + 3 * PAGE));
    run("read nothing", request(IOCB_CMD_PREAD, fd, back, 0, 0));
    run("write only", request(IOCB_CMD_PREAD, writes, back, 10, 0));
    run("read only", request(IOCB_CMD_PWRITE, reads, back, 10, 0));
    run("negative", request(IOCB_CMD_PREAD, fd, back, 10, -1));
    run("no memory", request(IOCB_CMD_PREAD, fd, (void *)8, 10, 0));
    run("no address", request(IOCB_CMD_PREAD, fd, (void *)-8l, 10, 0));
    run("bad", request(IOCB_CMD_PREAD, 99, back, 10, 0));
    run("directory", request(IOCB_CMD_PREAD, dir, back, 10, 0));
    run("unknown", request(99, fd, back, 10, 0));
    run("nothing", request(IOCB_CMD_NOOP, fd, back, 10, 0));
    run("huge", request(IOCB_CMD_PREAD, fd, back, -1, 0));
    struct iovec parts[] = {{back, 10}, {back + 100, 20}, {back + 200, 0}};
    run("vector read", request(IOCB_CMD_PREADV, fd, parts, 3, 100));
    SHOW(memcmp(back, block, 10) || memcmp(back + 100, block + 10, 20));
    run("vector write", request(IOCB_CMD_PWRITEV, fd, parts, 2, 0));
    run("vectors", request(IOCB_CMD_PREADV, fd, parts, 1025, 100));
    run("no vector", request(IOCB_CMD_PREADV, fd, (void *)8, 2, 100));
    run("sync", request(IOCB_CMD_FSYNC, fd, NULL, 0, 0));
    run("data sync", request(IOCB_CMD_FDSYNC, fd, NULL, 0, 0));
    run("sync with more", request(IOCB_CMD_FSYNC, fd, back, 0, 0));
    struct iocb one = request(IOCB_CMD_PREAD, fd, back, 10, 0);
    one.aio_reserved2 = 1;
    run("reserved", one);
    one = request(IOCB_CMD_PREAD, fd, back, 10, 0);
    one.aio_rw_flags = 0x40000000;
    run("flags", one);
    int ends[2];
    pipe(ends);
    run("pipe", request(IOCB_CMD_PWRITE, ends[1], "piped", 5, 0));
    run("pipe", request(IOCB_CMD_PREAD, ends[0], back, 10, 0));
    run("pipe sync", request(IOCB_CMD_FSYNC, ends[1], NULL, 0, 0));
    close(fd), close(reads), close(writes), close(dir), close(ends[0]), close(ends[1]);
}

static void several(void) {
    int fd = memfd_create("aio", 0);
    struct iocb all[8], *list[9];
    for (int i = 0; i < 8; i++) {
        all[i] = request(IOCB_CMD_PWRITE, fd, block + i, 100, 100 * i);
        all[i].aio_data = i;
        list[i] = &all[i];
    }
    SHOW(syscall(SYS_io_submit, context, 0l, list));
    SHOW(syscall(SYS_io_submit, context, -1l, list));
    SHOW(syscall(SYS_io_submit, 0l, 1l, list));
    SHOW(syscall(SYS_io_submit, context, 1l, NULL));
    SHOW(syscall(SYS_io_submit, context, 8l, list));
    struct io_event events[10];
    struct timespec none = {0, 0}, little = {0, 20000000};
    SHOW(take(events, 2, 1, NULL));
    SHOW(take(events, -1, 1, NULL));
    SHOW(take(events, 0, -1, NULL));
    SHOW(take(events, 0, 0, NULL));
    SHOW(take(NULL, 1, 1, NULL));
    SHOW(take(events, 3, 3, NULL));
    printf("%ld %ld %ld\n", (long)events[0].data, (long)events[1].data, (long)events[2].data);
    SHOW(take(events, 1, 10, NULL));
    SHOW(take(events, 0, 10, &none));
    SHOW(take(events, 1, 10, &none));
    SHOW(take(events, 1, 10, &little));
    SHOW(take(events, 1, 10, (void *)8));
    SHOW(syscall(SYS_io_getevents, 0l, 0l, 1l, events, NULL));
    // The first one that cannot be ends it.
    all[2].aio_fildes = 99;
    SHOW(syscall(SYS_io_submit, context, 8l, list));
    SHOW(take(events, 2, 10, NULL));
    SHOW(syscall(SYS_io_cancel, context, &all[0], events));
    SHOW(syscall(SYS_io_cancel, 0l, &all[0], events));
    SHOW(syscall(SYS_io_cancel, context, NULL, events));
    // Told by a counter.
    int counter = eventfd(0, EFD_NONBLOCK);
    struct iocb told = request(IOCB_CMD_PREAD, fd, block, 10, 0);
    told.aio_flags = IOCB_FLAG_RESFD, told.aio_resfd = counter;
    SHOW(submit(&told));
    SHOW(submit(&told));
    uint64_t value = 0;
    SHOW(read(counter, &value, 8));
    SHOW(value);
    SHOW(take(events, 2, 10, NULL));
    told.aio_resfd = 99;
    SHOW(submit(&told));
    told.aio_resfd = fd;
    SHOW(submit(&told));
    close(fd), close(counter);
}

static void *submits(void *fd) {
    usleep(30000);
    struct iocb one = request(IOCB_CMD_PREAD, (long)fd, block, 10, 0);
    submit(&one);
    return NULL;
}

static void nothing(int signal) { (void)signal; }

static void waits(void) {
    int fd = memfd_create("aio", 0);
    write(fd, "0123456789", 10);
    struct io_event event;
    pthread_t thread;
    pthread_create(&thread, NULL, submits, (void *)(long)fd);
    SHOW(take(&event, 1, 1, NULL));
    SHOW(event.res);
    pthread_join(thread, NULL);
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    struct itimerval timer = {.it_value.tv_usec = 30000, .it_interval.tv_usec = 30000}, off = {0};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    SHOW(take(&event, 1, 1, NULL));
    setitimer(ITIMER_REAL, &off, NULL);
    timer.it_interval.tv_usec = 0;
    // With signals that are blocked meanwhile.
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGALRM);
    struct {
        void *set;
        size_t size;
    } mask = {&set, 8};
    struct timespec later = {0, 80000000};
    timer.it_value.tv_usec = 10000;
    setitimer(ITIMER_REAL, &timer, NULL);
    SHOW(syscall(SYS_io_pgetevents, context, 1l, 1l, &event, &later, &mask));
    mask.size = 4;
    SHOW(syscall(SYS_io_pgetevents, context, 0l, 1l, &event, &later, &mask));
    mask.set = NULL;
    SHOW(syscall(SYS_io_pgetevents, context, 0l, 1l, &event, &later, &mask));
    SHOW(syscall(SYS_io_pgetevents, context, 0l, 1l, &event, &later, NULL));
    // A child has none.
    IN_CHILD("a child", {
        SHOW(take(&event, 0, 1, NULL));
        SHOW(destroy(context));
        aio_context_t own = 0;
        SHOW(setup(1, &own));
    });
    SHOW(destroy(context));
    SHOW(take(&event, 0, 1, NULL));
}

int main(void) {
    contexts();
    files();
    several();
    waits();
    return 0;
}
