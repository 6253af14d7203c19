// Leases (`F_SETLEASE`, `F_GETLEASE`): who may have which, what breaks them, what the holder is told, who waits until when, and what
// /proc/locks says.
// oracle: linux
// build: gcc, musl
#include "must.h"
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifndef F_SETSIG
#define F_SETSIG 10
#define F_GETSIG 11
#endif
enum { USER = 1000, CAP_LEASE_NUMBER = 28, HOLDER = 60, OTHER = 61 };

static int RT;
static sigset_t told_by;

static const char *kind(int lease) {
    static const char *const names[] = {"read", "write", "none"};
    return lease >= 0 && lease < 3 ? names[lease] : "error";
}

static int lease(int fd, long wanted) { return fcntl(fd, F_SETLEASE, wanted); }
static const char *got(int fd) { return kind(fcntl(fd, F_GETLEASE)); }

// A descriptor with a number of its own, which what comes with a signal names.
static int as(int fd, int number) {
    MUST(fd >= 0 && dup2(fd, number) == number);
    close(fd);
    return number;
}

// The next signal that has been told, or none within `limit` ms.
static void told(long limit) {
    struct timespec time = {limit / 1000, limit % 1000 * 1000000};
    siginfo_t info;
    int signal = sigtimedwait(&told_by, &info, &time);
    if (signal < 0) puts("  told: nothing");
    else if (signal == SIGIO && info.si_code != POLL_MSG) printf("  told: SIGIO code %#x\n", info.si_code);
    else printf("  told: %s code %d band %#lx fd %d\n", signal == SIGIO ? "SIGIO" : "RT", info.si_code, (long)info.si_band, info.si_fd);
}

// Gives up all capabilities but this one.
static void keep_only(int capability) {
    struct { uint32_t version; int pid; } head = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } sets[2] = {{0}};
    if (capability >= 0) sets[capability / 32].effective = sets[capability / 32].permitted = 1u << capability % 32;
    MUST(syscall(SYS_capset, &head, sets) == 0);
}

// A child that opens a file, or truncates it if `flags` is -1, and exits with the error.
static pid_t opens(const char *path, int flags) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid) return pid;
    // It has nothing open that its parent has.
    for (int fd = 3; fd < 100; fd++) close(fd);
    int result = flags == -1 ? truncate(path, 4) : open(path, flags, 0644);
    _exit(result < 0 ? errno : 0);
}

// How such a child has ended; it must not have ended before if it `waits`.
static int ended(pid_t pid) {
    int status = -1;
    MUST(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
static int waits(pid_t pid) {
    usleep(100000);
    return waitpid(pid, NULL, WNOHANG) == 0;
}

static void refusals(void) {
    puts("-- refusals");
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0666), read_only = open("file", O_RDONLY), ends[2], pair[2];
    fchmod(fd, 0666);
    MUST(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    SHOW(lease(-1, F_RDLCK));
    SHOW(lease(99, F_RDLCK));
    SHOW(lease(fd, 3));
    SHOW(lease(fd, -1));
    SHOW(lease(fd, 0x100000000l + F_WRLCK) == -1);
    SHOW(lease(fd, F_UNLCK));
    SHOW(fcntl(fd, F_GETLEASE));
    SHOW(fcntl(99, F_GETLEASE));
    mkdir("folder", 0755);
    mkfifo("fifo", 0644);
    const struct { const char *what; int fd; } others[] = {
        {"a directory", open("folder", O_RDONLY)}, {"a fifo", open("fifo", O_RDONLY | O_NONBLOCK)}, {"a pipe", ends[0]},
        {"a socket", pair[0]},                     {"a device", open("/dev/null", O_RDONLY)},      {"a path", open("file", O_PATH)},
    };
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        puts(others[i].what);
        SHOW(lease(others[i].fd, F_RDLCK));
        SHOW(lease(others[i].fd, F_UNLCK));
        SHOW(lease(others[i].fd, 7));
        SHOW(fcntl(others[i].fd, F_GETLEASE));
        close(others[i].fd);
    }
    close(ends[1]), close(pair[1]);
    close(fd);
    // Whose file it is, and who may nevertheless.
    IN_CHILD("another user", MUST(setuid(USER) == 0); SHOW(lease(read_only, F_RDLCK)); SHOW(lease(read_only, F_UNLCK));
             SHOW(lease(read_only, 7)));
    IN_CHILD("another user with the capability", MUST(prctl(PR_SET_KEEPCAPS, 1) == 0 && setuid(USER) == 0);
             SHOW(lease(read_only, F_RDLCK)); keep_only(CAP_LEASE_NUMBER); SHOW(lease(read_only, F_RDLCK)); SHOW(lease(read_only, F_UNLCK)));
    IN_CHILD("root without", keep_only(-1); SHOW(lease(read_only, F_RDLCK)); SHOW(lease(read_only, F_UNLCK)));
    chown("file", USER, USER);
    IN_CHILD("root without, not his", keep_only(-1); SHOW(lease(read_only, F_RDLCK)));
    IN_CHILD("the owner", MUST(setuid(USER) == 0); SHOW(lease(read_only, F_RDLCK)); SHOW(lease(read_only, F_UNLCK)));
    IN_CHILD("only by the real id", MUST(setresuid(USER, 0, 0) == 0); keep_only(-1); SHOW(lease(read_only, F_RDLCK)));
    chown("file", 0, 0);
    close(read_only);
}

// What others have open.
static void conflicts(void) {
    puts("-- what is open");
    int fd = open("file", O_RDWR), other;
    puts("read and written");
    SHOW(lease(fd, F_RDLCK));
    SHOW(lease(fd, F_WRLCK));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_RDLCK));
    SHOW(lease(fd, F_UNLCK));
    SHOW(lease(fd, F_UNLCK));
    printf("%s\n", got(fd));
    puts("a second writer");
    other = open("file", O_WRONLY);
    SHOW(lease(fd, F_WRLCK));
    SHOW(lease(other, F_RDLCK));
    close(other);
    puts("a reader");
    other = open("file", O_RDONLY);
    SHOW(lease(fd, F_WRLCK));
    SHOW(lease(other, F_RDLCK));
    close(fd);
    SHOW(lease(other, F_RDLCK));
    printf("%s\n", got(other));
    SHOW(lease(other, F_WRLCK));
    printf("%s\n", got(other));
    SHOW(lease(other, F_RDLCK));
    puts("a second reader");
    fd = open("file", O_RDONLY);
    printf("%s %s\n", got(fd), got(other));
    SHOW(lease(fd, F_UNLCK));
    SHOW(lease(fd, F_RDLCK));
    SHOW(lease(other, F_WRLCK));
    SHOW(lease(other, F_UNLCK));
    printf("%s %s\n", got(fd), got(other));
    SHOW(lease(fd, F_WRLCK));
    close(other);
    SHOW(lease(fd, F_WRLCK));
    puts("the same description");
    other = dup(fd);
    printf("%s %s\n", got(fd), got(other));
    SHOW(lease(other, F_RDLCK));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_WRLCK));
    IN_CHILD("a child", printf("%s\n", got(fd)); SHOW(lease(fd, F_RDLCK)));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_WRLCK));
    IN_CHILD("a child that closes it", close(fd); close(other));
    printf("%s\n", got(fd));
    close(fd);
    printf("%s\n", got(other));
    close(other);
    fd = open("file", O_RDONLY);
    printf("%s\n", got(fd));
    puts("only a path");
    other = open("file", O_PATH);
    SHOW(lease(fd, F_WRLCK));
    SHOW(lease(fd, F_UNLCK));
    close(other);
    puts("mapped and closed");
    write(other = open("file", O_RDWR), "text", 4);
    char *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, other, 0);
    close(other);
    MUST(at != MAP_FAILED && *at == 't');
    SHOW(lease(fd, F_WRLCK));
    munmap(at, PAGE);
    SHOW(lease(fd, F_WRLCK));
    SHOW(lease(fd, F_UNLCK));
    puts("unlinked");
    other = open("gone", O_RDWR | O_CREAT, 0644);
    unlink("gone");
    SHOW(lease(other, F_WRLCK));
    close(other);
    other = open(".", O_TMPFILE | O_RDWR, 0600);
    if (other >= 0) lease(other, F_WRLCK);
    printf("%s\n", got(other));
    close(other);
    puts("under way");
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    other = open("file", O_RDONLY);
    SHOW(lease(other, F_RDLCK));
    char room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = "", byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &other, sizeof other);
    MUST(sendmsg(pair[0], &message, 0) == 1);
    close(other);
    SHOW(lease(fd, F_WRLCK));
    SHOW(lease(fd, F_RDLCK));
    close(pair[0]), close(pair[1]);
    SHOW(lease(fd, F_WRLCK));
    close(fd);
}

// Each way to have a lease against each way to come to the file.
static void breaks(void) {
    static const struct { const char *name; int flags; } ways[] = {
        {"O_RDONLY", O_RDONLY}, {"O_WRONLY", O_WRONLY}, {"O_RDWR", O_RDWR}, {"O_RDONLY | O_TRUNC", O_RDONLY | O_TRUNC},
        {"O_WRONLY | O_TRUNC", O_WRONLY | O_TRUNC}, {"O_RDONLY | O_CREAT", O_RDONLY | O_CREAT}, {"O_PATH", O_PATH}, {"truncate", -1},
    };
    for (int held = F_RDLCK; held <= F_WRLCK; held++)
        for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++)
            for (int answer = 0; answer < 3; answer++) {
                int fd = as(open("file", O_RDONLY), HOLDER), flags = ways[way].flags;
                static const char *const answers[] = {"closed", "given up", "made a read lease"};
                MUST(lease(fd, held) == 0);
                if (answer == 0) printf("-- %s and %s\n", kind(held), ways[way].name);
                if (answer == 0 && flags >= 0) {
                    // Who does not wait.
                    printf("  O_NONBLOCK: %d\n", ended(opens("file", flags | O_NONBLOCK)));
                    told(50);
                    printf("  %s\n", got(fd));
                    printf("  again: %d\n", ended(opens("file", flags | O_NONBLOCK)));
                    told(50);
                    close(fd);
                    MUST(lease(fd = as(open("file", O_RDONLY), HOLDER), held) == 0);
                }
                pid_t pid = opens("file", flags);
                int is_waiting = waits(pid);
                if (answer == 0) {
                    printf("  waits: %d\n", is_waiting);
                    told(50);
                    printf("  %s\n", got(fd));
                }
                if (is_waiting) {
                    int done = answer == 0 ? close(fd) : lease(fd, answer == 1 ? F_UNLCK : F_RDLCK);
                    printf("  %s: %d, errno %d, ", answers[answer], done, done ? errno : 0);
                    if (done || (answer == 2 && held == F_RDLCK)) {
                        printf("waits: %d, ", waits(pid));
                        close(fd);
                    }
                    printf("opened: %d, %s\n", ended(pid), got(fd));
                }
                while (sigtimedwait(&told_by, NULL, &(struct timespec){0, 0}) > 0) continue;
                close(fd);
            }
}

// What breaks none.
static void unbroken(void) {
    puts("-- what breaks none");
    int fd = as(open("file", O_RDWR), HOLDER);
    SHOW(lease(fd, F_WRLCK));
    struct stat it;
    SHOW(stat("file", &it));
    SHOW(chmod("file", 0644));
    SHOW(rename("file", "elsewhere"));
    SHOW(link("elsewhere", "file"));
    SHOW(unlink("elsewhere"));
    SHOW(access("file", R_OK | W_OK));
    SHOW(ftruncate(fd, 100));
    SHOW(write(fd, "bytes", 5));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(open("file", O_RDWR | O_CREAT | O_EXCL, 0644));
    IN_CHILD("another user", MUST(setuid(USER) == 0); SHOW(open("file", O_WRONLY | O_NONBLOCK)); SHOW(truncate("file", 0)));
    printf("%s\n", got(fd));
    told(0);
    puts("-- what is open already");
    SHOW(ftruncate(fd, 4));
    // Its own, by another description.
    SHOW(open("file", O_RDONLY | O_NONBLOCK));
    told(50);
    printf("%s\n", got(fd));
    SHOW(open("file", O_WRONLY | O_NONBLOCK));
    told(50);
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_RDLCK));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_WRLCK));
    printf("%s\n", got(fd));
    SHOW(open("file", O_WRONLY | O_NONBLOCK));
    close(fd);
    SHOW(close(open("file", O_WRONLY | O_NONBLOCK)));
}

// Answers while somebody waits.
static void answers(void) {
    puts("-- while somebody waits to read");
    int fd = as(open("file", O_RDONLY), HOLDER);
    SHOW(lease(fd, F_WRLCK));
    pid_t pid = opens("file", O_RDONLY);
    SHOW(waits(pid));
    SHOW(lease(fd, F_WRLCK));
    printf("%s\n", got(fd));
    SHOW(waits(pid));
    SHOW(lease(fd, F_RDLCK));
    SHOW(ended(pid));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_UNLCK));
    puts("-- while somebody waits to write");
    SHOW(lease(fd, F_RDLCK));
    pid = opens("file", O_WRONLY);
    SHOW(waits(pid));
    SHOW(lease(fd, F_RDLCK));
    SHOW(lease(fd, F_WRLCK));
    int second = open("file", O_RDONLY);
    SHOW(lease(second, F_RDLCK));
    printf("%s %s\n", got(fd), got(second));
    close(second);
    SHOW(waits(pid));
    SHOW(lease(fd, F_UNLCK));
    SHOW(ended(pid));
    puts("-- two readers that somebody breaks");
    second = as(open("file", O_RDONLY), OTHER);
    fcntl(fd, F_SETSIG, RT);
    fcntl(second, F_SETSIG, RT);
    SHOW(lease(fd, F_RDLCK));
    SHOW(lease(second, F_RDLCK));
    pid = opens("file", O_RDWR);
    SHOW(waits(pid));
    told(50);
    told(50);
    told(0);
    SHOW(lease(second, F_UNLCK));
    SHOW(waits(pid));
    SHOW(lease(fd, F_UNLCK));
    SHOW(ended(pid));
    close(second);
    puts("-- first a reader waits, then a writer");
    fcntl(fd, F_SETSIG, RT);
    SHOW(lease(fd, F_WRLCK));
    pid = opens("file", O_RDONLY);
    SHOW(waits(pid));
    told(50);
    printf("%s\n", got(fd));
    pid_t writer = opens("file", O_WRONLY);
    SHOW(waits(writer));
    told(50);
    printf("%s\n", got(fd));
    pid_t more = opens("file", O_WRONLY);
    SHOW(waits(more));
    told(50);
    SHOW(kill(writer, SIGKILL) || kill(more, SIGKILL));
    SHOW(ended(writer));
    SHOW(ended(more));
    printf("%s\n", got(fd));
    SHOW(waits(pid));
    SHOW(lease(fd, F_RDLCK));
    SHOW(ended(pid));
    printf("%s\n", got(fd));
    close(fd);
}

static int signals_seen;
static void seen(int signal) {
    (void)signal;
    signals_seen++;
}

// What is told, to whom, and by which signal.
static void signals(void) {
    puts("-- signals");
    int fd = as(open("file", O_RDONLY), HOLDER);
    printf("%d %d\n", fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG));
    SHOW(lease(fd, F_WRLCK));
    SHOW(fcntl(fd, F_GETOWN) == getpid());
    SHOW(fcntl(fd, F_SETSIG, RT));
    SHOW(ended(opens("file", O_RDONLY | O_NONBLOCK)));
    told(100);
    // Another descriptor is named once it has set it.
    int other = dup2(fd, OTHER);
    SHOW(lease(fd, F_UNLCK));
    printf("%d %d\n", fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG));
    SHOW(fcntl(fd, F_SETSIG, RT));
    SHOW(lease(fd, F_WRLCK));
    SHOW(lease(other, F_WRLCK));
    close(fd);
    SHOW(ended(opens("file", O_RDONLY | O_NONBLOCK)));
    told(100);
    SHOW(fcntl(other, F_SETSIG, SIGIO));
    SHOW(ended(opens("file", O_RDWR | O_NONBLOCK)));
    told(100);
    SHOW(fcntl(other, F_SETSIG, 0));
    SHOW(lease(other, F_UNLCK));
    SHOW(lease(other, F_RDLCK));
    SHOW(ended(opens("file", O_RDWR | O_NONBLOCK)));
    told(100);
    // Nobody, and somebody else.
    SHOW(lease(other, F_UNLCK));
    SHOW(lease(other, F_RDLCK));
    SHOW(fcntl(other, F_SETOWN, 0));
    SHOW(ended(opens("file", O_RDWR | O_NONBLOCK)));
    told(50);
    printf("%s\n", got(other));
    SHOW(lease(other, F_UNLCK));
    int ends[2];
    MUST(pipe(ends) == 0);
    fflush(stdout);
    pid_t owner = fork();
    if (owner == 0) {
        close(ends[1]);
        siginfo_t info;
        _exit(sigtimedwait(&told_by, &info, &(struct timespec){5, 0}) == SIGIO ? 7 : 8);
    }
    SHOW(fcntl(other, F_SETOWN, owner));
    SHOW(lease(other, F_RDLCK));
    SHOW(fcntl(other, F_GETOWN) == owner);
    SHOW(ended(opens("file", O_RDWR | O_NONBLOCK)));
    SHOW(ended(owner));
    told(50);
    close(ends[0]), close(ends[1]);
    close(other);
    // A signal that the holder handles by giving it up.
    fd = as(open("file", O_RDONLY), HOLDER);
    SHOW(lease(fd, F_RDLCK));
    IN_CHILD("a child that is not told", sigprocmask(SIG_UNBLOCK, &told_by, NULL); _exit(ended(opens("file", O_RDWR | O_NONBLOCK))));
    told(100);
    close(fd);
    // By default it ends who is told.
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int own = open("file", O_RDONLY);
        lease(own, F_RDLCK);
        sigprocmask(SIG_UNBLOCK, &told_by, NULL);
        write(ends[1], "r", 1);
        for (;;) pause();
    }
    usleep(100000);
    SHOW(ended(opens("file", O_RDWR)));
    SHOW(ended(pid) == 1000 + SIGIO);
}

// A signal ends the wait, or the call begins again.
static void interrupted(void) {
    puts("-- interrupted");
    int fd = as(open("file", O_RDONLY), HOLDER);
    for (int restarts = 0; restarts < 2; restarts++)
        for (int truncates = 0; truncates < 2; truncates++) {
            SHOW(lease(fd, F_RDLCK));
            fflush(stdout);
            pid_t pid = fork();
            if (pid == 0) {
                close(fd);
                struct sigaction action = {.sa_handler = seen, .sa_flags = restarts ? SA_RESTART : 0};
                sigaction(SIGALRM, &action, NULL);
                ualarm(100000, 0);
                int result = truncates ? truncate("file", 4) : open("file", O_RDWR);
                _exit(signals_seen << 4 | (result < 0 ? errno : 0));
            }
            usleep(400000);
            printf("%s\n", got(fd));
            SHOW(lease(fd, F_UNLCK));
            int how = ended(pid);
            printf("%s: errno %d, signals %d\n", restarts ? "restarted" : "interrupted", how & 15, how >> 4);
        }
    puts("killed while it waits");
    SHOW(lease(fd, F_RDLCK));
    pid_t pid = opens("file", O_RDWR);
    SHOW(waits(pid));
    SHOW(kill(pid, SIGKILL));
    SHOW(ended(pid) == 1000 + SIGKILL);
    printf("%s\n", got(fd));
    // It does not become whole again.
    SHOW(lease(fd, F_RDLCK));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_WRLCK));
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_UNLCK));
    SHOW(lease(fd, F_WRLCK));
    printf("%s\n", got(fd));
    while (sigtimedwait(&told_by, NULL, &(struct timespec){0, 0}) > 0) continue;
    close(fd);
}

// The end of a holder wakes who waits.
static void holders(void) {
    puts("-- holders that end");
    for (int how = 0; how < 3; how++) {
        int ends[2];
        MUST(pipe(ends) == 0);
        fflush(stdout);
        pid_t holder = fork();
        if (holder == 0) {
            int fd = open("file", O_RDONLY);
            MUST(lease(fd, F_RDLCK) == 0);
            if (how == 2) fcntl(fd, F_SETFD, FD_CLOEXEC);
            write(ends[1], "r", 1);
            sigtimedwait(&told_by, NULL, &(struct timespec){5, 0});
            usleep(100000);
            if (how == 0) _exit(0);
            if (how == 2) execl("/proc/self/exe", "leases", "pause", (char *)NULL);
            for (;;) pause();
        }
        char byte;
        MUST(read(ends[0], &byte, 1) == 1);
        pid_t pid = opens("file", O_WRONLY);
        if (how == 1) {
            SHOW(waits(pid));
            SHOW(kill(holder, SIGKILL));
        }
        printf("%s: %d\n", how == 0 ? "exit" : how == 1 ? "kill" : "execve", ended(pid));
        kill(holder, SIGKILL);
        ended(holder);
        close(ends[0]), close(ends[1]);
    }
}

// A program's file is read when it is executed.
static void programs(void) {
    puts("-- programs");
    int from = open("/proc/self/exe", O_RDONLY), to = open("program", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    static char room[65536];
    ssize_t bytes;
    while ((bytes = read(from, room, sizeof room)) > 0) MUST(write(to, room, bytes) == bytes);
    close(from), close(to);
    int fd = as(open("program", O_RDONLY), HOLDER), ends[2];
    MUST(pipe(ends) == 0);
    SHOW(lease(fd, F_WRLCK));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        dup2(ends[1], 1);
        execl("./program", "program", "say", (char *)NULL);
        _exit(errno);
    }
    SHOW(waits(pid));
    told(50);
    printf("%s\n", got(fd));
    SHOW(lease(fd, F_RDLCK));
    char byte = 0;
    SHOW(read(ends[0], &byte, 1));
    SHOW(lease(fd, F_RDLCK));
    SHOW(lease(fd, F_WRLCK));
    SHOW(ended(opens("program", O_WRONLY | O_NONBLOCK)));
    SHOW(ended(opens("program", -1)));
    printf("%s\n", got(fd));
    kill(pid, SIGKILL);
    ended(pid);
    SHOW(lease(fd, F_WRLCK));
    close(fd);
    close(ends[0]), close(ends[1]);
}

// Threads of one process.
static void *opener(void *result) {
    *(int *)result = open("file", O_WRONLY);
    return NULL;
}

static void threads(void) {
    puts("-- threads");
    int fd = as(open("file", O_RDONLY), HOLDER), result = -2;
    SHOW(lease(fd, F_RDLCK));
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, opener, &result) == 0);
    told(2000);
    usleep(50000);
    SHOW(result);
    SHOW(lease(fd, F_UNLCK));
    MUST(pthread_join(thread, NULL) == 0);
    SHOW(result >= 0);
    close(result);
    close(fd);
}

// The lines of /proc/locks that are about a file, with names for processes.
static void listed(const char *what, const char *path, pid_t child) {
    struct stat it;
    MUST(stat(path, &it) == 0);
    char line[256];
    printf("%s\n", what);
    FILE *file = fopen("/proc/locks", "r");
    MUST(file != NULL);
    while (fgets(line, sizeof line, file)) {
        char *number = strchr(line, ':'), where[64];
        if (!number) continue;
        // Of who waits it is not said for which file.
        int is_breaker = strstr(number, "BREAKER") != NULL;
        snprintf(where, sizeof where, ":%lu ", is_breaker ? 0 : (unsigned long)it.st_ino);
        char *inode = strstr(number, where);
        if (!inode) continue;
        char *start = inode;
        while (start > number && start[-1] != ' ') start--;
        start--;
        while (start > number && start[-1] != ' ') start--;
        int pid = atoi(start);
        char *rest = inode + strlen(where);
        start[0] = 0;
        printf(" %s%s %s", number + 1, pid == getpid() ? "parent" : pid == child ? "child" : pid == -1 ? "-1" : "other", rest);
    }
    fclose(file);
}

static void lists(void) {
    puts("-- /proc/locks");
    int fd = as(open("listed", O_RDWR | O_CREAT, 0644), HOLDER);
    SHOW(write(fd, "text", 4));
    listed("nothing", "listed", 0);
    SHOW(lease(fd, F_WRLCK));
    listed("write", "listed", 0);
    pid_t pid = opens("listed", O_RDONLY);
    SHOW(waits(pid));
    listed("a reader waits", "listed", pid);
    SHOW(lease(fd, F_UNLCK));
    SHOW(ended(pid));
    listed("given up", "listed", 0);
    close(fd);
    fd = as(open("listed", O_RDONLY), HOLDER);
    SHOW(lease(fd, F_RDLCK));
    listed("read", "listed", 0);
    pid = opens("listed", O_WRONLY);
    SHOW(waits(pid));
    listed("a writer waits", "listed", pid);
    SHOW(lease(fd, F_UNLCK));
    SHOW(ended(pid));
    close(fd);
    while (sigtimedwait(&told_by, NULL, &(struct timespec){0, 0}) > 0) continue;
    // One of each other kind.
    fd = as(open("listed", O_RDWR), HOLDER);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 5, .l_len = 10};
    SHOW(fcntl(fd, F_SETLK, &lock));
    listed("fcntl", "listed", 0);
    fflush(stdout);
    int ends[2];
    MUST(pipe(ends) == 0);
    pid = fork();
    if (pid == 0) {
        write(ends[1], "r", 1);
        struct flock wanted = {.l_type = F_RDLCK, .l_start = 7};
        _exit(fcntl(fd, F_SETLKW, &wanted) ? errno : 0);
    }
    char byte;
    MUST(read(ends[0], &byte, 1) == 1);
    SHOW(waits(pid));
    listed("somebody waits", "listed", pid);
    lock.l_type = F_UNLCK;
    SHOW(fcntl(fd, F_SETLK, &lock));
    SHOW(ended(pid));
    listed("unlocked", "listed", pid);
    lock = (struct flock){.l_type = F_RDLCK, .l_start = 0, .l_len = 0};
    SHOW(fcntl(fd, 37, &lock));
    listed("of a description", "listed", 0);
    lock.l_type = F_UNLCK;
    SHOW(fcntl(fd, 37, &lock));
    SHOW(flock(fd, LOCK_EX));
    listed("flock", "listed", 0);
    SHOW(flock(fd, LOCK_SH));
    listed("flock, shared", "listed", 0);
    close(fd);
    close(ends[0]), close(ends[1]);
    listed("closed", "listed", 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (!strcmp(argv[1], "say")) write(1, "s", 1);
        for (;;) pause();
    }
    RT = SIGRTMIN + 1;
    sigemptyset(&told_by);
    sigaddset(&told_by, SIGIO);
    sigaddset(&told_by, RT);
    sigprocmask(SIG_BLOCK, &told_by, NULL);
    // Where other users can look.
    char folder[] = "/tmp/leases.XXXXXX";
    MUST(mkdtemp(folder) && chmod(folder, 0755) == 0 && chdir(folder) == 0);
    refusals();
    conflicts();
    breaks();
    unbroken();
    answers();
    signals();
    interrupted();
    holders();
    programs();
    threads();
    lists();
    static const char *const left[] = {"file", "fifo", "program", "listed"};
    for (unsigned i = 0; i < sizeof left / sizeof *left; i++) unlink(left[i]);
    rmdir("folder");
    MUST(rmdir(folder) == 0);
    return 0;
}
