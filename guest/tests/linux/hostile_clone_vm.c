// Users who make processes in one memory (CLONE_VM): so many as they may; some that are killed while they map, open and end on four
// cores, whose memory the others go on using; one that does not end when it is told to, with which all go that share its memory; and
// requests that are forged. Whoever has killed the first sees all end. Afterwards there is as much memory as before.
// build: gcc
// cores: 4
// mem: 512M
// timeout: 300
// expect-stdout: forged: 22 22 11 3\nas many as it may: yes\nof another: -1 -1\nkilled in the middle: 0\nnever ends: 9, all ended\nkilled with all: 9, all ended\nmemory is back: yes\n
#include "spaces.h"
#include "raw.h"
#include <poll.h>
#include <sys/resource.h>

enum { STACK = 32 << 10, MANY = 60, ROUNDS = 60, OP_COPY_HELD = 301 };
#define FIRST_AREA 0x7ffff4000000ul

static char stacks[MANY][STACK] __attribute__((aligned(16)));

static pid_t beside(int place, int (*body)(void *), void *with) {
    return clone(body, stacks[place] + STACK, CLONE_VM | SIGCHLD, with);
}

// In line: `errno` is all others', too.
static inline long call5(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = -1, r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define CALL_(number, a, b, c, d, ...) call5(number, (long)(a), (long)(b), (long)(c), (long)(d))
#define call(...) CALL_(__VA_ARGS__, 0, 0, 0, 0)

static int pauses(void *with) {
    while (1) call(SYS_pause);
    return 0;
}

static void forged(void) {
    pid_t child = fork();
    if (child == 0) {
        pid_t other = beside(0, pauses, 0);
        // It has a domain; there is none of the sort; nobody but its parent gives it up.
        long copies = REQUEST(OP_COPY_HELD, 0, 0), becomes = REQUEST(OP_BECOME, 0, 0);
        long no_dispatcher = REQUEST_CAPS(300, 0, 0, 0);
        pid_t stranger = fork();
        if (stranger == 0) _exit(REQUEST(OP_FORK_ABORT, 0, other));
        int status = wait_for(stranger);
        printf("forged: %ld %ld %ld %d\n", copies, becomes, no_dispatcher, status >> 8);
        fflush(stdout);
        kill(other, SIGKILL);
        wait_for(other);
        _exit(0);
    }
    wait_for(child);
}

static void many(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {20, 20};
        if (setrlimit(RLIMIT_NPROC, &limit) || as_user(1001)) _exit(1);
        pid_t pids[MANY];
        int made = 0;
        while (made < MANY && (pids[made] = beside(made, pauses, 0)) > 0) made++;
        int error = errno;
        for (int n = 0; n < made; n++) kill(pids[n], SIGKILL);
        int ended = 0;
        for (int n = 0; n < made; n++) ended += wait_for(pids[n]) == SIGKILL;
        _exit(made == 19 && error == EAGAIN && ended == made ? 0 : 2);
    }
    printf("as many as it may: %s\n", wait_for(child) == 0 ? "yes" : "no");
}

static void of_another(void) {
    pid_t *where = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        if (as_user(1001)) _exit(1);
        *where = beside(0, pauses, 0);
        pauses(0);
    }
    while (!*(volatile pid_t *)where) sched_yield();
    pid_t other = fork();
    if (other == 0) {
        if (as_user(1002)) _exit(1);
        printf("of another: %d %d\n", kill(*where, SIGKILL), kill(child, SIGKILL));
        fflush(stdout);
        _exit(0);
    }
    wait_for(other);
    kill(child, SIGKILL);
    wait_for(child);
    munmap(where, 4096);
}

// Maps, opens and looks, for ever; some by a process more in the same memory.
static int busy(void *with) {
    for (long n = 0;; n++) {
        char *at = (char *)call(SYS_mmap, 0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        if ((unsigned long)at < -4095ul) {
            at[n % 16 * 4096] = 1;
            call(SYS_munmap, (long)at, 1 << 16, 0, 0);
        }
        int fds[2];
        if (call(SYS_pipe, fds) == 0) {
            call(SYS_close, fds[0], 0, 0, 0);
            call(SYS_close, fds[1], 0, 0, 0);
        }
        if (n % 8 == 0 && call(SYS_fork, 0) == 0) call(SYS_exit_group);
        call(SYS_wait4, -1, 0, WNOHANG);
    }
    return 0;
}

// 0, or what was wrong.
static int killed_in_the_middle(void) {
    if (as_user(1001)) return 1;
    pid_t pids[3] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        int place = round % 3;
        if (pids[place]) {
            kill(pids[place], round % 4 ? SIGKILL : SIGTERM);
            int status = wait_for(pids[place]);
            if (status != SIGKILL && status != SIGTERM) return 2;
        }
        pids[place] = beside(place, busy, 0);
        if (pids[place] < 0) return 3;
        usleep(round * 7919 % 5000);
        char *mine = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mine == MAP_FAILED) return 4;
        mine[4096] = 1;
        munmap(mine, 8192);
    }
    for (int n = 0; n < 3; n++) {
        kill(pids[n], SIGKILL);
        if (wait_for(pids[n]) != SIGKILL) return 5;
    }
    return 0;
}

// No upcall comes to it any more, as its library could have it: it does not hear that it is to end.
static int deaf(void *with) {
    // Its page is there, so that nothing has to be heard.
    *(volatile int *)with = 0;
    *(volatile int *)(FIRST_AREA + 0x7000) = 1;
    *(volatile int *)with = 1;
    while (1) continue;
    return 0;
}

static void all_end(const char *what, int is_deaf) {
    int alive[2];
    if (pipe(alive)) return;
    fflush(stdout);
    pid_t first = fork();
    if (first == 0) {
        close(alive[0]);
        if (as_user(1001)) _exit(1);
        static volatile int there;
        if (is_deaf) {
            pid_t one = beside(0, deaf, (void *)&there);
            while (!there) sched_yield();
            beside(1, pauses, 0);
            kill(one, SIGKILL);
        } else {
            for (int n = 0; n < 10; n++) beside(n, n % 2 ? busy : pauses, 0);
            usleep(20000);
            kill(getpid(), SIGKILL);
        }
        pauses(0);
    }
    close(alive[1]);
    int status = wait_for(first);
    struct pollfd end = {alive[0], POLLIN, 0};
    int over = poll(&end, 1, 30000) == 1 && end.revents & POLLHUP;
    printf("%s: %x, %s\n", what, status, over ? "all ended" : "some are left");
    close(alive[0]);
}

int main(void) {
    unsigned long before = free_pages();
    forged();
    many();
    of_another();
    pid_t child = fork();
    if (child == 0) _exit(killed_in_the_middle());
    printf("killed in the middle: %x\n", wait_for(child));
    all_end("never ends", 1);
    all_end("killed with all", 0);
    // What was taken apart last may still be on its way.
    for (int tries = 0; tries < 100 && free_pages() + 2000 < before; tries++) usleep(50000);
    printf("memory is back: %s\n", free_pages() + 2000 >= before ? "yes" : "no");
    return 0;
}
