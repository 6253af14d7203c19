// A bad pointer to every system call that takes one: EFAULT, and nothing worse.
// oracle: linux
#include "test.h"
#include <time.h>

static const char *names[] = {
#define C(name) [SYS_##name] = #name,
    C(read) C(write) C(open) C(stat) C(fstat) C(lstat) C(poll) C(rt_sigaction) C(rt_sigprocmask)
    C(pread64) C(pwrite64) C(readv) C(writev) C(access) C(pipe) C(select) C(mincore) C(nanosleep)
    C(getitimer) C(setitimer) C(execve) C(wait4) C(uname) C(truncate) C(getcwd) C(chdir) C(rename)
    C(mkdir) C(rmdir) C(link) C(unlink) C(symlink) C(readlink) C(chmod) C(gettimeofday)
    C(getrlimit) C(getrusage) C(sysinfo) C(times) C(sigaltstack) C(time) C(getdents64)
    C(clock_gettime) C(clock_getres) C(clock_nanosleep) C(openat) C(mkdirat) C(newfstatat)
    C(unlinkat) C(renameat) C(readlinkat) C(faccessat) C(pselect6) C(ppoll) C(utimensat) C(pipe2)
    C(prlimit64) C(getrandom) C(waitid) C(rt_sigpending) C(rt_sigsuspend) C(statx)
#undef C
};

static int file, ends[2];

// The call with `bad` for each of its pointers in turn.
static long call(int number, int variant, void *bad) {
    char good[PAGE] = "/root";
    long b = (long)bad, g = (long)good;
    switch (number) {
#define CASE(name, ...) case SYS_##name: return syscall(SYS_##name, __VA_ARGS__)
        CASE(read, file, b, 100);
        CASE(write, ends[1], b, 100);
        CASE(pread64, file, b, 100, 0);
        CASE(pwrite64, file, b, 100, 0);
        CASE(readv, file, b, 2);
        CASE(writev, ends[1], b, 2);
        CASE(open, b, O_RDONLY);
        CASE(openat, AT_FDCWD, b, O_RDONLY);
        CASE(stat, variant ? g : b, b);
        CASE(lstat, variant ? g : b, b);
        CASE(fstat, file, b);
        CASE(newfstatat, AT_FDCWD, variant ? g : b, b, 0);
        CASE(statx, AT_FDCWD, variant ? (long)"/" : b, 0, 0x7ff, b);
        CASE(poll, b, 2, 0);
        CASE(ppoll, variant ? g : b, variant ? 0 : 2, variant ? b : 0, 0, 8);
        CASE(select, 4, b, 0, 0, 0);
        CASE(pselect6, 4, variant ? 0 : b, 0, 0, variant ? b : 0, 0);
        CASE(rt_sigaction, SIGUSR1, variant ? 0 : b, variant ? b : 0, 8);
        CASE(rt_sigprocmask, SIG_BLOCK, variant ? 0 : b, variant ? b : 0, 8);
        CASE(rt_sigpending, b, 8);
        CASE(rt_sigsuspend, b, 8);
        CASE(access, b, 0);
        CASE(faccessat, AT_FDCWD, b, 0);
        CASE(pipe, b);
        CASE(pipe2, b, 0);
        CASE(mincore, (long)good & ~(PAGE - 1), PAGE, b);
        CASE(nanosleep, b, 0);
        CASE(clock_nanosleep, CLOCK_MONOTONIC, 0, b, 0);
        CASE(getitimer, 0, b);
        CASE(setitimer, 0, b, 0);
        CASE(execve, variant ? (long)"/proc/self/exe" : b, variant ? b : 0, 0);
        CASE(wait4, -1, b, 0, 0);
        CASE(waitid, 0, 0, b, WEXITED | WNOHANG, 0);
        CASE(uname, b);
        CASE(truncate, b, 0);
        CASE(getcwd, b, 100);
        CASE(chdir, b);
        CASE(rename, variant ? g : b, b);
        CASE(renameat, AT_FDCWD, b, AT_FDCWD, b);
        CASE(mkdir, b, 0);
        CASE(mkdirat, AT_FDCWD, b, 0);
        CASE(rmdir, b);
        CASE(link, b, b);
        CASE(unlink, b);
        CASE(unlinkat, AT_FDCWD, b, 0);
        CASE(symlink, b, b);
        CASE(readlink, variant ? (long)"/proc/self/exe" : b, b, 100);
        CASE(readlinkat, AT_FDCWD, b, b, 100);
        CASE(chmod, b, 0);
        CASE(gettimeofday, b, 0);
        CASE(time, b);
        CASE(clock_gettime, CLOCK_MONOTONIC, b);
        CASE(clock_getres, CLOCK_MONOTONIC, b);
        CASE(getrlimit, 3, b);
        CASE(prlimit64, 0, 3, variant ? 0 : b, variant ? b : 0);
        CASE(getrusage, 0, b);
        CASE(sysinfo, b);
        CASE(times, b);
        CASE(sigaltstack, variant ? 0 : b, variant ? b : 0);
        CASE(getdents64, ends[1] + 1, b, 1000);
        CASE(utimensat, AT_FDCWD, (long)"/", b, 0);
        CASE(getrandom, b, 100, 0);
#undef CASE
    }
    return -2;
}

static void all_with(const char *what, void *bad) {
    printf("== %s\n", what);
    for (size_t number = 0; number < sizeof names / sizeof *names; number++) {
        for (int variant = 0; names[number] && variant < 2; variant++) {
            errno = 0;
            long result = call(number, variant, bad);
            printf("%s/%d: %ld %d\n", names[number], variant, result, errno);
        }
    }
}

int main(void) {
    file = open("/proc/self/exe", O_RDONLY);
    pipe(ends);
    open("/", O_RDONLY | O_DIRECTORY);
    if (fork() == 0) _exit(0);
    all_with("not mapped", (void *)8);
    all_with("above the lower half", (void *)0x800000000000);
    all_with("of the kernel", (void *)0xffffffff80000000);
    char *none = pages(1, PROT_NONE);
    all_with("forbidden", none);

    // Half good: what can be transferred is.
    char *edge = pages(2, PROT_READ | PROT_WRITE);
    munmap(edge + PAGE, PAGE);
    SHOW(read(file, edge + PAGE - 10, 100) == 10);
    SHOW(write(ends[1], edge + PAGE - 10, 10));
    SHOW(read(ends[0], edge + PAGE - 10, 10));
    strcpy(edge + PAGE - 5, "/tmp");
    SHOW(access(edge + PAGE - 5, F_OK));
    memcpy(edge + PAGE - 4, "/tmp", 4);
    SHOW(access(edge + PAGE - 4, F_OK));
    char *read_only = pages(1, PROT_READ);
    SHOW(read(file, read_only, 10));
    SHOW(write(ends[1], read_only, 10));
    return 0;
}
