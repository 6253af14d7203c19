// Rare calls of programs: keys of pages on a processor without, kinds of file systems and room on devices by number, limits of other
// processes, signals by pidfd to threads and groups, epoll's members compared, programs that must not be links.
// oracle: linux
#include "must.h"
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/statfs.h>

// What a call has answered, or its error.
static long result_of(long result) { return result == -1 ? -errno : result; }
#define PAIR(e) result_of((long)(e))

static void keys(void) {
    // Where there are keys, all of them are given.
    long first = syscall(330, 0l, 0l);
    printf("flags: %ld\n", PAIR(syscall(330, 1l, 0l)));
    printf("rights: %ld\n", PAIR(syscall(330, 0l, 8l)));
    char *at = pages(1, PROT_READ | PROT_WRITE);
    printf("no key: %ld\n", PAIR(syscall(329, at, PAGE, (long)PROT_READ, -1l)));
    catch_faults();
    printf("a store: %d\n", signal_of(at, 1));
    printf("a key that is none: %ld\n", PAIR(syscall(329, at, PAGE, (long)PROT_READ, 15l)));
    printf("not of a page: %ld\n", PAIR(syscall(329, at + 1, PAGE, (long)PROT_READ, -1l)));
    printf("free: %ld\n", PAIR(syscall(331, 15l)));
    printf("free: %ld\n", PAIR(syscall(331, -1l)));
    if (first > 0) syscall(331, first);
    munmap(at, PAGE);
}

static void kinds(void) {
    char name[64] = "unchanged";
    long count = syscall(SYS_sysfs, 3);
    int all = count > 2;
    for (long n = 0; n < count; n++)
        all &= syscall(SYS_sysfs, 2, n, name) == 0 && syscall(SYS_sysfs, 1, name) == n;
    printf("by number and by name: %d\n", all);
    printf("tmpfs and proc: %d %d\n", syscall(SYS_sysfs, 1, "tmpfs") >= 0, syscall(SYS_sysfs, 1, "proc") >= 0);
    printf("no such: %ld\n", PAIR(syscall(SYS_sysfs, 1, "none of those")));
    printf("no such: %ld\n", PAIR(syscall(SYS_sysfs, 2, count, name)));
    printf("nowhere: %ld\n", PAIR(syscall(SYS_sysfs, 2, 0, 8l)));
    printf("nowhere: %ld\n", PAIR(syscall(SYS_sysfs, 1, 8l)));
    printf("nothing of it: %ld\n", PAIR(syscall(SYS_sysfs, 4)));
}

struct ustat_ {
    int32_t free;
    uint64_t inodes;
    char name[6], pack[6];
};

static void room(void) {
    struct stat where;
    struct statfs fs;
    struct ustat_ it = {.free = -1, .name = "a", .pack = "b"};
    MUST(stat("/proc", &where) == 0);
    printf("of proc: %ld", PAIR(syscall(SYS_ustat, (unsigned)where.st_dev, &it)));
    printf(", %d %lu '%s' '%s'\n", it.free, it.inodes, it.name, it.pack);
    MUST(stat("/", &where) == 0 && statfs("/", &fs) == 0);
    printf("of the root: %ld\n", PAIR(syscall(SYS_ustat, (unsigned)where.st_dev, &it)));
    printf("nothing there: %ld\n", PAIR(syscall(SYS_ustat, 0xfffffu, &it)));
    MUST(stat("/proc", &where) == 0);
    printf("nowhere: %ld\n", PAIR(syscall(SYS_ustat, (unsigned)where.st_dev, 8l)));
}

static void limits(void) {
    int to[2], from[2];
    MUST(pipe(to) == 0 && pipe(from) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(to[1]);
        while (read(to[0], &byte, 1) == 1) {
            struct rlimit own;
            getrlimit(RLIMIT_NOFILE, &own);
            long results[4] = {own.rlim_cur, own.rlim_max, fcntl(0, F_DUPFD, 18), 0};
            getrlimit(RLIMIT_FSIZE, &own);
            results[3] = own.rlim_cur;
            if (results[2] >= 0) close(results[2]);
            if (write(from[1], results, sizeof results) < 0) _exit(1);
        }
        _exit(0);
    }
    struct rlimit new = {18, 30}, old = {0, 0};
    long told[4];
    MUST(prlimit(child, RLIMIT_NOFILE, 0, &old) == 0);
    printf("set: %ld\n", PAIR(prlimit(child, RLIMIT_NOFILE, &new, 0)));
    MUST(prlimit(child, RLIMIT_NOFILE, 0, &old) == 0);
    printf("told: %lu %lu\n", old.rlim_cur, old.rlim_max);
    MUST(write(to[1], "x", 1) == 1 && read(from[0], told, sizeof told) == sizeof told);
    printf("it has: %ld %ld, a descriptor more %ld\n", told[0], told[1], told[2]);
    new.rlim_cur = 19;
    struct rlimit size = {5000, 6000};
    printf("both: %ld", PAIR(prlimit(child, RLIMIT_NOFILE, &new, &old)));
    printf(" %lu, %ld\n", old.rlim_cur, (long)prlimit(child, RLIMIT_FSIZE, &size, 0));
    MUST(write(to[1], "x", 1) == 1 && read(from[0], told, sizeof told) == sizeof told);
    printf("it has: %ld %ld, a descriptor more %ld, size %ld\n", told[0], told[1], told[2], told[3]);
    new.rlim_cur = 31;
    printf("more than may be: %ld\n", PAIR(prlimit(child, RLIMIT_NOFILE, &new, 0)));
    printf("no such: %ld\n", PAIR(prlimit(child, 99, &new, 0)));
    printf("nobody: %ld\n", PAIR(prlimit(0x7ffffff, RLIMIT_NOFILE, &new, 0)));
    pid_t user = fork();
    if (user == 0) {
        if (setgid(1000) || setuid(1000)) _exit(1);
        new.rlim_cur = 3;
        printf("another user's: %ld\n", PAIR(prlimit(child, RLIMIT_NOFILE, &new, 0)));
        pid_t own = fork();
        if (own == 0) for (;;) pause();
        struct rlimit more = {7000, 7000}, less = {6, 7};
        MUST(prlimit(own, RLIMIT_NOFILE, &less, 0) == 0);
        printf("raised by a user: %ld\n", PAIR(prlimit(own, RLIMIT_NOFILE, &more, 0)));
        kill(own, SIGKILL);
        fflush(stdout);
        _exit(0);
    }
    waitpid(user, 0, 0);
    close(to[1]);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("it ended: %x\n", status);
    close(to[0]), close(from[0]), close(from[1]);
}

static volatile int code, got;

static void info(int signal, siginfo_t *it, void *context) {
    code = it->si_code;
    got++;
}

static void pidfds(void) {
    struct sigaction action = {.sa_sigaction = info, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    int own = syscall(SYS_pidfd_open, getpid(), 0);
    for (int flag = 0; flag < 10; flag++) {
        code = 99;
        long result = flag == 4 ? 0 : PAIR(syscall(SYS_pidfd_send_signal, own, SIGUSR1, 0, flag));
        printf("flags %d: %ld, code %d\n", flag, result, code);
    }
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        pid_t more = fork();
        if (more == 0) for (;;) pause();
        int fd = syscall(SYS_pidfd_open, getpid(), 0);
        signal(SIGTERM, SIG_IGN);
        long result = syscall(SYS_pidfd_send_signal, fd, SIGTERM, 0, 4);
        int status;
        waitpid(more, &status, 0);
        printf("the group: %ld, the other ended by %x\n", result, status);
        more = fork();
        if (more == 0) for (;;) pause();
        fd = syscall(SYS_pidfd_open, more, 0);
        printf("no group: %ld\n", PAIR(syscall(SYS_pidfd_send_signal, fd, SIGKILL, 0, 4)));
        kill(more, SIGKILL);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    close(own);
}

enum { KCMP_EPOLL_TFD = 7 };

static long compared(pid_t first, pid_t second, int fd, int set, int member, int nth) {
    uint32_t slot[3] = {set, member, nth};
    long result = syscall(SYS_kcmp, first, second, KCMP_EPOLL_TFD, (long)fd, slot);
    // Which one is the smaller depends.
    return result < 0 ? -errno : result != 0;
}

static void members(void) {
    int set = epoll_create1(0), pair[2], other[2];
    MUST(pipe(pair) == 0 && pipe(other) == 0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, other[0], &event) == 0);
    pid_t own = getpid();
    for (int shared = 0; shared < 2; shared++) {
        printf("members: %ld %ld %ld\n", compared(own, own, pair[0], set, pair[0], 0), compared(own, own, other[0], set, pair[0], 0),
               compared(own, own, other[0], set, other[0], 0));
        printf("not: %ld %ld %ld %ld %ld\n", compared(own, own, pair[0], set, pair[1], 0), compared(own, own, pair[0], set, pair[0], 1),
               compared(own, own, 99, set, pair[0], 0), compared(own, own, pair[0], 99, pair[0], 0),
               compared(own, own, pair[0], pair[0], pair[0], 0));
        printf("nowhere: %ld\n", syscall(SYS_kcmp, own, own, KCMP_EPOLL_TFD, (long)pair[0], 8l) < 0 ? (long)-errno : 0);
        // Two that were added by one number.
        int moved = fcntl(other[0], F_DUPFD, 40);
        MUST(dup2(pair[1], 50) == 50);
        close(50);
        close(moved);
        if (!shared) {
            pid_t child = fork();
            if (child == 0) _exit(compared(getpid(), getppid(), pair[0], set, pair[0], 0));
            int status;
            waitpid(child, &status, 0);
            printf("in a child: %x\n", status);
        }
    }
    close(set);
}

static void links(void) {
    char *arguments[] = {"true", 0}, *none[] = {0};
    MUST(symlink("/proc/self/exe", "/tmp/rare_link") == 0);
    pid_t child = fork();
    if (child == 0) {
        syscall(SYS_execveat, AT_FDCWD, "/tmp/rare_link", arguments, none, AT_SYMLINK_NOFOLLOW);
        _exit(errno);
    }
    int status;
    waitpid(child, &status, 0);
    printf("a link: %d\n", status >> 8);
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY);
    child = fork();
    if (child == 0) {
        syscall(SYS_execveat, fd, "rare_link", arguments, none, AT_SYMLINK_NOFOLLOW);
        _exit(errno);
    }
    waitpid(child, &status, 0);
    printf("of a folder: %d\n", status >> 8);
    close(fd);
    unlink("/tmp/rare_link");
}

int main(int argc, char **argv) {
    keys();
    kinds();
    room();
    limits();
    pidfds();
    members();
    links();
    return 0;
}
