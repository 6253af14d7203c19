// Name spaces of mounts, host names and users: what a process sees, what it may do there, and how others get into them.
// oracle: linux
// build: gcc, musl
#include "spaces.h"
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

static char text[4096];

static const char *slurp(const char *path) {
    int fd = open(path, O_RDONLY);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes < 0) snprintf(text, sizeof text, "errno %d\n", errno);
    else text[bytes] = 0;
    return text;
}

static void names(void) {
    struct utsname it;
    uname(&it);
    printf("%s %s\n", it.nodename, it.domainname);
}

static pid_t parent;

static void same(void) {
    printf("same mnt %d user %d uts %d\n", in_same("mnt", parent), in_same("user", parent), in_same("uts", parent));
}

static void hosts(void) {
    parent = getppid();
    same();
    SHOW(unshare(CLONE_NEWUTS));
    same();
    SHOW(sethostname("inside", 6));
    SHOW(setdomainname("domain.example", 14));
    names();
    SHOW(sethostname("", 0));
    SHOW(sethostname("x", -1));
    SHOW(sethostname(text, 65));
    SHOW(sethostname(text, 64));
    SHOW(sethostname((char *)1, 4));
    SHOW(setdomainname((char *)1, 4));
    SHOW(sethostname("in\nside", 7));
    SHOW(setuid(1000));
    SHOW(sethostname("x", 1));
    SHOW(setdomainname("x", 65));
    SHOW(unshare(CLONE_NEWUTS));
    SHOW(unshare(CLONE_NEWNS));
    SHOW(unshare(0));
    SHOW(unshare(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM));
    SHOW(unshare(0x1));
    SHOW(unshare(CLONE_VFORK));
    SHOW(unshare(CLONE_PARENT));
}

static void mounts(void) {
    parent = getppid();
    int before = open("/proc/self/ns/mnt", O_RDONLY);
    SHOW(unshare(CLONE_NEWNS));
    same();
    SHOW(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    SHOW(mount("none", "/t", "tmpfs", 0, NULL));
    SHOW(mkdir("/t/inside", 0755));
    SHOW(chdir("/t/inside"));
    int after = open("/proc/self/ns/mnt", O_RDONLY);
    SHOW(setns(before, CLONE_NEWUTS));
    SHOW(setns(before, CLONE_NEWNS));
    char where[PATH_MAX];
    printf("%s\n", getcwd(where, sizeof where));
    SHOW(access("/t/inside", F_OK));
    SHOW(access("/t/outside", F_OK));
    same();
    SHOW(setns(after, 0));
    SHOW(access("/t/inside", F_OK));
    SHOW(setns(0, 0));
    SHOW(setns(999, 0));
    SHOW(setns(after, 0x100));
    SHOW(setuid(1000));
    SHOW(setns(after, CLONE_NEWNS));
    close(before), close(after);
}

static void ids(void) {
    uid_t real, effective, saved;
    getresuid(&real, &effective, &saved);
    printf("uid %d %d %d gid %d %d\n", real, effective, saved, getgid(), getegid());
}

static void caps(void) {
    slurp("/proc/self/status");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, "CapEff", 6)) printf("has all: %d\n", strtoull(line + 7, NULL, 16) + 1 >= 1ull << 40);
}

// As `unshare -r` does it, by somebody who is nobody special.
static void users(void) {
    parent = getppid();
    SHOW(setgroups(0, NULL));
    SHOW(setgid(1000));
    SHOW(setuid(1000));
    // What it says of itself is for it to change again.
    SHOW(prctl(PR_SET_DUMPABLE, 1));
    printf("%s", slurp("/proc/self/uid_map"));
    printf("%s", slurp("/proc/self/setgroups"));
    SHOW(put("/proc/self/uid_map", "0 1000 1"));
    SHOW(unshare(CLONE_NEWUSER));
    same();
    ids();
    caps();
    printf("[%s]", slurp("/proc/self/uid_map"));
    printf("[%s]", slurp("/proc/self/gid_map"));
    printf("%s", slurp("/proc/self/setgroups"));
    SHOW(setuid(0));
    SHOW(setuid(1000));
    SHOW(setgroups(0, NULL));
    SHOW(sethostname("x", 1));
    SHOW(put("/proc/self/uid_map", "x"));
    SHOW(put("/proc/self/uid_map", "0 0 1"));
    SHOW(put("/proc/self/uid_map", "0 1000 2"));
    SHOW(put("/proc/self/uid_map", "0 1001 1"));
    SHOW(put("/proc/self/uid_map", "0 1000 0"));
    SHOW(put("/proc/self/uid_map", "0 1000 1\n5 1000 1"));
    SHOW(put("/proc/self/gid_map", "0 1000 1"));
    SHOW(put("/proc/self/setgroups", "maybe"));
    SHOW(put("/proc/self/setgroups", "deny"));
    SHOW(put("/proc/self/setgroups", "allow"));
    SHOW(put("/proc/self/gid_map", "0 1000 1"));
    SHOW(put("/proc/self/uid_map", "0 1000 1\n"));
    SHOW(put("/proc/self/uid_map", "0 1000 1"));
    SHOW(put("/proc/self/setgroups", "allow"));
    printf("%s", slurp("/proc/self/uid_map"));
    printf("%s", slurp("/proc/self/gid_map"));
    ids();
    SHOW(setgroups(0, NULL));
    SHOW(setuid(1));
    SHOW(setuid(0));
    struct stat st;
    SHOW(stat("/", &st));
    printf("/ is of %d\n", st.st_uid);
    SHOW(stat("/t/own", &st));
    printf("/t/own is of %d\n", st.st_uid);
    SHOW(chown("/t/own", 0, 0));
    SHOW(chown("/t/own", 1, 0));
    SHOW(chown("/t/outside", 0, 0));
    SHOW(access("/t/secret", R_OK));
    // What is the machine's is not its.
    SHOW(sethostname("x", 1));
    SHOW(mount("none", "/t", "tmpfs", 0, NULL));
    SHOW(mknod("/t/all/null", S_IFCHR | 0666, 1 << 8 | 3));
    SHOW(chroot("/"));
    SHOW(kill(parent, 0));
    SHOW(unshare(CLONE_NEWUTS | CLONE_NEWNS));
    SHOW(sethostname("x", 1));
    SHOW(mount("none", "/t", "tmpfs", 0, NULL));
    SHOW(mkdir("/t/mine", 0755));
    SHOW(stat("/t/mine", &st));
    printf("/t/mine is of %d\n", st.st_uid);
    SHOW(umount("/t"));
    SHOW(umount("/proc"));
    SHOW(mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    SHOW(mount("/t", "/t/all", NULL, MS_BIND | MS_REC, NULL));
    SHOW(mount(NULL, "/t/all", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
    SHOW(mkdir("/t/all/x", 0700));
    SHOW(unshare(CLONE_NEWUSER));
    ids();
}

static void *idle(void *none) {
    pause();
    return none;
}

static void with_threads(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, idle, NULL);
    SHOW(unshare(CLONE_NEWUSER));
    SHOW(unshare(CLONE_THREAD));
    SHOW(unshare(CLONE_VM));
    SHOW(unshare(CLONE_SIGHAND));
    SHOW(unshare(CLONE_NEWUTS));
    int fd = open("/proc/self/ns/mnt", O_RDONLY);
    SHOW(setns(fd, 0));
    fd = open("/proc/self/ns/user", O_RDONLY);
    SHOW(setns(fd, 0));
    fflush(stdout);
    _exit(0);
}

static void seen(uint64_t flags) {
    same();
    ids();
    if (flags & CLONE_NEWUTS) SHOW(sethostname("clone", 5));
}
static int cloned(uint64_t flags) { return cloned_for(flags, seen); }

static void clones(void) {
    parent = getpid();
    SHOW(cloned(CLONE_NEWUTS));
    names();
    SHOW(cloned(CLONE_NEWNS | CLONE_NEWUTS));
    SHOW(cloned(CLONE_NEWUSER | CLONE_NEWUTS));
    SHOW(cloned(CLONE_NEWNS | CLONE_FS));
    SHOW(cloned(CLONE_NEWUSER | CLONE_FS));
    SHOW(cloned(CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM));
    SHOW(setuid(1000));
    SHOW(cloned(CLONE_NEWUTS));
    SHOW(cloned(CLONE_NEWUSER | CLONE_NEWNS));
}

// Somebody else's name spaces, by a descriptor of him.
static void others(void) {
    int ready[2], over[2];
    if (pipe(ready) || pipe(over)) return;
    fflush(stdout);
    pid_t pid = fork();
    char byte;
    if (pid == 0) {
        if (unshare(CLONE_NEWUTS | CLONE_NEWNS) || sethostname("other", 5)) _exit(1);
        write(ready[1], "x", 1);
        read(over[0], &byte, 1);
        _exit(0);
    }
    read(ready[0], &byte, 1);
    int fd = syscall(434, pid, 0);
    SHOW(setns(fd, 0));
    SHOW(setns(fd, 0x100));
    SHOW(setns(fd, CLONE_NEWUTS | CLONE_NEWNS));
    printf("same %d %d\n", in_same("uts", pid), in_same("mnt", pid));
    names();
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/uts", pid);
    ssize_t bytes = readlink(path, text, sizeof text);
    printf("%.5s %d\n", text, bytes > 10);
    SHOW(open(path, O_RDWR));
    SHOW(open(path, O_RDONLY | O_NOFOLLOW));
    int space = open(path, O_RDONLY);
    SHOW(read(space, text, 1));
    struct stat st;
    SHOW(fstat(space, &st));
    printf("mode %o\n", st.st_mode);
    write(over[1], "x", 1);
    waitpid(pid, NULL, 0);
    SHOW(setns(space, CLONE_NEWUTS));
    SHOW(open(path, O_RDONLY));
    SHOW(setuid(1000));
    SHOW(setns(space, CLONE_NEWUTS));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    sethostname("outside", 7), setdomainname("(none)", 6);
    mkdir("/t", 0755);
    if (mount("whole", "/t", "tmpfs", 0, NULL)) return 2;
    mkdir("/t/outside", 0755), mkdir("/t/own", 0755), mkdir("/t/all", 0777), mkdir("/t/secret", 0700);
    chmod("/t/all", 0777), chown("/t/own", 1000, 1000);
    child(hosts);
    names();
    child(mounts);
    child(users);
    child(with_threads);
    child(clones);
    child(others);
    names();
    SHOW(umount2("/t", MNT_DETACH));
    return rmdir("/t");
}
