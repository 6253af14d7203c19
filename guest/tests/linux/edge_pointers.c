// Buffers that just fit before a hole, that lack a byte, that are read-only, and that lie in the
// part of the address space that belongs to the library of the process.
// oracle: linux
// build: gcc, musl
#include "test.h"
#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>

static char *edge;
static int file, folder, ends[2];

// What the kernel writes, by its size in the kernel's interface.
static const struct { const char *name; int number, size; long a, b, c, d; int at; } writes[] = {
    {"uname", SYS_uname, 390, 0, 0, 0, 0, 0},
    {"stat", SYS_stat, 144, (long)"/", 0, 0, 0, 1},
    {"lstat", SYS_lstat, 144, (long)"/", 0, 0, 0, 1},
    {"fstat", SYS_fstat, 144, 0, 0, 0, 0, 1},
    {"newfstatat", SYS_newfstatat, 144, AT_FDCWD, (long)"/", 0, 0, 2},
    {"statfs", SYS_statfs, 120, (long)"/tmp", 0, 0, 0, 1},
    {"gettimeofday", SYS_gettimeofday, 16, 0, 0, 0, 0, 0},
    {"clock_gettime", SYS_clock_gettime, 16, CLOCK_MONOTONIC, 0, 0, 0, 1},
    {"clock_getres", SYS_clock_getres, 16, CLOCK_MONOTONIC, 0, 0, 0, 1},
    {"pipe2", SYS_pipe2, 8, 0, 0, 0, 0, 0},
    {"getitimer", SYS_getitimer, 32, 0, 0, 0, 0, 1},
    {"getrlimit", SYS_getrlimit, 16, RLIMIT_STACK, 0, 0, 0, 1},
    {"prlimit64", SYS_prlimit64, 16, 0, RLIMIT_STACK, 0, 0, 3},
    {"sysinfo", SYS_sysinfo, 112, 0, 0, 0, 0, 0},
    {"times", SYS_times, 32, 0, 0, 0, 0, 0},
    {"getrusage", SYS_getrusage, 144, 0, 0, 0, 0, 1},
    {"rt_sigaction", SYS_rt_sigaction, 32, SIGUSR1, 0, 0, 8, 2},
    {"rt_sigprocmask", SYS_rt_sigprocmask, 8, 0, 0, 0, 8, 2},
    {"rt_sigpending", SYS_rt_sigpending, 8, 0, 8, 0, 0, 0},
    {"sigaltstack", SYS_sigaltstack, 24, 0, 0, 0, 0, 1},
    {"getrandom", SYS_getrandom, 33, 0, 33, 0, 0, 0},
    {"sched_getaffinity", SYS_sched_getaffinity, 8, 0, 8, 0, 0, 2},
};

// What it reads.
static const struct { const char *name; int number, size; long a, b, c, d; int at; } reads[] = {
    {"writev", SYS_writev, 32, 0, 0, 2, 0, 1},
    {"select", SYS_select, 8, 3, 0, 0, 0, 1},
    {"nanosleep", SYS_nanosleep, 16, 0, 0, 0, 0, 0},
    {"rt_sigaction", SYS_rt_sigaction, 32, SIGUSR1, 0, 0, 8, 1},
    {"rt_sigprocmask", SYS_rt_sigprocmask, 8, SIG_BLOCK, 0, 0, 8, 1},
    {"setitimer", SYS_setitimer, 32, 0, 0, 0, 0, 1},
    {"setrlimit", SYS_setrlimit, 16, RLIMIT_CORE, 0, 0, 0, 1},
    {"utimensat", SYS_utimensat, 32, AT_FDCWD, (long)"/tmp", 0, 0, 2},
};

static void attempt(const char *what, const char *name, int number, const long *given, int at, char *buffer) {
    long a[4] = {given[0], given[1], given[2], given[3]};
    if (number == SYS_write || number == SYS_writev) a[0] = ends[1];
    if (number == SYS_fstat) a[0] = file;
    a[at] = (long)buffer;
    errno = 0;
    static struct timeval at_once;
    long fifth = number == SYS_select ? (long)&at_once : 0;
    long result = syscall(number, a[0], a[1], a[2], a[3], fifth, 0);
    if (number == SYS_times && result > 0) result = 0;
    if (number == SYS_sched_getaffinity && result > 0) result = 8;
    printf("%s, %s: %ld %d\n", name, what, result, errno);
}

#define EACH(table, what, where)                                                                \
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {                                 \
        int size = table[i].size;                                                               \
        (void)size;                                                                             \
        memset(edge, 0, PAGE);                                                                  \
        attempt(what, table[i].name, table[i].number, &table[i].a, table[i].at, where);         \
    }

static void transfers(void) {
    char text[] = "0123456789";
    write(ends[1], text, 10);
    SHOW(syscall(SYS_read, ends[0], edge + PAGE - 10, 10));
    lseek(file, 0, SEEK_SET);
    SHOW(syscall(SYS_read, file, edge + PAGE - 4, 4));
    CHECK(memcmp(edge + PAGE - 4, "\177ELF", 4) == 0);
    SHOW(syscall(SYS_read, file, edge + PAGE, 1));
    SHOW(syscall(SYS_pread64, file, edge + PAGE - 8, 8, 0));
    struct iovec vector[3] = {{edge, 4}, {edge + 100, 4}, {edge + PAGE, 4}};
    SHOW(syscall(SYS_preadv, file, vector, 2, 0));
    vector[1].iov_base = edge + PAGE;
    SHOW(syscall(SYS_readv, file, vector, 3) == 4);
    vector[0].iov_len = -1ul;
    SHOW(syscall(SYS_readv, file, vector, 3));
    // What reaches beyond the program is found before anything is read; one buffer alone is cut before.
    char some[8] = {0};
    struct iovec beyond[] = {{some, 4}, {(void *)(1ul << 63), 4}}, long_one[] = {{some, 1ul << 62}, {some, 4}};
    struct iovec empty[] = {{some, 4}, {(void *)(1ul << 63), 0}};
    SHOW(syscall(SYS_preadv, file, beyond, 2, 0));
    SHOW(syscall(SYS_preadv, file, beyond + 1, 1, 0));
    SHOW(syscall(SYS_preadv, file, long_one, 2, 0));
    SHOW(syscall(SYS_preadv, file, empty, 2, 0));
    SHOW(syscall(SYS_writev, 1, beyond, 2));
    SHOW(syscall(SYS_readv, 99, beyond, 2));
    printf("%d\n", some[0] == 0);
    SHOW(syscall(SYS_readv, file, vector, 1025));
    SHOW(syscall(SYS_readv, file, vector, -1));
    SHOW(syscall(SYS_read, file, edge + PAGE, 0));
    SHOW(syscall(SYS_write, ends[1], edge + PAGE, 0));
    SHOW(syscall(SYS_read, 999, edge + PAGE, 1));
    SHOW(syscall(SYS_write, ends[1], 0x7fffe0001000, 8));
    SHOW(syscall(SYS_read, file, 0x7fffe0001000, 8));
    SHOW(syscall(SYS_getdents64, folder, edge + PAGE - 4, 4));
    SHOW(syscall(SYS_readlink, "/proc/self/exe", edge + PAGE - 1, 1));
    SHOW(syscall(SYS_getcwd, edge + PAGE - 1, 1));
}

static void strings(void) {
    char *paths[] = {edge + PAGE - 5, edge + PAGE - 4, (char *)0x7fffe0001000};
    for (int i = 0; i < 3; i++) {
        memcpy(edge + PAGE - 5, "//tmp", 5);
        if (i == 0) memcpy(edge + PAGE - 5, "/tmp", 5);
        SHOW(syscall(SYS_access, paths[i], 0));
        SHOW(syscall(SYS_chdir, paths[i]));
        SHOW(syscall(SYS_open, paths[i], O_RDONLY | O_DIRECTORY) >= 0);
        SHOW(syscall(SYS_mkdir, paths[i], 0700));
        SHOW(syscall(SYS_symlink, paths[i], "/tmp/made"));
        SHOW(syscall(SYS_unlink, "/tmp/made"));
        SHOW(syscall(SYS_rename, "/nothing", paths[i]));
        SHOW(syscall(SYS_link, paths[i], "/nothing/at/all"));
    }
    // A path longer than any, with and without an end.
    char *long_path = pages(3, PROT_READ | PROT_WRITE);
    memset(long_path, 'x', 3 * PAGE);
    SHOW(syscall(SYS_access, long_path, 0));
    long_path[PAGE - 1] = 0;
    SHOW(syscall(SYS_access, long_path, 0));
    SHOW(syscall(SYS_access, "", 0));
    char *arguments[] = {edge + PAGE - 4, NULL};
    memset(edge + PAGE - 4, 'x', 4);
    SHOW(syscall(SYS_execve, "/proc/self/exe", arguments, NULL));
    SHOW(syscall(SYS_execve, "/proc/self/exe", edge + PAGE - 8, NULL));
    SHOW(syscall(SYS_execve, "/proc/self/exe", 0x7fffe0001000, NULL));
}

int main(void) {
    file = open("/proc/self/exe", O_RDONLY);
    folder = open("/", O_RDONLY | O_DIRECTORY);
    pipe(ends);
    edge = pages(2, PROT_READ | PROT_WRITE);
    mprotect(edge + PAGE, PAGE, PROT_NONE);
    char *read_only = pages(1, PROT_READ), *none = pages(1, PROT_NONE);
    EACH(writes, "fits", edge + PAGE - size);
    EACH(writes, "lacks a byte", edge + PAGE - size + 1);
    EACH(writes, "read-only", read_only);
    EACH(writes, "forbidden", none);
    EACH(writes, "of the library", (char *)0x7fffe0002000);
    EACH(writes, "up to the end of the lower half", (char *)0x7fffffffefff);
    EACH(reads, "fits", edge + PAGE - size);
    EACH(reads, "lacks a byte", edge + PAGE - size + 1);
    EACH(reads, "forbidden", none);
    EACH(reads, "of the library", (char *)0x7fffe0001000);
    transfers();
    strings();
    return 0;
}
