// Who may send which signals to whom, and what senders may say of them.
//
// build: gcc, musl
// expect-stdout: passed\n
#include "test.h"
#include <sys/prctl.h>

enum { USER = 1000, OTHER = 1001 };
#define ERROR(call) ((call) == -1 ? errno : 0)

static int failures;
static void check(const char *what, long got, long expected) {
    if (got != expected) printf("%s: %ld, not %ld\n", what, got, expected), failures++;
}

#define AS_CHILD(...)                                                         \
    do {                                                                      \
        pid_t pid_ = fork();                                                  \
        if (pid_ == 0) {                                                      \
            failures = 0;                                                     \
            __VA_ARGS__;                                                      \
            _exit(failures != 0);                                             \
        }                                                                     \
        int status_;                                                          \
        waitpid(pid_, &status_, 0);                                           \
        check("child", status_, 0);                                           \
    } while (0)

static pid_t sleeper(uid_t user, int session) {
    int ready[2];
    pipe(ready);
    pid_t pid = fork();
    if (pid == 0) {
        if (session) setsid();
        if (setresgid(user, user, user) || setresuid(user, user, user)) _exit(1);
        write(ready[1], "", 1);
        for (;;) pause();
    }
    char byte;
    read(ready[0], &byte, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static long queue(pid_t pid, int signal, int code) {
    siginfo_t info = {0};
    info.si_signo = signal;
    info.si_code = code;
    info.si_pid = getpid();
    info.si_value.sival_int = 7;
    return syscall(SYS_rt_sigqueueinfo, pid, signal, &info);
}

static long queue_thread(pid_t pid, pid_t tid, int signal, int code) {
    siginfo_t info = {0};
    info.si_signo = signal;
    info.si_code = code;
    info.si_pid = getpid();
    return syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info);
}

static void user(uid_t id) { setresgid(id, id, id), setresuid(id, id, id); }

static void across_users(pid_t theirs, pid_t mine, pid_t elsewhere) {
    user(USER);
    check("theirs", ERROR(kill(theirs, SIGTERM)), EPERM);
    check("theirs, 0", ERROR(kill(theirs, 0)), EPERM);
    check("mine, 0", ERROR(kill(mine, 0)), 0);
    check("root's", ERROR(kill(getppid(), SIGTERM)), EPERM);
    check("init", ERROR(kill(1, SIGTERM)), EPERM);
    check("init, 0", ERROR(kill(1, 0)), EPERM);
    check("continue, same session", ERROR(kill(theirs, SIGCONT)), 0);
    check("continue, another", ERROR(kill(elsewhere, SIGCONT)), EPERM);
    check("tkill theirs", ERROR(syscall(SYS_tkill, theirs, SIGTERM)), EPERM);
    check("tgkill theirs", ERROR(syscall(SYS_tgkill, theirs, theirs, SIGTERM)), EPERM);
    check("tkill mine", ERROR(syscall(SYS_tkill, mine, 0)), 0);
    check("queue theirs", ERROR(queue(theirs, SIGTERM, SI_QUEUE)), EPERM);
    check("queue mine", ERROR(queue(mine, SIGURG, SI_QUEUE)), 0);
    check("nobody", ERROR(kill(32001, 0)), ESRCH);
    check("bad signal", ERROR(kill(mine, 65)), EINVAL);
    check("bad signal, nobody", ERROR(kill(32001, 65)), ESRCH);
    check("nobody's group", ERROR(kill(-32001, 0)), ESRCH);
}

// What is told of a signal that one did not send to oneself.
static void claims(pid_t mine) {
    user(USER);
    check("as kill", ERROR(queue(mine, SIGURG, SI_USER)), EPERM);
    check("as the kernel", ERROR(queue(mine, SIGURG, SI_KERNEL)), EPERM);
    check("as a child", ERROR(queue(mine, SIGCHLD, CLD_EXITED)), EPERM);
    check("as tkill", ERROR(queue(mine, SIGURG, SI_TKILL)), EPERM);
    check("as a timer", ERROR(queue(mine, SIGURG, SI_TIMER)), 0);
    check("thread, as kill", ERROR(queue_thread(mine, mine, SIGURG, SI_USER)), EPERM);
    check("thread, as tkill", ERROR(queue_thread(mine, mine, SIGURG, SI_TKILL)), EPERM);
    check("thread, queued", ERROR(queue_thread(mine, mine, SIGURG, SI_QUEUE)), 0);
    check("thread of nobody", ERROR(queue_thread(mine, 32001, SIGURG, SI_QUEUE)), ESRCH);
    check("thread 0", ERROR(queue_thread(mine, 0, SIGURG, SI_QUEUE)), EINVAL);
    check("broadcast", ERROR(queue(-1, SIGURG, SI_QUEUE)), ESRCH);
    check("own group", ERROR(queue(0, SIGURG, SI_QUEUE)), ESRCH);
    check("a group", ERROR(queue(-getpgrp(), SIGURG, SI_QUEUE)), ESRCH);
    check("broadcast as kill", ERROR(queue(-1, SIGURG, SI_USER)), EPERM);
    check("bad signal", ERROR(queue(mine, 65, SI_QUEUE)), EINVAL);
    check("self, anything", ERROR(queue(getpid(), 0, SI_KERNEL)), 0);
    check("self, as kill", ERROR(queue(getpid(), 0, SI_USER)), 0);
}

static volatile sig_atomic_t got;
static siginfo_t told;
static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    got++;
    told = *info;
}

static void told_the_truth(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    kill(getpid(), SIGUSR1);
    check("kill", got == 1 && told.si_code == SI_USER && told.si_pid == getpid(), 1);
    syscall(SYS_tkill, getpid(), SIGUSR1);
    check("tkill", got == 2 && told.si_code == SI_TKILL && told.si_pid == getpid(), 1);
    queue(getpid(), SIGUSR1, SI_QUEUE);
    check("queue", got == 3 && told.si_code == SI_QUEUE && told.si_value.sival_int == 7, 1);
    queue(getpid(), SIGUSR1, SI_KERNEL);
    check("itself", got == 4 && told.si_code == SI_KERNEL, 1);
}

// A process that the administrator runs for a user belongs to the administrator.
static void acting(void) {
    int ready[2];
    pipe(ready);
    pid_t service = fork();
    if (service == 0) {
        setresuid(-1, USER, -1);
        write(ready[1], "", 1);
        for (;;) pause();
    }
    char byte;
    read(ready[0], &byte, 1);
    AS_CHILD(user(USER); check("acting for the user", ERROR(kill(service, 0)), EPERM));
    end(service);
}

// To all that it may: those that it may not are passed over.
static void to_all(void) {
    pid_t mine = sleeper(USER, 1), theirs = sleeper(OTHER, 1);
    AS_CHILD(user(USER); check("all", ERROR(kill(-1, SIGTERM)), 0));
    int status;
    waitpid(mine, &status, 0);
    check("mine ended", WTERMSIG(status), SIGTERM);
    check("theirs lives", waitpid(theirs, NULL, WNOHANG), 0);
    AS_CHILD(user(USER); check("all, and none allowed", ERROR(kill(-1, SIGTERM)), 0));
    check("theirs still lives", waitpid(theirs, NULL, WNOHANG), 0);
    end(theirs);
}

static void to_groups(void) {
    pid_t theirs = sleeper(OTHER, 1);
    AS_CHILD(user(USER); check("their group", ERROR(kill(-theirs, SIGTERM)), EPERM));
    // One that is allowed is enough.
    AS_CHILD(setsid(); pid_t other = sleeper(OTHER, 0); user(USER); signal(SIGURG, SIG_IGN);
             check("mixed group", ERROR(kill(0, SIGURG)), 0); (void)other);
    end(theirs);
}

int main(void) {
    pid_t theirs = sleeper(OTHER, 0), mine = sleeper(USER, 0), elsewhere = sleeper(OTHER, 1);
    AS_CHILD(across_users(theirs, mine, elsewhere));
    AS_CHILD(claims(mine));
    AS_CHILD(told_the_truth());
    acting();
    check("they live", waitpid(-1, NULL, WNOHANG), 0);
    end(theirs), end(mine), end(elsewhere);
    to_groups();
    to_all();
    if (!failures) printf("passed\n");
    return 0;
}
