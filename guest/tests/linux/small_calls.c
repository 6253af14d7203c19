// Calls that no other test names: what they do, and their errors (getdents, creat, munlockall, arch_prctl, sync, epoll_create,
// set_tid_address, restart_syscall, fadvise64, utimes, futimesat, sync_file_range, epoll_pwait, getcpu, execveat). And numbers of calls that Linux has no more.
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <sched.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/xattr.h>

static char path[] = "/tmp/smallXXXXXX";

static void absent(void) {
    // uselib, _sysctl, create_module, get_kernel_syms, query_module, nfsservctl, getpmsg, putpmsg, afs_syscall, tuxcall, security,
    // set_thread_area, get_thread_area, lookup_dcookie, epoll_ctl_old, epoll_wait_old, vserver
    int numbers[] = {134, 156, 174, 177, 178, 180, 181, 182, 183, 184, 185, 205, 211, 212, 214, 215, 236};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        errno = 0;
        long result = syscall(numbers[i], 0, 0, 0, 0);
        printf("%d: %ld, errno %d\n", numbers[i], result, errno);
    }
    SHOW(syscall(1000, 0));
    SHOW(syscall(-5, 0));
}

static void files(void) {
    char inside[100];
    sprintf(inside, "%s/made", path);
    umask(022);
    int fd = syscall(SYS_creat, inside, 0666);
    SHOW(fd >= 0);
    struct stat st;
    fstat(fd, &st);
    printf("%o\n", st.st_mode);
    SHOW(fcntl(fd, F_GETFL) & ~0100000);
    SHOW(write(fd, "abc", 3));
    char byte;
    SHOW(read(fd, &byte, 1));
    close(fd);
    fd = syscall(SYS_creat, inside, 0);
    fstat(fd, &st);
    printf("%o, %ld bytes\n", st.st_mode, (long)st.st_size);
    SHOW(syscall(SYS_creat, path, 0600));
    SHOW(syscall(SYS_creat, "/absent/made", 0600));
    SHOW(syscall(SYS_creat, "", 0600));
    SHOW(syscall(SYS_creat, NULL, 0600));

    int dir = open(path, O_RDONLY | O_DIRECTORY);
    struct old {
        unsigned long inode, offset;
        unsigned short length;
        char name[];
    };
    char listing[1000];
    long got = syscall(SYS_getdents, dir, listing, sizeof listing), found = 0, kinds = 0;
    for (long at = 0; at < got;) {
        struct old *one = (void *)(listing + at);
        found += !strcmp(one->name, ".") + 10 * !strcmp(one->name, "..") + 100 * !strcmp(one->name, "made");
        kinds += listing[at + one->length - 1];
        at += one->length;
    }
    printf("found %ld, kinds %ld\n", found, kinds);
    SHOW(syscall(SYS_getdents, dir, listing, sizeof listing));
    SHOW(lseek(dir, 0, SEEK_SET));
    SHOW(syscall(SYS_getdents, dir, listing, 10));
    SHOW(syscall(SYS_getdents, dir, NULL, 1000));
    SHOW(syscall(SYS_getdents, fd, listing, sizeof listing));
    SHOW(syscall(SYS_getdents, 99, listing, sizeof listing));

    SHOW(mknodat(dir, "fifo", S_IFIFO | 0666, 0));
    SHOW(mknodat(dir, "fifo", S_IFIFO | 0666, 0));
    SHOW(mknodat(dir, "plain", 0666, 0));
    SHOW(mknodat(dir, "odd", S_IFDIR | 0666, 0));
    SHOW(mknodat(dir, "odd", S_IFLNK | 0666, 0));
    SHOW(mknodat(99, "odd", S_IFREG | 0666, 0));
    SHOW(mknodat(fd, "odd", S_IFREG | 0666, 0));
    fstatat(dir, "fifo", &st, 0);
    printf("%o\n", st.st_mode);
    fstatat(dir, "plain", &st, 0);
    printf("%o\n", st.st_mode);
    IN_CHILD("a user", {
        fchmod(dir, 0777);
        setgid(1000), setuid(1000);
        SHOW(mknodat(dir, "null", S_IFCHR | 0666, 0x103));
        SHOW(fchownat(dir, "plain", 1000, -1, 0));
    });
    symlinkat("plain", dir, "link");
    SHOW(fchownat(dir, "link", 5, 6, 0));
    SHOW(fchownat(dir, "link", 7, -1, AT_SYMLINK_NOFOLLOW));
    fstatat(dir, "plain", &st, 0);
    printf("%d %d\n", st.st_uid, st.st_gid);
    fstatat(dir, "link", &st, AT_SYMLINK_NOFOLLOW);
    printf("%d %d\n", st.st_uid, st.st_gid);
    SHOW(fchownat(fd, "", 8, 9, AT_EMPTY_PATH));
    SHOW(fchownat(fd, "", 8, 9, 0));
    SHOW(fchownat(dir, "absent", 1, 1, 0));
    SHOW(fchownat(dir, "plain", 1, 1, 77 << 16));
    SHOW(fchownat(99, "plain", 1, 1, 0));
    fstat(fd, &st);
    printf("%d %d\n", st.st_uid, st.st_gid);

    struct timeval times[2] = {{1000, 5}, {2000, 7}}, bad[2] = {{1, 1000000}, {1, 0}}, odd[2] = {{1, -1}, {1, 0}};
    SHOW(syscall(SYS_utimes, inside, times));
    fstat(fd, &st);
    printf("%ld.%09ld %ld.%09ld\n", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec, (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    SHOW(syscall(SYS_utimes, inside, bad));
    SHOW(syscall(SYS_utimes, inside, odd));
    SHOW(syscall(SYS_utimes, "/absent", times));
    SHOW(syscall(SYS_utimes, inside, (void *)8));
    SHOW(syscall(SYS_utimes, inside, NULL));
    fstat(fd, &st);
    SHOW(st.st_mtim.tv_sec > 100000);
    times[0].tv_sec = 3000;
    SHOW(syscall(SYS_futimesat, dir, "plain", times));
    fstatat(dir, "plain", &st, 0);
    printf("%ld.%09ld\n", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec);
    SHOW(syscall(SYS_futimesat, fd, NULL, times));
    fstat(fd, &st);
    printf("%ld.%09ld\n", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec);
    SHOW(syscall(SYS_futimesat, dir, "absent", times));
    SHOW(syscall(SYS_futimesat, 99, "plain", times));
    SHOW(syscall(SYS_futimesat, dir, "plain", bad));

    char names[100];
    SHOW(llistxattr("/absent", names, sizeof names));
    SHOW(llistxattr(inside, names, sizeof names));
    SHOW(lremovexattr(inside, ""));
    SHOW(lremovexattr("/absent", "user.one"));

    int ends[2];
    pipe(ends);
    SHOW(syscall(SYS_fadvise64, fd, 0, 0, 0));
    SHOW(syscall(SYS_fadvise64, fd, 0, 100, 5));
    SHOW(syscall(SYS_fadvise64, fd, 0, 100, 6));
    SHOW(syscall(SYS_fadvise64, fd, 0, -1l, 0));
    SHOW(syscall(SYS_fadvise64, ends[0], 0, 0, 0));
    SHOW(syscall(SYS_fadvise64, 99, 0, 0, 0));
    SHOW(syscall(SYS_sync_file_range, fd, 0l, 0l, 0));
    SHOW(syscall(SYS_sync_file_range, fd, 0l, 100l, 7));
    SHOW(syscall(SYS_sync_file_range, fd, 0l, 100l, 8));
    SHOW(syscall(SYS_sync_file_range, fd, -1l, 100l, 0));
    SHOW(syscall(SYS_sync_file_range, fd, 0l, -1l, 0));
    SHOW(syscall(SYS_sync_file_range, fd, 1l << 62, 1l << 62, 0));
    SHOW(syscall(SYS_sync_file_range, ends[0], 0l, 0l, 0));
    SHOW(syscall(SYS_sync_file_range, 99, 0l, 0l, 0));
    SHOW(syscall(SYS_sync));
    unlinkat(dir, "made", 0), unlinkat(dir, "fifo", 0), unlinkat(dir, "plain", 0), unlinkat(dir, "link", 0);
    close(fd), close(dir), close(ends[0]), close(ends[1]);
}

static void nothing(int signal) { (void)signal; }

static void others(void) {
    char *at = pages(2, PROT_READ | PROT_WRITE);
    SHOW(mlock(at, PAGE));
    SHOW(munlockall());
    SHOW(madvise(at, PAGE, MADV_DONTNEED));
    unsigned long base = 0;
    SHOW(syscall(SYS_arch_prctl, 0x1003, &base));
    SHOW(base != 0);
    SHOW(syscall(SYS_arch_prctl, 0x1004, &base));
    SHOW(base);
    SHOW(syscall(SYS_arch_prctl, 0x1001, 0x12345678l));
    SHOW(syscall(SYS_arch_prctl, 0x1004, &base));
    SHOW(base);
    SHOW(syscall(SYS_arch_prctl, 0x1001, 0l));
    SHOW(syscall(SYS_arch_prctl, 0x1001, -1l));
    SHOW(syscall(SYS_arch_prctl, 0x1003, 8l));
    SHOW(syscall(SYS_arch_prctl, 77, &base));
    unsigned cpu = 99, node = 99;
    SHOW(syscall(SYS_getcpu, &cpu, &node, NULL));
    SHOW(cpu < 64 && node < 64);
    SHOW(syscall(SYS_getcpu, NULL, NULL, NULL));
    SHOW(syscall(SYS_getcpu, (void *)8, NULL, NULL));
    SHOW(syscall(SYS_getcpu, NULL, (void *)8, NULL));
    SHOW(syscall(SYS_set_tid_address, NULL) == getpid());
    SHOW(syscall(SYS_epoll_create, 0));
    SHOW(syscall(SYS_epoll_create, -1));
    int set = syscall(SYS_epoll_create, 1), ends[2];
    SHOW(fcntl(set, F_GETFD));
    pipe(ends);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 9};
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
    sigset_t mask;
    sigemptyset(&mask), sigaddset(&mask, SIGALRM);
    signal(SIGALRM, nothing);
    struct itimerval timer = {.it_value.tv_usec = 20000};
    setitimer(ITIMER_REAL, &timer, NULL);
    SHOW(syscall(SYS_epoll_pwait, set, &event, 1, 60, &mask, 8l));
    struct itimerval often = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000}, off = {0};
    setitimer(ITIMER_REAL, &often, NULL);
    SHOW(syscall(SYS_epoll_pwait, set, &event, 1, 5000, NULL, 8l));
    setitimer(ITIMER_REAL, &off, NULL);
    SHOW(syscall(SYS_epoll_pwait, set, &event, 1, 0, &mask, 4l));
    SHOW(syscall(SYS_epoll_pwait, set, &event, 0, 0, NULL, 8l));
    SHOW(syscall(SYS_epoll_pwait, set, &event, 1, 0, (void *)8, 8l));
    SHOW(syscall(SYS_epoll_pwait, ends[0], &event, 1, 0, NULL, 8l));
    SHOW(syscall(SYS_epoll_pwait, 99, &event, 1, 0, NULL, 8l));
    write(ends[1], "x", 1);
    SHOW(syscall(SYS_epoll_pwait, set, &event, 1, -1, &mask, 8l));
    SHOW(event.data.u32);
    SHOW(syscall(SYS_epoll_pwait, set, NULL, 1, 0, NULL, 8l));
    SHOW(syscall(SYS_restart_syscall));
}

static void execute(char *self) {
    char *arguments[] = {self, "child", NULL}, *none[] = {NULL};
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), dir = open("/", O_RDONLY | O_DIRECTORY);
    SHOW(syscall(SYS_execveat, 99, "x", arguments, none, 0));
    SHOW(syscall(SYS_execveat, dir, "absent", arguments, none, 0));
    SHOW(syscall(SYS_execveat, dir, "", arguments, none, 0));
    SHOW(syscall(SYS_execveat, dir, "tmp", arguments, none, 0));
    SHOW(syscall(SYS_execveat, program, "", arguments, none, 1 << 20));
    SHOW(syscall(SYS_execveat, dir, "", arguments, none, AT_EMPTY_PATH));
    IN_CHILD("execveat", { SHOW(syscall(SYS_execveat, program, "", arguments, none, AT_EMPTY_PATH)); });
}

int main(int count, char **arguments) {
    if (count > 1) {
        printf("executed as %s\n", arguments[1]);
        return 7;
    }
    mkdtemp(path);
    absent();
    files();
    others();
    execute(arguments[0]);
    rmdir(path);
    return 0;
}
