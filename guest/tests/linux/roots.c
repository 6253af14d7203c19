// Roots of processes: chroot, and how one gets out of it; pivot_root; openat2 that is not to be led away.
// oracle: linux
// build: gcc, musl
#include "test.h"
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>

// As the kernel has them: C libraries without its headers do not.
struct open_how {
    uint64_t flags, mode, resolve;
};
enum { RESOLVE_NO_XDEV = 1, RESOLVE_NO_MAGICLINKS = 2, RESOLVE_NO_SYMLINKS = 4, RESOLVE_BENEATH = 8, RESOLVE_IN_ROOT = 16, RESOLVE_CACHED = 32 };

static char where[PATH_MAX];

static void cwd(void) {
    long bytes = syscall(SYS_getcwd, where, sizeof where);
    printf("cwd %s\n", bytes < 0 ? "none" : where);
}

static void touch(const char *path) { close(open(path, O_RDWR | O_CREAT, 0644)); }

static void link_of(const char *path) {
    ssize_t bytes = readlink(path, where, sizeof where - 1);
    if (bytes < 0) printf("%s: errno %d\n", path, errno);
    else printf("%s: %.*s\n", path, (int)bytes, where);
}

static int outside = -1;

static void in_a_root(void) {
    SHOW(chroot("/t/jail"));
    cwd();
    SHOW(access("/etc/inner", F_OK));
    SHOW(access("/t", F_OK));
    SHOW(access("/proc", F_OK));
    SHOW(chdir("/"));
    cwd();
    SHOW(chdir("../../.."));
    cwd();
    SHOW(access("../etc/inner", F_OK));
    SHOW(access("/absolute", F_OK));
    // A descriptor from before leads out, as on every Unix.
    SHOW(fchdir(outside));
    cwd();
    SHOW(access("jail/etc/inner", F_OK));
    SHOW(access("../t/jail", F_OK));
    SHOW(chdir("jail/deeper"));
    cwd();
    // Another root below leaves the working directory outside of it.
    SHOW(chroot("."));
    SHOW(chroot("/etc"));
    SHOW(fchdir(outside));
    SHOW(chroot("../t/jail/etc"));
    SHOW(access("/inner", F_OK));
    SHOW(access("/absolute", F_OK));
    SHOW(unshare(CLONE_NEWUSER));
    SHOW(setuid(1000));
    SHOW(chroot("/"));
    SHOW(chroot("/nothing"));
    SHOW(chroot("/inner"));
}

static void child(void (*body)(void)) {
    fflush(stdout);
    if (fork() == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static void pivot(void) {
    if (unshare(CLONE_NEWNS)) return;
    SHOW(mount("new", "/t/new", "tmpfs", 0, NULL));
    SHOW(mkdir("/t/new/old", 0755));
    SHOW(mkdir("/t/new/proc", 0755));
    touch("/t/new/mark");
    SHOW(syscall(SYS_pivot_root, "/t/nothing", "/t/new/old"));
    SHOW(syscall(SYS_pivot_root, "/t/new", "/t/new/nothing"));
    SHOW(syscall(SYS_pivot_root, "/t/new/mark", "/t/new/old"));
    SHOW(syscall(SYS_pivot_root, "/t/new", "/t/other"));
    SHOW(syscall(SYS_pivot_root, "/t/jail", "/t/jail/etc"));
    SHOW(syscall(SYS_pivot_root, "/t/new/old", "/t/new/old"));
    SHOW(chdir("/t/new"));
    SHOW(syscall(SYS_pivot_root, ".", "old"));
    cwd();
    SHOW(access("/mark", F_OK));
    SHOW(access("/old/t/jail", F_OK));
    SHOW(mount("proc", "/proc", "proc", 0, NULL));
    link_of("/proc/self/root");
    SHOW(chdir("/old"));
    SHOW(umount("/old"));
    SHOW(chdir("/"));
    SHOW(umount2("/old", MNT_DETACH));
    SHOW(access("/old/t", F_OK));
    // The old root was lower than this one: what was opened there before is out of reach.
    SHOW(fchdir(outside));
    cwd();
    if (fork() == 0) {
        SHOW(setuid(1000));
        SHOW(syscall(SYS_pivot_root, ".", "."));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static int resolve(int dir, const char *path, uint64_t flags, uint64_t how) {
    struct open_how wanted = {.flags = flags, .resolve = how};
    int fd = syscall(437, dir, path, &wanted, sizeof wanted);
    if (fd >= 0) close(fd);
    return fd < 0 ? -errno : 0;
}
#define RESOLVE(path, how) printf("%-22s %-32s %d\n", path, #how, resolve(dir, path, O_RDONLY, how))

static void resolved(void) {
    int dir = open("/t/jail", O_PATH | O_DIRECTORY);
    const char *paths[] = {"etc/inner", "/etc/inner", "../jail/etc/inner", "etc/../etc/inner", "etc/../../jail/etc", ".", "..", "relative", "absolute-in", "absolute",
                           "up", "proc/self/root", "proc/self/cwd", "proc/self/exe", "mnt", "mnt/..", "mnt/x", "nothing", "loop", "etc/inner/", "dirlink/inner"};
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        RESOLVE(paths[i], 0);
        RESOLVE(paths[i], RESOLVE_BENEATH);
        RESOLVE(paths[i], RESOLVE_IN_ROOT);
        RESOLVE(paths[i], RESOLVE_NO_SYMLINKS);
        RESOLVE(paths[i], RESOLVE_NO_MAGICLINKS);
        RESOLVE(paths[i], RESOLVE_NO_XDEV);
        RESOLVE(paths[i], RESOLVE_BENEATH | RESOLVE_NO_XDEV);
    }
    SHOW(resolve(dir, "relative", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS));
    SHOW(resolve(dir, "proc/self/cwd", O_PATH | O_NOFOLLOW, RESOLVE_NO_MAGICLINKS));
    SHOW(resolve(dir, "etc/inner", O_RDONLY, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
    SHOW(resolve(dir, "etc/inner", O_RDONLY, 0x1000));
    SHOW(resolve(dir, "etc/inner", 1ull << 40, 0));
    SHOW(resolve(dir, "etc", O_DIRECTORY | O_CREAT, 0));
    SHOW(resolve(dir, "etc", O_PATH | O_RDWR, 0));
    SHOW(resolve(dir, "etc/inner", O_RDWR | O_TRUNC, RESOLVE_CACHED));
    SHOW(resolve(AT_FDCWD, "/t/jail/etc/inner", O_RDONLY, RESOLVE_BENEATH));
    SHOW(resolve(999, "etc", O_RDONLY, 0));
    struct open_how how[2] = {{.flags = O_RDONLY, .mode = 0644}};
    SHOW(syscall(437, dir, "etc/inner", how, sizeof *how));
    how->mode = 0;
    SHOW(syscall(437, dir, "etc/inner", how, 8));
    SHOW(syscall(437, dir, "etc/inner", how, 8192));
    SHOW(syscall(437, dir, "etc/inner", how, sizeof how) >= 0);
    how[1].flags = 1;
    SHOW(syscall(437, dir, "etc/inner", how, sizeof how));
    SHOW(syscall(437, dir, "etc/inner", NULL, sizeof *how));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    mkdir("/t", 0755);
    if (mount("whole", "/t", "tmpfs", 0, NULL)) return 2;
    mkdir("/t/jail", 0755), mkdir("/t/jail/etc", 0755), mkdir("/t/jail/deeper", 0755), mkdir("/t/jail/deeper/etc", 0755);
    mkdir("/t/new", 0755), mkdir("/t/other", 0755), mkdir("/t/jail/proc", 0755), mkdir("/t/jail/mnt", 0755);
    touch("/t/jail/etc/inner");
    symlink("etc/inner", "/t/jail/relative"), symlink("/etc/inner", "/t/jail/absolute"), symlink("/t/jail/etc/inner", "/t/jail/absolute-in");
    symlink("../jail/etc/inner", "/t/jail/up"), symlink("loop", "/t/jail/loop"), symlink("etc", "/t/jail/dirlink");
    SHOW(chdir("/t"));
    outside = open("/t", O_RDONLY | O_DIRECTORY);
    child(in_a_root);
    child(pivot);
    SHOW(mount("in", "/t/jail/mnt", "tmpfs", 0, NULL));
    touch("/t/jail/mnt/x");
    SHOW(mount("proc", "/t/jail/proc", "proc", 0, NULL));
    resolved();
    SHOW(chdir("/"));
    close(outside);
    SHOW(umount2("/t", MNT_DETACH));
    return rmdir("/t");
}
