// Page faults of shared memory that the program serves itself: pages that are missing wherever the memory is mapped, pages that others have
// made (UFFDIO_CONTINUE), pages that are protected. What else happens to such memory is told as events, which are waited for.
// build: gcc
// oracle: linux
// cores: 2
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };
enum { MISSING = UFFDIO_REGISTER_MODE_MISSING, WP = UFFDIO_REGISTER_MODE_WP, MINOR = UFFDIO_REGISTER_MODE_MINOR };

static void say(const char *what, long result) {
    if (result == -1) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}
static int make(uint64_t features) {
    int fd = syscall(SYS_userfaultfd, O_NONBLOCK | O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    if (ioctl(fd, UFFDIO_API, &api)) say("UFFDIO_API", -1);
    return fd;
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
static long zero(int fd, void *to, long pages) {
    struct uffdio_zeropage z = {.range = {(uintptr_t)to, pages * PAGE}};
    return ioctl(fd, UFFDIO_ZEROPAGE, &z);
}
static long go_on(int fd, void *to, long pages, long *done) {
    struct uffdio_continue c = {.range = {(uintptr_t)to, pages * PAGE}};
    int r = ioctl(fd, UFFDIO_CONTINUE, &c);
    if (done) *done = c.mapped;
    return r;
}
static int protect(int fd, void *at, long pages, int mode) {
    struct uffdio_writeprotect w = {.range = {(uintptr_t)at, pages * PAGE}, .mode = mode};
    return ioctl(fd, UFFDIO_WRITEPROTECT, &w);
}
static char *map(int fd, long pages, int prot) {
    char *at = mmap(0, pages * PAGE, prot, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    return at == MAP_FAILED ? 0 : at;
}
static char *mapped(int fd, long pages) { return map(fd, pages, PROT_READ | PROT_WRITE); }
static int file(long pages) {
    int fd = memfd_create("shared", MFD_CLOEXEC);
    if (ftruncate(fd, pages * PAGE)) say("ftruncate", -1);
    return fd;
}

// Serves faults: a page that is missing gets the letter of its place in what is registered; one that is there gets one more in its second byte,
// by the other mapping.
static struct { int fd; char *base, *other; volatile int stop, missing, minor, writes, protects, events; } server;
static void *serve(void *arg) {
    (void)arg;
    static char page[PAGE] __attribute__((aligned(PAGE)));
    while (!server.stop) {
        struct pollfd p = {server.fd, POLLIN, 0};
        if (poll(&p, 1, 20) != 1) continue;
        struct uffd_msg m;
        if (read(server.fd, &m, sizeof m) != sizeof m) continue;
        if (m.event != UFFD_EVENT_PAGEFAULT) {
            server.events++;
            continue;
        }
        char *at = (char *)(uintptr_t)(m.arg.pagefault.address & ~(uint64_t)(PAGE - 1));
        long n = (at - server.base) / PAGE;
        if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE) server.writes++;
        if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            server.protects++;
            if (protect(server.fd, at, 1, 0)) say("unprotect", -1);
        } else if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_MINOR) {
            server.minor++;
            if (server.other) server.other[n * PAGE + 1]++;
            if (go_on(server.fd, at, 1, 0)) say("continue", -1);
        } else {
            server.missing++;
            memset(page, 'a' + n % 26, PAGE);
            if (copy(server.fd, at, page, 1, 0, 0)) say("copy", -1);
        }
    }
    return 0;
}
static pthread_t start(uint64_t features, char *base, char *other) {
    pthread_t thread;
    memset(&server, 0, sizeof server);
    server.fd = make(features);
    server.base = base;
    server.other = other;
    pthread_create(&thread, 0, serve, 0);
    return thread;
}
static void stop(pthread_t thread) {
    server.stop = 1;
    pthread_join(thread, 0);
    close(server.fd);
}

static void errors(void) {
    static char from[4 * PAGE];
    long done;
    struct uffdio_api api = {.api = UFFD_API};
    int fd = syscall(SYS_userfaultfd, O_NONBLOCK), memory = file(4);
    say("API", ioctl(fd, UFFDIO_API, &api));
    uint64_t known = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM;
    printf("features %d\n", (api.features & known) == known);
    char *at = mapped(memory, 4), *private = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uintptr_t)at, 4 * PAGE}, .mode = MISSING | MINOR};
    say("register", ioctl(fd, UFFDIO_REGISTER, &r));
    printf("%x\n", (int)r.ioctls & 0xdc);
    say("minor of private memory", reg(fd, private, 1, MINOR));
    say("missing of private memory", reg(fd, private, 1, MISSING));
    say("continue of private memory", go_on(fd, private, 1, 0));
    say("continue what is missing", go_on(fd, at, 1, &done));
    printf("%ld\n", done);
    memset(from, 'c', sizeof from);
    say("copy", copy(fd, at + PAGE, from, 1, 0, &done));
    say("copy again", copy(fd, at + PAGE, from, 1, 0, &done));
    printf("%ld %c\n", done, at[PAGE]);
    say("continue what is shown", go_on(fd, at + PAGE, 1, &done));
    say("continue what is not registered", go_on(fd, from, 1, 0));
    say("zero", zero(fd, at + 2 * PAGE, 1));
    say("zero again", zero(fd, at + 2 * PAGE, 1));
    printf("%d\n", at[2 * PAGE]);
    // What others made is there.
    char *other = mapped(memory, 4);
    printf("other %d %c %d\n", other[0], other[PAGE], other[2 * PAGE]);
    other[3 * PAGE] = 'o';
    say("copy to what is there", copy(fd, at + 3 * PAGE, from, 1, 0, &done));
    say("continue", go_on(fd, at + 3 * PAGE, 1, &done));
    printf("%ld %c\n", done, at[3 * PAGE]);
    // Behind the end of the file.
    ftruncate(memory, 2 * PAGE);
    say("copy behind the end", copy(fd, at + 3 * PAGE, from, 1, 0, &done));
    say("continue behind the end", go_on(fd, at + 3 * PAGE, 1, &done));
    // Of a file that was opened for reading.
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int reader = open(path, O_RDONLY);
    char *readable = map(reader, 1, PROT_READ);
    say("register what is only read", reg(fd, readable, 1, MISSING));
    munmap(readable, PAGE);
    close(reader);
    close(fd);
    munmap(at, 4 * PAGE);
    munmap(other, 4 * PAGE);
    close(memory);
}

static void missing(int memory, const char *what) {
    printf("%s\n", what);
    char *at = mapped(memory, 16);
    at[5 * PAGE] = 'T';
    pthread_t thread = start(0, at, 0);
    say("register", reg(server.fd, at, 16, MISSING));
    printf("%c%c%c\n", at[0], at[PAGE + 7], at[5 * PAGE]);
    at[2 * PAGE + 1] = 'W';
    printf("%c%c missing %d writes %d\n", at[2 * PAGE], at[2 * PAGE + 1], server.missing, server.writes);
    // A child has the same memory, and nobody serves it there.
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        at[8 * PAGE] = 'C';
        _exit(at[0] != 'a' || at[9 * PAGE] != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("child %x, its page %c, missing %d\n", status, at[8 * PAGE], server.missing);
    printf("what it has looked at %d, missing %d\n", at[9 * PAGE], server.missing);
    // Contents that this mapping gives up stay in the memory; what is punched is missing.
    madvise(at, PAGE, MADV_DONTNEED);
    printf("%c missing %d\n", at[0], server.missing);
    madvise(at, PAGE, MADV_REMOVE);
    printf("%c missing %d\n", at[0], server.missing);
    // A call meets it.
    int ends[2];
    if (pipe(ends)) return;
    say("write", write(ends[1], at + 12 * PAGE, 3));
    char got[4] = "";
    say("read", read(ends[0], got, 3));
    printf("%s missing %d\n", got, server.missing);
    say("read there", (write(ends[1], "xyz", 3), read(ends[0], at + 13 * PAGE + 1, 3)));
    printf("%.5s missing %d\n", at + 13 * PAGE, server.missing);
    stop(thread);
    printf("afterwards %d\n", at[15 * PAGE]);
    munmap(at, 16 * PAGE);
}

static void minor(void) {
    int memory = file(16);
    char *other = mapped(memory, 16), *at = mapped(memory, 16);
    // Not in order: nothing is made ahead of it.
    for (int i = 7; i >= 0; i--) other[i * PAGE] = 'A' + i;
    pthread_t thread = start(0, at, other);
    say("register", reg(server.fd, at, 16, MINOR));
    for (int i = 0; i < 8; i++) printf("%c%d ", at[i * PAGE], at[i * PAGE + 1]);
    printf("minor %d\n", server.minor);
    // What is not there comes by itself.
    printf("%d minor %d missing %d\n", at[12 * PAGE], server.minor, server.missing);
    // What is made there meanwhile is served.
    other[9 * PAGE] = 'n';
    printf("%c minor %d\n", at[9 * PAGE], server.minor);
    // What this mapping gives up.
    madvise(at, 2 * PAGE, MADV_DONTNEED);
    printf("%c%d minor %d\n", at[0], at[1], server.minor);
    stop(thread);
    // Both.
    thread = start(0, at, other);
    madvise(at, 16 * PAGE, MADV_REMOVE);
    other[3 * PAGE] = 'b';
    say("register both", reg(server.fd, at, 16, MINOR | MISSING));
    printf("%c%c minor %d missing %d\n", at[2 * PAGE], at[3 * PAGE], server.minor, server.missing);
    stop(thread);
    munmap(at, 16 * PAGE);
    munmap(other, 16 * PAGE);
    close(memory);
}

static void protects(void) {
    int memory = file(8);
    char *at = mapped(memory, 8), *other = mapped(memory, 8);
    memset(at, 'p', 4 * PAGE);
    pthread_t thread = start(UFFD_FEATURE_PAGEFAULT_FLAG_WP, at, 0);
    say("register", reg(server.fd, at, 8, WP));
    say("protect", protect(server.fd, at, 8, UFFDIO_WRITEPROTECT_MODE_WP));
    printf("%c protects %d\n", at[0], server.protects);
    at[0] = 'q';
    printf("%c protects %d\n", at[0], server.protects);
    // Another mapping is not protected.
    other[PAGE] = 'o';
    printf("%c protects %d\n", at[PAGE], server.protects);
    // What was not there is, too.
    at[6 * PAGE] = 'n';
    printf("%c protects %d\n", at[6 * PAGE], server.protects);
    say("unprotect", protect(server.fd, at, 8, 0));
    at[2 * PAGE] = 'u';
    printf("%c protects %d\n", at[2 * PAGE], server.protects);
    stop(thread);
    munmap(at, 8 * PAGE);
    munmap(other, 8 * PAGE);
    close(memory);
}

// Events: one thread does it, this one reads what it is told. It goes on when that was read.
static char *volatile where, *volatile to;
static volatile int step;
static void *acts(void *arg) {
    switch ((intptr_t)arg) {
    case 0: madvise(where + PAGE, 2 * PAGE, MADV_DONTNEED); break;
    case 1: madvise(where + PAGE, 2 * PAGE, MADV_REMOVE); break;
    case 2: to = mremap(where, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to); break;
    case 3: munmap(where + PAGE, 2 * PAGE); break;
    case 4: mmap(where, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
    case 5: mremap(where, 4 * PAGE, 2 * PAGE, 0); break;
    }
    step = 1;
    return 0;
}
static void told(int fd, const char *what, int action, int events) {
    pthread_t thread;
    step = 0;
    char *base = where, *target = to;
    pthread_create(&thread, 0, acts, (void *)(intptr_t)action);
    printf("%s:", what);
    for (int i = 0; i < events; i++) {
        struct pollfd p = {fd, POLLIN, 0};
        struct uffd_msg m;
        if (poll(&p, 1, 10000) != 1) {
            printf(" nothing");
            break;
        }
        // It waits.
        usleep(2000);
        printf(" %d", step);
        if (read(fd, &m, sizeof m) != sizeof m) break;
        if (m.event == UFFD_EVENT_REMAP) printf(" remap %d %d %d", m.arg.remap.from == (uintptr_t)base, m.arg.remap.to == (uintptr_t)target, (int)m.arg.remap.len / PAGE);
        else if (m.event == UFFD_EVENT_REMOVE || m.event == UFFD_EVENT_UNMAP) printf(" %s %ld %ld", m.event == UFFD_EVENT_REMOVE ? "remove" : "unmap", ((long)m.arg.remove.start - (long)base) / PAGE, ((long)m.arg.remove.end - (long)base) / PAGE);
        else printf(" event %x", m.event);
    }
    pthread_join(thread, 0);
    struct pollfd p = {fd, POLLIN, 0};
    printf(" done %d, more %d\n", step, poll(&p, 1, 0));
}
static void events(int shared) {
    printf(shared ? "events of shared memory\n" : "events of private memory\n");
    int fd = make(UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP);
    int memory = file(8);
    int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    char page[PAGE];
    memset(page, 'e', PAGE);
    where = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, flags, shared ? memory : -1, 0);
    memset(where, 'x', PAGE);
    reg(fd, where, 4, MISSING);
    told(fd, "gives up", 0, 1);
    if (shared) told(fd, "removes", 1, 1);
    to = mmap(0, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    told(fd, "moves", 2, 2);
    // It is served where it is now.
    where = to;
    say("copy there", copy(fd, where + 2 * PAGE, page, 1, 0, 0));
    printf("%c%c\n", where[0], where[2 * PAGE]);
    told(fd, "maps over", 4, 1);
    told(fd, "unmaps", 3, 1);
    struct uffdio_range rest = {(uintptr_t)where, 4 * PAGE};
    say("unregister", ioctl(fd, UFFDIO_UNREGISTER, &rest));
    munmap(where, 4 * PAGE);
    char *more = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, flags, shared ? memory : -1, 4 * PAGE * shared);
    where = more;
    reg(fd, where, 4, MISSING);
    told(fd, "shorter", 5, 1);
    // Who waits for an event to be read goes on when nobody can read it any more.
    pthread_t thread;
    step = 0;
    pthread_create(&thread, 0, acts, (void *)(intptr_t)0);
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 10000);
    printf("before %d\n", step);
    close(fd);
    pthread_join(thread, 0);
    printf("after %d\n", step);
    munmap(more, 2 * PAGE);
    close(memory);
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    errors();
    int memory = file(16);
    missing(memory, "memfd");
    close(memory);
    missing(-1, "shared anonymous memory");
    minor();
    protects();
    events(0);
    events(1);
    return 0;
}
