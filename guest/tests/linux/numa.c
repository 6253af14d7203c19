// Policies of memory on a machine with one node: what is refused, what is kept, what is told; and where pages are.
// build: gcc
// oracle: linux
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };
static void say(const char *what, long result) {
    if (result == -1) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}
static long set(int mode, unsigned long nodes, unsigned long bits) { return syscall(SYS_set_mempolicy, mode, &nodes, bits); }
static void get(const char *what) {
    int mode = -7;
    unsigned long nodes[16];
    memset(nodes, 0xff, sizeof nodes);
    long r = syscall(SYS_get_mempolicy, &mode, nodes, 1025, 0, 0);
    if (r) say(what, r);
    else printf("%s: mode %x nodes %lx %lx\n", what, mode, nodes[0], nodes[1]);
}
static void at(const char *what, void *addr) {
    int mode = -7;
    unsigned long nodes[16] = {99};
    long r = syscall(SYS_get_mempolicy, &mode, nodes, 1025, addr, 2);
    if (r) say(what, r);
    else printf("%s: mode %x nodes %lx\n", what, mode, nodes[0]);
}
static void *thread(void *arg) {
    get("thread");
    set(3, 1, 65);
    get("thread's own");
    return arg;
}

static void policies(void) {
    get("at first");
    static const struct { int mode; unsigned long nodes, bits; } cases[] = {
        {0, 0, 65}, {0, 1, 65}, {0, 1, 1}, {1, 0, 65}, {1, 1, 65}, {1, 2, 65}, {1, 3, 65}, {2, 0, 65}, {2, 1, 65}, {2, 2, 65}, {2, 3, 65},
        {3, 0, 65}, {3, 1, 65}, {3, 2, 65}, {4, 0, 65}, {4, 1, 65}, {5, 0, 65}, {5, 1, 65}, {5, 2, 65}, {40, 1, 65}, {-1, 1, 65},
        {2 | 1 << 15, 1, 65}, {2 | 1 << 14, 1, 65}, {2 | 1 << 14, 2, 65}, {2 | 1 << 15, 2, 65}, {2 | 3 << 14, 1, 65}, {1 | 1 << 15, 0, 65},
        {4 | 1 << 15, 0, 65}, {0 | 1 << 15, 0, 65}, {2 | 1 << 13, 1, 65}, {3 | 1 << 13, 1, 65}, {2, 1, 2}, {2, 1, 1}, {2, 2, 2}, {2, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        printf("%x %lx %lu ", cases[i].mode, cases[i].nodes, cases[i].bits);
        long r = set(cases[i].mode, cases[i].nodes, cases[i].bits);
        if (r) say("set", r);
        else get("set");
    }
    unsigned long far[64] = {1};
    say("many bits", syscall(SYS_set_mempolicy, 2, far, 4096));
    far[40] = 1;
    say("one that cannot be", syscall(SYS_set_mempolicy, 2, far, 4096));
    say("too many bits", syscall(SYS_set_mempolicy, 2, far, 8 * PAGE + 2));
    say("nowhere", syscall(SYS_set_mempolicy, 2, 8, 65));
    say("no mask", syscall(SYS_set_mempolicy, 2, 0, 65));
    set(2, 1, 65);
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    get("afterwards");
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        get("child");
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
}
static void asks(void) {
    int mode = -7;
    unsigned long nodes[16] = {0};
    set(0, 0, 0);
    say("no bits", syscall(SYS_get_mempolicy, &mode, nodes, 0, 0, 0));
    say("unknown flag", syscall(SYS_get_mempolicy, &mode, nodes, 1025, 0, 8));
    say("allowed", syscall(SYS_get_mempolicy, &mode, nodes, 1025, 0, 4));
    printf("%d %lx\n", mode, nodes[0]);
    say("allowed and more", syscall(SYS_get_mempolicy, &mode, nodes, 1025, &mode, 6));
    say("address without flag", syscall(SYS_get_mempolicy, &mode, nodes, 1025, &mode, 0));
    say("address nowhere", syscall(SYS_get_mempolicy, &mode, nodes, 1025, 8, 2));
    say("node of address", syscall(SYS_get_mempolicy, &mode, 0, 0, &mode, 3));
    printf("%d\n", mode);
    say("node without address", syscall(SYS_get_mempolicy, &mode, 0, 0, 0, 1));
    set(3, 1, 65);
    say("node of the next page", syscall(SYS_get_mempolicy, &mode, 0, 0, 0, 1));
    printf("%d\n", mode);
    set(0, 0, 0);
    say("nothing wanted", syscall(SYS_get_mempolicy, 0, 0, 0, 0, 0));
    say("to nowhere", syscall(SYS_get_mempolicy, 8, 0, 0, 0, 0));
}
static long bind_to(void *addr, long len, int mode, unsigned long nodes, int flags) { return syscall(SYS_mbind, addr, len, mode, &nodes, 65, flags); }
static void ranges(void) {
    char *m = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at("nothing", m);
    say("bind", bind_to(m + PAGE, 2 * PAGE, 2, 1, 0));
    at("before", m);
    at("first", m + PAGE + 5);
    at("last", m + 2 * PAGE);
    at("behind", m + 3 * PAGE);
    say("part", bind_to(m + 2 * PAGE, 1, 3, 1, 3));
    at("part", m + 2 * PAGE);
    say("default", bind_to(m + PAGE, PAGE, 0, 0, 1));
    at("default", m + PAGE);
    say("unaligned", bind_to(m + 1, PAGE, 2, 1, 0));
    say("empty", bind_to(m, 0, 2, 1, 0));
    say("around", bind_to(m, -PAGE * 2, 2, 1, 0));
    say("unknown flag", bind_to(m, PAGE, 2, 1, 16));
    say("no node", bind_to(m, PAGE, 2, 0, 0));
    say("other node", bind_to(m, PAGE, 2, 2, 0));
    say("unknown mode", bind_to(m, PAGE, 50, 1, 0));
    munmap(m + 6 * PAGE, PAGE);
    say("with a hole", bind_to(m + 5 * PAGE, 3 * PAGE, 2, 1, 0));
    say("move all", bind_to(m, PAGE, 2, 1, 4));
    // What is mapped anew has none.
    say("bind", bind_to(m, 5 * PAGE, 2, 1, 0));
    mmap(m + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    at("anew", m + PAGE);
    at("beside", m + 2 * PAGE);
    char *moved = mremap(m + 2 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(0, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    at("moved", moved);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        at("child", m);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
}
static void places(void) {
    char *m = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m[0] = m[PAGE] = 1;
    munmap(m + 5 * PAGE, PAGE);
    void *pages[] = {m, m + PAGE, m + 5 * PAGE, m + 7 * PAGE, (void *)8};
    int nodes[5] = {0}, status[5] = {99, 99, 99, 99, 99};
    say("where", syscall(SYS_move_pages, 0, 5, pages, 0, status, 0));
    for (int i = 0; i < 5; i++) printf("%d ", status[i]);
    say("move", syscall(SYS_move_pages, getpid(), 2, pages, nodes, status, 2));
    printf("%d %d\n", status[0], status[1]);
    nodes[1] = 1;
    say("to node 1", syscall(SYS_move_pages, 0, 2, pages, nodes, status, 2));
    nodes[1] = -1;
    say("to node -1", syscall(SYS_move_pages, 0, 2, pages, nodes, status, 2));
    say("unknown flag", syscall(SYS_move_pages, 0, 2, pages, nodes, status, 1));
    say("nobody", syscall(SYS_move_pages, 0x3ffffff, 2, pages, 0, status, 0));
    say("pages nowhere", syscall(SYS_move_pages, 0, 2, 8, 0, status, 0));
    say("told nowhere", syscall(SYS_move_pages, 0, 2, pages, 0, 8, 0));
    say("none", syscall(SYS_move_pages, 0, 0, 0, 0, 0, 0));
    unsigned long one = 1, two = 2, none = 0;
    say("migrate", syscall(SYS_migrate_pages, 0, 65, &one, &one));
    say("migrate to what is not", syscall(SYS_migrate_pages, 0, 65, &one, &two));
    say("migrate to none", syscall(SYS_migrate_pages, 0, 65, &one, &none));
    say("migrate nobody", syscall(SYS_migrate_pages, 0x3ffffff, 65, &one, &one));
    say("migrate nowhere", syscall(SYS_migrate_pages, 0, 65, 8, &one));
}
static void remaps(void) {
    int fd = memfd_create("pages", 0);
    if (ftruncate(fd, 8 * PAGE)) return;
    char *m = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 8; i++) m[i * PAGE] = 'a' + i;
    say("one", syscall(SYS_remap_file_pages, m, PAGE, 0, 7, 0));
    say("two", syscall(SYS_remap_file_pages, m + 2 * PAGE, 2 * PAGE, 0, 0, 0));
    for (int i = 0; i < 8; i++) printf("%c", m[i * PAGE]);
    m[0] = 'X';
    printf(" %c\n", m[7 * PAGE]);
    say("rights", syscall(SYS_remap_file_pages, m, PAGE, 1, 7, 0));
    say("empty", syscall(SYS_remap_file_pages, m, 0, 0, 7, 0));
    say("within a page", syscall(SYS_remap_file_pages, m + 5, PAGE + 7, 0, 1, 0));
    printf("%c\n", m[0]);
    say("around", syscall(SYS_remap_file_pages, m, -PAGE, 0, 7, 0));
    say("no such page", syscall(SYS_remap_file_pages, m, PAGE, 0, 1ul << 60, 0));
    say("behind", syscall(SYS_remap_file_pages, m + 7 * PAGE, 2 * PAGE, 0, 0, 0));
    char *private = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0), *none = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("private", syscall(SYS_remap_file_pages, private, PAGE, 0, 1, 0));
    say("anonymous", syscall(SYS_remap_file_pages, none, PAGE, 0, 1, 0));
    say("nowhere", syscall(SYS_remap_file_pages, 65536, PAGE, 0, 1, 0));
    char *shared = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[0] = 'p', shared[3 * PAGE] = 'q';
    say("shared", syscall(SYS_remap_file_pages, shared, PAGE, 0, 3, 0));
    printf("%c\n", shared[0]);
}

int main(void) {
    policies();
    asks();
    ranges();
    places();
    remaps();
    return 0;
}
