// A user makes mounts and name spaces until no more can be had: he is told so, others still have theirs, and with his last process
// all of it is gone. What one mounts over another's is seen in his own name space alone.
//
// build: gcc
// mem: 256M
// timeout: 240
// expect-stdout: stack: errno 28\ntmpfs: errno 28\nbind: errno 28\nspaces: errno 28\nroot mounts\nanother user has name spaces\nhosts: errno 28\nnested: errno 28\nhidden is not seen\nafter: root mounts\nas before\n
#include "test.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

// How the other one is told, and tells.
static int tells, hears;

enum { USER = 1000, OTHER = 1001, MANY = 20000 };

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    int failed = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);
    close(fd);
    return failed;
}

static int inside(int user) {
    char map[32];
    if (setgid(user) || setuid(user) || unshare(CLONE_NEWUSER | CLONE_NEWNS)) return errno;
    snprintf(map, sizeof map, "0 %d 1", user);
    return 0;
}

// Has a child of some user do something, and answers what that returns.
static int done(int user, int (*what)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int failed = user ? inside(user) : 0;
        if (failed) printf("inside: errno %d\n", failed);
        else failed = what();
        fflush(stdout);
        _exit(failed);
    }
    int status;
    waitpid(pid, &status, 0);
    return status;
}

static int root_mounts(void) {
    if (mount("none", "/mnt/root", "tmpfs", 0, NULL) || mkdir("/mnt/root/x", 0700) || umount("/mnt/root")) return 1;
    return 0;
}

static int nothing(void) { return 0; }

static int floods(void) {
    char name[32];
    int made = 0, error;
    while (made < MANY && mount("none", "/mnt/all", "tmpfs", 0, NULL) == 0) made++;
    printf("stack: errno %d\n", errno);
    for (made = 0, error = 0; made < MANY && !error; made++) {
        snprintf(name, sizeof name, "/mnt/all/%d", made);
        if (mkdir(name, 0700) || mount("none", name, "tmpfs", 0, NULL)) error = errno;
    }
    printf("tmpfs: errno %d\n", error);
    printf("bind: errno %d\n", mount("/mnt/mark", name, NULL, MS_BIND, NULL) ? errno : 0);
    printf("spaces: errno %d\n", unshare(CLONE_NEWNS) ? errno : 0);
    fflush(stdout);
    // Those whom it is not about do not notice.
    char byte = 'x';
    return write(tells, &byte, 1) != 1 || read(hears, &byte, 1) != 1;
}

static int hosts(void) {
    int made = 0;
    static int fds[MANY];
    while (made < 2000 && unshare(CLONE_NEWUTS) == 0) {
        fds[made] = open("/proc/self/ns/uts", O_RDONLY);
        if (fds[made++] < 0) break;
    }
    printf("hosts: errno %d\n", errno);
    return 0;
}

static int nested(void) {
    int made = 0;
    do {
        char map[32];
        snprintf(map, sizeof map, "0 %d 1", made ? 0 : USER);
        put("/proc/self/setgroups", "deny");
        if (put("/proc/self/uid_map", map) || put("/proc/self/gid_map", map)) {
            printf("map %d: errno %d\n", made, errno);
            return 1;
        }
    } while (++made < 100 && unshare(CLONE_NEWUSER) == 0);
    printf("nested: errno %d\n", errno);
    return 0;
}

static int hides(void) {
    char byte = 'x';
    if (mount("none", "/mnt", "tmpfs", 0, NULL) || access("/mnt/mark", F_OK) == 0) return 1;
    return write(tells, &byte, 1) != 1 || read(hears, &byte, 1) != 1;
}

static long value(const char *name) {
    char text[4096];
    int fd = open("/proc/tessera/unixd", O_RDONLY);
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes < 0 ? 0 : bytes] = 0;
    char *at = strstr(text, name);
    return at ? atol(at + strlen(name)) : -1;
}

// Starts somebody who waits, and does something meanwhile.
static pid_t beside(int (*what)(void), int up[2], int down[2]) {
    if (pipe(up) || pipe(down)) return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        hears = down[0], tells = up[1];
        int failed = inside(USER);
        if (!failed) failed = what();
        fflush(stdout);
        _exit(failed);
    }
    char byte;
    close(up[1]), close(down[0]);
    return read(up[0], &byte, 1) == 1 ? pid : -1;
}

static void over(pid_t pid, int down[2]) {
    int status;
    if (write(down[1], "x", 1) != 1 || waitpid(pid, &status, 0) != pid || status) printf("status %x\n", status);
}

int main(void) {
    int up[2], down[2];
    umask(0);
    struct rlimit files = {3000, 3000};
    setrlimit(RLIMIT_NOFILE, &files);
    mkdir("/mnt", 0755), mkdir("/mnt/root", 0755), mkdir("/mnt/all", 0777), mkdir("/mnt/mark", 0755);
    done(0, root_mounts);
    long before = value("inodes ");
    pid_t pid = beside(floods, up, down);
    if (done(0, root_mounts) == 0) printf("root mounts\n");
    if (done(OTHER, nothing) == 0) printf("another user has name spaces\n");
    over(pid, down);
    done(USER, hosts);
    done(USER, nested);
    pid = beside(hides, up, down);
    if (access("/mnt/mark", F_OK) == 0) printf("hidden is not seen\n");
    over(pid, down);
    if (done(0, root_mounts) == 0) printf("after: root mounts\n");
    long after = value("inodes ");
    if (after == before) printf("as before\n");
    else printf("inodes %ld, before %ld\n", after, before);
    return 0;
}
