// Real-time signals wait in queues: each that was sent comes, in order, with what was sent with it; how long queues may become; and
// what others see of them. Standard signals wait once.
// build: gcc, musl
// oracle: linux
// cores: 4
#define _GNU_SOURCE
#include "test.h"
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>

// The C libraries have the first real-time signals for themselves, and not the same.
#define FIRST 40
#define SECOND 41
#define THIRD 42
// A limit that Linux has room for everywhere.
#define MOST 4000

static const struct timespec none = {0, 0};

static int send(pid_t pid, int signal, int value) {
    return sigqueue(pid, signal, (union sigval){.sival_int = value});
}
// With the kernel's own words, as no library knows them.
static int send_code(pid_t pid, int signal, int code, long value) {
    siginfo_t info = {.si_code = code};
    info.si_value.sival_ptr = (void *)value;
    info.si_pid = getpid(), info.si_uid = getuid();
    return syscall(SYS_rt_sigqueueinfo, pid, signal, &info);
}
static int send_thread(pid_t tid, int signal, int code, int value) {
    siginfo_t info = {.si_code = code};
    info.si_value.sival_int = value;
    info.si_pid = getpid(), info.si_uid = getuid();
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signal, &info);
}
static int to_thread(int signal) { return syscall(SYS_tgkill, getpid(), gettid(), signal); }
static int take(const sigset_t *set, siginfo_t *info) {
    memset(info, 0, sizeof *info);
    return syscall(SYS_rt_sigtimedwait, set, info, &none, 8);
}
static void print_all(const char *what, const sigset_t *set) {
    siginfo_t info;
    printf("%s:", what);
    for (int signal; (signal = take(set, &info)) > 0;)
        printf(" %d/%d/%d%s", signal, info.si_code, info.si_code == SI_USER || info.si_code == SI_TKILL ? 0 : info.si_value.sival_int,
               info.si_code == SI_USER && !info.si_pid ? "(lost)" : "");
    printf(" end errno %d\n", errno);
}
static void forget(const sigset_t *set) {
    siginfo_t info;
    while (take(set, &info) > 0) {}
}
static int pending(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}
// The two numbers of `SigQ`.
static long queued(pid_t pid, long *most) {
    char path[64], line[256];
    long count = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "SigQ:", 5)) sscanf(line, "SigQ: %ld/%ld", &count, most);
    if (file) fclose(file);
    return count;
}
static void show_queued(const char *what) {
    long most = 0, count = queued(getpid(), &most);
    printf("%s: SigQ %ld/%ld\n", what, count, most);
}
static void limit(long most) {
    struct rlimit limit = {most, MOST};
    SHOW(setrlimit(RLIMIT_SIGPENDING, &limit));
}

static volatile int seen, wrong, last, order[64], ordered;
static void in_order(int signal, siginfo_t *info, void *context) {
    (void)context, (void)signal;
    if (info->si_value.sival_int != seen || info->si_code != SI_QUEUE || info->si_pid != getpid()) wrong++;
    seen++;
}
static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (ordered < 64) order[ordered++] = signal * 100 + info->si_value.sival_int;
}
static void catch(int signal, void (*handler)(int, siginfo_t *, void *), int all) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    if (all) sigfillset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}
static void print_order(const char *what) {
    printf("%s:", what);
    for (int i = 0; i < ordered; i++) printf(" %d", order[i]);
    printf("\n");
    ordered = 0;
}

// A thousand while it is blocked: each is there, and each once.
static void thousand(void) {
    sigset_t set = set_of(FIRST, SECOND, THIRD), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int sent = 0;
    for (int i = 0; i < 1000; i++) sent += send(getpid(), FIRST, i) == 0;
    printf("sent %d pending %d\n", sent, pending(FIRST));
    siginfo_t info;
    int right = 0;
    for (int i = 0; i < 1000; i++)
        right += take(&set, &info) == FIRST && info.si_value.sival_int == i && info.si_code == SI_QUEUE && info.si_pid == getpid()
            && info.si_uid == getuid();
    printf("right %d pending %d\n", right, pending(FIRST));
    SHOW(take(&set, &info));
    catch(FIRST, in_order, 0);
    for (int i = 0; i < 1000; i++) send(getpid(), FIRST, i);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("handled %d wrong %d\n", seen, wrong);
    // One that is not blocked is handled before the call returns.
    for (int i = 0; i < 100; i++) {
        send(getpid(), FIRST, seen);
        if (seen != 1001 + i) wrong++;
    }
    printf("handled %d wrong %d\n", seen, wrong);
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(FIRST, SIG_DFL);
}

static void orders(void) {
    sigset_t all = set_of(FIRST, SECOND, THIRD), more = all, old;
    sigaddset(&more, SIGUSR1), sigaddset(&more, SIGSEGV), sigaddset(&more, SIGRTMAX);
    sigprocmask(SIG_BLOCK, &more, &old);
    send(getpid(), THIRD, 1), send(getpid(), FIRST, 1), send(getpid(), SECOND, 1), send(getpid(), FIRST, 2), send(getpid(), THIRD, 2);
    send(getpid(), SIGUSR1, 7), send(getpid(), SIGUSR1, 8), send(getpid(), SIGUSR1, 9), send(getpid(), SIGSEGV, 3);
    send(getpid(), SIGRTMAX, 4), send(getpid(), SIGRTMAX, 5);
    print_all("lowest first, faults before", &more);
    // Those of the thread come first.
    send(getpid(), FIRST, 1), send(getpid(), FIRST, 2);
    send_thread(gettid(), THIRD, SI_QUEUE, 1), send_thread(gettid(), THIRD, SI_QUEUE, 2), send_thread(gettid(), FIRST, SI_QUEUE, 3);
    send_thread(gettid(), FIRST, SI_QUEUE, 4);
    kill(getpid(), FIRST), to_thread(FIRST);
    print_all("the thread's first", &more);
    for (int i = 1; i <= 3; i++) kill(getpid(), FIRST), to_thread(FIRST);
    print_all("kill and tgkill", &more);
    catch(FIRST, note, 1), catch(SECOND, note, 1), catch(THIRD, note, 1), catch(SIGUSR1, note, 1);
    for (int i = 0; i < 3; i++) send(getpid(), THIRD, i), send(getpid(), SECOND, i), send(getpid(), FIRST, i), send(getpid(), SIGUSR1, i);
    sigprocmask(SIG_SETMASK, &old, NULL);
    print_order("handlers that block all");
    sigprocmask(SIG_BLOCK, &more, &old);
    catch(FIRST, note, 0), catch(SECOND, note, 0), catch(THIRD, note, 0);
    for (int i = 0; i < 2; i++) send(getpid(), THIRD, i), send(getpid(), SECOND, i), send(getpid(), FIRST, i);
    sigprocmask(SIG_SETMASK, &old, NULL);
    print_order("handlers that block one");
    sigprocmask(SIG_BLOCK, &more, &old);
    // sigsuspend lets all through that its mask does.
    for (int i = 0; i < 3; i++) send(getpid(), FIRST, i), send(getpid(), SECOND, i);
    sigset_t but = more;
    sigdelset(&but, FIRST);
    SHOW(sigsuspend(&but));
    print_order("sigsuspend");
    print_all("left", &more);
    // A handler for one signal only.
    struct sigaction once = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(FIRST, &once, NULL);
    for (int i = 0; i < 4; i++) send(getpid(), FIRST, i);
    sigprocmask(SIG_SETMASK, &old, NULL);
    print_order("nested");
    for (int s = FIRST; s <= THIRD; s++) signal(s, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
}

static void codes(void) {
    sigset_t set = set_of(FIRST, SIGUSR1, 0), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int codes[] = {SI_QUEUE, SI_TIMER, SI_MESGQ, SI_ASYNCIO, SI_SIGIO, SI_TKILL, SI_USER, 1, SI_KERNEL, -60};
    for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
        int sent = send_code(getpid(), FIRST, codes[i], 10 + i);
        siginfo_t info;
        int signal = take(&set, &info);
        printf("code %d: %d, then %d code %d\n", codes[i], sent, signal, info.si_code);
    }
    SHOW(send_code(getppid(), FIRST, SI_USER, 0));
    SHOW(send_code(getppid(), FIRST, SI_TKILL, 0));
    SHOW(send_code(getppid(), FIRST, SI_KERNEL, 0));
    SHOW(send_code(getpid(), 65, SI_QUEUE, 0));
    SHOW(send_code(getpid(), -1, SI_QUEUE, 0));
    SHOW(send_code(getpid(), 0, SI_QUEUE, 0));
    SHOW(send_code(99999999, FIRST, SI_QUEUE, 0));
    SHOW(send_code(0, FIRST, SI_QUEUE, 0));
    SHOW(send_code(-1, FIRST, SI_QUEUE, 0));
    SHOW(syscall(SYS_rt_sigqueueinfo, getpid(), FIRST, 8));
    SHOW(send_thread(99999999, FIRST, SI_QUEUE, 0));
    SHOW(send_thread(0, FIRST, SI_QUEUE, 0));
    SHOW(send_thread(-1, FIRST, SI_QUEUE, 0));
    SHOW(send_thread(gettid(), 65, SI_QUEUE, 0));
    SHOW(send_thread(gettid(), 0, SI_QUEUE, 0));
    // Who sent it is what the sender says.
    siginfo_t forged = {.si_code = SI_QUEUE}, info;
    forged.si_pid = 7777, forged.si_uid = 8888, forged.si_value.sival_ptr = (void *)0x123456789abcdef;
    SHOW(syscall(SYS_rt_sigqueueinfo, getpid(), FIRST, &forged));
    SHOW(take(&set, &info));
    printf("by %d of %d: %p\n", info.si_pid, info.si_uid, info.si_value.sival_ptr);
    SHOW(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGUSR1, &forged));
    SHOW(take(&set, &info));
    printf("by %d of %d: %p\n", info.si_pid, info.si_uid, info.si_value.sival_ptr);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

// How many a user may have, of all kinds together.
static void limits(void) {
    sigset_t set = set_of(FIRST, SECOND, SIGUSR1), old;
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &old);
    show_queued("none");
    limit(10);
    int sent = 0;
    while (sent < 100 && send(getpid(), FIRST, sent) == 0) sent++;
    printf("sent %d, errno %d\n", sent, errno);
    show_queued("full");
    SHOW(send(getpid(), SECOND, 1));
    SHOW(send_thread(gettid(), SECOND, SI_QUEUE, 1));
    SHOW(to_thread(SECOND));
    SHOW(pending(SECOND));
    // Without what it says it is sent all the same.
    SHOW(kill(getpid(), SECOND));
    SHOW(kill(getpid(), SECOND));
    SHOW(kill(getpid(), FIRST));
    SHOW(send(getpid(), SIGUSR1, 5));
    SHOW(kill(getpid(), SIGUSR2));
    SHOW(pending(SECOND));
    show_queued("more than full");
    int timer, made[100];
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = FIRST};
    SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
    print_all("full", &set);
    show_queued("empty");
    // A thread's counts as one of the process's does, and so do standard ones.
    limit(3);
    SHOW(send_thread(gettid(), FIRST, SI_QUEUE, 1));
    SHOW(kill(getpid(), SIGUSR1));
    SHOW(kill(getpid(), SIGUSR1));
    show_queued("two");
    SHOW(send(getpid(), FIRST, 2));
    SHOW(send(getpid(), FIRST, 3));
    print_all("three", &set);
    limit(0);
    SHOW(send(getpid(), FIRST, 1));
    SHOW(send(getpid(), SIGUSR1, 1));
    SHOW(kill(getpid(), FIRST));
    SHOW(kill(getpid(), SIGUSR2));
    print_all("limit of none", &set);
    limit(10);
    // A child of the same user counts with it, and is denied by its own limit.
    fflush(stdout);
    int to[2], from[2];
    if (pipe(to) || pipe(from)) exit(1);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit few = {4, MOST};
        setrlimit(RLIMIT_SIGPENDING, &few);
        char byte = 'x';
        if (write(from[1], &byte, 1) != 1 || read(to[0], &byte, 1) != 1) _exit(1);
        _exit(0);
    }
    char byte;
    if (read(from[0], &byte, 1) != 1) exit(1);
    for (sent = 0; sent < 100 && send(child, FIRST, sent) == 0;) sent++;
    printf("to the child: %d, errno %d\n", sent, errno);
    for (sent = 0; sent < 100 && send(getpid(), FIRST, sent) == 0;) sent++;
    printf("to itself: %d, errno %d\n", sent, errno);
    show_queued("both");
    if (write(to[1], &byte, 1) != 1) exit(1);
    int status;
    waitpid(child, &status, 0);
    printf("the child: %x\n", status);
    show_queued("one has ended");
    print_all("left", &set);
    // Timers have their place from the beginning.
    for (sent = 0; sent < 100 && syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &made[sent]) == 0;) sent++;
    printf("timers %d, errno %d\n", sent, errno);
    show_queued("timers");
    SHOW(send(getpid(), FIRST, 1));
    SHOW(syscall(SYS_timer_delete, made[0]));
    SHOW(send(getpid(), FIRST, 2));
    for (int i = 1; i < sent; i++) syscall(SYS_timer_delete, made[i]);
    print_all("beside timers", &set);
    limit(MOST);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void dropped(void) {
    sigset_t set = set_of(FIRST, SECOND, 0), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    // Ignoring it takes all of them away, of the process and of the thread.
    for (int i = 0; i < 50; i++) send(getpid(), FIRST, i), send_thread(gettid(), FIRST, SI_QUEUE, i), send(getpid(), SECOND, i);
    show_queued("before");
    signal(FIRST, SIG_IGN);
    printf("pending %d %d\n", pending(FIRST), pending(SECOND));
    show_queued("ignored");
    // What is ignored and blocked waits nevertheless.
    for (int i = 0; i < 3; i++) send(getpid(), FIRST, i);
    print_all("ignored and blocked", &set);
    for (int i = 0; i < 3; i++) send(getpid(), FIRST, i);
    sigprocmask(SIG_SETMASK, &old, NULL);
    sigprocmask(SIG_BLOCK, &set, &old);
    print_all("after it was not blocked", &set);
    signal(FIRST, SIG_DFL);
    // A child begins without.
    for (int i = 0; i < 5; i++) send(getpid(), FIRST, i);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        print_all("child", &set);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    print_all("parent", &set);
    sigprocmask(SIG_SETMASK, &old, NULL);
    // By default it ends the process, however many wait.
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        for (int i = 0; i < 20; i++) send(getpid(), FIRST, i);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("by default: %d\n", WTERMSIG(status));
    show_queued("all gone");
}

static void *passes_on(void *program) {
    sigset_t set = set_of(FIRST, SECOND, 0);
    send_thread(gettid(), SECOND, SI_QUEUE, 1), send_thread(gettid(), SECOND, SI_QUEUE, 2);
    (void)set;
    execl(program, "realtime_signals", "again", (char *)0);
    perror(program);
    return 0;
}
// A new program goes on with what waits: for the process, and for the thread that executes it.
static void executed(const char *program, int by_thread) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        // Not everybody may execute the program.
        seteuid(0);
        sigset_t set = set_of(FIRST, SECOND, 0);
        sigprocmask(SIG_BLOCK, &set, NULL);
        for (int i = 0; i < 5; i++) send(getpid(), FIRST, i);
        if (by_thread) {
            send_thread(gettid(), SECOND, SI_QUEUE, 7), send_thread(gettid(), SECOND, SI_QUEUE, 8);
            pthread_t thread;
            pthread_create(&thread, NULL, passes_on, (void *)program);
            pthread_join(thread, NULL);
        }
        passes_on((void *)program);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    printf("executed: %x\n", status);
}

static void read_signals(void) {
    sigset_t set = set_of(FIRST, SECOND, 0), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    for (int i = 0; i < 5; i++) send(getpid(), SECOND, i), send(getpid(), FIRST, 10 + i);
    struct signalfd_siginfo all[4];
    for (ssize_t bytes; (bytes = read(fd, all, sizeof all)) > 0;) {
        printf("read %zd:", bytes / sizeof *all);
        for (unsigned i = 0; i < bytes / sizeof *all; i++)
            printf(" %u/%d/%d", all[i].ssi_signo, all[i].ssi_code, all[i].ssi_int);
        struct pollfd look = {fd, POLLIN, 0};
        printf(" more %d\n", poll(&look, 1, 0));
    }
    printf("errno %d\n", errno);
    // Edge-triggered: each that comes is told.
    int set_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, got;
    epoll_ctl(set_fd, EPOLL_CTL_ADD, fd, &event);
    for (int i = 0; i < 3; i++) {
        send(getpid(), FIRST, i);
        int first = epoll_wait(set_fd, &got, 1, 0);
        printf("told %d, then %d\n", first, epoll_wait(set_fd, &got, 1, 0));
    }
    close(set_fd), close(fd);
    forget(&set);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

// A timer has one place in the queue, whatever else waits, and counts what comes while it is there.
static void timers(void) {
    sigset_t set = set_of(FIRST, SIGUSR1, 0), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int timers[3];
    for (int i = 0; i < 3; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = i < 2 ? FIRST : SIGUSR1, .sigev_value.sival_int = 100 + i};
        SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timers[i]) == 0);
    }
    send(getpid(), FIRST, 1), send(getpid(), SIGUSR1, 2);
    struct itimerspec fast = {{0, 2000000}, {0, 2000000}}, off = {{0, 0}, {0, 0}}, once = {{0, 0}, {0, 2000000}};
    SHOW(syscall(SYS_timer_settime, timers[0], 0, &fast, NULL));
    usleep(100000);
    SHOW(syscall(SYS_timer_settime, timers[1], 0, &once, NULL));
    SHOW(syscall(SYS_timer_settime, timers[2], 0, &fast, NULL));
    usleep(50000);
    SHOW(syscall(SYS_timer_getoverrun, timers[0]));
    siginfo_t info;
    SHOW(take(&set, &info));
    printf("code %d value %d\n", info.si_code, info.si_value.sival_int);
    SHOW(take(&set, &info));
    int over = info.si_overrun;
    printf("code %d value %d overrun %d timer %d\n", info.si_code, info.si_value.sival_int, over > 5 && over < 1000, info.si_timerid == timers[2]);
    SHOW(syscall(SYS_timer_getoverrun, timers[2]) == over);
    syscall(SYS_timer_settime, timers[2], 0, &off, NULL);
    SHOW(take(&set, &info) == FIRST || take(&set, &info) == FIRST);
    printf("code %d value %d\n", info.si_code, info.si_value.sival_int);
    SHOW(take(&set, &info));
    over = info.si_overrun;
    printf("code %d value %d overrun %d\n", info.si_code, info.si_value.sival_int, over > 10 && over < 5000);
    SHOW(syscall(SYS_timer_getoverrun, timers[0]) == over);
    syscall(SYS_timer_settime, timers[0], 0, &off, NULL);
    SHOW(take(&set, &info));
    printf("code %d value %d overrun %d\n", info.si_code, info.si_value.sival_int, info.si_overrun);
    forget(&set);
    // What waits of one that was deleted, or set anew.
    send(getpid(), FIRST, 1);
    SHOW(syscall(SYS_timer_settime, timers[1], 0, &once, NULL));
    usleep(30000);
    SHOW(pending(FIRST));
    SHOW(syscall(SYS_timer_settime, timers[1], 0, &off, NULL));
    print_all("set anew", &set);
    SHOW(syscall(SYS_timer_settime, timers[1], 0, &once, NULL));
    usleep(30000);
    SHOW(syscall(SYS_timer_delete, timers[1]));
    print_all("deleted", &set);
    send(getpid(), FIRST, 1);
    SHOW(syscall(SYS_timer_settime, timers[0], 0, &once, NULL));
    usleep(30000);
    SHOW(syscall(SYS_timer_delete, timers[0]));
    print_all("deleted behind another", &set);
    SHOW(syscall(SYS_timer_delete, timers[2]));
    SHOW(syscall(SYS_timer_delete, timers[2]));
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void told_of_files(void) {
    sigset_t set = set_of(FIRST, SIGIO, 0), old;
    sigprocmask(SIG_BLOCK, &set, &old);
    int one[2], two[2];
    if (pipe(one) || pipe(two)) exit(1);
    int ends[] = {one[0], two[0]};
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETOWN, getpid()), fcntl(ends[i], F_SETSIG, FIRST);
        fcntl(ends[i], F_SETFL, O_ASYNC | O_NONBLOCK);
    }
    for (int i = 0; i < 3; i++)
        if (write(one[1], "x", 1) != 1 || write(two[1], "x", 1) != 1) exit(1);
    siginfo_t info;
    for (int signal; (signal = take(&set, &info)) > 0;)
        printf("file: %d code %d of the first %d\n", signal, info.si_code, info.si_fd == one[0]);
    // If there is no room, SIGIO says that something was lost.
    limit(1);
    if (write(one[1], "x", 1) != 1 || write(two[1], "x", 1) != 1) exit(1);
    while (take(&set, &info) > 0) printf("full: %d code %d\n", info.si_signo, info.si_code);
    limit(MOST);
    for (int i = 0; i < 2; i++) close(one[i]), close(two[i]);
    mq_unlink("/realtime_signals");
    mqd_t queue = mq_open("/realtime_signals", O_RDWR | O_CREAT, 0600, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = FIRST, .sigev_value.sival_int = 3};
    send(getpid(), FIRST, 1);
    SHOW(mq_notify(queue, &event));
    SHOW(mq_send(queue, "a", 1, 0));
    char text[9000];
    SHOW(mq_receive(queue, text, sizeof text, NULL));
    SHOW(mq_notify(queue, &event));
    SHOW(mq_send(queue, "a", 1, 0));
    print_all("messages", &set);
    mq_close(queue), mq_unlink("/realtime_signals");
    sigprocmask(SIG_SETMASK, &old, NULL);
}

enum { THREADS = 4, EACH = 500 };
static int counts[THREADS * EACH], taken;
static void *takes(void *arg) {
    sigset_t set = set_of(FIRST, SECOND, 0);
    siginfo_t info;
    (void)arg;
    // Linux answers EINTR if another one was faster.
    for (int signal; (signal = sigwaitinfo(&set, &info)) != SECOND;) {
        if (signal != FIRST) continue;
        __atomic_add_fetch(&counts[info.si_value.sival_int], 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
    }
    return 0;
}
static void *sends(void *arg) {
    long from = (long)arg;
    for (int i = 0; i < EACH; i++)
        while (send(getpid(), FIRST, from * EACH + i)) usleep(100);
    return 0;
}
static void *handles(void *arg) {
    sigset_t set = set_of(FIRST, 0, 0);
    (void)arg;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (__atomic_load_n(&taken, __ATOMIC_SEQ_CST) < THREADS * EACH) usleep(200);
    return 0;
}
static void counted(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    __atomic_add_fetch(&counts[info->si_value.sival_int], 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
}
static void check_counts(const char *what) {
    int once = 0;
    for (int i = 0; i < THREADS * EACH; i++) once += counts[i] == 1;
    printf("%s: taken %d, each once %d\n", what, taken, once == THREADS * EACH);
    memset(counts, 0, sizeof counts), taken = 0;
}
// Many senders and many takers: none is lost, none comes twice.
static void crowd(void) {
    sigset_t set = set_of(FIRST, SECOND, 0), old;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    pthread_t takers[THREADS], senders[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&takers[i], NULL, takes, NULL), pthread_create(&senders[i], NULL, sends, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(senders[i], NULL);
    while (__atomic_load_n(&taken, __ATOMIC_SEQ_CST) < THREADS * EACH) usleep(1000);
    for (int i = 0; i < THREADS; i++) send(getpid(), SECOND, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(takers[i], NULL);
    check_counts("sigwaitinfo");
    catch(FIRST, counted, 0);
    for (long i = 0; i < THREADS; i++) pthread_create(&takers[i], NULL, handles, NULL), pthread_create(&senders[i], NULL, sends, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(senders[i], NULL), pthread_join(takers[i], NULL);
    check_counts("handlers");
    signal(FIRST, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// Another user's queue is not for everybody; and what was in it goes with its process.
static void others(void) {
    int ready[2];
    if (pipe(ready)) exit(1);
    fflush(stdout);
    pid_t victim = fork();
    if (victim == 0) {
        sigset_t set = set_of(FIRST, 0, 0);
        sigprocmask(SIG_BLOCK, &set, NULL);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte;
    if (read(ready[0], &byte, 1) != 1) exit(1);
    pid_t hostile = fork();
    if (hostile == 0) {
        if (setresuid(34567, 34567, 34567)) _exit(1);
        SHOW(send(victim, FIRST, 1));
        SHOW(kill(victim, FIRST));
        show_queued("somebody else");
        fflush(stdout);
        _exit(0);
    }
    waitpid(hostile, NULL, 0);
    long most = 0;
    for (int i = 0; i < 300; i++) send(victim, FIRST, i);
    printf("the victim has %ld\n", queued(victim, &most));
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
    show_queued("killed");
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (argc > 1) {
        sigset_t set = set_of(FIRST, SECOND, 0);
        print_all("again", &set);
        return 0;
    }
    // As somebody of whom nothing else waits, who still may become somebody else.
    limit(MOST);
    if (setresuid(23456, 23456, 0)) return 1;
    thousand();
    orders();
    codes();
    limits();
    dropped();
    executed("/proc/self/exe", 0);
    executed("/proc/self/exe", 1);
    read_signals();
    timers();
    told_of_files();
    crowd();
    seteuid(0);
    if (setresuid(23456, 0, 0)) return 1;
    others();
    fflush(stdout);
    return 0;
}
