// A process that has given up calls by a filter is taken over: whoever that is sends requests to the server without its
// library. What no call that passes can lead to is refused to him as well, also in children and other threads, and for good;
// and nobody can have a program run without what it needs that gets more rights than himself.
//
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

enum { OP_MKDIR = 33, OP_UNLINK = 35, OP_SOCKET = 142, OP_GET_QUEUE = 172, OP_UNSHARE = 223, OP_TRACE_ATTACH = 121, OP_FORGO = 257 };
enum { ALL_KINDS = 0xfff, FORK_KIND = 16 };

// Only these calls are made: write, futex, exit, exit_group, nanosleep, rt_sigreturn, mmap, munmap, mprotect, madvise and what threads
// and C libraries need to end.
static int keep_little(unsigned flags) {
    static const int kept[] = {SYS_write, SYS_futex, SYS_exit, SYS_exit_group, SYS_nanosleep, SYS_rt_sigreturn, SYS_mmap, SYS_munmap,
                               SYS_mprotect, SYS_madvise, SYS_sched_yield, SYS_rt_sigprocmask, SYS_gettid, SYS_set_robust_list,
                               SYS_clock_nanosleep, SYS_getpid};
    enum { KEPT = sizeof kept / sizeof *kept };
    struct sock_filter code[KEPT + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < KEPT; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kept[i], KEPT - i, 0);
    code[KEPT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM);
    code[KEPT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {KEPT + 3, code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

// Each kind of request; which of them are refused with EPERM.
static unsigned refused(int victim) {
    unsigned bits = 0;
    bits |= (REQUEST(OP_OPEN, "/etc/passwd", 0, O_RDONLY, 0, 0) == EPERM) << 0;
    bits |= (REQUEST(OP_EXEC, "/bin/true") == EPERM) << 1;
    bits |= (REQUEST(OP_MKDIR, "/tmp/made", 0, 0700) == EPERM) << 2;
    bits |= (REQUEST(OP_UNSHARE, 0, 0x04000000) == EPERM) << 3;
    bits |= (REQUEST(OP_FORK, 0, 0, 0, 0) == EPERM) << 4;
    bits |= (REQUEST(OP_KILL, 0, victim, 0, 0, 0) == EPERM) << 5;
    bits |= (REQUEST(OP_TRACE_ATTACH, 0, victim, 1, 0) == EPERM) << 6;
    bits |= (REQUEST(OP_SOCKET, 0, 1, 0, 1, 0) == EPERM) << 7;
    bits |= (REQUEST(OP_SET_IDS, 0, 0, 0xffffffff, 0xffffffff, 0xffffffff) == EPERM) << 8;
    bits |= (REQUEST(OP_GET_QUEUE, 0, 4711, 01600) == EPERM) << 9;
    return bits;
}
enum { EVERY = 0x3ff };

static int in_child(int (*what)(void)) {
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(what());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

static int victim;

static int taken_over(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (keep_little(0)) return 1;
    if (syscall(SYS_getppid) != -1 || errno != EDOM) return 2;
    if (refused(victim) != EVERY) return 3;
    // Nothing comes back.
    if (REQUEST(OP_FORGO, 0, 0, 0, 0) || REQUEST(OP_FORGO, 0, 0, 2, 9)) return 4;
    if (refused(victim) != EVERY) return 5;
    if (REQUEST(OP_FORGO, 0, 0x1000, 0, 0) != EINVAL || REQUEST(OP_FORGO, 0, 0, 3, 0) != EINVAL) return 6;
    return 0;
}

// Without a filter the same requests are no more refused than calls are.
static int free_one(void) { return refused(victim) & ~(1u << 1); }

// A filter that leaves one call of a kind leaves the kind.
static int opens(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fork, 3, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_vfork, 2, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    if (refused(victim) & ~(1u << 1)) return 2;
    // `clone` was left, and so are children; they have the filter.
    return in_child(taken_over);
}

// A child that was made with a filter, whose parent had none in another thread.
static volatile int step;
static int only_one;
// Requests are those of the first thread, whose frame they use: another one would put that thread's library where it does not expect to be.
static void *ends(void *arg) { return arg; }
static void *filtered(void *arg) {
    // What it keeps includes clone, but not for its child.
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return (void *)1;
    if (mkdir("/tmp/one", 0700) != -1 || errno != EDOM) return (void *)2;
    if (keep_little(0)) return (void *)3;
    step = 1;
    while (step != 2) sched_yield();
    return arg;
}
static int beside(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    pthread_t thread;
    void *said;
    if (pthread_create(&thread, 0, filtered, 0)) return 1;
    while (!step) sched_yield();
    // This one has no filter, and everything that it can do.
    if (refused(victim) & ~(1u << 1)) return 2;
    if (mkdir("/tmp/two", 0700)) return 3;
    step = 2;
    pthread_join(thread, &said);
    if (said) return 4;
    if (keep_little(0)) return 5;
    return refused(victim) == EVERY ? 0 : 6;
}
static int all_at_once(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    pthread_t thread;
    step = 0;
    if (pthread_create(&thread, 0, ends, 0)) return 1;
    pthread_join(thread, 0);
    if (keep_little(SECCOMP_FILTER_FLAG_TSYNC)) return 2;
    return refused(victim) == EVERY ? 0 : 3;
}

// Who could execute a program that has more rights than himself must not choose what that can do.
static int without_rights(void) {
    if (setresuid(1000, 1000, 1000)) return 1;
    if (REQUEST(OP_FORGO, 0, FORK_KIND, 2, 1) != EACCES) return 2;
    if (REQUEST(OP_FORGO, 0, FORK_KIND, 1, 0) != EACCES) return 3;
    if (REQUEST(OP_FORK, 0, 0, 0, 0) == EPERM) return 4;
    // All of it is his own affair: nothing can be executed any more.
    if (REQUEST(OP_FORGO, 0, ALL_KINDS, 1, 0)) return 5;
    return refused(victim) == EVERY ? 0 : 6;
}
static int strictly(void) {
    if (setresuid(1000, 1000, 1000)) return 1;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 2;
    int all = refused(victim) == EVERY;
    syscall(SYS_exit, all ? 0 : 3);
    return 4;
}
// As many rules as there can be, of random bytes: the server hears of none.
static int nonsense(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    static struct sock_filter code[4096];
    unsigned seed = 1;
    for (int round = 0; round < 2000; round++) {
        unsigned len = 1 + round % 40;
        for (unsigned i = 0; i < len; i++) {
            unsigned char *bytes = (unsigned char *)&code[i];
            for (int k = 0; k < 8; k++) bytes[k] = k == 1 || (k > 1 && round % 2) ? 0 : rand_r(&seed);
        }
        struct sock_fprog program = {len, code};
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 30, &program) != -1) return 1;
        if (round % 4 == 0) code[len - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        pid_t pid = fork();
        if (pid == 0) {
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
            syscall(SYS_exit, 0);
        }
        if (waitpid(pid, 0, 0) != pid) return 2;
        if (round > 200 && round % 10) round += 9;
    }
    return 0;
}

int main(void) {
    only_one = 0;
    victim = fork();
    if (!victim) for (;;) pause();
    int failed = 0;
    struct { const char *name; int (*what)(void); } all[] = {
        {"free", free_one}, {"taken over", taken_over}, {"opens", opens}, {"beside", beside}, {"all at once", all_at_once},
        {"without rights", without_rights}, {"strictly", strictly}, {"nonsense", nonsense},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rmdir("/tmp/made");
        int said = in_child(all[i].what);
        if (said) printf("FAILED: %s: %d\n", all[i].name, said), failed = 1;
    }
    kill(victim, SIGKILL);
    if (!failed) printf("passed\n");
    return failed;
}
