// A user makes names until no more can be had: symbolic links with long targets, then empty files, in
// one directory each. He is told so, root can still work meanwhile, and what he removes is free again:
// the memory comes back, but for a remainder (see REMAINDER).
//
// build: gcc
// mem: 128M
// timeout: 240
// keeps: 524288
// expect-stdout: a few: ENOSPC\nroot works\nall removed\nnow in earnest\nlinks: ENOSPC\nroot works\nall removed\nmemory is back\nfiles: ENOSPC\nroot works\nall removed\nmemory is back\npassed\n
#include "test.h"
#include <sys/stat.h>
#include <sys/sysinfo.h>

enum { USER = 1000, TARGET = 4000 };
// What the server keeps of 100 MiB: page tables of its heap, and pieces of the heap in which something of
// others lies.
#define REMAINDER (512 << 10)

// What a process takes of RAM when it has none left to fork with.
#define STOCK (2 << 20)

static char target[TARGET + 1];

static long free_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.freeram * info.mem_unit;
}

static int make_few(const char *name) {
    static int made;
    errno = ENOSPC;
    return made++ == 100 ? -1 : symlink("short", name);
}
static int make_link(const char *name) { return symlink(target, name); }
static int make_file(const char *name) {
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int failed;
static void fail(const char *what, long value) {
    printf("FAILED %s: %ld, errno %d (%s)\n", what, value, errno, strerror(errno));
    failed = 1;
}

// What an administrator needs when something is full.
static void root_works(void) {
    int fd = open("/root/note", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (fd < 0) return fail("root: open", fd);
    if (write(fd, "still here", 10) != 10) return fail("root: write", 0);
    close(fd);
    if (unlink("/root/note")) return fail("root: unlink", 0);
    int ends[2];
    if (pipe(ends)) return fail("root: pipe", 0);
    pid_t pid = fork();
    if (pid == 0) _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) return fail("root: fork", pid);
    close(ends[0]);
    close(ends[1]);
    printf("root works\n");
}

static void name_of(char *name, long i) { sprintf(name, "/tmp/hostile/%ld", i); }

// The user's part: says how many there are, waits, removes them.
static void user(int (*make)(const char *), int tell, int go) {
    char name[64], byte;
    if (setuid(USER)) _exit(1);
    long made[2] = {0, 0};
    for (;; made[0]++) {
        name_of(name, made[0]);
        if (make(name)) break;
    }
    made[1] = errno;
    write(tell, made, sizeof made);
    read(go, &byte, 1);
    for (long i = 0; i < made[0]; i++) {
        name_of(name, i);
        if (unlink(name)) _exit(2);
    }
    // And once more, to the same effect.
    for (int i = 0; i < 100; i++) {
        name_of(name, i);
        if (make(name)) _exit(3);
        if (unlink(name)) _exit(4);
    }
    _exit(0);
}

static void round_of(const char *what, int (*make)(const char *), long least) {
    int tell[2], go[2];
    pipe(tell);
    pipe(go);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) user(make, tell[1], go[0]);
    long made[2] = {0, 0};
    read(tell[0], made, sizeof made);
    printf("%s: %s\n", what, made[1] == ENOSPC ? "ENOSPC" : strerror(made[1]));
    if (made[0] < least) fail("too few", made[0]);
    root_works();
    write(go[1], "g", 1);
    int status = -1;
    waitpid(pid, &status, 0);
    if (status) fail("removing", status);
    else printf("all removed\n");
    for (int i = 0; i < 2; i++) close(tell[i]), close(go[i]);
}

// A round in a process of its own, whose stock of memory goes with it.
static void measured(const char *what, int (*make)(const char *), long least) {
    fflush(stdout);
    long before = free_memory();
    pid_t pid = fork();
    if (pid == 0) {
        round_of(what, make, least);
        fflush(stdout);
        _exit(failed);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    if (status) failed = 1;
    long lost = before - free_memory();
    if (lost > REMAINDER) fail("bytes lost", lost);
    else printf("memory is back\n");
}

int main(void) {
    memset(target, 't', TARGET);
    mkdir("/tmp/hostile", 0777);
    chmod("/tmp/hostile", 0777);
    // Forks until this process has had to ask for RAM anew: it has some for more forks than follow then,
    // and what is measured below is not its own stock.
    long before = free_memory(), had = before;
    for (int i = 0; i < 1000 && (i < 8 || before - had < STOCK / 2); i++) {
        before = had;
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        waitpid(pid, NULL, 0);
        had = free_memory();
    }
    round_of("a few", make_few, 10);
    printf("now in earnest\n");
    measured("links", make_link, 10000);
    measured("files", make_file, 60000);
    if (!failed) printf("passed\n");
    return failed;
}
