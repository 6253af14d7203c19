// Who may not look into a process does not, and nobody is kept by the end of either side.
// oracle: linux
// build: gcc
// cores: 4
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void ms(int n) {
    struct timespec time = {n / 1000, n % 1000 * 1000000L};
    while (nanosleep(&time, &time) && errno == EINTR);
}

static char secret[64] = "nobody's business";

static int try(long result) { return result == -1 ? errno : 0; }

/// What somebody is answered who looks into `pid`.
static void look(const char *who, pid_t pid) {
    char copy[64] = "", path[32];
    struct iovec here = {copy, sizeof copy}, there = {secret, sizeof secret};
    int read = try(process_vm_readv(pid, &here, 1, &there, 1, 0));
    int write = try(process_vm_writev(pid, &here, 1, &there, 1, 0));
    int peek = try(ptrace(PTRACE_PEEKDATA, pid, secret, 0));
    int poke = try(ptrace(PTRACE_POKEDATA, pid, secret, 0));
    int go_on = try(ptrace(PTRACE_CONT, pid, 0, 0));
    int kill = try(ptrace(PTRACE_KILL, pid, 0, 0));
    int attach = try(ptrace(PTRACE_ATTACH, pid, 0, 0));
    int seize = try(ptrace(PTRACE_SEIZE, pid, 0, 0));
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int mem = try(open(path, O_RDWR));
    printf("%s: readv %d writev %d attach %d seize %d peek %d poke %d cont %d kill %d mem %d, has %s\n", who, read,
           write, attach, seize, peek, poke, go_on, kill, mem, copy[0] ? copy : "nothing");
}

static pid_t make(void (*body)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    return pid;
}

static void wait_for_ever(void) {
    for (;;) pause();
}

static void as_user(void) {
    if (setgid(1000) || setuid(1000)) _exit(1);
}

static void spin(void) {
    for (volatile long n = 0;; n++);
}

static void user_waits(void) {
    as_user();
    prctl(PR_SET_DUMPABLE, 1);
    wait_for_ever();
}

static void user_hides(void) {
    as_user();
    prctl(PR_SET_DUMPABLE, 0);
    wait_for_ever();
}

static void end(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));
}

static volatile int *shared;

static void counts(void) {
    for (;;) {
        shared[0]++;
        getppid();
    }
}

/// A tracer that is killed at some time, while it asks for memory and follows its calls; what it traced goes on.
static void killed_tracers(void) {
    pid_t tracee = make(counts);
    for (int round = 0; round < 40; round++) {
        pid_t tracer = fork();
        if (tracer == 0) {
            int status;
            // Else the end of the tracer would leave it a SIGTRAP.
            if (ptrace(PTRACE_SEIZE, tracee, 0, PTRACE_O_TRACESYSGOOD)) _exit(1);
            ptrace(PTRACE_INTERRUPT, tracee, 0, 0);
            for (;;) {
                if (waitpid(tracee, &status, __WALL) != tracee) _exit(2);
                for (int n = 0; n < 3; n++) ptrace(PTRACE_PEEKDATA, tracee, secret, 0);
                ptrace(PTRACE_SYSCALL, tracee, 0, 0);
            }
        }
        ms(round % 7);
        kill(tracer, SIGKILL);
        int status;
        waitpid(tracer, &status, 0);
        if (!WIFSIGNALED(status)) printf("round %d: a tracer exited with %d\n", round, WEXITSTATUS(status));
        int before = shared[0];
        for (int n = 0; n < 2000 && shared[0] == before; n++) ms(1);
        if (shared[0] == before) printf("round %d: it does not go on\n", round);
    }
    printf("tracers killed\n");
    end(tracee);
}

/// Tracees that are killed at some time; their tracer is told each time.
static void killed_tracees(void) {
    int told = 0;
    for (int round = 0; round < 40; round++) {
        pid_t tracee = make(counts);
        if (ptrace(PTRACE_SEIZE, tracee, 0, 0)) printf("round %d: not seized: %d\n", round, errno);
        ptrace(PTRACE_INTERRUPT, tracee, 0, 0);
        pid_t killer = fork();
        if (killer == 0) {
            ms(round % 5);
            kill(tracee, SIGKILL);
            _exit(0);
        }
        int status;
        for (;;) {
            if (waitpid(tracee, &status, __WALL) != tracee) break;
            if (WIFSIGNALED(status)) {
                told += WTERMSIG(status) == SIGKILL;
                break;
            }
            ptrace(PTRACE_PEEKDATA, tracee, secret, 0);
            ptrace(PTRACE_SYSCALL, tracee, 0, 0);
        }
        waitpid(killer, &status, 0);
    }
    printf("told of %d\n", told);
}

/// Many look into one process at once, that does other things meanwhile.
static void lookers(void) {
    strcpy(secret, "same");
    pid_t tracee = make(counts), all[6];
    for (int n = 0; n < 6; n++) {
        all[n] = fork();
        if (all[n] == 0) {
            for (int round = 0; round < 50; round++) {
                char copy[64] = "";
                struct iovec here = {copy, sizeof copy}, there = {secret, sizeof secret};
                if (process_vm_readv(tracee, &here, 1, &there, 1, 0) != sizeof copy) _exit(1);
                if (strcmp(copy, "same")) _exit(2);
            }
            _exit(0);
        }
    }
    int good = 0;
    for (int n = 0; n < 6; n++) {
        int status;
        waitpid(all[n], &status, 0);
        good += status == 0;
    }
    printf("%d of 6 have seen it\n", good);
    end(tracee);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t root = make(wait_for_ever), spins = make(spin), user = make(user_waits), hides = make(user_hides);
    ms(50);
    memset(secret, 0, sizeof secret);
    strcpy(secret, "mine");
    char copy[64];
    struct iovec here = {copy, sizeof copy}, there = {secret, sizeof secret};
    printf("spins: %zd %s\n", process_vm_readv(spins, &here, 1, &there, 1, 0), copy);
    pid_t looker = fork();
    if (looker == 0) {
        as_user();
        look("of root", root);
        look("that hides", hides);
        look("of its own", user);
        _exit(0);
    }
    waitpid(looker, NULL, 0);
    look("nobody's", 30000);
    end(root), end(spins), end(user), end(hides);
    killed_tracers();
    killed_tracees();
    lookers();
    return 0;
}
