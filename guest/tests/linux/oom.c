// All memory used up, in every way that there is: the offender fails or is killed, nobody else, and
// all of it comes back. With an argument it tells what it does.
//
// build: gcc
// mem: 128M
// timeout: 180
// keeps: 1048576
// expect-stdout: passed\n
#include "test.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>

static int failures;

static void fail(const char *what, long got) {
    printf("FAILED %s: %ld (%#lx)\n", what, got, got);
    failures++;
}

static long free_memory(void) {
    struct sysinfo info;
    if (sysinfo(&info) != 0) fail("sysinfo", errno);
    return info.freeram * info.mem_unit;
}

static long total_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.totalram * info.mem_unit;
}

// How a child ends that does this: it may be killed by SIGKILL or end by itself with 0.
static void offender(const char *what, void (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        fail("fork", errno);
        return;
    }
    if (pid == 0) {
        setpgid(0, 0);
        body();
        _exit(0);
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid) fail("waitpid", errno);
    if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) fail(what, status);
    // Its children, if it has left any.
    kill(-pid, SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
}

static void touch_all(void) {
    for (;;) {
        char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            if (errno != ENOMEM) _exit(1);
            return;
        }
        for (int i = 0; i < 256; i++) at[i * PAGE] = 1;
    }
}

static void one_large_map(void) {
    char *at = mmap(NULL, 1l << 40, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    for (long i = 0;; i++) at[i * PAGE] = 1;
}

static void sparse(void) {
    // One page in each 2 MiB: the tables are what costs.
    char *at = mmap(NULL, 1l << 40, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    for (long i = 0; i < 1l << 40; i += 2 << 20) at[i] = 1;
}

static void heap(void) {
    for (;;) {
        char *at = malloc(100000);
        if (!at) return;
        memset(at, 1, 100000);
    }
}

static void shared_memory(void) {
    char *at = mmap(NULL, 1l << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    // No room for a page of a file is SIGBUS.
    signal(SIGBUS, SIG_DFL);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    pid_t pid = fork();
    if (pid == 0)
        for (long i = 0; i < 1l << 30; i += PAGE) at[i] = 1;
    int status;
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status)) _exit(2);
    if (WTERMSIG(status) != SIGBUS && WTERMSIG(status) != SIGKILL) _exit(3);
}

static int deeper(int n) {
    volatile char frame[PAGE];
    frame[0] = n;
    return deeper(n + 1) + frame[0];
}

static void stack(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &all);
    signal(SIGSEGV, SIG_DFL);
    pid_t pid = fork();
    if (pid == 0) _exit(deeper(0));
    int status;
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status)) _exit(2);
    if (WTERMSIG(status) != SIGSEGV && WTERMSIG(status) != SIGKILL) _exit(3);
}

// Copy-on-write with nowhere to copy to.
static void copies(void) {
    long half = free_memory() / 100 * 60 & ~(PAGE - 1);
    char *at = mmap(NULL, half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    for (long i = 0; i < half; i += PAGE) at[i] = 1;
    pid_t pid = fork();
    if (pid < 0) return;
    if (pid == 0) {
        for (long i = 0; i < half; i += PAGE) at[i] = 2;
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status != 0 && status != SIGKILL) _exit(4);
    for (long i = 0; i < half; i += PAGE)
        if (at[i] != 1) _exit(5);
    // The last owner needs no memory to write.
    for (long i = 0; i < half; i += PAGE) at[i] = 3;
}

static void processes(void) {
    for (int i = 0; i < 100000; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            if (errno != EAGAIN && errno != ENOMEM) _exit(1);
            return;
        }
        if (pid == 0) {
            sleep(1000);
            _exit(0);
        }
    }
    _exit(2);
}

static void pipes(void) {
    for (int i = 0; i < 100000; i++) {
        int ends[2];
        static char filling[65536];
        if (pipe(ends) < 0) {
            if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) _exit(1);
            return;
        }
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        if (write(ends[1], filling, sizeof filling) < 0 && errno != ENOMEM && errno != EAGAIN)
            _exit(2);
    }
}

static void populate(void) {
    for (;;) {
        void *at = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (at == MAP_FAILED) return;
        // What did not fit is found missing here.
        memset(at, 1, 16 << 20);
    }
}

// A system call that needs memory for its buffer.
static void read_into_new(void) {
    int fd = open("/dev/zero", O_RDONLY);
    for (;;) {
        char *at = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return;
        long got = read(fd, at, 8 << 20);
        if (got < 0) return;
        if (got < 8 << 20) memset(at + got, 1, (8 << 20) - got);
    }
}

// Who forks with large private memory is killed at any moment: before the copy that its child is to have is made, and after.
static void killed_while_forking(void) {
    enum { SIZE = 12 << 20 };
    for (int round = 0; round < 12; round++) {
        pid_t pid = fork();
        if (pid < 0) return;
        if (pid == 0) {
            setpgid(0, 0);
            char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at == MAP_FAILED) _exit(1);
            for (;;) {
                for (long i = 0; i < SIZE; i += 16 * PAGE) at[i]++;
                pid_t child = fork();
                if (child == 0) {
                    for (long i = 0; i < SIZE; i += 16 * PAGE) at[i]++;
                    _exit(0);
                }
                waitpid(child, NULL, round & 1 ? 0 : WNOHANG);
            }
        }
        setpgid(pid, pid);
        usleep(2000 + 1700 * round);
        kill(-pid, SIGKILL);
        int status;
        if (waitpid(pid, &status, 0) != pid || status != SIGKILL) _exit(6);
    }
}

int main(int argc, char **argv) {
    (void)argv;
    if (total_memory() > 1l << 30) {
        printf("this test uses up all memory: run it with --mem 128M\n");
        return 77;
    }
    struct { const char *name; void (*body)(void); } ways[] = {
        {"touch", touch_all}, {"one large map", one_large_map}, {"sparse", sparse}, {"heap", heap},
        {"shared", shared_memory}, {"stack", stack}, {"copies", copies}, {"processes", processes},
        {"pipes", pipes}, {"populate", populate}, {"read", read_into_new},
        {"killed while forking", killed_while_forking},
    };
    enum { WAYS = sizeof ways / sizeof *ways };
    // Once for what is allocated only once.
    offender(ways[0].name, ways[0].body);
    long first = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WAYS; i++) {
            if (argc > 1) printf("%s\n", ways[i].name);
            offender(ways[i].name, ways[i].body);
        }
        // What was killed may take a moment to go. The servers and this process have some memory in
        // stock; the exact comparison is that of the whole session.
        usleep(200000);
        if (round == 0) first = free_memory();
    }
    if (free_memory() < first - (2 << 20)) fail("bytes lost", first - free_memory());

    if (!failures) printf("passed\n");
    return failures != 0;
}
