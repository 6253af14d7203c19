// What an open name space is asked for: its kind, who has made it, the one around it, and the one of users that it belongs to; by who is in
// it, by who is outside of it, and by who is inside and may not look out.
// oracle: linux
// build: gcc, musl
#include "spaces.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define NS_GET_USERNS 0xb701
#define NS_GET_PARENT 0xb702
#define NS_GET_NSTYPE 0xb703
#define NS_GET_OWNER_UID 0xb704

static const char *kinds[] = {"user", "pid", "mnt", "uts", "ipc"};

static int opened(const char *of, const char *kind) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/%s", of, kind);
    return open(path, O_RDONLY);
}

// -errno; else whether it is that of who asks, 1, or another one, 0.
static int around(int fd, unsigned long which, const char *kind) {
    int it = ioctl(fd, which);
    if (it < 0) return -errno;
    struct stat a, b;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    if (fstat(it, &a) || stat(path, &b)) return -1000;
    int flags = fcntl(it, F_GETFL) & O_ACCMODE, cloexec = fcntl(it, F_GETFD);
    int type = ioctl(it, NS_GET_NSTYPE), wanted = which == NS_GET_USERNS ? CLONE_NEWUSER : ioctl(fd, NS_GET_NSTYPE);
    close(it);
    if (flags != O_RDONLY || cloexec != FD_CLOEXEC || type != wanted) return -2000;
    return a.st_ino == b.st_ino;
}

static void ask(const char *of) {
    for (unsigned n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        int fd = opened(of, kinds[n]);
        unsigned owner = 77;
        int type = ioctl(fd, NS_GET_NSTYPE);
        int made = ioctl(fd, NS_GET_OWNER_UID, &owner) ? -errno : 0;
        printf("%s: type %x, owner %d %u, users %d, parent %d\n", kinds[n], type, made, owner, around(fd, NS_GET_USERNS, "user"),
               around(fd, NS_GET_PARENT, kinds[n]));
        close(fd);
    }
}

static void inside(uint64_t flags) {
    printf("--- inside, flags %x\n", (unsigned)flags);
    ask("self");
}

// From outside, of who waits in its own ones, as a user or not.
static void of_child(uint64_t flags, int user) {
    int gate[2], ready[2];
    char byte, name[16];
    pipe(gate), pipe(ready);
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    printf("--- of a child, flags %x, user %d\n", (unsigned)flags, user);
    fflush(stdout);
    // Who has changed his ids cannot look at his own child otherwise.
    if (user && (setgid(user) || setuid(user) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))) _exit(9);
    pid_t pid = syscall(435, &args, sizeof args);
    if (pid == 0) {
        close(gate[1]);
        write(ready[1], "x", 1);
        read(gate[0], &byte, 1);
        _exit(0);
    }
    if (pid < 0) {
        printf("%d\n", -errno);
        return;
    }
    read(ready[0], &byte, 1);
    snprintf(name, sizeof name, "%d", pid);
    ask(name);
    close(gate[1]);
    waitpid(pid, NULL, 0);
}

static void around_user(void) { of_child(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS, 1000); }

// Handed in from outside, which is not to be looked at from here.
static int outer[5];
static void handed(uint64_t flags) {
    printf("--- handed in\n");
    for (int n = 0; n < 5; n++)
        printf("%s: users %d, parent %d\n", kinds[n], around(outer[n], NS_GET_USERNS, "user"), around(outer[n], NS_GET_PARENT, kinds[n]));
}

int main(void) {
    uint64_t all = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS;
    printf("--- own\n");
    ask("self");
    printf("status %x\n", cloned_for(all, inside));
    printf("status %x\n", cloned_for(all & ~CLONE_NEWUSER, inside));
    of_child(all, 0);
    of_child(all & ~CLONE_NEWUSER, 0);
    child(around_user);
    for (int n = 0; n < 5; n++) outer[n] = opened("self", kinds[n]);
    printf("status %x\n", cloned_for(all, handed));
    int file = open("/proc/self/status", O_RDONLY), pair[2];
    pipe(pair);
    printf("no name space %d %d, unknown %d\n", ioctl(file, NS_GET_NSTYPE) ? -errno : 0, ioctl(pair[0], NS_GET_PARENT) ? -errno : 0,
           ioctl(outer[0], 0xb7ff) ? -errno : 0);
    printf("nowhere %d\n", ioctl(outer[0], NS_GET_OWNER_UID, (void *)16) ? -errno : 0);
    return 0;
}
