// A file is truncated while processes have it mapped: its pages go away from all of them, and what the kernel is to
// copy from or to such a page is a bad address.
// oracle: linux
// cores: 4
// build: gcc, musl
#include "test.h"
#include <pthread.h>
#include <setjmp.h>

enum { PAGES = 600, KEPT = 3 };
enum { FUTEX_WAIT = 0, FUTEX_WAIT_PRIVATE = 128 };
#define BYTES (PAGES * PAGE)

static sigjmp_buf back;
static volatile int caught, code;
static char *volatile where;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    caught = signal, code = info->si_code, where = info->si_addr;
    siglongjmp(back, 1);
}

static int touch(char *at) {
    caught = code = 0;
    if (sigsetjmp(back, 1) == 0) return *(volatile char *)at;
    return -1;
}

static int store(char *at) {
    caught = code = 0;
    if (sigsetjmp(back, 1) == 0) return *(volatile char *)at = 'w';
    return -1;
}

static int file;

static char *map(int flags) { return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, file, 0); }

static void fill(void) {
    char page[PAGE];
    for (int n = 0; n < PAGES; n++) {
        memset(page, 'a' + n % 26, PAGE);
        if (pwrite(file, page, PAGE, n * PAGE) != (ssize_t)PAGE) perror("pwrite");
    }
}

static long sum(char *at) {
    long all = 0;
    for (int n = 0; n < PAGES; n++) all += touch(at + n * PAGE);
    return all;
}

// What a process sees that has had all pages.
static void look(const char *who, char *shared, char *private) {
    printf("%s: kept: %c %c\n", who, touch(shared), touch(shared + (KEPT - 1) * PAGE));
    static const int pages[] = {KEPT, KEPT + 1, 255, 256, 511, 512, PAGES - 1};
    for (size_t n = 0; n < sizeof pages / sizeof *pages; n++) {
        char *at = shared + pages[n] * PAGE + 5;
        int value = touch(at);
        printf("%s: page %d: %d, signal %d code %d there: %d;", who, pages[n], value, caught, code, where == at);
        value = store(at);
        printf(" write: %d, signal %d;", value, caught);
        value = touch(private + pages[n] * PAGE);
        printf(" private: %d, signal %d\n", value, caught);
    }
}

// Lets a child go on, and waits until it has done something.
struct child {
    pid_t pid;
    int go[2], done[2];
};

static void await(struct child *c) {
    char byte;
    if (read(c->go[0], &byte, 1) != 1) _exit(9);
}
static void report(struct child *c) {
    fflush(stdout);
    if (write(c->done[1], "x", 1) != 1) _exit(9);
}
static void turn(struct child *c) {
    char byte;
    if (write(c->go[1], "x", 1) != 1 || read(c->done[0], &byte, 1) != 1) printf("a child is gone\n");
}

static void start(struct child *c, const char *who, char *shared, char *private) {
    if (pipe(c->go) != 0 || pipe(c->done) != 0) perror("pipe");
    if ((c->pid = fork()) != 0) return;
    if (shared == NULL) {
        file = open("cut", O_RDWR);
        shared = map(MAP_SHARED), private = map(MAP_PRIVATE);
    }
    await(c);
    printf("%s: %ld %ld\n", who, sum(shared), sum(private));
    report(c);
    await(c);
    look(who, shared, private);
    report(c);
    await(c);
    printf("%s: it grew: %d %d, and %c\n", who, touch(shared + KEPT * PAGE), touch(private + 300 * PAGE),
           touch(shared + PAGE));
    store(shared + 400 * PAGE);
    report(c);
    _exit(0);
}

static void processes(void) {
    fill();
    char *shared = map(MAP_SHARED), *private = map(MAP_PRIVATE);
    printf("parent: %ld %ld\n", sum(shared), sum(private));
    struct child inherits, stranger;
    start(&inherits, "inherits", shared, private);
    start(&stranger, "stranger", NULL, NULL);
    turn(&inherits), turn(&stranger);
    SHOW(ftruncate(file, KEPT * PAGE));
    turn(&inherits), turn(&stranger);
    look("parent", shared, private);
    SHOW(ftruncate(file, BYTES));
    turn(&inherits), turn(&stranger);
    waitpid(inherits.pid, NULL, 0), waitpid(stranger.pid, NULL, 0);
    printf("parent: what they have written: %c\n", touch(shared + 400 * PAGE));
    munmap(shared, BYTES), munmap(private, BYTES);
}

// Another process truncates; this one's library finds out when it copies.
static void truncate_elsewhere(off_t size) {
    pid_t pid = fork();
    if (pid == 0) _exit(ftruncate(file, size));
    int status;
    waitpid(pid, &status, 0);
    printf("truncated elsewhere: %d\n", status);
}

static void nothing(int signal) { (void)signal; }

static void copies(void) {
    char buffer[100];
    fill();
    char *shared = map(MAP_SHARED);
    sum(shared);
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2];
    SHOW(pipe(ends));
    SHOW(pread(file, buffer, sizeof buffer, 10 * PAGE));
    truncate_elsewhere(KEPT * PAGE);
    char *gone = shared + 10 * PAGE;
    SHOW(pread(file, buffer, sizeof buffer, 10 * PAGE));
    SHOW(pread(file, buffer, sizeof buffer, KEPT * PAGE - 10));
    SHOW(pwrite(other, gone, 100, 0));
    SHOW(pwrite(other, shared, 100, 0));
    SHOW(pread(other, gone, 100, 0));
    SHOW(write(ends[1], gone, 100));
    SHOW(write(ends[1], "0123456789", 10));
    SHOW(read(ends[0], gone, 10));
    SHOW(syscall(SYS_stat, gone, buffer));
    SHOW(syscall(SYS_stat, "other", gone));
    SHOW(syscall(SYS_futex, gone, FUTEX_WAIT, 0, NULL, NULL, 0));
    SHOW(syscall(SYS_futex, gone, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    char *path = "/proc/self/exe", *argv[] = {path, gone, NULL};
    SHOW(execve(path, (char **)gone, NULL));
    SHOW(execve(path, argv, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        stack_t stack = {.ss_sp = gone, .ss_size = 20 * PAGE};
        sigaltstack(&stack, NULL);
        struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
        signal(SIGSEGV, SIG_DFL);
        raise(SIGUSR1);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    printf("a handler without a stack: signal %d\n", WTERMSIG(status));
    // It is there again, and the pipe still has its bytes or not; both are right.
    truncate_elsewhere(BYTES);
    SHOW(pwrite(other, gone, 100, 0));
    SHOW(pread(other, gone, 100, 0));
    munmap(shared, BYTES);
    close(ends[0]), close(ends[1]), close(other);
}

static volatile int stop;
static long bad;

static int is_right(ssize_t n, ssize_t all) { return (n >= 0 && n <= all) || (n == -1 && errno == EFAULT); }

static void *copy(void *at) {
    static __thread char buffer[8 * PAGE];
    char *shared = at;
    int other = open("/dev/zero", O_RDONLY), self = open("cut", O_RDWR), temporary = open("other", O_RDWR);
    long rounds = 0;
    for (; !stop || rounds < 100; rounds++) {
        size_t offset = rounds * 5 % 64 * PAGE + 100, bytes = 1 + rounds * 7919 % (8 * PAGE);
        ssize_t n[] = {
            read(other, shared + offset, bytes),
            pwrite(temporary, shared + offset, bytes, 0),
            pread(self, buffer, bytes, offset),
            pread(self, shared + offset, bytes, 7 * PAGE),
            pread(temporary, shared + offset, bytes, 0),
        };
        for (size_t i = 0; i < sizeof n / sizeof *n; i++)
            if (!is_right(n[i], bytes)) __atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
    }
    close(other), close(self), close(temporary);
    return NULL;
}

static void *truncates(void *unused) {
    (void)unused;
    for (int n = 0; n < 300; n++) {
        if (ftruncate(file, n % 7 * PAGE) != 0 || ftruncate(file, 80 * PAGE) != 0) bad++;
    }
    return NULL;
}

static void at_once(const char *what, int in_process) {
    bad = 0, stop = 0;
    SHOW(ftruncate(file, 80 * PAGE));
    char *shared = mmap(NULL, 80 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t threads[2], truncator;
    pid_t pid = 0;
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, copy, shared);
    if (in_process) {
        pthread_create(&truncator, NULL, truncates, NULL);
        pthread_join(truncator, NULL);
    } else {
        if ((pid = fork()) == 0) {
            truncates(NULL);
            _exit(bad != 0);
        }
        int status;
        waitpid(pid, &status, 0);
        printf("the other process: %d\n", status);
    }
    stop = 1;
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    printf("%s: %ld wrong\n", what, bad);
    munmap(shared, 80 * PAGE);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    file = open("cut", O_RDWR | O_CREAT | O_TRUNC, 0600);
    processes();
    copies();
    at_once("a thread truncates", 1);
    at_once("a process truncates", 0);
    SHOW(unlink("cut"));
    SHOW(unlink("other"));
    return 0;
}
