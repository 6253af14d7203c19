// Processes whose homes may be cores chosen at random (--homes SEED): programs one after the other in one process, signals, stops, waits, times, pipes, memory that is
// shared, threads and faults, between them.
// build: gcc, musl
// oracle: linux
// cores: 4
// args: main
#define _GNU_SOURCE
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 6, ROUNDS = 4, PAGES = 64 };

extern char **environ;
static const char *self;

static void run(char *const arguments[]) {
    execv(self, arguments);
    _exit(99);
}

static pid_t start(const char *what, int in, int out) {
    char numbers[2][16];
    sprintf(numbers[0], "%d", in);
    sprintf(numbers[1], "%d", out);
    char *arguments[] = {(char *)self, (char *)what, numbers[0], numbers[1], NULL};
    pid_t pid = fork();
    if (pid == 0) run(arguments);
    return pid;
}

static void say(int to, char byte) {
    if (write(to, &byte, 1) != 1) _exit(98);
}

static char hear(int from) {
    char byte = 0;
    return read(from, &byte, 1) == 1 ? byte : '-';
}

// Goes from program to program, and each writes what it finds.
static int hop(int round, int out) {
    unsigned char *memory =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < PAGES; page++) memory[page * PAGE] = (unsigned char)(page + round);
    pid_t child = fork();
    if (child == 0) {
        for (int page = 0; page < PAGES; page++) {
            if (memory[page * PAGE] != (unsigned char)(page + round)) _exit(1);
            memory[page * PAGE] = 0;
        }
        _exit(round);
    }
    int status = 0;
    waitpid(child, &status, 0);
    int wrong = WEXITSTATUS(status) != round;
    for (int page = 0; page < PAGES; page++) wrong |= memory[page * PAGE] != (unsigned char)(page + round);
    say(out, wrong ? 'x' : (char)('a' + round));
    if (round + 1 == ROUNDS) return 0;
    char numbers[2][16];
    sprintf(numbers[0], "%d", round + 1);
    sprintf(numbers[1], "%d", out);
    char *arguments[] = {(char *)self, "hop", numbers[0], numbers[1], NULL};
    run(arguments);
    return 1;
}

static volatile sig_atomic_t got, value;

static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    got = signal;
    value = info->si_value.sival_int;
}

// Answers bytes until there are none, and says which signals came.
static int serve(int in, int out) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    say(out, 'r');
    for (;;) {
        struct pollfd wanted = {.fd = in, .events = POLLIN};
        if (ppoll(&wanted, 1, NULL, &none) < 0) {
            say(out, got == SIGUSR1 && value == 42 ? 's' : 'x');
            continue;
        }
        char byte;
        if (read(in, &byte, 1) != 1) return 5;
        say(out, (char)(byte + 1));
    }
}

static int spin(int in, int out) {
    (void)in;
    say(out, 'r');
    for (volatile unsigned long i = 0;; i++) {}
}

static int burn(void) {
    struct tms now;
    do times(&now);
    while (now.tms_utime + now.tms_stime < 5);
    return 0;
}

static void *add(void *sum) {
    for (int i = 0; i < 1000; i++) __atomic_fetch_add((int *)sum, 1, __ATOMIC_RELAXED);
    char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = 1;
    munmap(memory, PAGE);
    return sum;
}

static int threads(int in, int out) {
    (void)in;
    pthread_t all[4];
    int sum = 0;
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, add, &sum);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    say(out, sum == 4000 ? 't' : 'x');
    return 0;
}

static int shares(int in, int out) {
    unsigned *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, in, 0);
    if (memory == MAP_FAILED) return 1;
    for (int i = 0; i < 1000; i++) __atomic_fetch_add(memory, 1, __ATOMIC_RELAXED);
    say(out, 'm');
    return 0;
}

static int crash(void) {
    signal(SIGSEGV, SIG_DFL);
    volatile int *nowhere = (volatile int *)8;
    return *nowhere;
}

static void many_hop(void) {
    int ends[WORKERS][2];
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        pipe(ends[i]);
        workers[i] = start("hop", 0, ends[i][1]);
        close(ends[i][1]);
    }
    for (int i = 0; i < WORKERS; i++) {
        char text[ROUNDS + 1] = "";
        for (int round = 0; round < ROUNDS; round++) text[round] = hear(ends[i][0]);
        int status = 0;
        waitpid(workers[i], &status, 0);
        printf("worker %d: %s, status %#x\n", i, text, status);
        close(ends[i][0]);
    }
}

static void talk(void) {
    int to[2], from[2], status;
    pipe2(to, O_CLOEXEC);
    pipe(from);
    fcntl(to[0], F_SETFD, 0);
    pid_t pid = start("serve", to[0], from[1]);
    close(to[0]);
    close(from[1]);
    printf("it is %c\n", hear(from[0]));
    for (char byte = 'a'; byte < 'd'; byte++) {
        say(to[1], byte);
        printf("%c: %c\n", byte, hear(from[0]));
    }
    SHOW(sigqueue(pid, SIGUSR1, (union sigval){.sival_int = 42}));
    printf("signal: %c\n", hear(from[0]));
    say(to[1], 'y');
    printf("y: %c\n", hear(from[0]));
    close(to[1]);
    waitpid(pid, &status, 0);
    printf("exit %d\n", WEXITSTATUS(status));
    close(from[0]);
}

static void stop(void) {
    int from[2], status;
    pipe(from);
    pid_t pid = start("spin", 0, from[1]);
    close(from[1]);
    printf("it is %c\n", hear(from[0]));
    kill(pid, SIGSTOP);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, &status, WCONTINUED) == pid);
    CHECK(WIFCONTINUED(status));
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    printf("then %c\n", hear(from[0]));
    close(from[0]);
}

static void spawn(void) {
    pid_t pids[WORKERS];
    char *arguments[] = {(char *)self, "exit", "7", NULL};
    for (int i = 0; i < WORKERS; i++) CHECK(posix_spawn(&pids[i], self, NULL, NULL, arguments, environ) == 0);
    int sum = 0;
    for (int i = 0; i < WORKERS; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        sum += WEXITSTATUS(status);
    }
    printf("sum %d\n", sum);
    CHECK(posix_spawn(&pids[0], "./none", NULL, NULL, arguments, environ) == ENOENT);
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

static void use_time(void) {
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    int status;
    waitpid(start("burn", 0, 0), &status, 0);
    getrusage(RUSAGE_CHILDREN, &after);
    long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000L + after.ru_utime.tv_usec -
                before.ru_utime.tv_usec + (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000L +
                after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    CHECK(used >= 40000);
}

static void share(void) {
    int fd = memfd_create("shared", 0), from[2], status;
    ftruncate(fd, PAGE);
    unsigned *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pipe(from);
    for (int i = 0; i < WORKERS; i++) start("shares", fd, from[1]);
    for (int i = 0; i < WORKERS; i++) hear(from[0]);
    while (waitpid(-1, &status, 0) > 0) {}
    printf("%u\n", *memory);
    start("threads", 0, from[1]);
    printf("threads: %c\n", hear(from[0]));
    wait(&status);
    printf("status %#x\n", status);
    waitpid(start("crash", 0, 0), &status, 0);
    printf("a fault: signal %d\n", WTERMSIG(status));
}

int main(int count, char **arguments) {
    self = arguments[0];
    const char *what = arguments[1];
    int in = count > 2 ? atoi(arguments[2]) : 0, out = count > 3 ? atoi(arguments[3]) : 0;
    if (!strcmp(what, "hop")) return hop(in, out);
    if (!strcmp(what, "serve")) return serve(in, out);
    if (!strcmp(what, "spin")) return spin(in, out);
    if (!strcmp(what, "burn")) return burn();
    if (!strcmp(what, "threads")) return threads(in, out);
    if (!strcmp(what, "shares")) return shares(in, out);
    if (!strcmp(what, "crash")) return crash();
    if (!strcmp(what, "exit")) return in;
    many_hop();
    talk();
    stop();
    spawn();
    use_time();
    share();
    return 0;
}
