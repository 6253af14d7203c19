// Page faults that the program serves itself: pages that are missing, pages that are protected, by threads that read
// messages, by signals, of the program and of its calls; what else happens to such memory meanwhile.
// build: gcc
// oracle: linux
// cores: 4
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void say(const char *what, long result) {
    if (result == -1) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}
static int make(int flags, uint64_t features) {
    int fd = syscall(SYS_userfaultfd, flags);
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) say("UFFDIO_API", -1);
    return fd;
}
static char *memory(long pages) {
    char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? 0 : at;
}
static int reg(int fd, void *at, long pages, int mode) {
    struct uffdio_register r = {.range = {(uintptr_t)at, pages * PAGE}, .mode = mode};
    return ioctl(fd, UFFDIO_REGISTER, &r);
}
static long copy(int fd, void *to, const void *from, long pages, int mode, long *done) {
    struct uffdio_copy c = {(uintptr_t)to, (uintptr_t)from, pages * PAGE, mode, 0};
    int r = ioctl(fd, UFFDIO_COPY, &c);
    if (done) *done = c.copy;
    return r;
}
static long zero(int fd, void *to, long pages, int mode) {
    struct uffdio_zeropage z = {.range = {(uintptr_t)to, pages * PAGE}, .mode = mode};
    return ioctl(fd, UFFDIO_ZEROPAGE, &z);
}
static int protect(int fd, void *at, long pages, int mode) {
    struct uffdio_writeprotect w = {.range = {(uintptr_t)at, pages * PAGE}, .mode = mode};
    return ioctl(fd, UFFDIO_WRITEPROTECT, &w);
}
static int wake(int fd, void *at, long pages) {
    struct uffdio_range r = {(uintptr_t)at, pages * PAGE};
    return ioctl(fd, UFFDIO_WAKE, &r);
}
static int unreg(int fd, void *at, long pages) {
    struct uffdio_range r = {(uintptr_t)at, pages * PAGE};
    return ioctl(fd, UFFDIO_UNREGISTER, &r);
}

static void errors(void) {
    say("unknown flag", syscall(SYS_userfaultfd, 2));
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    char *at = memory(4), buffer[64];
    printf("flags %x %x\n", fcntl(fd, F_GETFL) & ~0100000, fcntl(fd, F_GETFD));
    say("read before API", read(fd, buffer, sizeof buffer));
    say("register before API", reg(fd, at, 1, UFFDIO_REGISTER_MODE_MISSING));
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    say("poll before API", poll(&p, 1, 0));
    printf("%x\n", p.revents);
    struct uffdio_api api = {.api = 0xab};
    say("another API", ioctl(fd, UFFDIO_API, &api));
    printf("%d %d\n", (int)api.api, (int)api.features);
    api = (struct uffdio_api){.api = UFFD_API, .features = 1ull << 60};
    say("unknown feature", ioctl(fd, UFFDIO_API, &api));
    api = (struct uffdio_api){.api = UFFD_API};
    say("API", ioctl(fd, UFFDIO_API, &api));
    printf("%llx %d\n", (long long)api.ioctls, (api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0);
    say("API again", ioctl(fd, UFFDIO_API, &api));
    say("nothing to read", read(fd, buffer, sizeof buffer));
    say("short read", read(fd, buffer, 31));
    say("write", write(fd, buffer, 32));
    say("lseek", lseek(fd, 0, SEEK_SET));
    p.revents = 0;
    say("poll", poll(&p, 1, 0));
    say("other ioctl", ioctl(fd, UFFDIO_COPY + 40, 0));
    say("no mode", reg(fd, at, 1, 0));
    say("unknown mode", reg(fd, at, 1, 16));
    say("unaligned", reg(fd, at + 1, 1, 1));
    say("empty", reg(fd, at, 0, 1));
    say("address 0", reg(fd, 0, 1, 1));
    munmap(at + 3 * PAGE, PAGE);
    int file = open("/proc/self/exe", O_RDONLY);
    char *other = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    say("a file", reg(fd, other, 1, 1));
    struct uffdio_register r = {.range = {(uintptr_t)at, 2 * PAGE}, .mode = 1};
    say("register", ioctl(fd, UFFDIO_REGISTER, &r));
    printf("%x\n", (int)r.ioctls & 0x1c);
    r.mode = 3;
    say("register more", ioctl(fd, UFFDIO_REGISTER, &r));
    printf("%x\n", (int)r.ioctls & 0x5c);
    int second = make(O_NONBLOCK, 0);
    say("somebody else", reg(second, at + PAGE, 2, 1));
    say("somebody else, beside", reg(second, at + 2 * PAGE, 1, 1));
    long done;
    static char from[4 * PAGE];
    memset(from, 'c', sizeof from);
    say("copy", copy(fd, at, from, 1, 0, &done));
    printf("%ld\n", done);
    say("copy there again", copy(fd, at, from, 1, 0, &done));
    printf("%ld\n", done);
    say("copy unknown mode", copy(fd, at + PAGE, from, 1, 8, 0));
    say("copy unaligned", copy(fd, at + 1, from, 1, 0, 0));
    say("copy empty", copy(fd, at + PAGE, from, 0, 0, 0));
    say("copy from nowhere", copy(fd, at + PAGE, (void *)16, 1, 0, &done));
    printf("%ld\n", done);
    say("copy to what is not registered", copy(fd, from, from, 1, 0, &done));
    printf("%d\n", memcmp(at, from, PAGE));
    say("zero", zero(fd, at + PAGE, 1, 0));
    say("zero again", zero(fd, at + PAGE, 1, 0));
    say("zero unknown mode", zero(fd, at + PAGE, 1, 4));
    printf("%d\n", at[PAGE] | at[2 * PAGE - 1]);
    say("protect unknown mode", protect(fd, at, 1, 8));
    say("protect both", protect(fd, at, 1, 3));
    say("protect elsewhere", protect(fd, from, 1, 1));
    say("protect", protect(fd, at, 1, 1));
    say("unprotect", protect(fd, at, 1, 0));
    say("wake", wake(fd, at, 1));
    say("wake unaligned", wake(fd, at + 1, 1));
    say("unregister", unreg(fd, at, 2));
    say("unregister again", unreg(fd, at, 2));
    say("unregister nothing", unreg(fd, at, 0));
    say("copy afterwards", copy(fd, at, from, 1, 0, 0));
    at[0] = 1, at[PAGE] = 2;
    // More than is missing: as far as it goes.
    char *part = memory(4);
    part[2 * PAGE] = 'x';
    say("register", reg(fd, part, 4, 1));
    say("copy partly", copy(fd, part, from, 4, 0, &done));
    printf("%ld %c%c\n", done, part[PAGE], part[2 * PAGE]);
    say("copy the rest", copy(fd, part + 3 * PAGE, from, 1, 0, &done));
    close(second);
    close(fd);
    // As no rights are needed for faults of the program.
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        if (setresuid(1000, 1000, 1000)) _exit(1);
        say("user", syscall(SYS_userfaultfd, 0));
        say("user, of the program only", syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY) >= 0);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
}

// Serves faults: page n gets the byte 'a' + n % 26, or becomes writable. Says what it served.
static struct { int fd; char *base; volatile int stop, served, writes, protects; uint32_t tid; } server;
static void *serve(void *arg) {
    (void)arg;
    static __thread char page[PAGE] __attribute__((aligned(PAGE)));
    while (!server.stop) {
        struct pollfd p = {server.fd, POLLIN, 0};
        if (poll(&p, 1, 20) != 1) continue;
        struct uffd_msg m;
        if (read(server.fd, &m, sizeof m) != sizeof m) continue;
        if (m.event != UFFD_EVENT_PAGEFAULT) printf("event %x\n", m.event);
        char *at = (char *)(uintptr_t)(m.arg.pagefault.address & ~(uint64_t)(PAGE - 1));
        // Before whoever waits goes on.
        __sync_fetch_and_add(&server.served, 1);
        server.tid = m.arg.pagefault.feat.ptid;
        if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE) __sync_fetch_and_add(&server.writes, 1);
        if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            __sync_fetch_and_add(&server.protects, 1);
            if (protect(server.fd, at, 1, 0)) say("unprotect", -1);
        } else {
            memset(page, 'a' + (at - server.base) / PAGE % 26, PAGE);
            if (copy(server.fd, at, page, 1, 0, 0) && errno != EEXIST) say("copy", -1);
        }
    }
    return 0;
}
static pthread_t start(uint64_t features, char *base) {
    pthread_t thread;
    memset(&server, 0, sizeof server);
    server.fd = make(O_NONBLOCK | O_CLOEXEC, features);
    server.base = base;
    pthread_create(&thread, 0, serve, 0);
    return thread;
}
static void stop(pthread_t thread) {
    server.stop = 1;
    pthread_join(thread, 0);
    close(server.fd);
}

static void missing(void) {
    char *at = memory(64);
    at[5 * PAGE] = 'T';
    pthread_t thread = start(UFFD_FEATURE_THREAD_ID, at);
    say("register", reg(server.fd, at, 64, UFFDIO_REGISTER_MODE_MISSING));
    printf("%c%c%c\n", at[0], at[PAGE + 7], at[5 * PAGE]);
    printf("thread %d\n", server.tid == (uint32_t)syscall(SYS_gettid));
    at[2 * PAGE + 1] = 'W';
    printf("%c%c%c\n", at[2 * PAGE], at[2 * PAGE + 1], at[2 * PAGE + 2]);
    for (int i = 0; i < 64; i++) if (at[i * PAGE + 100] != (i == 5 ? 0 : 'a' + i % 26)) printf("page %d: %c\n", i, at[i * PAGE + 100]);
    printf("served %d, writes %d\n", server.served, server.writes);
    // What is given up is missing again.
    madvise(at, 8 * PAGE, MADV_DONTNEED);
    printf("%c%c\n", at[0], at[5 * PAGE]);
    printf("served %d\n", server.served);
    // Rights count.
    mprotect(at + 8 * PAGE, 4 * PAGE, PROT_READ);
    madvise(at + 9 * PAGE, PAGE, MADV_DONTNEED);
    printf("%c %c\n", at[8 * PAGE], at[9 * PAGE]);
    mprotect(at + 8 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE);
    at[9 * PAGE] = at[8 * PAGE] = 'Z';
    madvise(at + 10 * PAGE, PAGE, MADV_DONTNEED);
    mprotect(at + 10 * PAGE, PAGE, PROT_READ);
    mprotect(at + 10 * PAGE, PAGE, PROT_READ | PROT_WRITE);
    at[10 * PAGE + 1] = 'Y';
    printf("%c%c%c%c served %d\n", at[8 * PAGE], at[9 * PAGE], at[10 * PAGE], at[10 * PAGE + 1], server.served);
    // What is mapped there anew is not registered.
    mmap(at + 20 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("new %d served %d\n", at[20 * PAGE], server.served);
    // Neither is what was moved.
    madvise(at + 30 * PAGE, 4 * PAGE, MADV_DONTNEED);
    char *moved = mremap(at + 30 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory(4));
    printf("moved %d served %d\n", moved[0], server.served);
    // A child has it as it is, and zeros where nothing was.
    madvise(at + 40 * PAGE, 2 * PAGE, MADV_DONTNEED);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        printf("child %c %d\n", at[39 * PAGE], at[40 * PAGE]);
        at[41 * PAGE] = 'C';
        printf("child %c\n", at[41 * PAGE]);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
    printf("parent %c served %d\n", at[41 * PAGE], server.served);
    stop(thread);
    // Nobody serves it any more.
    madvise(at + 50 * PAGE, PAGE, MADV_DONTNEED);
    printf("afterwards %d\n", at[50 * PAGE]);
}

// What was written to in order is there, and what lies behind is missing.
static void behind(void) {
    char *at = memory(40);
    for (int i = 0; i < 16; i++) at[i * PAGE] = 'h';
    volatile int sum = 0;
    for (int i = 0; i < 4; i++) sum += at[(i + 30) * PAGE];
    pthread_t thread = start(0, at);
    reg(server.fd, at, 30, UFFDIO_REGISTER_MODE_MISSING);
    for (int i = 0; i < 30; i++) printf("%c", at[i * PAGE] ? at[i * PAGE] : '0');
    printf(" served %d\n", server.served);
    stop(thread);
}

static void calls(void) {
    char *at = memory(16);
    pthread_t thread = start(0, at);
    reg(server.fd, at, 16, UFFDIO_REGISTER_MODE_MISSING);
    int ends[2];
    if (pipe(ends)) return;
    say("write", write(ends[1], at, 5));
    char got[8] = "";
    say("read", read(ends[0], got, 5));
    printf("%s served %d\n", got, server.served);
    if (write(ends[1], "12345", 5) != 5) return;
    say("read there", read(ends[0], at + PAGE + 3, 5));
    printf("%.9s served %d\n", at + PAGE, server.served);
    struct timespec *time = (void *)(at + 3 * PAGE);
    say("clock", clock_gettime(CLOCK_MONOTONIC, time));
    say("stat", access(at + 4 * PAGE, F_OK));
    printf("served %d\n", server.served);
    stop(thread);
    // A program-only one serves no calls.
    at = memory(4);
    int fd = make(UFFD_USER_MODE_ONLY | O_NONBLOCK, 0);
    reg(fd, at, 4, UFFDIO_REGISTER_MODE_MISSING);
    say("program only", write(ends[1], at, 5));
    close(fd);
}

static void protects(void) {
    char *at = memory(28);
    memset(at, 'p', 16 * PAGE);
    pthread_t thread = start(UFFD_FEATURE_PAGEFAULT_FLAG_WP, at);
    say("register", reg(server.fd, at, 28, UFFDIO_REGISTER_MODE_WP));
    say("protect", protect(server.fd, at, 28, UFFDIO_WRITEPROTECT_MODE_WP));
    printf("%c%c served %d\n", at[0], at[PAGE], server.served);
    at[0] = 'q';
    at[1] = 'r';
    printf("%.3s served %d writes %d protects %d\n", at, server.served, server.writes, server.protects);
    // What is not there is not protected.
    char *other = memory(4);
    reg(server.fd, other, 4, UFFDIO_REGISTER_MODE_WP);
    protect(server.fd, other, 4, UFFDIO_WRITEPROTECT_MODE_WP);
    other[2 * PAGE] = 'n';
    printf("served %d\n", server.served);
    for (int i = 0; i < 16; i++) at[i * PAGE + 8] = 's';
    printf("served %d\n", server.served);
    for (int i = 0; i < 16; i++) if (at[i * PAGE + 8] != 's' || at[i * PAGE + 9] != 'p') printf("page %d\n", i);
    // Protected anew, and not any more.
    protect(server.fd, at, 8, UFFDIO_WRITEPROTECT_MODE_WP);
    protect(server.fd, at + 4 * PAGE, 2, 0);
    at[5 * PAGE] = 't';
    printf("served %d\n", server.served);
    at[6 * PAGE] = 't';
    printf("served %d\n", server.served);
    // Rights to read only are no matter of who serves.
    mprotect(at, 4 * PAGE, PROT_READ);
    mprotect(at, 4 * PAGE, PROT_READ | PROT_WRITE);
    at[PAGE] = 'u';
    printf("served %d\n", server.served);
    // A call writes.
    int ends[2];
    if (pipe(ends) || write(ends[1], "abc", 3) != 3) return;
    say("read there", read(ends[0], at + 2 * PAGE, 3));
    printf("%.4s served %d\n", at + 2 * PAGE, server.served);
    unreg(server.fd, at, 28);
    at[3 * PAGE] = 'v';
    printf("served %d\n", server.served);
    stop(thread);
    // Pages that come protected.
    char *both = memory(4);
    thread = start(0, both);
    say("register", reg(server.fd, both, 4, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP));
    static char from[PAGE] = "come";
    say("copy protected", copy(server.fd, both, from, 1, UFFDIO_COPY_MODE_WP, 0));
    printf("%s served %d\n", both, server.served);
    both[0] = 'd';
    both[PAGE] = 'm';
    printf("%s served %d protects %d writes %d\n", both, server.served, server.protects, server.writes);
    stop(thread);
    both[PAGE + 1] = 'm';
    printf("%.3s\n", both + PAGE);
}

static sigjmp_buf away;
static void on_bus(int signal, siginfo_t *info, void *context) {
    (void)context;
    printf("signal %d code %d at %d\n", signal, info->si_code, (int)((uintptr_t)info->si_addr % PAGE));
    siglongjmp(away, 1);
}
static void signals(void) {
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, 0);
    char *at = memory(4), from[PAGE];
    memset(from, 'f', PAGE);
    int fd = make(O_NONBLOCK, UFFD_FEATURE_SIGBUS);
    reg(fd, at, 4, UFFDIO_REGISTER_MODE_MISSING);
    if (!sigsetjmp(away, 1)) printf("read %c\n", at[7]);
    copy(fd, at, from, 1, 0, 0);
    if (!sigsetjmp(away, 1)) printf("read %c\n", at[7]);
    if (!sigsetjmp(away, 1)) at[PAGE + 9] = 1;
    say("call", write(1, at + 2 * PAGE, 1));
    say("nothing to read", read(fd, from, sizeof from));
    close(fd);
}

// Somebody waits, and other things happen.
static volatile int state;
static char *waited_for;
static void *waits(void *arg) {
    (void)arg;
    state = 1;
    long got = *(volatile char *)waited_for;
    state = 2;
    return (void *)got;
}
static void nap(void) {
    struct timespec little = {0, 30000000};
    nanosleep(&little, 0);
}
// Until somebody waits for a page.
static void await(int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    if (poll(&p, 1, 20000) != 1) printf("nobody\n");
}
static volatile int handled;
static void on_usr(int signal) { (void)signal; handled++; }
static void waiting(void) {
    struct sigaction action = {.sa_handler = on_usr};
    sigaction(SIGUSR1, &action, 0);
    int fd = make(O_NONBLOCK, 0);
    char *at = memory(8), from[PAGE];
    memset(from, 'f', PAGE);
    void *said;
    pthread_t thread;
    struct uffd_msg m;
    reg(fd, at, 8, UFFDIO_REGISTER_MODE_MISSING);
    waited_for = at + 7;
    state = 0;
    pthread_create(&thread, 0, waits, 0);
    while (state != 1) sched_yield();
    await(fd);
    printf("waits %d\n", state);
    // A signal comes between, and it waits again.
    pthread_kill(thread, SIGUSR1);
    for (int n = 0; n < 500 && !handled; n++) nap();
    await(fd);
    printf("waits %d handled %d\n", state, handled);
    int e = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    say("epoll", epoll_ctl(e, EPOLL_CTL_ADD, fd, &event));
    say("epoll", epoll_wait(e, &event, 1, 20000));
    int messages = 0;
    while (read(fd, &m, sizeof m) == sizeof m) messages++, printf("address %d flags %d\n", (int)(m.arg.pagefault.address % PAGE), (int)m.arg.pagefault.flags);
    printf("some %d\n", messages > 0);
    say("epoll", epoll_wait(e, &event, 1, 0));
    // Copied without being told, it still waits.
    say("copy", copy(fd, at, from, 1, UFFDIO_COPY_MODE_DONTWAKE, 0));
    nap();
    printf("waits %d\n", state);
    say("wake", wake(fd, at, 1));
    pthread_join(thread, &said);
    printf("got %c\n", (int)(long)said);
    // Woken for nothing, it faults once more.
    waited_for = at + PAGE;
    state = 0;
    pthread_create(&thread, 0, waits, 0);
    while (state != 1) sched_yield();
    await(fd);
    say("read", read(fd, &m, sizeof m));
    wake(fd, at + PAGE, 1);
    await(fd);
    say("read", read(fd, &m, sizeof m));
    zero(fd, at + PAGE, 1, 0);
    pthread_join(thread, &said);
    printf("got %d\n", (int)(long)said);
    // Unregistered while it waits.
    waited_for = at + 2 * PAGE;
    state = 0;
    pthread_create(&thread, 0, waits, 0);
    while (state != 1) sched_yield();
    await(fd);
    unreg(fd, at + 2 * PAGE, 1);
    pthread_join(thread, &said);
    printf("got %d\n", (int)(long)said);
    say("its message", read(fd, &m, sizeof m));
    // Closed while it waits.
    waited_for = at + 3 * PAGE;
    state = 0;
    pthread_create(&thread, 0, waits, 0);
    while (state != 1) sched_yield();
    await(fd);
    close(fd);
    pthread_join(thread, &said);
    printf("got %d\n", (int)(long)said);
    // Exact addresses.
    fd = make(O_NONBLOCK, UFFD_FEATURE_EXACT_ADDRESS);
    at = memory(2);
    reg(fd, at, 2, UFFDIO_REGISTER_MODE_MISSING);
    waited_for = at + 77;
    state = 0;
    pthread_create(&thread, 0, waits, 0);
    while (state != 1) sched_yield();
    await(fd);
    say("read", read(fd, &m, sizeof m));
    printf("address %d\n", (int)(m.arg.pagefault.address % PAGE));
    copy(fd, at, from, 1, 0, 0);
    pthread_join(thread, 0);
    close(fd);
}

// What other calls do to it, and what they leave as it is.
static void beside(void) {
    char *at = memory(20), *to = memory(20);
    pthread_t thread = start(0, at);
    say("register", reg(server.fd, at, 16, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP));
    reg(server.fd, to, 16, UFFDIO_REGISTER_MODE_MISSING);
    // What is refused changes nothing, neither here nor there.
    say("move to nowhere", mremap(at, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 1) == MAP_FAILED ? -1 : 0);
    say("move onto itself", mremap(at, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE) == MAP_FAILED ? -1 : 0);
    say("unknown flag", mremap(at, 4 * PAGE, 4 * PAGE, 64) == MAP_FAILED ? -1 : 0);
    printf("%c", at[0]);
    say(" served", server.served);
    server.base = to;
    printf("%c", to[PAGE]);
    say(" served", server.served);
    server.base = at;
    // Shorter where it is: what is left is served.
    say("shorter", mremap(at, 16 * PAGE, 12 * PAGE, 0) == at ? 0 : -1);
    printf("%c", at[11 * PAGE]);
    say(" served", server.served);
    // Longer where it is: so is what is new.
    say("longer", mremap(at, 12 * PAGE, 14 * PAGE, 0) == at ? 0 : -1);
    printf("%c%c", at[11 * PAGE], at[13 * PAGE]);
    say(" served", server.served);
    mremap(at, 14 * PAGE, 12 * PAGE, 0);
    // Contents that go, of memory that stays: they are missing there, and nobody serves them where they are now.
    char *empty = mremap(at + 4 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    say("goes away", empty == MAP_FAILED ? -1 : 0);
    printf("%d%c%c", empty[0], at[4 * PAGE], at[5 * PAGE]);
    say(" served", server.served);
    // Advice that gives nothing up: what is protected stays so, and what is there stays there.
    protect(server.fd, at, 1, UFFDIO_WRITEPROTECT_MODE_WP);
    zero(server.fd, at + 2 * PAGE, 1, 0);
    say("advice", madvise(at, 12 * PAGE, MADV_WILLNEED) | madvise(at, 12 * PAGE, MADV_NOHUGEPAGE) | madvise(at, 12 * PAGE, MADV_COLD));
    at[0] = 'x';
    say("protects", server.protects);
    printf("%d", at[2 * PAGE]);
    say(" served", server.served);
    // Registered once more, a page that is zero is there still.
    say("again", reg(server.fd, at, 12, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP));
    printf("%d", at[2 * PAGE]);
    say(" served", server.served);
    // Rights that are refused behind a hole.
    munmap(at + 8 * PAGE, PAGE);
    say("rights", mprotect(at + 7 * PAGE, 4 * PAGE, PROT_READ));
    at[10 * PAGE] = 'w';
    printf("%c", at[10 * PAGE]);
    say(" served", server.served);
    stop(thread);
    // Much of it, of which little is touched.
    long pages = 8l << 18;
    char *much = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    much[pages / 2 * PAGE] = 'm';
    thread = start(0, much);
    say("much", reg(server.fd, much, pages, UFFDIO_REGISTER_MODE_MISSING));
    printf("%c%c%c", much[PAGE], much[pages / 2 * PAGE], much[(pages - 1) * PAGE]);
    say(" served", server.served);
    stop(thread);
    munmap(much, pages * PAGE);
    // Who serves it is gone as another file takes its descriptor.
    int fd = make(O_NONBLOCK, 0), null = open("/dev/null", O_RDONLY);
    char *last = memory(2);
    reg(fd, last, 2, UFFDIO_REGISTER_MODE_MISSING);
    waited_for = last;
    state = 0;
    pthread_create(&thread, 0, waits, 0);
    while (state != 1) sched_yield();
    await(fd);
    say("another file", dup2(null, fd) == fd);
    pthread_join(thread, 0);
    printf("goes on %d\n", state);
}

// Four threads touch pages, two serve them: a page comes whole.
enum { MANY = 3000 };
static char *many;
static volatile int wrong;
static void *touches(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int n = 0; n < MANY * 2; n++) {
        int page = rand_r(&seed) % MANY;
        volatile char *at = many + (long)page * PAGE;
        int where = rand_r(&seed) % PAGE;
        // The last byte first: whoever sees any sees all.
        if (at[PAGE - 1] != 'a' + page % 26 || at[where] != 'a' + page % 26 || at[0] != 'a' + page % 26) wrong++;
    }
    return 0;
}
static void at_once(void) {
    many = memory(MANY);
    pthread_t first = start(0, many), second, all[4];
    pthread_create(&second, 0, serve, 0);
    say("register", reg(server.fd, many, MANY, UFFDIO_REGISTER_MODE_MISSING));
    for (long i = 0; i < 4; i++) pthread_create(&all[i], 0, touches, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
    printf("wrong %d\n", wrong);
    server.stop = 1;
    pthread_join(second, 0);
    stop(first);
}

// Who has the descriptor after an `execve` has nothing that it is about.
static void executed(const char *name) {
    int fd = make(O_NONBLOCK, 0);
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        // One made by the child itself.
        int own = make(O_NONBLOCK, 0);
        char *at = memory(2);
        say("child's own", reg(own, at, 2, UFFDIO_REGISTER_MODE_MISSING));
        say("child's own", zero(own, at, 1, 0));
        snprintf(number, sizeof number, "%d", own);
        fflush(stdout);
        execl(name, name, number, (char *)0);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("status %x\n", status);
    close(fd);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        int fd = atoi(argv[1]);
        char *at = memory(2), from[PAGE];
        say("executed: register", reg(fd, at, 2, UFFDIO_REGISTER_MODE_MISSING));
        at[0] = 1;
        say("executed: copy", copy(fd, at, from, 1, 0, 0));
        say("executed: read", read(fd, from, sizeof from));
        fflush(stdout);
        return 0;
    }
    errors();
    executed("/proc/self/exe");
    missing();
    behind();
    calls();
    protects();
    signals();
    waiting();
    beside();
    at_once();
    return 0;
}
