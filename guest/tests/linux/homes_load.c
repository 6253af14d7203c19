// Where programs have their homes that are chosen by what the cores have to do: workers that compute land on all cores, affinity is
// respected, and who is executed where nobody else runs stays. On Linux there are no homes, and all of it is as it should be.
//
// build: gcc, musl
// oracle: linux
// cores: 4
// kernel: homes=load
// args: main
#define _GNU_SOURCE
#include "test.h"
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CORES = 4, MOST = 2 * CORES };

extern char **environ;
static const char *self;
static pid_t workers[MOST];

// The home of a process, or what is expected where there are none.
static int home_of(pid_t pid, int expected) {
    FILE *from = fopen("/proc/tessera/processes", "r");
    if (from == NULL) return expected;
    char line[1000];
    int own, home, found = -1;
    while (fgets(line, sizeof line, from))
        if (sscanf(line, "%d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &own, &home) == 2 && own == pid) found = home;
    fclose(from);
    return found;
}

// State of a process as /proc has it.
static char state_of(pid_t pid) {
    char name[64], state = '?';
    sprintf(name, "/proc/%d/stat", pid);
    FILE *from = fopen(name, "r");
    if (from == NULL) return state;
    if (fscanf(from, "%*d (%*[^)]) %c", &state) != 1) state = '?';
    fclose(from);
    return state;
}

static void must(int holds) {
    if (holds) return;
    printf("WRONG: %s\n", strerror(errno));
    exit(1);
}

// Linux may have fewer cores.
static void run_on(unsigned long cores) {
    int failed = cores && syscall(SYS_sched_setaffinity, 0, sizeof cores, &cores);
    if (failed && access("/proc/tessera", F_OK) == 0) _exit(97);
}

// Whoever is executed and computes says so there.
static int ends[2];

static void hear(int count) {
    char byte;
    close(ends[1]);
    while (count--) must(read(ends[0], &byte, 1) == 1 && byte == 'r');
    close(ends[0]);
}

// A worker computes until it is killed.
static pid_t begin(int spawns, unsigned long cores) {
    char number[16];
    sprintf(number, "%d", ends[1]);
    char *arguments[] = {(char *)self, "compute", number, NULL};
    pid_t pid = 0;
    if (spawns) {
        must(posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0);
    } else if ((pid = fork()) == 0) {
        run_on(cores);
        execv(self, arguments);
        _exit(99);
    }
    return pid;
}

// It has begun when this returns.
static pid_t start(int spawns, unsigned long cores) {
    must(pipe(ends) == 0);
    pid_t pid = begin(spawns, cores);
    hear(1);
    return pid;
}

static void stop(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

static void stop_all(void) {
    for (int i = 0; i < MOST; i++)
        if (workers[i]) stop(workers[i]);
    memset(workers, 0, sizeof workers);
}

// How many workers have each of the cores as their home.
static void spread(const char *how, int spawns, int at_once, int count) {
    int on[CORES] = {0}, uneven = 0;
    if (at_once) must(pipe(ends) == 0);
    for (int i = 0; i < count; i++) workers[i] = at_once ? begin(spawns, 0) : start(spawns, 0);
    if (at_once) hear(count);
    for (int i = 0; i < count; i++) {
        int home = home_of(workers[i], i % CORES);
        if (home >= 0 && home < CORES) on[home]++;
    }
    for (int core = 0; core < CORES; core++) uneven |= on[core] != count / CORES;
    printf("%d workers, %s: %s\n", count, how, uneven ? "unevenly" : "as many on each core");
    if (uneven) printf("%d %d %d %d\n", on[0], on[1], on[2], on[3]);
}

// A child that is executed while its parent waits, and says where it is.
static void stays(void) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        while (state_of(getppid()) != 'S') sched_yield();
        char number[16];
        sprintf(number, "%d", home_of(getppid(), 0));
        execl(self, self, "same", number, NULL);
        _exit(99);
    }
    must(waitpid(pid, &status, 0) == pid);
    printf("executed while its parent waits: %s\n", status == 0 ? "stays" : "goes");
    char number[16];
    sprintf(number, "%d", home_of(getpid(), 0));
    char *arguments[] = {(char *)self, "same", number, NULL};
    must(posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0);
    // Whoever is spawned begins while its parent acts as it.
    must(waitpid(pid, &status, 0) == pid);
    printf("spawned: %s\n", status == 0 ? "stays" : "goes");
}

static void obeys(void) {
    for (int core = 0; core < CORES; core++) workers[core] = start(0, 1ul << core);
    int right = 1;
    for (int core = 0; core < CORES; core++) right &= home_of(workers[core], core) == core;
    printf("one core is allowed: %s\n", right ? "its home" : "another one");
    // All are as busy; of those that are allowed one is less so.
    stop(workers[3]);
    workers[3] = start(0, 0xa);
    printf("of two cores: %s\n", home_of(workers[3], 3) == 3 ? "the idle one" : "the other");
    // More and more on one core while the others have less to do.
    for (int i = CORES; i < MOST; i++) {
        workers[i] = start(0, 4);
        right &= home_of(workers[i], 2) == 2;
    }
    printf("whatever is there: %s\n", right ? "its home" : "another one");
    // Those fill the rest before anybody else goes to that core.
    for (int i = 0; i < 2; i++) {
        stop(workers[i]);
        workers[i] = start(0, 7);
        right &= home_of(workers[i], 0) != 2;
    }
    printf("a core with much to do: %s\n", right ? "avoided" : "chosen");
}

// The program is known by now: it has ended soon twice. Where others compute, who executes it stays, unless its home is not allowed.
static void is_short(void) {
    int status, home = home_of(getpid(), 0);
    pid_t busy = fork();
    if (busy == 0)
        for (volatile unsigned long i = 0;; i++) {}
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        int other = (home + 1) % CORES, expected = elsewhere ? other : home;
        pid_t pid = fork();
        if (pid == 0) {
            if (elsewhere) run_on(1ul << other);
            char number[16];
            sprintf(number, "%d", expected);
            execl(self, self, "same", number, NULL);
            _exit(99);
        }
        while (waitpid(pid, &status, WNOHANG) == 0) {}
        const char *what = elsewhere ? "a short program that may not run where it is" : "a short program beside one that computes";
        printf("%s: %s\n", what, status ? "another home" : elsewhere ? "goes" : "stays");
    }
    stop(busy);
}

int main(int count, char **arguments) {
    self = arguments[0];
    const char *what = arguments[1];
    int number = count > 2 ? atoi(arguments[2]) : 0;
    if (!strcmp(what, "compute")) {
        if (write(number, "r", 1) != 1) return 98;
        close(number);
        for (volatile unsigned long i = 0;; i++) {}
    }
    if (!strcmp(what, "same")) return home_of(getpid(), number) != number;
    spread("executed", 0, 0, CORES);
    stop_all();
    spread("executed", 0, 0, MOST);
    stop_all();
    spread("executed at once", 0, 1, CORES);
    stop_all();
    spread("spawned", 1, 0, CORES);
    stop_all();
    obeys();
    stop_all();
    stays();
    is_short();
    return 0;
}
