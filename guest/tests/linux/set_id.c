// Programs that run as their owner or group: ids, capabilities, what they are told, what they keep, and what stops them.
// oracle: linux
// build: gcc, musl
// cores: 4
#include "test.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>

enum { USER = 1001, OTHER = 1002, GROUP = 2001, MORE = 2002 };

static char program[64], other_program[64], script[64];

static unsigned long long caps(const char *name) {
    char line[256];
    unsigned long long set = 1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), ":\t%llx", &set);
    if (file) fclose(file);
    return set;
}

static void show(void) {
    uid_t u[3];
    gid_t g[3], groups[8];
    getresuid(u, u + 1, u + 2);
    getresgid(g, g + 1, g + 2);
    int count = getgroups(8, groups);
    printf("users %d %d %d groups %d %d %d others", u[0], u[1], u[2], g[0], g[1], g[2]);
    for (int i = 0; i < count; i++) printf(" %d", groups[i]);
    printf("\nauxv %ld %ld %ld %ld secure %ld dumpable %d\n", getauxval(AT_UID), getauxval(AT_EUID), getauxval(AT_GID),
           getauxval(AT_EGID), getauxval(AT_SECURE), prctl(PR_GET_DUMPABLE));
    unsigned long long all = caps("CapBnd"), permitted = caps("CapPrm"), effective = caps("CapEff");
    printf("permitted %s effective %s without new privileges %llu\n", permitted == all ? "all" : permitted ? "some" : "none",
           effective == all ? "all" : effective ? "some" : "none", caps("NoNewPrivs"));
    struct stat self;
    printf("/proc/self: %d", stat("/proc/self/maps", &self));
    printf(" of %d %d\n", self.st_uid, self.st_gid);
}

static void left(int argc, char **argv) {
    printf("arguments %d:", argc);
    for (int i = 1; i < argc; i++) printf(" [%s]", argv[i]);
    printf(" environment %s %s\n", getenv("ONE") ?: "none", getenv("LONG") ? "long" : "short");
    sigset_t set, waiting;
    sigprocmask(SIG_BLOCK, NULL, &set);
    sigpending(&waiting);
    struct sigaction usr1, usr2;
    sigaction(SIGUSR1, NULL, &usr1);
    sigaction(SIGUSR2, NULL, &usr2);
    printf("blocked %d %d pending %d ignored %d caught %d\n", sigismember(&set, SIGHUP), sigismember(&set, SIGINT),
           sigismember(&waiting, SIGHUP), usr1.sa_handler == SIG_IGN, usr2.sa_handler != SIG_DFL);
    mode_t mask = umask(0);
    struct rlimit files, stack;
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_STACK, &stack);
    printf("umask %o files %ld stack %ld death %d\n", mask, (long)files.rlim_cur, (long)stack.rlim_cur, ({
               int signal = -1;
               prctl(PR_GET_PDEATHSIG, &signal);
               signal;
           }));
    printf("descriptors");
    for (int fd = 0; fd < 60; fd++)
        if (fcntl(fd, F_GETFD) != -1) printf(" %d", fd);
    char text[32] = "", where[64] = "";
    getcwd(where, sizeof where);
    printf(" read %zd %s in %s\n", read(50, text, 4), text, where);
    struct itimerval timer;
    getitimer(ITIMER_REAL, &timer);
    printf("alarm %d parent %d\n", timer.it_value.tv_sec > 0, getppid() > 1);
}

// Where the old program's own memory is open, and the new one's lies at the same address.
static char marked[16] = "untouched";

static void own_memory(void) {
    errno = 0;
    char bytes[4] = "";
    ssize_t had = pread(60, bytes, 4, (off_t)(uintptr_t)marked), error = errno;
    printf("read %zd %d", had, had < 0 ? (int)error : 0);
    had = pwrite(60, "bad", 3, (off_t)(uintptr_t)marked), error = errno;
    printf(" written %zd %d, and is %s\n", had, had < 0 ? (int)error : 0, marked);
}

// In the program.
static int run(int argc, char **argv) {
    const char *what = argv[1];
    if (!strcmp(what, "show")) show();
    if (!strcmp(what, "left")) left(argc, argv);
    if (!strcmp(what, "back")) {
        uid_t saved = geteuid();
        SHOW(seteuid(getuid()));
        SHOW(geteuid() == getuid());
        SHOW(seteuid(saved));
        SHOW(setuid(getuid()));
        SHOW(seteuid(saved));
        show();
    }
    if (!strcmp(what, "memory")) own_memory();
    if (!strcmp(what, "wait")) {
        write(1, "w", 1);
        char byte;
        read(0, &byte, 1);
    }
    if (!strcmp(what, "long")) printf("%d arguments, the last of %zu\n", argc, strlen(argv[argc - 1]));
    fflush(stdout);
    return 7;
}

static void copy(const char *to, uid_t user, gid_t group, mode_t mode) {
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    static char buffer[65536];
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, n) != n) exit(98);
    close(in);
    fchown(out, user, group);
    fchmod(out, mode);
    close(out);
}

static void be(uid_t user) {
    gid_t more[] = {MORE};
    if (setgroups(1, more) || setresgid(user, user, user) || setresuid(user, user, user)) exit(97);
}

#define AS(user, what, ...)                           \
    IN_CHILD(what, be(user); __VA_ARGS__;             \
             execl(program, program, "show", NULL);   \
             printf("not executed: %d\n", errno))

static void *spin(void *unused) {
    for (;;) pause();
    return unused;
}

static void *from_thread(void *unused) {
    execl(program, program, "show", NULL);
    return unused;
}

static int shared_fd;

static void caught(int signal) { (void)signal; }

static void keeps(void) {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, caught);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGHUP);
    umask(027);
    struct rlimit limit = {.rlim_cur = 100, .rlim_max = 200};
    setrlimit(RLIMIT_NOFILE, &limit);
    limit = (struct rlimit){.rlim_cur = 64 << 20, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &limit);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    alarm(1000);
    int pipes[2];
    pipe(pipes);
    dup2(pipes[0], 50);
    dup3(pipes[0], 51, O_CLOEXEC);
    write(pipes[1], "text", 4);
    close(pipes[0]);
    close(pipes[1]);
    dup2(1, 40);
    chdir("/usr");
    static char text[20000];
    memset(text, 'x', sizeof text - 1);
    setenv("ONE", "1", 1);
    setenv("LONG", text, 1);
    execl(program, "name", "left", "a", "", "c d", NULL);
    printf("not executed: %d\n", errno);
}

static void many_arguments(void) {
    static char *arguments[2003];
    static char text[100001];
    memset(text, 'y', sizeof text - 1);
    arguments[0] = program;
    arguments[1] = "long";
    for (int i = 2; i < 2001; i++) arguments[i] = "an argument of some length, so that all of them are many bytes";
    arguments[2001] = text;
    execv(program, arguments);
    printf("not executed: %d\n", errno);
}

// What a user may do to a program that runs as somebody else, who has started it.
static void hostile(void) {
    be(USER);
    prctl(PR_SET_DUMPABLE, 1);
    int to[2], from[2];
    char byte, path[64];
    pipe(to);
    pipe(from);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        read(0, path, 1);
        execl(program, program, "wait", NULL);
        _exit(1);
    }
    // Opened before.
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDWR);
    printf("before: %d\n", memory >= 0);
    write(to[1], "", 1);
    read(from[0], &byte, 1);
    static const char *files[] = {"mem", "maps", "environ", "auxv", "fd", "exe", "cwd", "root", NULL};
    for (const char **file = files; *file; file++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, *file);
        char link[64];
        int fd = open(path, O_RDONLY | O_CLOEXEC), error = errno;
        int linked = readlink(path, link, sizeof link), link_error = errno;
        printf("%s: opened %d %d, link %d %d\n", *file, fd >= 0, fd < 0 ? error : 0, linked > 0, linked < 0 ? link_error : 0);
    }
    char bytes[8];
    ssize_t had = pread(memory, bytes, sizeof bytes, (off_t)(uintptr_t)&shared_fd);
    printf("memory that was opened before: %zd\n", had);
    SHOW(ptrace(PTRACE_ATTACH, pid, 0, 0));
    SHOW(ptrace(PTRACE_SEIZE, pid, 0, 0));
    SHOW(kill(pid, 0));
    SHOW(kill(pid, SIGSTOP));
    SHOW(kill(pid, SIGCONT));
    write(to[1], "", 1);
    int status;
    waitpid(pid, &status, 0);
    printf("status %#x\n", status);
}

// It is executed by a tracee, of `user` if that is not 0.
static void traced(uid_t user) {
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        if (user) be(user);
        execl(program, program, "show", NULL);
        _exit(1);
    }
    int status;
    for (int stops = 0; waitpid(pid, &status, 0) == pid && WIFSTOPPED(status); stops++) {
        printf("stopped by %d\n", WSTOPSIG(status));
        ptrace(PTRACE_CONT, pid, 0, 0);
    }
    printf("status %#x\n", status);
}

// While it is executed again and again, it is killed at any time.
static void storm(void) {
    be(USER);
    int null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 60; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            dup2(null, 1);
            execl(program, program, "show", NULL);
            _exit(1);
        }
        usleep(i * 200);
        kill(pid, SIGKILL);
        int status = 0;
        waitpid(pid, &status, 0);
        if (status != SIGKILL && status != 7 << 8) printf("status %#x\n", status);
    }
    printf("over\n");
}

int main(int argc, char **argv) {
    if (argc > 1) return run(argc, argv);
    umask(022);
    for (int fd = 3; fd < 100; fd++) close(fd);
    snprintf(program, sizeof program, "/tmp/set_id.%d", getpid());
    snprintf(other_program, sizeof other_program, "/tmp/set_id2.%d", getpid());
    snprintf(script, sizeof script, "/tmp/set_id3.%d", getpid());
    // A program of root's.
    copy(program, 0, GROUP, 04755);
    AS(USER, "root's");
    IN_CHILD("root's, by root", execl(program, program, "show", NULL));
    IN_CHILD("there and back", be(USER); execl(program, program, "back", NULL));
    IN_CHILD("traced by who may not", be(USER); traced(0));
    IN_CHILD("traced by who may", traced(USER));
    AS(USER, "without new privileges", SHOW(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)));
    IN_CHILD("what it keeps", be(USER); keeps());
    IN_CHILD("many arguments", be(USER); many_arguments());
    IN_CHILD("by a thread", be(USER); pthread_t thread; pthread_create(&thread, NULL, spin, NULL);
             pthread_create(&thread, NULL, from_thread, NULL); for (;;) pause());
    IN_CHILD("beside threads", be(USER); pthread_t thread; pthread_create(&thread, NULL, spin, NULL);
             pthread_create(&thread, NULL, spin, NULL); execl(program, program, "show", NULL));
    IN_CHILD("by vfork", be(USER); pid_t pid = vfork(); if (pid == 0) {
        execl(program, program, "show", NULL);
        _exit(1);
    } int status; waitpid(pid, &status, 0); printf("status %#x, still %d\n", status, geteuid()));
    IN_CHILD("with its old memory open", be(USER); prctl(PR_SET_DUMPABLE, 1);
             SHOW(dup2(open("/proc/self/mem", O_RDWR), 60)); execl(program, program, "memory", NULL));
    IN_CHILD("hostile", hostile());
    IN_CHILD("storm", storm());
    // Of a group.
    chown(program, 0, GROUP);
    SHOW(chmod(program, 02755));
    AS(USER, "a group's");
    // The bit of the group without the right to execute is no such bit.
    chmod(program, 02745);
    AS(OTHER, "no group's");
    // Of both.
    chown(program, OTHER, GROUP);
    chmod(program, 06755);
    AS(USER, "of another user and a group");
    AS(OTHER, "of the user, and a group");
    IN_CHILD("another user's, by root", execl(program, program, "show", NULL));
    IN_CHILD("another user's, there and back", be(USER); execl(program, program, "back", NULL));
    // A program that may not be read.
    chmod(program, 04711);
    AS(USER, "not to be read");
    chmod(program, 04700);
    AS(USER, "not to be executed");
    // The bits go.
    copy(other_program, USER, USER, 06755);
    struct stat now;
    IN_CHILD("bits", be(USER); int fd = open(other_program, O_WRONLY); SHOW(write(fd, "\177", 1)); fstat(fd, &now);
             printf("written: %o\n", now.st_mode); fchmod(fd, 06755); SHOW(ftruncate(fd, 1 << 20)); fstat(fd, &now);
             printf("truncated: %o\n", now.st_mode); fchmod(fd, 06755); SHOW(fchown(fd, USER, USER)); fstat(fd, &now);
             printf("given: %o\n", now.st_mode); fchmod(fd, 02745); SHOW(fchown(fd, USER, MORE)); fstat(fd, &now);
             printf("given: %o\n", now.st_mode); SHOW(fchmod(fd, 06755)); fstat(fd, &now);
             printf("of an own group: %o\n", now.st_mode); SHOW(fchown(fd, USER, GROUP)));
    chown(other_program, USER, GROUP);
    IN_CHILD("of another group", be(USER); SHOW(chmod(other_program, 06755)); stat(other_program, &now);
             printf("%o\n", now.st_mode));
    // Scripts run as who executes them.
    FILE *file = fopen(script, "w");
    fprintf(file, "#!%s show\n", other_program);
    fclose(file);
    copy(other_program, 0, 0, 0755);
    chmod(script, 06755);
    IN_CHILD("a script", be(USER); execl(script, script, NULL); printf("not executed: %d\n", errno));
    unlink(script);
    unlink(program);
    unlink(other_program);
    return 0;
}
