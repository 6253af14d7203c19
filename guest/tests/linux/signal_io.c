// Signals that tell of files (`O_ASYNC`, `F_SETOWN`, `F_SETSIG`): sockets, pipes, terminals; what comes with them, who is told and who may be, errors of each
// call, descriptors that several processes have.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef F_SETOWN_EX
#define F_SETOWN_EX 15
#define F_GETOWN_EX 16
struct f_owner_ex { int type; int pid; };
#endif
#ifndef F_SETSIG
#define F_SETSIG 10
#define F_GETSIG 11
#endif
#ifndef FIOSETOWN
#define FIOSETOWN 0x8901
#define FIOGETOWN 0x8903
#define SIOCSPGRP 0x8902
#define SIOCGPGRP 0x8904
#endif
#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}
static int RT; // the signal that tells more
static sigset_t all;

// What has been told since the last time: a signal of each kind at most, since how many wait is another matter.
static void told(const char *what) {
    printf("  %s:", what);
    struct timespec moment = { 0, 20000000 }, none = { 0, 0 };
    siginfo_t info, last[2];
    int seen[2] = { 0, 0 }, signal;
    while ((signal = sigtimedwait(&all, &info, seen[0] || seen[1] ? &none : &moment)) > 0) {
        int which = signal != SIGIO;
        seen[which] = 1;
        last[which] = info;
    }
    if (seen[0]) printf(" SIGIO %#x", last[0].si_code);
    if (seen[1]) printf(" RT code %d band %#lx fd %d", last[1].si_code, (long)last[1].si_band, last[1].si_fd);
    puts(seen[0] || seen[1] ? "" : " nothing");
}
// Forgets what has been told.
static void forget(void) {
    struct timespec moment = { 0, 20000000 };
    while (sigtimedwait(&all, 0, &moment) > 0) {}
}
static void turn_on(int fd) { SHOW(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC)); }
static void own(int fd, int signal) {
    SHOW(fcntl(fd, F_SETOWN, getpid()));
    fcntl(fd, F_SETSIG, signal);
    turn_on(fd);
}
// Descriptors with numbers of their own, which what comes with a signal names.
static int as(int fd, int number) {
    int got = dup2(fd, number);
    close(fd);
    return got;
}

static void calls(void) {
    puts("-- calls");
    int fds[2], file = open("/dev/null", O_RDWR), count = eventfd(0, 0);
    struct f_owner_ex owner = { 7, 7 };
    pipe(fds);
    SHOW(fcntl(fds[0], F_GETOWN));
    SHOW(fcntl(fds[0], F_GETSIG));
    SHOW(fcntl(fds[0], F_GETOWN_EX, &owner));
    printf("%d %d\n", owner.type, owner.pid);
    SHOW(fcntl(fds[0], F_SETOWN, 999999));
    SHOW(fcntl(fds[0], F_SETOWN, -999999));
    SHOW(fcntl(fds[0], F_SETOWN, 0x80000000));
    SHOW(fcntl(fds[0], F_SETOWN, getpid()) == 0 && fcntl(fds[0], F_GETOWN) == getpid());
    SHOW(fcntl(fds[0], F_GETOWN_EX, &owner));
    printf("%d %d\n", owner.type, owner.pid == getpid());
    SHOW(fcntl(fds[0], F_SETOWN, -getpgrp()));
    // The library may take a small one for an error.
    SHOW(syscall(SYS_fcntl, fds[0], F_GETOWN_EX, &owner));
    printf("%d %d\n", owner.type, owner.pid == getpgrp());
    owner.type = 0, owner.pid = syscall(SYS_gettid);
    SHOW(fcntl(fds[0], F_SETOWN_EX, &owner));
    SHOW(fcntl(fds[0], F_GETOWN) == getpid());
    owner.type = 3;
    SHOW(fcntl(fds[0], F_SETOWN_EX, &owner));
    owner.type = -1;
    SHOW(fcntl(fds[0], F_SETOWN_EX, &owner));
    owner.type = 1, owner.pid = 999999;
    SHOW(fcntl(fds[0], F_SETOWN_EX, &owner));
    owner.pid = -1;
    SHOW(fcntl(fds[0], F_SETOWN_EX, &owner));
    SHOW(fcntl(fds[0], F_SETOWN_EX, (void *)8));
    SHOW(fcntl(fds[0], F_GETOWN_EX, (void *)8));
    SHOW(fcntl(fds[0], F_SETOWN, 0));
    SHOW(fcntl(fds[0], F_GETOWN));
    SHOW(fcntl(fds[0], F_SETSIG, 65));
    SHOW(fcntl(fds[0], F_SETSIG, -1));
    SHOW(fcntl(fds[0], F_SETSIG, 64));
    SHOW(fcntl(fds[0], F_GETSIG));
    SHOW(fcntl(fds[1], F_GETSIG));
    SHOW(fcntl(fds[0], F_SETSIG, 0));
    SHOW(fcntl(fds[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    SHOW(fcntl(fds[0], F_GETFL) & (O_ACCMODE | O_ASYNC | O_NONBLOCK));
    SHOW(fcntl(fds[1], F_GETFL) & (O_ACCMODE | O_ASYNC | O_NONBLOCK));
    SHOW(fcntl(fds[0], F_SETFL, 0));
    SHOW(fcntl(fds[0], F_GETFL) & (O_ACCMODE | O_ASYNC | O_NONBLOCK));
    int on = 1, off = 0, pid = getpid();
    SHOW(ioctl(fds[0], FIOASYNC, &on));
    SHOW(fcntl(fds[0], F_GETFL) & (O_ACCMODE | O_ASYNC | O_NONBLOCK));
    SHOW(ioctl(fds[0], FIOASYNC, &off));
    SHOW(fcntl(fds[0], F_GETFL) & (O_ACCMODE | O_ASYNC | O_NONBLOCK));
    SHOW(ioctl(file, FIOASYNC, &off));
    SHOW(ioctl(file, FIOASYNC, &on));
    SHOW(ioctl(fds[0], FIOASYNC, (void *)8));
    SHOW(ioctl(fds[0], FIOSETOWN, &pid));
    int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(ioctl(socket_fd, FIOSETOWN, &pid));
    SHOW(fcntl(socket_fd, F_GETOWN) == getpid());
    pid = 0;
    SHOW(ioctl(socket_fd, FIOGETOWN, &pid));
    SHOW(pid == getpid());
    pid = -getpgrp();
    SHOW(ioctl(socket_fd, SIOCSPGRP, &pid));
    pid = 0;
    SHOW(ioctl(socket_fd, SIOCGPGRP, &pid));
    SHOW(pid == -getpgrp());
    pid = 999999;
    SHOW(ioctl(socket_fd, SIOCSPGRP, &pid));
    SHOW(ioctl(socket_fd, SIOCSPGRP, (void *)8));
    SHOW(fcntl(99, F_SETOWN, 1));
    int place = open("/", O_PATH);
    SHOW(fcntl(place, F_SETOWN, getpid()));
    SHOW(fcntl(place, F_GETSIG));
    close(place);
    close(socket_fd);
    close(file);
    close(count);
    close(fds[0]);
    close(fds[1]);
}

static void pipes(int signal) {
    printf("-- pipes, %s\n", signal ? "all told" : "SIGIO");
    int fds[2];
    char bytes[70000] = "";
    pipe(fds);
    int in = as(fds[0], 70), out = as(fds[1], 71);
    fcntl(in, F_SETFL, O_NONBLOCK);
    fcntl(out, F_SETFL, O_NONBLOCK);
    write(out, "x", 1);
    told("not on");
    own(in, signal);
    told("was there");
    write(out, "y", 1);
    told("written");
    write(out, "z", 1);
    told("written again");
    read(in, bytes, 1);
    told("read");
    own(out, signal);
    read(in, bytes, 1);
    told("read, and the other end is on");
    while (write(out, bytes, sizeof bytes) > 0) {}
    told("full");
    read(in, bytes, sizeof bytes);
    told("emptied");
    SHOW(fcntl(in, F_SETFL, O_NONBLOCK));
    write(out, "y", 1);
    told("off");
    turn_on(in);
    close(out);
    told("no writer");
    close(in);
    told("closed");
    pipe(fds);
    in = as(fds[0], 70), out = as(fds[1], 71);
    own(out, signal);
    close(in);
    told("no reader");
    close(out);
}

static void sockets_of(int family, int signal) {
    printf("-- streams, %s, %s\n", family == AF_UNIX ? "local" : "internet", signal ? "all told" : "SIGIO");
    int one, two;
    char bytes[4096] = "";
    if (family == AF_UNIX) {
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        one = as(pair[0], 72), two = as(pair[1], 73);
        own(one, signal);
    } else {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof address;
        int door = as(socket(AF_INET, SOCK_STREAM, 0), 74);
        own(door, signal);
        told("fresh");
        bind(door, (void *)&address, len);
        listen(door, 5);
        getsockname(door, (void *)&address, &len);
        one = as(socket(AF_INET, SOCK_STREAM, 0), 72);
        SHOW(connect(one, (void *)&address, len));
        told("somebody came");
        two = as(accept(door, 0, 0), 73);
        printf("what was accepted: %#x, %d\n", fcntl(two, F_GETFL) & O_ASYNC, fcntl(two, F_GETOWN));
        told("accepted");
        close(door);
        own(one, signal);
        int other = socket(AF_INET, SOCK_STREAM, 0);
        (void)other;
        close(other);
    }
    told("on");
    write(two, "x", 1);
    told("written");
    write(two, "y", 1);
    told("written again");
    read(one, bytes, 9);
    told("read");
    write(one, "z", 1);
    told("sent from there");
    shutdown(two, SHUT_WR);
    told("the other end is mute");
    write(one, "z", 1);
    close(two);
    told("the other end is gone");
    close(one);
}

static void datagrams(int signal) {
    printf("-- datagrams, %s\n", signal ? "all told" : "SIGIO");
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int fd = as(socket(AF_INET, SOCK_DGRAM, 0), 75), other = socket(AF_INET, SOCK_DGRAM, 0);
    bind(fd, (void *)&address, len);
    getsockname(fd, (void *)&address, &len);
    own(fd, signal);
    told("on");
    sendto(other, "x", 1, 0, (void *)&address, len);
    told("came");
    char bytes[8];
    SHOW(recv(fd, bytes, 8, 0));
    told("read");
    struct sockaddr_in nobody = address;
    int gone = socket(AF_INET, SOCK_DGRAM, 0);
    nobody.sin_port = 0;
    bind(gone, (void *)&nobody, len);
    getsockname(gone, (void *)&nobody, &len);
    close(gone);
    SHOW(connect(fd, (void *)&nobody, len));
    told("connected");
    SHOW(send(fd, "x", 1, 0));
    told("nobody is there");
    close(fd);
    close(other);
}

static void urgent(void) {
    puts("-- urgent, all told");
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int door = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
    bind(door, (void *)&address, len);
    listen(door, 5);
    getsockname(door, (void *)&address, &len);
    connect(one, (void *)&address, len);
    int two = as(accept(door, 0, 0), 76);
    sigset_t urg;
    sigemptyset(&urg);
    sigaddset(&urg, SIGURG);
    struct timespec moment = { 0, 20000000 };
    siginfo_t info;
    SHOW(fcntl(two, F_SETOWN, getpid()));
    SHOW(fcntl(two, F_SETSIG, RT));
    send(one, "x", 1, MSG_OOB);
    SHOW(sigtimedwait(&urg, &info, &moment) == SIGURG);
    printf("code %#x\n", info.si_code);
    told("not on");
    turn_on(two);
    send(one, "y", 1, MSG_OOB);
    SHOW(sigtimedwait(&urg, &info, &moment) == SIGURG);
    SHOW(sigtimedwait(&all, &info, &moment) == RT);
    printf("fd %d\n", info.si_fd);
    close(one);
    close(two);
    close(door);
    forget();
}

static void others(void) {
    puts("-- others");
    int notices = as(inotify_init1(O_NONBLOCK), 77);
    inotify_add_watch(notices, "/tmp", IN_CREATE);
    own(notices, RT);
    char name[] = "/tmp/signal_io.XXXXXX";
    int file = mkstemp(name);
    told("a file was made");
    close(notices);
    own(file, RT);
    SHOW(fcntl(file, F_GETFL) & O_ASYNC);
    write(file, "x", 1);
    told("a file was written");
    close(file);
    unlink(name);
    // The same, read from a descriptor; and by a signal that has other codes.
    int fds[2], signals[] = { RT, SIGIO, SIGCHLD };
    for (int n = 0; n < 3; n++) {
        pipe(fds);
        int in = as(fds[0], 80);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signals[n]);
        sigprocmask(SIG_BLOCK, &one, 0);
        int reader = signalfd(-1, &one, SFD_NONBLOCK);
        own(in, signals[n]);
        write(fds[1], "x", 1);
        usleep(20000);
        struct signalfd_siginfo info;
        memset(&info, 0xee, sizeof info);
        SHOW(read(reader, &info, sizeof info));
        printf("%d: code %d fd %d band %#x pid %u uid %u int %d\n", info.ssi_signo == (unsigned)signals[n], info.ssi_code, info.ssi_fd,
               info.ssi_band, info.ssi_pid, info.ssi_uid, info.ssi_int);
        close(reader);
        close(in);
        close(fds[1]);
    }
    int master = as(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), 78);
    grantpt(master);
    unlockpt(master);
    int slave = as(open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK), 79);
    fcntl(slave, F_SETSIG, RT);
    turn_on(slave);
    SHOW(fcntl(slave, F_GETOWN) == getpid());
    write(master, "line\n", 5);
    told("typed");
    char bytes[64];
    SHOW(read(slave, bytes, 64));
    own(master, RT);
    told("on");
    write(slave, "x", 1);
    told("printed");
    close(slave);
    close(master);
    forget();
    // A signal that ends the process, told by itself, as any other.
    pid_t child = fork();
    if (!child) {
        int fds[2];
        pipe(fds);
        sigprocmask(SIG_UNBLOCK, &all, 0);
        fcntl(fds[0], F_SETOWN, getpid());
        fcntl(fds[0], F_SETFL, O_ASYNC);
        write(fds[1], "x", 1);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void *sleeper(void *word) {
    *(volatile int *)word = syscall(SYS_gettid);
    struct timespec second = { 1, 0 };
    siginfo_t info;
    int got = sigtimedwait(&all, &info, &second);
    printf("the thread: %s\n", got == RT ? "told" : "not told");
    return 0;
}

static void who(void) {
    puts("-- who is told");
    int fds[2], status;
    pipe(fds);
    int in = as(fds[0], 70), out = as(fds[1], 71);
    own(in, RT);
    // The description is what is meant, whoever has it.
    if (!fork()) {
        write(out, "x", 1);
        _exit(fcntl(in, F_GETOWN) == getppid());
    }
    wait(&status);
    printf("the child sees: %d\n", WEXITSTATUS(status));
    told("written by a child");
    int again = dup(in);
    close(in);
    write(out, "x", 1);
    told("by another number");
    SHOW(fcntl(again, F_GETFL) & O_ASYNC);
    dup2(again, 70);
    close(again);
    // A thread.
    pthread_t thread;
    volatile int tid = 0;
    pthread_create(&thread, 0, sleeper, (void *)&tid);
    while (!tid) usleep(1000);
    usleep(20000);
    struct f_owner_ex owner = { 0, tid };
    SHOW(fcntl(in, F_SETOWN_EX, &owner));
    write(out, "x", 1);
    pthread_join(thread, 0);
    told("the others");
    write(out, "x", 1);
    told("the thread is gone");
    // A group.
    int ready[2];
    pipe(ready);
    pid_t group = fork();
    if (!group) {
        setpgid(0, 0);
        write(ready[1], "x", 1);
        struct timespec second = { 2, 0 };
        siginfo_t info;
        _exit(sigtimedwait(&all, &info, &second) == RT ? info.si_fd : 1);
    }
    char byte;
    read(ready[0], &byte, 1);
    usleep(20000);
    SHOW(fcntl(in, F_SETOWN, -group));
    write(out, "x", 1);
    waitpid(group, &status, 0);
    printf("the group: %d\n", WEXITSTATUS(status));
    told("who is not in it");
    SHOW(fcntl(in, F_GETOWN));
    close(in);
    close(out);
    if (getuid()) return;
    // Another user is told nothing by somebody without rights, and root may tell anybody.
    for (int root = 0; root < 2; root++) {
        pipe(fds);
        pid_t victim = fork();
        if (!victim) {
            setresuid(2000, 2000, 2000);
            write(ready[1], "x", 1);
            struct timespec half = { 0, 500000000 };
            siginfo_t info;
            _exit(sigtimedwait(&all, &info, &half) > 0);
        }
        read(ready[0], &byte, 1);
        usleep(20000);
        if (!fork()) {
            if (!root) setresuid(3000, 3000, 3000);
            fcntl(fds[0], F_SETSIG, RT);
            int set = fcntl(fds[0], F_SETOWN, victim);
            fcntl(fds[0], F_SETFL, O_ASYNC);
            write(fds[1], "x", 1);
            _exit(set == 0);
        }
        wait(&status);
        int setter = WEXITSTATUS(status);
        wait(&status);
        printf("%s says so: %d, %s\n", root ? "root" : "somebody", setter, WEXITSTATUS(status) ? "told" : "not told");
        // Who said so counts, not who writes.
        close(fds[0]);
        close(fds[1]);
    }
    close(ready[0]);
    close(ready[1]);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    RT = SIGRTMIN + 3;
    sigemptyset(&all);
    sigaddset(&all, SIGIO);
    sigaddset(&all, RT);
    sigset_t blocked = all;
    sigaddset(&blocked, SIGURG);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    calls();
    for (int n = 0; n < 2; n++) {
        int signal = n ? RT : 0;
        pipes(signal);
        sockets_of(AF_UNIX, signal);
        sockets_of(AF_INET, signal);
        datagrams(signal);
    }
    urgent();
    others();
    who();
    return 0;
}
