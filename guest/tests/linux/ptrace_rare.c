// Rare requests of ptrace: calls that are emulated, filters that are read, and where restartable sequences are.
// oracle: linux
#include "must.h"
#include "bpf.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum { SYSEMU = 31, SYSEMU_STEP = 32, GET_FILTER = 0x420c, GET_SEQUENCES = 0x420f };

static long request(int what, pid_t pid, long address, void *data) {
    long result = syscall(SYS_ptrace, (long)what, (long)pid, address, data);
    return result == -1 ? -errno : result;
}

static int wait_for(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static pid_t traced(void (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        syscall(SYS_kill, getpid(), SIGSTOP);
        body();
        _exit(99);
    }
    MUST(wait_for(pid) == (SIGSTOP << 8 | 0x7f));
    return pid;
}

static void asks(void) {
    // Twice, as it is told.
    long one = syscall(SYS_getppid), two = syscall(SYS_getppid);
    syscall(SYS_exit_group, one == 4242 && two == -1 && errno == ENOSYS ? 3 : 4);
}

static void show(const char *when, pid_t pid, int status) {
    struct user_regs_struct regs;
    if ((status & 0xff) != 0x7f) {
        printf("%s: status %x\n", when, status);
        return;
    }
    MUST(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    printf("%s: status %x, call %lld, result %lld\n", when, status, (long long)regs.orig_rax, (long long)regs.rax);
}

static void set_result(pid_t pid, long value) {
    struct user_regs_struct regs;
    MUST(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    regs.rax = value;
    MUST(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
}

static void emulated(void) {
    pid_t pid = traced(asks);
    printf("emulate: %ld\n", request(SYSEMU, pid, 0, 0));
    show("the first", pid, wait_for(pid));
    set_result(pid, 4242);
    printf("emulate: %ld\n", request(SYSEMU, pid, 0, 0));
    show("the second", pid, wait_for(pid));
    // Not made either; its end is told to who goes on so.
    printf("calls: %ld\n", request(PTRACE_SYSCALL, pid, 0, 0));
    show("its end", pid, wait_for(pid));
    printf("on: %ld\n", request(PTRACE_CONT, pid, 0, 0));
    show("at last", pid, wait_for(pid));
}

static void steps(void) {
    for (volatile int n = 0; n < 3; n++) syscall(SYS_getppid);
    syscall(SYS_exit_group, 5);
}

static void stepped(void) {
    pid_t pid = traced(steps);
    int singles = 0, calls = 0, status;
    // Instructions one by one, and calls that are not made.
    for (int n = 0; n < 4000 && calls < 3; n++) {
        MUST(request(SYSEMU_STEP, pid, 0, 0) == 0);
        status = wait_for(pid);
        if ((status & 0xff) != 0x7f) break;
        struct user_regs_struct regs;
        MUST(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
        if ((long)regs.orig_rax == SYS_getppid) calls++;
        else singles++;
    }
    printf("step by step: %d calls, more steps %d\n", calls, singles > 10);
    kill(pid, SIGKILL);
    printf("killed: %x\n", wait_for(pid));
}

static void filters(void) {
    struct instruction one[] = {{6, 0, 0, 0x7fff0000}};
    struct instruction two[] = {{0x20, 0, 0, 0}, {0x15, 0, 0, 7}, {6, 0, 0, 0x7fff0000}};
    struct program first = {1, one}, second = {3, two};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(22, 2, &first) || prctl(22, 2, &second)) _exit(9);
    syscall(SYS_kill, getpid(), SIGSTOP);
}

static void read_filters(void) {
    pid_t pid = traced(filters);
    struct instruction code[8];
    printf("no filter yet: %ld\n", request(GET_FILTER, pid, 0, 0));
    MUST(request(PTRACE_CONT, pid, 0, 0) == 0);
    MUST(wait_for(pid) == (SIGSTOP << 8 | 0x7f));
    for (int n = 0; n < 4; n++) {
        memset(code, 0, sizeof code);
        printf("%d: %ld %ld,", n, request(GET_FILTER, pid, n, 0), request(GET_FILTER, pid, n, code));
        for (int at = 0; at < 3; at++) printf(" %x %u %u %x", code[at].code, code[at].jt, code[at].jf, code[at].k);
        printf("\n");
    }
    printf("nowhere: %ld\n", request(GET_FILTER, pid, 0, (void *)8));
    kill(pid, SIGKILL);
    wait_for(pid);
}

static void stays(void) { syscall(SYS_kill, getpid(), SIGSTOP); }

static void sequences(void) {
    pid_t pid = traced(stays);
    struct {
        uint64_t address;
        uint32_t size, signature, flags, padding;
    } it, part = {1, 1, 1, 1, 1};
    memset(&it, 0xff, sizeof it);
    printf("sequences: %ld", request(GET_SEQUENCES, pid, sizeof it, &it));
    printf(", flags %u, all or nothing %d\n", it.flags, !it.address == !it.signature);
    printf("a part: %ld", request(GET_SEQUENCES, pid, 8, &part));
    printf(", %d %u\n", part.address == it.address, part.flags);
    printf("nowhere: %ld\n", request(GET_SEQUENCES, pid, sizeof it, (void *)8));
    printf("not traced: %ld\n", request(GET_SEQUENCES, getppid(), sizeof it, &it));
    kill(pid, SIGKILL);
    wait_for(pid);
}

int main(void) {
    emulated();
    stepped();
    read_filters();
    sequences();
    return 0;
}
