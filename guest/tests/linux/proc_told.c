// oracle: linux
// /proc/PID/maps, smaps, auxv and environ of other processes: what a debugger reads.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[1 << 20], other[1 << 20];

static long all(const char *path, char *to) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) return -errno;
    long n = 0, got;
    while ((got = read(fd, to + n, (1 << 20) - 1 - n)) > 0) n += got;
    if (got < 0) n = -errno;
    else to[n] = 0;
    close(fd);
    return n;
}

static const char *file(pid_t pid, const char *name) {
    static char path[100];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return path;
}

static uint64_t entry(long bytes, uint64_t key) {
    uint64_t *words = (uint64_t *)text;
    for (long i = 0; i + 1 < bytes / 8; i += 2)
        if (words[i] == key) return words[i + 1];
    return 0;
}

/// Protections of the mapping of a child that begins at `start`.
static void mapping(pid_t pid, void *start, const char *what) {
    long n = all(file(pid, "maps"), text);
    char head[40];
    snprintf(head, sizeof head, "%08lx-", (unsigned long)start);
    char *at = n > 0 ? strstr(text, head) : 0;
    char rights[8] = "none";
    if (at) sscanf(at, "%*s %7s", rights);
    printf("%s: %s\n", what, rights);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        // The program that is looked at: says that it is there, and waits.
        setenv("LATER", "1", 1);
        if (write(1, "x", 1) != 1) return 1;
        for (;;) pause();
    }
    setvbuf(stdout, 0, _IONBF, 0);
    int ready[2];
    if (pipe(ready)) return 1;
    char byte;
    void *shared = mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *private = mmap(0, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // A child with this memory, which changes it.
    pid_t pid = fork();
    if (!pid) {
        mprotect(private, 4096, PROT_NONE);
        mprotect(private + 4096, 4096, PROT_READ | PROT_EXEC);
        munmap(private + 2 * 4096, 4096);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    if (read(ready[0], &byte, 1) != 1) return 1;
    mapping(pid, private, "first page"), mapping(pid, private + 4096, "second page");
    mapping(pid, private + 2 * 4096, "third page"), mapping(pid, private + 3 * 4096, "fourth page");
    mapping(pid, shared, "shared page");
    long own = all("/proc/self/auxv", other), its = all(file(pid, "auxv"), text);
    printf("auxv is inherited: %d\n", own == its && own > 0 && !memcmp(text, other, own));
    printf("entry %d, headers %d\n", entry(its, AT_ENTRY) == getauxval(AT_ENTRY), entry(its, AT_PHDR) == getauxval(AT_PHDR));
    printf("maps %d, smaps %d\n", strstr(all(file(pid, "maps"), text) > 0 ? text : "", "[stack]") != 0,
           strstr(all(file(pid, "smaps"), text) > 0 ? text : "", "Private_Dirty:") != 0);
    // In pieces, at offsets, from a duplicate: one text.
    long n = all(file(pid, "maps"), text);
    int fd = open(file(pid, "maps"), O_RDONLY), twin = dup(fd);
    long got = 0, piece, turn = 0;
    for (; (piece = read(turn % 2 ? fd : twin, other + got, 1 + turn % 100)) > 0; turn++) got += piece;
    printf("in pieces: %d\n", got == n && !memcmp(text, other, n));
    printf("at an offset: %d\n", pread(fd, other, 30, 10) == 30 && !memcmp(other, text + 10, 30));
    printf("back at the start: %ld\n", (long)lseek(fd, 0, SEEK_SET));
    printf("read again: %d\n", read(fd, other, 20) == 20 && !memcmp(other, text, 20));
    printf("beyond the end: %ld\n", (long)pread(fd, other, 10, 1 << 24));
    // It is looked at while it is traced, and where it stops.
    printf("attach %ld\n", ptrace(PTRACE_ATTACH, pid, 0, 0));
    int status;
    waitpid(pid, &status, 0);
    printf("auxv while it is stopped: %d\n", all(file(pid, "auxv"), text) == own);
    mapping(pid, private + 4096, "second page");
    ptrace(PTRACE_DETACH, pid, 0, 0);
    // What was opened before its end tells nothing after it.
    kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
    printf("after its end: %ld\n", (long)pread(fd, other, 10, 0));
    waitpid(pid, &status, 0);
    printf("when it is gone: %s\n", open(file(pid, "maps"), O_RDONLY) < 0 ? strerror(errno) : "opened");
    close(fd), close(twin);
    // Another program: it has an environment of its own, as it was when it started.
    pid = fork();
    if (!pid) {
        dup2(ready[1], 1);
        char *args[] = { "looked-at", "1", 0 }, *env[] = { "FIRST=one", "SECOND=two words", 0 };
        execve("/proc/self/exe", args, env);
        _exit(1);
    }
    if (read(ready[0], &byte, 1) != 1) return 1;
    n = all(file(pid, "environ"), text);
    printf("environ %ld:", n);
    for (long i = 0; i < n; i += strlen(text + i) + 1) printf(" [%s]", text + i);
    printf("\n");
    its = all(file(pid, "auxv"), text);
    printf("auxv %d, secure %lu, page %lu, ends %d\n", its == own, (unsigned long)entry(its, AT_SECURE), (unsigned long)entry(its, AT_PAGESZ),
           its >= 16 && ((uint64_t *)text)[its / 8 - 1] == 0);
    snprintf(other, 100, "/proc/%d/task/%d/auxv", pid, pid);
    printf("of its thread %d\n", all(other, text + 4096) == its);
    // Own ones by other names.
    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
    fd = openat(dir, "maps", O_RDONLY);
    n = read(fd, text, 4000);
    text[n > 0 ? n : 0] = 0;
    printf("own by a folder: %d\n", strchr(text, '-') != 0 && strstr(text, " r") != 0);
    // Others' are not for everybody.
    if (!fork()) {
        if (setgid(65534) || setuid(65534)) _exit(1);
        printf("as nobody: maps %s, auxv %s, environ %s\n", open(file(pid, "maps"), O_RDONLY) < 0 ? strerror(errno) : "opened",
               open(file(pid, "auxv"), O_RDONLY) < 0 ? strerror(errno) : "opened", open(file(pid, "environ"), O_RDONLY) < 0 ? strerror(errno) : "opened");
        _exit(0);
    }
    wait(&status);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("signal %d\n", WTERMSIG(status));
    (void)argv;
    return 0;
}
