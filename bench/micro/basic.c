// The costs of basic operations of a Linux process, in instructions.
//
// Prints `bench KEY NUMBER`, one a line; the keys are those of bench/linux-baseline.tsv. Meant for
// an emulator that counts instructions (-icount shift=0), where the time-stamp counter goes on by a
// fixed amount for each. That amount is measured first by a loop of known length.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 1001 };

static double per_instruction;
static uint64_t samples[MOST];
static int taken;

static inline uint64_t ticks(void) { return __builtin_ia32_rdtsc(); }

static void sample(uint64_t from, uint64_t to) {
    if (taken < MOST) samples[taken++] = to - from;
}

static int ascending(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

// The median of what was sampled, in instructions for each of `parts`; starts anew.
static double median(double parts) {
    qsort(samples, taken, sizeof *samples, ascending);
    double middle = taken ? samples[taken / 2] : 0;
    taken = 0;
    return middle / per_instruction / parts;
}

static void report(const char *key, double value) {
    printf("bench %s %.0f\n", key, value);
    fflush(stdout);
}

static void report_n(const char *key, int n, double value) {
    char whole[40];
    snprintf(whole, sizeof whole, "%s_%d", key, n);
    report(whole, value);
}

static void calibrate(void) {
    const uint64_t turns = 1000000;
    for (int i = 0; i < 5; i++) {
        uint64_t left = turns, from = ticks();
        __asm__ volatile("1: dec %0; jnz 1b" : "+r"(left)::"cc");
        sample(from, ticks());
    }
    per_instruction = 1;
    per_instruction = median(2 * turns);
    printf("ticks_per_1000_instructions %.0f\n", per_instruction * 1000);
}

static char *map(size_t pages, int flags) {
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
                    -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    // Huge pages have numbers of their own.
    madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
    return at;
}

static void null_call(void) {
    for (int i = 0; i < 1000; i++) {
        uint64_t from = ticks();
        syscall(SYS_getppid);
        sample(from, ticks());
    }
    report("null", median(1));
}

static void faults(void) {
    enum { COUNT = 256 };
    for (int write = 1; write >= 0; write--) {
        for (int i = 0; i < 15; i++) {
            volatile char *at = map(COUNT, 0);
            uint64_t from = ticks();
            for (int page = 0; page < COUNT; page++) {
                if (write)
                    at[page * PAGE] = 1;
                else
                    (void)at[page * PAGE];
            }
            sample(from, ticks());
            munmap((char *)at, COUNT * PAGE);
        }
        report(write ? "zero_fault" : "read_fault", median(COUNT));
    }
}

static void mappings(void) {
    static const int sizes[] = {1, 128, 1024}, populated[] = {1, 32, 512};
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < 101; i++) {
            uint64_t from = ticks();
            char *at = mmap(NULL, sizes[s] * PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(at, sizes[s] * PAGE);
            sample(from, ticks());
        }
        report_n("mmap", sizes[s], median(1));
    }
    for (int s = 0; s < 3; s++) {
        uint64_t unmaps[21];
        for (int i = 0; i < 21; i++) {
            uint64_t from = ticks();
            char *at = mmap(NULL, populated[s] * PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            uint64_t between = ticks();
            munmap(at, populated[s] * PAGE);
            sample(from, between);
            unmaps[i] = ticks() - between;
        }
        report_n("populate", populated[s], median(1));
        for (int i = 0; i < 21; i++) sample(0, unmaps[i]);
        report_n("munmap", populated[s], median(1));
    }
}

static void protections(void) {
    static const int sizes[] = {1, 32, 128, 512};
    for (int s = 0; s < 4; s++) {
        size_t length = sizes[s] * PAGE;
        char *at = map(sizes[s], 0);
        for (int i = 0; i < 51; i++) {
            memset(at, 1, length);
            uint64_t from = ticks();
            mprotect(at, length, PROT_READ);
            sample(from, ticks());
            mprotect(at, length, PROT_READ | PROT_WRITE);
        }
        munmap(at, length);
        report_n("mprotect", sizes[s], median(1));
    }
}

static volatile char *beside;

// Lets the program go on by changing the register that it writes through.
static void redirect(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] = (greg_t)beside;
}

static void handler(void) {
    struct sigaction action = {.sa_sigaction = redirect, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    char *at = map(2, 0);
    memset(at, 1, 2 * PAGE);
    beside = at + PAGE;
    mprotect(at, PAGE, PROT_READ);
    for (int i = 0; i < 201; i++) {
        char *target = at;
        uint64_t from = ticks();
        __asm__ volatile("movb $1, (%0)" : "+b"(target)::"memory");
        sample(from, ticks());
    }
    signal(SIGSEGV, SIG_DFL);
    report("handler", median(1));
}

static void forks(void) {
    static const int sizes[] = {0, 1, 16, 128};
    double until_return[4];
    for (int s = 0; s < 4; s++) {
        size_t pages = (size_t)sizes[s] * 256;
        char *at = pages ? map(pages, 0) : NULL;
        uint64_t whole[11];
        for (int i = 0; i < 11; i++) {
            for (size_t page = 0; page < pages; page++) at[page * PAGE] = i;
            uint64_t from = ticks();
            pid_t child = fork();
            if (child == 0) _exit(0);
            sample(from, ticks());
            waitpid(child, NULL, 0);
            whole[i] = ticks() - from;
        }
        until_return[s] = median(1);
        report_n("fork", sizes[s], until_return[s]);
        for (int i = 0; i < 11; i++) sample(0, whole[i]);
        report_n("fork_exit", sizes[s], median(1));
        if (pages) munmap(at, pages * PAGE);
    }
    report("fork_per_mib", (until_return[3] - until_return[2]) / (128 - 16));
}

static void copies(void) {
    enum { COUNT = 256 };
    volatile char *at = map(COUNT, 0);
    int ends[2];
    if (pipe(ends)) return;
    uint64_t reuse[15];
    for (int i = 0; i < 15; i++) {
        for (int page = 0; page < COUNT; page++) at[page * PAGE] = i;
        pid_t child = fork();
        char go;
        if (child == 0) {
            read(ends[0], &go, 1);
            _exit(0);
        }
        // The second half is written when nobody else has it any more.
        uint64_t from = ticks();
        for (int page = 0; page < COUNT / 2; page++) at[page * PAGE] = 7;
        sample(from, ticks());
        write(ends[1], "x", 1);
        waitpid(child, NULL, 0);
        from = ticks();
        for (int page = COUNT / 2; page < COUNT; page++) at[page * PAGE] = 7;
        reuse[i] = ticks() - from;
    }
    report("cow_copy", median(COUNT / 2));
    for (int i = 0; i < 15; i++) sample(0, reuse[i]);
    report("cow_reuse", median(COUNT / 2));
}

static void execs(const char *self) {
    char *arguments[] = {(char *)self, "exit", NULL};
    for (int virtual = 0; virtual < 2; virtual++) {
        for (int i = 0; i < 11; i++) {
            uint64_t from = ticks();
            pid_t child = virtual ? vfork() : fork();
            if (child == 0) {
                execv(self, arguments);
                _exit(127);
            }
            int status;
            waitpid(child, &status, 0);
            sample(from, ticks());
            if (status != 0) {
                fprintf(stderr, "exec of %s: status %#x\n", self, status);
                exit(1);
            }
        }
        report(virtual ? "vfork_exec" : "fork_exec", median(1));
    }
}

static void pipes(void) {
    enum { PIECE = 65536 };
    const long whole = 50000000;
    static char buffer[PIECE];
    int there[2], back[2];
    if (pipe(there) || pipe(back)) return;
    memset(buffer, 1, PIECE);
    for (int i = 0; i < 3; i++) {
        uint64_t from = ticks();
        pid_t child = fork();
        if (child == 0) {
            for (long left = whole, now; left > 0; left -= now)
                if ((now = write(there[1], buffer, left < PIECE ? left : PIECE)) <= 0) _exit(1);
            _exit(0);
        }
        for (long left = whole, now; left > 0; left -= now)
            if ((now = read(there[0], buffer, PIECE)) <= 0) exit(1);
        sample(from, ticks());
        waitpid(child, NULL, 0);
    }
    report("pipe_50mb", median(1));
    pid_t child = fork();
    char byte = 0;
    if (child == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1 && byte == 0) write(back[1], &byte, 1);
        _exit(0);
    }
    for (int i = 0; i < 501; i++) {
        uint64_t from = ticks();
        write(there[1], &byte, 1);
        read(back[0], &byte, 1);
        sample(from, ticks());
    }
    byte = 1;
    write(there[1], &byte, 1);
    waitpid(child, NULL, 0);
    report("pipe_trip", median(1));
}

int main(int count, char **arguments) {
    if (count > 1) return 0;
    calibrate();
    null_call();
    faults();
    mappings();
    protections();
    handler();
    forks();
    copies();
    execs(arguments[0]);
    pipes();
    return 0;
}
