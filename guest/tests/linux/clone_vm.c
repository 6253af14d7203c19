// CLONE_VM without CLONE_THREAD: processes in one memory, with what each has of its own.
// oracle: linux
// cores: 2
#include "test.h"
#include "must.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

// A call that leaves `errno` alone, which is its parent's, too.
static long call6(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#define CALL_(number, a, b, c, d, e, f, ...) call6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define call(...) CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)

enum { STACK = 64 << 10, STACKS = 4 };
static char stacks[STACKS][STACK] __attribute__((aligned(16)));
static int used;

// A child that runs `body` in this memory.
static pid_t start(unsigned long flags, int (*body)(void *), void *with) {
    fflush(stdout);
    return clone(body, stacks[used++ % STACKS] + STACK, CLONE_VM | flags, with);
}

static int end_of(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static _Atomic int turn;
static volatile long seen[16];

static void await(int value) {
    while (turn != value) call(SYS_sched_yield, 0, 0, 0);
}

static int who(void *with) {
    seen[0] = call(SYS_getpid, 0, 0, 0);
    seen[1] = call(SYS_gettid, 0, 0, 0);
    seen[2] = call(SYS_getppid, 0, 0, 0);
    seen[3] = call(SYS_getpgid, 0, 0, 0);
    *(int *)with = 7;
    return 3;
}

static void identity(void) {
    int on_stack = 0;
    pid_t pid = start(SIGCHLD, who, &on_stack);
    int status = end_of(pid);
    printf("identity: status %x, own pid %d, tid %d, parent %d, group %d, memory %d\n", status, seen[0] == pid,
           seen[1] == pid, seen[2] == getpid(), seen[3] == getpgrp(), on_stack);
    printf("still %d, and no child any more: %d\n", getpid() != pid, waitpid(-1, &status, 0) == -1 && errno == ECHILD);
}

static int plays(void *with) {
    for (int round = 0; round < 200; round++) {
        await(2 * round + 1);
        turn = 2 * round + 2;
    }
    return 0;
}

static void together(void) {
    turn = 0;
    pid_t pid = start(SIGCHLD, plays, 0);
    for (int round = 0; round < 200; round++) {
        turn = 2 * round + 1;
        await(2 * round + 2);
    }
    printf("both run: status %x\n", end_of(pid));
}

static char *volatile mapped, *volatile of_file, *volatile later;

static int maps(void *with) {
    mapped = (char *)call(SYS_mmap, 0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[5000] = 'm';
    int fd = call(SYS_open, (long)"/tmp/clone_vm.file", O_RDWR, 0);
    of_file = (char *)call(SYS_mmap, 0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    call(SYS_close, fd, 0, 0);
    turn = 1;
    await(2);
    // What its parent has mapped meanwhile.
    later[0]++;
    call(SYS_munmap, (long)later, 4096, 0);
    return 0;
}

static void memory(void) {
    int fd = open("/tmp/clone_vm.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(write(fd, "file", 4) == 4 && ftruncate(fd, 8192) == 0);
    turn = 0;
    pid_t pid = start(SIGCHLD, maps, 0);
    await(1);
    char *anonymous = mapped, *shared = of_file;
    later = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    later[4096] = 'x';
    turn = 2;
    int status = end_of(pid);
    shared[1] = 'I';
    anonymous[9000] = 'a';
    char text[5] = {0};
    MUST(pread(fd, text, 4, 0) == 4);
    printf("memory: status %x, of the child %c %c, of the file %s, the rest %c, what it unmapped %d\n", status, anonymous[5000],
           anonymous[9000], text, later[4096], madvise(later, 4096, MADV_NORMAL) == -1 && errno == ENOMEM);
    munmap(shared, 8192);
    munmap(anonymous, 1 << 20);
    munmap(later + 4096, 4096);
    close(fd);
    unlink("/tmp/clone_vm.file");
}

static int changes_descriptors(void *with) {
    int *pair = with;
    seen[0] = call(SYS_close, pair[0], 0, 0);
    seen[1] = call(SYS_fcntl, 1, F_DUPFD, 50);
    return 0;
}

static int says(void *with) {
    int *pair = with;
    call(SYS_close, pair[0], 0, 0);
    return call(SYS_write, pair[1], (long)"said", 4) != 4;
}

static void descriptors(void) {
    for (int shares = 0; shares < 2; shares++) {
        int pair[2];
        MUST(pipe(pair) == 0);
        pid_t pid = start(SIGCHLD | (shares ? CLONE_FILES : 0), changes_descriptors, pair);
        int status = end_of(pid);
        printf("descriptors, %s: %x, closed %d here %d, made %d\n", shares ? "shared" : "copied", status, (int)seen[0],
               fcntl(pair[0], F_GETFD), fcntl(50, F_GETFD));
        if (shares) close(50);
        close(pair[0]);
        close(pair[1]);
    }
    // The end of a pipe that only the child has left.
    int pair[2];
    MUST(pipe(pair) == 0);
    pid_t pid = start(SIGCHLD, says, pair);
    close(pair[1]);
    char text[8] = {0};
    long first = read(pair[0], text, sizeof text), second = read(pair[0], text + 4, 4);
    printf("pipe: %ld %s %ld, status %x\n", first, text, second, end_of(pid));
    close(pair[0]);
}

static int lowers(void *with) {
    struct rlimit limit = {10, 10};
    seen[0] = call(SYS_setrlimit, RLIMIT_NOFILE, (long)&limit, 0);
    seen[1] = call(SYS_fcntl, 1, F_DUPFD, 20);
    return 0;
}

static void limits(void) {
    struct rlimit before, after;
    getrlimit(RLIMIT_NOFILE, &before);
    int status = end_of(start(SIGCHLD, lowers, 0));
    getrlimit(RLIMIT_NOFILE, &after);
    printf("limits: %x, %ld %ld, here as before %d\n", status, seen[0], seen[1], before.rlim_cur == after.rlim_cur);
}

static _Atomic int handled;
static _Atomic pid_t handled_by;

static void handler(int signal) {
    handled_by = call(SYS_getpid, 0, 0, 0);
    handled = signal;
}

struct action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static int ignores(void *with) {
    struct action action = {SIG_IGN, 0, 0, 0};
    return call(SYS_rt_sigaction, SIGUSR1, (long)&action, 0, 8) != 0;
}

static int waits(void *with) {
    turn = 1;
    while (1) call(SYS_pause, 0, 0, 0);
    return 0;
}

static int spins(void *with) {
    turn = 1;
    while (turn) continue;
    return 0;
}

static void actions(void) {
    for (int shares = 0; shares < 2; shares++) {
        signal(SIGUSR1, handler);
        int status = end_of(start(SIGCHLD | (shares ? CLONE_SIGHAND : 0), ignores, 0));
        handled = 0;
        raise(SIGUSR1);
        printf("actions, %s: status %x, handled %d\n", shares ? "shared" : "copied", status, handled);
    }
    signal(SIGUSR1, handler);
    turn = handled = 0;
    pid_t pid = start(SIGCHLD, waits, 0);
    await(1);
    kill(pid, SIGUSR1);
    while (!handled) sched_yield();
    printf("the child's handler ran in the child: %d\n", handled_by == pid);
    kill(pid, SIGTERM);
    printf("ended by %x\n", end_of(pid));
    turn = 0;
    pid = start(SIGCHLD, spins, 0);
    await(1);
    int status;
    kill(pid, SIGSTOP);
    MUST(waitpid(pid, &status, WUNTRACED) == pid);
    printf("stopped %x, ", status);
    // A stopped one is in nobody's way.
    char *some = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(some, 1, 1 << 16);
    munmap(some, 1 << 16);
    kill(pid, SIGCONT);
    MUST(waitpid(pid, &status, WCONTINUED) == pid);
    printf("goes on %x, ", status);
    kill(pid, SIGSTOP);
    MUST(waitpid(pid, &status, WUNTRACED) == pid);
    kill(pid, SIGKILL);
    printf("killed %x\n", end_of(pid));
}

static int moves(void *with) {
    seen[0] = call(SYS_umask, 077, 0, 0);
    return call(SYS_chdir, (long)"/tmp", 0, 0) != 0;
}

static void standing(void) {
    for (int shares = 0; shares < 2; shares++) {
        MUST(chdir("/") == 0);
        umask(022);
        int status = end_of(start(SIGCHLD | (shares ? CLONE_FS : 0), moves, 0));
        char where[64];
        mode_t mask = umask(022);
        printf("standing, %s: status %x, it had %lo, here %o in %s\n", shares ? "shared" : "copied", status, seen[0], mask,
               getcwd(where, sizeof where));
    }
    MUST(chdir("/") == 0);
}

static char *again[] = {"/proc/self/exe", "executed", 0}, *empty[] = {0};

static int executes(void *with) {
    seen[0] = call(SYS_execve, (long)"/nowhere", (long)again, (long)empty);
    return call(SYS_execve, (long)"/proc/self/exe", (long)again, (long)empty);
}

static void programs(void) {
    for (int shares = 0; shares < 2; shares++) {
        int pair[2];
        MUST(pipe(pair) == 0 && dup2(pair[1], 9) == 9);
        close(pair[1]);
        pid_t pid = start(SIGCHLD | (shares ? CLONE_FILES | CLONE_FS : 0), executes, 0);
        close(9);
        char text[32] = {0};
        long bytes = read(pair[0], text, sizeof text - 1), end = read(pair[0], text + 20, 1);
        int status = end_of(pid);
        // With shared descriptors this may have been closed before there was a program.
        if (!shares) printf("program: %s %ld %ld, ", text, bytes, end);
        printf("status %x, error before %ld, %d\n", status, seen[0], fcntl(pair[0], F_GETFD));
        close(pair[0]);
    }
}

static int forks(void *with) {
    long child = call(SYS_fork, 0, 0, 0);
    if (child == 0) {
        // It has a copy: this is not seen.
        seen[5] = 99;
        call(SYS_exit_group, call(SYS_fcntl, 1, F_GETFD, 0) == 0 ? 4 : 5, 0, 0);
    }
    int status = 0;
    seen[4] = call(SYS_wait4, child, (long)&status, 0, 0) == child;
    return status >> 8;
}

static int starts_another(void *with) {
    pid_t pid = clone(who, stacks[3] + STACK, CLONE_VM | SIGCHLD, with);
    int status = 0;
    seen[8] = call(SYS_wait4, pid, (long)&status, 0, 0) == pid;
    return status >> 8;
}

static void families(void) {
    seen[5] = 0;
    int status = end_of(start(SIGCHLD, forks, 0));
    printf("fork: status %x, waited %ld, not seen %ld\n", status, seen[4], seen[5]);
    int word = 0;
    used = 0;
    pid_t pid = start(SIGCHLD, starts_another, &word);
    status = end_of(pid);
    printf("another: status %x, waited %ld, its parent %d, word %d\n", status, seen[8], seen[2] == pid, word);
}

static int ends(void *with) { return 0; }

enum { KCMP_VM = 1, KCMP_FILES, KCMP_FS, KCMP_SIGHAND };

static int parts(void *with) {
    long parent = call(SYS_getppid), own = call(SYS_getpid);
    for (int what = KCMP_VM; what <= KCMP_SIGHAND; what++) seen[what] = call(SYS_kcmp, own, parent, what) == 0;
    seen[5] = call(SYS_unshare, CLONE_FILES | CLONE_FS);
    seen[6] = call(SYS_kcmp, own, parent, KCMP_FILES) == 0;
    seen[7] = call(SYS_kcmp, own, parent, KCMP_FS) == 0;
    call(SYS_close, 8);
    call(SYS_chdir, (long)"/tmp");
    call(SYS_umask, 077);
    return 0;
}

static void compared(void) {
    MUST(chdir("/") == 0);
    umask(022);
    for (int n = 0; n < 3; n++) {
        unsigned long flags = (unsigned long[]){0, CLONE_FS | CLONE_FILES, CLONE_FS | CLONE_FILES | CLONE_SIGHAND}[n];
        MUST(dup2(1, 8) == 8);
        int status = end_of(start(SIGCHLD | flags, parts, 0));
        char where[64];
        printf("in common: %ld %ld %ld %ld, parted %ld: %ld %ld, status %x, %d %s %o\n", seen[1], seen[2], seen[3], seen[4],
               seen[5], seen[6], seen[7], status, fcntl(8, F_GETFD), getcwd(where, sizeof where), umask(022));
    }
    close(8);
}

static void words(void) {
    static pid_t parent_word, child_word = 1;
    static long tls[64];
    fflush(stdout);
    pid_t pid = clone(ends, stacks[0] + STACK,
                      CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_SETTLS | SIGCHLD, 0, &parent_word,
                      tls + 32, &child_word);
    while (*(volatile pid_t *)&child_word) syscall(SYS_futex, &child_word, 0, 1, 0, 0, 0);
    printf("words: the parent's %d, the child's %d, status %x\n", parent_word == pid, child_word, end_of(pid));
}

static void errors(void) {
    char *top = stacks[0] + STACK;
    printf("errors: %d", clone(ends, top, CLONE_SIGHAND | SIGCHLD, 0) == -1 ? errno : 0);
    printf(" %d", clone(ends, top, CLONE_VM | CLONE_THREAD | SIGCHLD, 0) == -1 ? errno : 0);
    printf(" %d\n", clone(ends, top, CLONE_VM | CLONE_FS | CLONE_NEWNS | SIGCHLD, 0) == -1 ? errno : 0);
}

// The parent waits, as of any vfork.
static int late(void *with) {
    struct timespec little = {0, 20000000};
    call(SYS_nanosleep, (long)&little, 0, 0);
    seen[6] = 1;
    return 0;
}

static void waits_for_it(void) {
    seen[6] = 0;
    pid_t pid = start(CLONE_VFORK | CLONE_SIGHAND | SIGCHLD, late, 0);
    printf("vfork: it was over %ld, status %x\n", seen[6], end_of(pid));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (fcntl(9, F_GETFD) == 0) MUST(write(9, "a program", 9) == 9);
        return 17;
    }
    identity();
    together();
    memory();
    descriptors();
    limits();
    actions();
    standing();
    programs();
    families();
    words();
    compared();
    errors();
    waits_for_it();
    return 0;
}
