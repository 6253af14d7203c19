// process_madvise: advice about several ranges at once.
// oracle: linux
// link: -pthread
#include "test.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define SELF_THREAD -10000
#define SELF_PROCESS -10001

static int open_process(pid_t pid) { return syscall(434, pid, 0); }
static long advise(int fd, const void *ranges, size_t count, int advice, unsigned flags) {
    return syscall(440, fd, ranges, count, advice, flags);
}

static int own;

static void fill(char *at, int count) {
    for (int i = 0; i < count; i++) at[i * PAGE] = 'a' + i;
}

// The first bytes of pages: what is gone is 0.
static void show(const char *what, char *at, int count) {
    printf("%s: ", what);
    for (int i = 0; i < count; i++) putchar(at[i * PAGE] ? at[i * PAGE] : '.');
    putchar('\n');
}

static void ranges(void) {
    char *at = pages(8, PROT_READ | PROT_WRITE);
    fill(at, 8);
    struct iovec some[] = {{at, PAGE}, {at + 3 * PAGE, 2 * PAGE}, {at + 7 * PAGE, PAGE}};
    SHOW(advise(own, some, 3, MADV_DONTNEED, 0));
    show("some", at, 8);
    fill(at, 8);
    SHOW(advise(SELF_THREAD, some, 2, MADV_DONTNEED, 0));
    show("self", at, 8);
    fill(at, 8);
    SHOW(advise(SELF_PROCESS, some, 1, MADV_DONTNEED, 0));
    show("process", at, 8);
    fill(at, 8);
    // A part of a page is the page, nothing is nothing, twice is once.
    struct iovec odd[] = {{at, 1}, {at + PAGE, 0}, {at + 2 * PAGE, PAGE + 1}, {at + 2 * PAGE, PAGE}};
    SHOW(advise(own, odd, 4, MADV_DONTNEED, 0));
    show("odd", at, 8);
    SHOW(advise(own, some, 0, MADV_DONTNEED, 0));
    SHOW(advise(own, NULL, 0, MADV_DONTNEED, 0));
    SHOW(advise(own, NULL, 0, 77, 0));
    fill(at, 8);
    unsigned char here[8];
    SHOW(advise(own, some, 3, MADV_WILLNEED, 0));
    SHOW(advise(own, some, 3, MADV_NORMAL, 0));
    SHOW(advise(own, some, 3, MADV_COLD, 0));
    SHOW(advise(own, some, 3, MADV_PAGEOUT, 0));
    show("kept", at, 8);
    SHOW(advise(own, some, 3, MADV_DONTNEED, 0));
    SHOW(mincore(at, 8 * PAGE, here));
    for (int i = 0; i < 8; i++) printf("%d", here[i] & 1);
    printf("\n");
    SHOW(advise(own, some, 2, 23 /* MADV_POPULATE_WRITE */, 0));
    SHOW(mincore(at, 8 * PAGE, here));
    for (int i = 0; i < 8; i++) printf("%d", here[i] & 1);
    printf("\n");
    munmap(at, 8 * PAGE);
}

// It stops at the first range that cannot be, and tells how far it has come.
static void stops(void) {
    char *at = pages(8, PROT_READ | PROT_WRITE);
    munmap(at + 4 * PAGE, PAGE);
    fill(at, 4), fill(at + 5 * PAGE, 3);
    struct iovec hole[] = {{at, PAGE}, {at + 3 * PAGE, 3 * PAGE}, {at + 6 * PAGE, PAGE}};
    SHOW(advise(own, hole, 3, MADV_DONTNEED, 0));
    show("before", at, 4), show("behind", at + 5 * PAGE, 3);
    SHOW(advise(own, hole + 1, 2, MADV_DONTNEED, 0));
    fill(at, 4), fill(at + 5 * PAGE, 3);
    struct iovec crooked[] = {{at, PAGE}, {at + PAGE + 1, PAGE}, {at + 2 * PAGE, PAGE}};
    SHOW(advise(own, crooked, 3, MADV_DONTNEED, 0));
    SHOW(advise(own, crooked + 1, 2, MADV_DONTNEED, 0));
    show("crooked", at, 4);
    mlock(at + PAGE, PAGE);
    struct iovec locked[] = {{at + 2 * PAGE, PAGE}, {at, 2 * PAGE}};
    SHOW(advise(own, locked, 2, MADV_DONTNEED, 0));
    SHOW(advise(own, locked + 1, 1, MADV_DONTNEED, 0));
    show("locked", at, 3);
    munmap(at, 8 * PAGE);
}

static void arguments(void) {
    char *at = pages(2, PROT_READ | PROT_WRITE);
    fill(at, 2);
    struct iovec one = {at, PAGE}, far = {(void *)0xffff800000000000, PAGE}, both[] = {{at, PAGE}, far};
    struct iovec around = {(void *)-PAGE, 2 * PAGE}, much[] = {{at, PAGE}, {at, (size_t)-1}}, far_off[] = {{at, PAGE}, {at, 1ul << 62}};
    SHOW(advise(own, &one, 1, MADV_DONTNEED, 1));
    SHOW(advise(own, &one, 1, 77, 0));
    SHOW(advise(own, &one, 1, -1, 0));
    SHOW(advise(own, &one, 1025, MADV_DONTNEED, 0));
    SHOW(advise(own, NULL, 1, MADV_DONTNEED, 0));
    SHOW(advise(own, (void *)8, 1, MADV_DONTNEED, 0));
    SHOW(advise(own, (void *)8, 2, MADV_DONTNEED, 0));
    SHOW(advise(own, (void *)-16l, 1, MADV_DONTNEED, 0));
    SHOW(advise(own, &far, 1, MADV_DONTNEED, 0));
    SHOW(advise(own, both, 2, MADV_DONTNEED, 0));
    SHOW(advise(own, &around, 1, MADV_DONTNEED, 0));
    SHOW(advise(own, much, 2, MADV_DONTNEED, 0));
    SHOW(advise(own, far_off, 2, MADV_DONTNEED, 0));
    // The flags come first, then the ranges, then the process.
    SHOW(advise(99, &one, 1, MADV_DONTNEED, 1));
    SHOW(advise(99, NULL, 1, MADV_DONTNEED, 0));
    SHOW(advise(99, &one, 1, 77, 0));
    SHOW(advise(-1, &one, 1, MADV_DONTNEED, 0));
    SHOW(advise(1, &one, 1, MADV_DONTNEED, 0));
    SHOW(advise(-9999, &one, 1, MADV_DONTNEED, 0));
    show("nothing", at, 2);
    munmap(at, 2 * PAGE);
}

// Nobody gives others' memory away.
static void others(void) {
    char *at = pages(4, PROT_READ | PROT_WRITE);
    fill(at, 4);
    struct iovec all = {at, 4 * PAGE};
    int hold[2];
    pipe(hold);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        read(hold[0], &byte, 1);
        show("child", at, 4);
        fflush(stdout);
        _exit(0);
    }
    close(hold[0]);
    int fd = open_process(child);
    SHOW(advise(fd, &all, 1, MADV_DONTNEED, 0));
    SHOW(advise(fd, &all, 1, MADV_FREE, 0));
    SHOW(advise(fd, &all, 1, 77, 0));
    // What may be said, by who may.
    struct iovec some[] = {{at, PAGE}, {at + 2 * PAGE, 2 * PAGE}}, hole[] = {{at, PAGE}, {(void *)0x10000, PAGE}, {at, PAGE}};
    struct iovec crooked[] = {{at, PAGE}, {at + PAGE + 1, PAGE}}, far = {(void *)0xffff800000000000, PAGE};
    SHOW(advise(fd, &all, 1, MADV_COLD, 0));
    SHOW(advise(fd, &all, 1, MADV_PAGEOUT, 0));
    SHOW(advise(fd, &all, 1, MADV_WILLNEED, 0));
    SHOW(advise(fd, some, 2, MADV_COLD, 0));
    SHOW(advise(fd, some, 0, MADV_COLD, 0));
    SHOW(advise(fd, hole, 3, MADV_COLD, 0));
    SHOW(advise(fd, hole + 1, 2, MADV_COLD, 0));
    SHOW(advise(fd, crooked, 2, MADV_PAGEOUT, 0));
    SHOW(advise(fd, crooked + 1, 1, MADV_PAGEOUT, 0));
    SHOW(advise(fd, &far, 1, MADV_WILLNEED, 0));
    SHOW(advise(fd, &all, 1, 23 /* MADV_POPULATE_WRITE */, 0));
    SHOW(advise(fd, &all, 1, MADV_COLD, 1));
    struct iovec many[1024];
    for (int i = 0; i < 1024; i++) many[i] = (struct iovec){at + i % 4 * PAGE, PAGE};
    SHOW(advise(fd, many, 1024, MADV_COLD, 0));
    SHOW(advise(fd, many, 1025, MADV_COLD, 0));
    // One that it might look into, and still not advise about.
    IN_CHILD("an ordinary user", {
        int ours = open_process(getpid());
        setgid(1000), setuid(1000);
        prctl(PR_SET_DUMPABLE, 1);
        pid_t grandchild = fork();
        if (grandchild == 0) for (;;) pause();
        int theirs = open_process(grandchild);
        SHOW(advise(theirs, &all, 1, MADV_COLD, 0));
        SHOW(advise(theirs, &all, 1, MADV_PAGEOUT, 0));
        SHOW(advise(theirs, &all, 1, MADV_WILLNEED, 0));
        SHOW(advise(theirs, &all, 1, MADV_DONTNEED, 0));
        SHOW(advise(theirs, &all, 0, MADV_COLD, 0));
        SHOW(advise(ours, &all, 1, MADV_DONTNEED, 0));
        show("own", at, 4);
        kill(grandchild, SIGKILL);
        waitpid(grandchild, NULL, 0);
        SHOW(advise(theirs, &all, 1, MADV_COLD, 0));
        SHOW(advise(theirs, &all, 1, MADV_DONTNEED, 0));
    });
    close(hold[1]);
    waitpid(child, NULL, 0);
    SHOW(advise(fd, &all, 1, MADV_COLD, 0));
    show("parent", at, 4);
    close(fd);
}

static volatile int stop;

static void *writer(void *argument) {
    char *at = argument;
    while (!stop)
        for (int i = 0; i < 64; i++) at[i * PAGE] = 1;
    return NULL;
}

// Pages that another thread writes meanwhile are there or gone, and memory is not lost.
static void threads(void) {
    char *at = pages(64, PROT_READ | PROT_WRITE);
    struct iovec all[32];
    for (int i = 0; i < 32; i++) all[i] = (struct iovec){at + 2 * i * PAGE, PAGE};
    pthread_t thread;
    pthread_create(&thread, NULL, writer, at);
    long good = 0;
    for (int i = 0; i < 200; i++) good += advise(own, all, 32, MADV_DONTNEED, 0) == 32 * PAGE;
    stop = 1;
    pthread_join(thread, NULL);
    printf("%ld\n", good);
    munmap(at, 64 * PAGE);
}

int main(void) {
    own = open_process(getpid());
    ranges();
    stops();
    arguments();
    others();
    threads();
    IN_CHILD("child", {
        // The descriptor names the parent.
        char *at = pages(1, PROT_READ | PROT_WRITE);
        fill(at, 1);
        struct iovec one = {at, PAGE};
        SHOW(advise(own, &one, 1, MADV_DONTNEED, 0));
        SHOW(advise(SELF_PROCESS, &one, 1, MADV_DONTNEED, 0));
        show("child", at, 1);
    });
    return 0;
}
