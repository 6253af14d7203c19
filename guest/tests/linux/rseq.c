// Restartable sequences: what is refused, what is inherited, which core is shown; sequences that others and signals interrupt go on elsewhere; what
// says of itself what cannot be ends in SIGSEGV; membarrier restarts those of other cores.
// build: gcc, musl
// cores: 2
// oracle: linux
// env: GLIBC_TUNABLES=glibc.pthread.rseq=0
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { SIGNATURE = 0x53053053, UNREGISTER = 1, THREADS = 4, ROUNDS = 3000 };
enum { TO_RSEQ = 1 << 8, RSEQ = 1 << 7, FLAG_CPU = 1 };

struct area {
    uint32_t start, cpu;
    uint64_t sequence;
    uint32_t flags, more[3];
} __attribute__((aligned(32)));

struct sequence {
    uint32_t version, flags;
    uint64_t start, bytes, instead;
} __attribute__((aligned(32)));

static long rseq(void *area, unsigned len, int flags, unsigned signature) { return syscall(334, area, len, flags, signature); }
static long barrier(int command, unsigned flags, int cpu) { return syscall(SYS_membarrier, command, flags, cpu); }

// spin(&area.sequence, &sequence, &is_within, &stop): in a sequence until it is stopped (0) or interrupted (1).
// trap(&area.sequence, &sequence): a fault in a sequence; 0, or 1 if it was interrupted by that.
// add(&area.sequence, &sequence, counters, &area.start): one more in the counter of the core, slowly; 0, or 1 if it was interrupted.
__asm__(".text\n"
        "spin: mov %rsi, (%rdi)\n"
        "spin_start: movl $1, (%rdx)\n"
        "1: pause\n"
        "cmpl $0, (%rcx)\n"
        "je 1b\n"
        "spin_end: xor %eax, %eax\n"
        "ret\n"
        ".byte 0x0f, 0xb9, 0x3d\n"
        ".long 0x53053053\n"
        "spin_instead: mov $1, %eax\n"
        "ret\n"
        "trap: mov %rsi, (%rdi)\n"
        "trap_start: ud2\n"
        "trap_end: xor %eax, %eax\n"
        "ret\n"
        ".byte 0x0f, 0xb9, 0x3d\n"
        ".long 0x53053053\n"
        "trap_instead: mov $1, %eax\n"
        "ret\n"
        "add: mov %rsi, (%rdi)\n"
        "add_start: mov (%rcx), %eax\n"
        "mov (%rdx, %rax, 8), %r8\n"
        "mov $2000, %r9d\n"
        "2: dec %r9d\n"
        "jnz 2b\n"
        "inc %r8\n"
        "mov %r8, (%rdx, %rax, 8)\n"
        "add_end: xor %eax, %eax\n"
        "ret\n"
        ".byte 0x0f, 0xb9, 0x3d\n"
        ".long 0x53053053\n"
        "add_instead: mov $1, %eax\n"
        "ret\n");
extern int spin(uint64_t *, const struct sequence *, volatile int *, volatile int *);
extern int add(uint64_t *, const struct sequence *, volatile uint64_t *, uint32_t *);
extern int trap(uint64_t *, const struct sequence *);
extern char trap_start[], trap_end[], trap_instead[];
extern char spin_start[], spin_end[], spin_instead[], add_start[], add_end[], add_instead[];
#define SEQUENCE(name) (struct sequence){0, 0, (uint64_t)name##_start, (uint64_t)(name##_end - name##_start), (uint64_t)name##_instead}

static void on(unsigned long cores) { sched_setaffinity(0, sizeof cores, (cpu_set_t *)&cores); }

static void refused(void) {
    static struct area areas[2];
    struct area *a = &areas[0];
    SHOW(rseq(a, 32, 2, SIGNATURE));
    SHOW(rseq(a, 32, UNREGISTER, SIGNATURE));
    SHOW(rseq((char *)a + 8, 32, 0, SIGNATURE));
    SHOW(rseq(a, 31, 0, SIGNATURE));
    SHOW(rseq((void *)(1ul << 47), 32, 0, SIGNATURE));
    SHOW(rseq((void *)-32, 32, 0, SIGNATURE));
    SHOW(rseq(a, 32, 0, SIGNATURE));
    SHOW(rseq(a, 32, 0, SIGNATURE));
    SHOW(rseq(a, 32, 0, SIGNATURE + 1));
    SHOW(rseq(a, 33, 0, SIGNATURE));
    SHOW(rseq(a + 1, 32, 0, SIGNATURE));
    SHOW(rseq(a, 32, UNREGISTER | 2, SIGNATURE));
    SHOW(rseq(a, 32, UNREGISTER, SIGNATURE + 1));
    SHOW(rseq(a, 31, UNREGISTER, SIGNATURE));
    SHOW(rseq(a + 1, 32, UNREGISTER, SIGNATURE));
    SHOW(a->start == a->cpu && (int)a->cpu == sched_getcpu());
    SHOW(rseq(a, 32, UNREGISTER, SIGNATURE));
    SHOW(a->start);
    SHOW((int)a->cpu);
    SHOW(rseq(a, 32, UNREGISTER, SIGNATURE));
}

static struct area mine;

static void *thread(void *arg) {
    struct area own = {0};
    SHOW(rseq(&mine, 32, UNREGISTER, SIGNATURE));
    SHOW(rseq(&own, 32, 0, SIGNATURE));
    SHOW(own.start == own.cpu && (int)own.cpu == sched_getcpu());
    return arg;
}

static void inherited(char *self) {
    pthread_t other;
    SHOW(rseq(&mine, 32, 0, SIGNATURE));
    IN_CHILD("a child", SHOW(rseq(&mine, 32, 0, SIGNATURE)); SHOW((int)mine.cpu == sched_getcpu()));
    fflush(stdout);
    if (fork() == 0) {
        execl("/proc/self/exe", self, "again", NULL);
        _exit(1);
    }
    wait(NULL);
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    SHOW(rseq(&mine, 32, 0, SIGNATURE));
}

// The core that is shown is the one where it runs, after each move and each call that waits.
static void shown(void) {
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        on(1ul << i % 2);
        wrong += mine.cpu != (unsigned)(i % 2) || mine.start != mine.cpu;
        if (i % 10 == 0) usleep(100);
        wrong += mine.cpu != (unsigned)(i % 2);
    }
    on(3);
    SHOW(wrong);
}

static struct sequence spins, adds, traps;
static volatile int within, stop;
static volatile int others;

static void *busy(void *arg) {
    on(1ul << (long)arg);
    while (!stop) others++;
    return NULL;
}

// Somebody else has to run on this core.
static void preempted(void) {
    pthread_t other;
    on(1);
    pthread_create(&other, NULL, busy, (void *)0);
    SHOW(spin(&mine.sequence, &spins, &within, &stop));
    SHOW(mine.sequence == 0);
    // The one before it may be named when its thread is somewhere else.
    mine.sequence = (uint64_t)&spins;
    for (int before = others; others == before;) sched_yield();
    SHOW(mine.sequence == 0);
    stop = 1;
    pthread_join(other, NULL);
    stop = within = 0;
    on(3);
}

static volatile long interrupted_at, names;
static void handler(int signal, siginfo_t *info, void *context) {
    interrupted_at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    names = mine.sequence;
}

// A handler of a fault, for which nobody else runs: it comes back where it would not fault again.
static void fault(int signal, siginfo_t *info, void *context) {
    greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    interrupted_at = *rip;
    names = mine.sequence;
    if (*rip == (greg_t)trap_start) *rip = (greg_t)trap_end;
}

static void faulted(void) {
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    SHOW(trap(&mine.sequence, &traps));
    SHOW(interrupted_at == (long)trap_instead);
    SHOW(names);
}

static void signalled(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, NULL);
    ualarm(20000, 0);
    SHOW(spin(&mine.sequence, &spins, &within, &stop));
    ualarm(0, 0);
    SHOW(names);
    // Unless somebody else ran before.
    SHOW(interrupted_at == 0 || interrupted_at == (long)spin_instead || interrupted_at < (long)spin_start || interrupted_at >= (long)spin_end);
    mine.sequence = (uint64_t)&spins;
    raise(SIGALRM);
    SHOW(names);
    SHOW(mine.sequence);
}

static volatile uint64_t counters[64];
static volatile int restarts;

static void *adder(void *arg) {
    struct area own = {0};
    if (rseq(&own, 32, 0, SIGNATURE)) return (void *)1;
    for (int i = 0; i < ROUNDS; i++)
        while (add(&own.sequence, &adds, counters, &own.start)) __sync_fetch_and_add(&restarts, 1);
    rseq(&own, 32, UNREGISTER, SIGNATURE);
    return NULL;
}

// Threads that share their cores count there without atomic instructions: nothing is lost.
static void counted(void) {
    pthread_t all[THREADS];
    void *failed;
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, adder, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i], &failed);
        sum += failed != NULL;
    }
    for (int i = 0; i < 64; i++) sum += counters[i];
    SHOW((long)sum == THREADS * ROUNDS);
}

// Of what is wrong a child dies.
static void wrong(const char *what, struct sequence *named) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        stop = 0;
        // Left by SIGALRM, if by nothing else.
        signal(SIGALRM, SIG_IGN);
        mine.sequence = (uint64_t)named;
        raise(SIGUSR2);
        for (int i = 0; i < 10; i++) usleep(1000);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) printf("%s: signal %d\n", what, WTERMSIG(status));
    else printf("%s: status %d\n", what, WEXITSTATUS(status));
}

static void nothing(int signal) {}

static void wrongs(void) {
    static struct sequence s;
    signal(SIGUSR2, nothing);
    wrong("as it should be", (s = spins, &s));
    wrong("nowhere", (void *)64);
    wrong("beyond the end", (void *)(1ul << 47));
    wrong("the last place", (void *)((1ul << 47) - 4096 - 16));
    wrong("version", (s = spins, s.version = 1, &s));
    wrong("start", (s = spins, s.start = 1ul << 47, &s));
    wrong("length", (s = spins, s.bytes = 1ul << 47, &s));
    wrong("overflow", (s = spins, s.bytes = -1ul, &s));
    wrong("instead", (s = spins, s.instead = 1ul << 47, &s));
    wrong("instead within", (s = spins, s.instead = s.start + 1, &s));
    wrong("signature", (s = spins, s.instead++, &s));
    wrong("flags, outside", (s = spins, s.flags = 1, &s));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct area *gone = pages(1, PROT_READ | PROT_WRITE);
        rseq(&mine, 32, UNREGISTER, SIGNATURE);
        rseq(gone, 32, 0, SIGNATURE);
        munmap(gone, PAGE);
        raise(SIGUSR2);
        for (int i = 0; i < 10; i++) usleep(1000);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("memory that is gone: signal %d\n", WTERMSIG(status));
    IN_CHILD("flags, within", s = spins; s.flags = 4; stop = 0; ualarm(20000, 0); spin(&mine.sequence, &s, &within, &stop));
}

static void *spinner(void *arg) {
    static struct area own;
    on(2);
    rseq(&own, 32, 0, SIGNATURE);
    int interrupted = spin(&own.sequence, &spins, &within, &stop);
    rseq(&own, 32, UNREGISTER, SIGNATURE);
    return (void *)(long)interrupted;
}

static void barriers(void) {
    pthread_t other;
    void *interrupted;
    on(1);
    SHOW(barrier(RSEQ, 0, 0));
    SHOW(barrier(TO_RSEQ, 1, 0));
    SHOW(barrier(TO_RSEQ, 0, 0));
    SHOW(barrier(RSEQ, 2, 0));
    SHOW(barrier(1 << 3, FLAG_CPU, 0));
    for (int i = 0; i < 3; i++) {
        within = stop = 0;
        pthread_create(&other, NULL, spinner, NULL);
        while (!within) sched_yield();
        if (i == 2) {
            SHOW(barrier(RSEQ, FLAG_CPU, 77));
            SHOW(barrier(RSEQ, FLAG_CPU, -1));
        }
        SHOW(i ? barrier(RSEQ, FLAG_CPU, 1) : barrier(RSEQ, 0, 0));
        pthread_join(other, &interrupted);
        SHOW((long)interrupted);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        // Of the program before nothing is registered.
        SHOW(rseq(&mine, 32, 0, SIGNATURE));
        return 0;
    }
    spins = SEQUENCE(spin);
    adds = SEQUENCE(add);
    traps = SEQUENCE(trap);
    refused();
    inherited(argv[0]);
    shown();
    preempted();
    faulted();
    signalled();
    counted();
    wrongs();
    barriers();
    return 0;
}
