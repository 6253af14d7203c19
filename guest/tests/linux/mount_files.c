// Mounts by descriptors: fsopen, fsconfig, fsmount, fspick, open_tree, move_mount, mount_setattr.
// oracle: linux
#include "spaces.h"
#include <sys/mount.h>
#include <sys/statvfs.h>

enum { SET_FLAG, SET_STRING, SET_BINARY, SET_PATH, SET_PATH_EMPTY, SET_FD, CREATE, RECONFIGURE };
enum { CLONE_IT = 1, RECURSIVE = 0x8000, EMPTY = 0x1000, NOFOLLOW = 0x100, F_EMPTY = 4, T_EMPTY = 0x40, F_LINKS = 1, T_LINKS = 0x10 };

struct attr { uint64_t set, clear, propagation, userns; };

static int fs(const char *kind) { return syscall(SYS_fsopen, kind, 1); }
static int config(int fd, int command, const char *key, const void *value, int aux) {
    return syscall(SYS_fsconfig, fd, command, key, value, aux);
}
static int set_attr(int dir, const char *path, int flags, uint64_t set, uint64_t clear, uint64_t how) {
    struct attr attr = {set, clear, how, 0};
    return syscall(SYS_mount_setattr, dir, path, flags, &attr, sizeof attr);
}
static int tree(int dir, const char *path, unsigned flags) { return syscall(SYS_open_tree, dir, path, flags); }
static int moved(int from, const char *a, int to, const char *b, unsigned flags) {
    return syscall(SYS_move_mount, from, a, to, b, flags);
}
static void says(int fd) {
    char text[300];
    ssize_t bytes;
    while ((bytes = read(fd, text, sizeof text)) > 0) printf("  said: %.*s\n", (int)bytes, text);
    printf("  nothing more: %zd %d\n", bytes, errno);
}
// A descriptor, whatever its number.
static int got(int fd) {
    int error = errno;
    if (fd < 0) return -error;
    close(fd);
    return 0;
}
static void flags_of(const char *path) {
    struct statvfs it;
    if (statvfs(path, &it)) printf("flags of %s: errno %d\n", path, errno);
    else printf("flags of %s: %#lx\n", path, it.f_flag & 0xfdf);
}

static int made(const char *size, unsigned attributes) {
    int fd = fs("tmpfs");
    if (config(fd, SET_STRING, "size", size, 0) || config(fd, CREATE, NULL, NULL, 0)) return -1;
    int at = syscall(SYS_fsmount, fd, 1, attributes);
    close(fd);
    return at;
}

static void errors(void) {
    SHOW(fs("nothing"));
    SHOW(syscall(SYS_fsopen, "tmpfs", 2));
    SHOW(syscall(SYS_fsopen, NULL, 0));
    int fd = fs("tmpfs"), other = open("/tmp", O_RDONLY);
    SHOW(config(fd, SET_FLAG, NULL, NULL, 0));
    SHOW(config(fd, SET_FLAG, "ro", "x", 0));
    SHOW(config(fd, SET_FLAG, "ro", NULL, 1));
    SHOW(config(fd, SET_STRING, "size", NULL, 0));
    SHOW(config(fd, SET_STRING, "size", "1M", 3));
    SHOW(config(fd, SET_BINARY, "size", "1M", 0));
    SHOW(config(fd, SET_BINARY, "size", "1M", (1 << 20) + 1));
    SHOW(config(fd, SET_BINARY, "size", "1M", 2));
    SHOW(config(fd, SET_PATH, "size", "/tmp", -1));
    SHOW(config(fd, SET_PATH, "size", "/tmp", AT_FDCWD));
    SHOW(config(fd, SET_PATH, "size", "", AT_FDCWD));
    SHOW(config(fd, SET_FD, "size", NULL, -1));
    SHOW(config(fd, SET_FD, "size", NULL, 999));
    SHOW(config(fd, SET_FD, "size", NULL, other));
    SHOW(config(fd, SET_FD, "size", "x", other));
    SHOW(config(fd, CREATE, "x", NULL, 0));
    SHOW(config(fd, RECONFIGURE, NULL, "x", 0));
    SHOW(config(fd, 99, NULL, NULL, 0));
    SHOW(config(-1, CREATE, NULL, NULL, 0));
    SHOW(config(999, CREATE, NULL, NULL, 0));
    SHOW(config(other, CREATE, NULL, NULL, 0));
    SHOW(config(fd, SET_STRING, (char *)8, "x", 0));
    SHOW(config(fd, SET_STRING, "size", (char *)8, 0));
    static char longest[300];
    memset(longest, 'a', 299);
    SHOW(config(fd, SET_STRING, longest, "x", 0));
    SHOW(config(fd, SET_STRING, "size", longest, 0));
    while (read(fd, longest, 300) > 0) continue;
    SHOW(config(fd, SET_STRING, "size", "much", 0));
    SHOW(config(fd, SET_STRING, "mode", "9", 0));
    SHOW(config(fd, SET_STRING, "nothing", "x", 0));
    SHOW(config(fd, SET_FLAG, "nothing", NULL, 0));
    SHOW(config(fd, SET_FLAG, "size", NULL, 0));
    char small[4];
    SHOW(read(fd, small, 4));
    says(fd);
    SHOW(config(fd, SET_STRING, "source", "one", 0));
    SHOW(config(fd, SET_STRING, "source", "two", 0));
    SHOW(config(fd, SET_FLAG, "source", NULL, 0));
    says(fd);
    SHOW(write(fd, "x", 1));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(syscall(SYS_fsmount, fd, 0, 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    SHOW(config(fd, CREATE, NULL, NULL, 0));
    SHOW(config(fd, CREATE, NULL, NULL, 0));
    SHOW(config(fd, SET_STRING, "size", "1M", 0));
    SHOW(syscall(SYS_fsmount, fd, 2, 0));
    SHOW(syscall(SYS_fsmount, fd, 0, 0x30));
    SHOW(syscall(SYS_fsmount, fd, 0, 0x4000000));
    SHOW(syscall(SYS_fsmount, other, 0, 0));
    SHOW(syscall(SYS_fsmount, 999, 0, 0));
    SHOW(got(syscall(SYS_fsmount, fd, 1, 0)));
    SHOW(syscall(SYS_fsmount, fd, 1, 0));
    SHOW(config(fd, CREATE, NULL, NULL, 0));
    SHOW(config(fd, SET_STRING, "size", "2M", 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    SHOW(config(fd, SET_FLAG, "ro", NULL, 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    close(fd);
    close(other);
    SHOW(got(fs("proc")));
    SHOW(got(fs("sysfs")));
}

static void places(void) {
    mkdir("/tmp/m", 0755), mkdir("/tmp/m/a", 0755), mkdir("/tmp/m/b", 0755), mkdir("/tmp/m/c", 0755);
    close(open("/tmp/m/file", O_CREAT | O_RDWR, 0644));
    symlink("/tmp/m/a", "/tmp/m/link");
    int at = made("1M", 2 | 8);
    // It can be used before it is anywhere.
    int file = openat(at, "first", O_CREAT | O_RDWR, 0640);
    SHOW(write(file, "hello", 5));
    close(file);
    SHOW(mkdirat(at, "below", 0755));
    struct stat st, other;
    SHOW(fstat(at, &st));
    SHOW(fstatat(at, "..", &other, 0));
    CHECK(st.st_ino == other.st_ino && st.st_dev == other.st_dev);
    SHOW(read(at, &st, 1));
    SHOW(fcntl(at, F_GETFL) & O_PATH);
    SHOW(fcntl(at, F_GETFD));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/a", 0));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/none", F_EMPTY));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/file", F_EMPTY));
    SHOW(moved(at, "below", AT_FDCWD, "/tmp/m/a", 0));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/a", F_EMPTY | 0x800));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/link", F_EMPTY));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/link", F_EMPTY | T_LINKS));
    SHOW(access("/tmp/m/a/first", F_OK));
    flags_of("/tmp/m/a");
    // It is at a place now, from which it moves as any other.
    SHOW(umount("/tmp/m/a"));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/b", F_EMPTY));
    SHOW(access("/tmp/m/a/first", F_OK));
    SHOW(access("/tmp/m/b/first", F_OK));
    int to = open("/tmp/m/c", O_PATH);
    SHOW(moved(AT_FDCWD, "/tmp/m/b", to, "", T_EMPTY));
    SHOW(access("/tmp/m/c/first", F_OK));
    SHOW(moved(AT_FDCWD, "/tmp/m/c", AT_FDCWD, "/tmp/m/c/below", 0));
    SHOW(moved(AT_FDCWD, "/tmp/m/c/below", AT_FDCWD, "/tmp/m/a", 0));
    close(to), close(at);
    SHOW(access("/tmp/m/c/first", F_OK));
    // A copy of it, which holds what the first one shows.
    SHOW(tree(AT_FDCWD, "/tmp/m/c", RECURSIVE));
    SHOW(tree(AT_FDCWD, "/tmp/m/c", 2));
    SHOW(tree(AT_FDCWD, "/tmp/m/none", CLONE_IT));
    SHOW(tree(AT_FDCWD, "", CLONE_IT));
    SHOW(mount("none", "/tmp/m/c/below", "tmpfs", 0, NULL));
    close(open("/tmp/m/c/below/deep", O_CREAT | O_RDWR, 0600));
    int one = tree(AT_FDCWD, "/tmp/m/c", CLONE_IT | O_CLOEXEC), all = tree(AT_FDCWD, "/tmp/m/c", CLONE_IT | RECURSIVE);
    SHOW(fcntl(one, F_GETFD));
    SHOW(faccessat(one, "first", F_OK, 0));
    SHOW(faccessat(one, "below/deep", F_OK, 0));
    SHOW(faccessat(all, "below/deep", F_OK, 0));
    SHOW(got(tree(one, "", CLONE_IT | EMPTY)));
    SHOW(got(tree(one, "below", 0)));
    SHOW(moved(all, "below", AT_FDCWD, "/tmp/m/a", 0));
    SHOW(moved(all, "", AT_FDCWD, "/tmp/m/a", F_EMPTY));
    SHOW(access("/tmp/m/a/below/deep", F_OK));
    SHOW(umount2("/tmp/m/c", MNT_DETACH));
    SHOW(access("/tmp/m/c/first", F_OK));
    SHOW(faccessat(one, "first", F_OK, 0));
    // A part of one, and a file.
    int part = tree(AT_FDCWD, "/tmp/m/a/below", CLONE_IT), lone = tree(AT_FDCWD, "/tmp/m/file", CLONE_IT);
    SHOW(faccessat(part, "deep", F_OK, 0));
    close(open("/tmp/m/other", O_CREAT | O_RDWR, 0644));
    SHOW(moved(lone, "", AT_FDCWD, "/tmp/m/c", F_EMPTY));
    SHOW(moved(lone, "", AT_FDCWD, "/tmp/m/other", F_EMPTY));
    SHOW(umount2("/tmp/m/other", MNT_DETACH));
    close(lone), close(part), close(one);
    // A place that is open again, and another name of it.
    int again = tree(AT_FDCWD, "/tmp/m/link", NOFOLLOW);
    SHOW(fstat(again, &st) || !S_ISLNK(st.st_mode));
    int same = tree(again, "", EMPTY);
    SHOW(fstat(same, &other) || other.st_ino != st.st_ino);
    close(again), close(same);
}

static void attributes(void) {
    flags_of("/tmp/m/a");
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 1, 0, 0));
    flags_of("/tmp/m/a"), flags_of("/tmp/m/a/below");
    SHOW(open("/tmp/m/a/first", O_RDWR));
    SHOW(got(open("/tmp/m/a/below/deep", O_RDWR)));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", RECURSIVE, 1 | 4, 0, 0));
    flags_of("/tmp/m/a"), flags_of("/tmp/m/a/below");
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", RECURSIVE, 0, 1 | 8, 0));
    flags_of("/tmp/m/a"), flags_of("/tmp/m/a/below");
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x10, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x10, 0x10, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x30, 0x70, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x10 | 0x80, 0x70, 0));
    flags_of("/tmp/m/a");
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x20, 0x70, 0));
    flags_of("/tmp/m/a");
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0, 0x70 | 0x80, 0));
    flags_of("/tmp/m/a");
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x8000000, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0x100000000, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 2, 1, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/b", 0, 1, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/none", 0, 1, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/none", 0, 0, 0, 0));
    SHOW(set_attr(AT_FDCWD, "", 0, 1, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0, 0, MS_SHARED | MS_PRIVATE));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0, 0, MS_BIND));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", RECURSIVE, 0, 0, MS_SHARED));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", RECURSIVE, 0, 0, MS_PRIVATE));
    struct { struct attr attr; uint64_t more; } large = {{1}, 0};
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/m/a", 0, &large, sizeof large.attr - 8));
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/m/a", 0, &large, 5000));
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/m/a", 0, &large, sizeof large));
    large.more = 1;
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/m/a", 0, &large, sizeof large));
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/m/a", 0, NULL, sizeof large.attr));
    // Of one that is at no place yet.
    int at = made("1M", 0);
    SHOW(set_attr(at, "", EMPTY, 1, 0, 0));
    SHOW(openat(at, "x", O_CREAT | O_RDWR, 0600));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/b", F_EMPTY));
    flags_of("/tmp/m/b");
    close(at);
}

static void picked(void) {
    SHOW(syscall(SYS_fspick, AT_FDCWD, "/tmp/m", 0));
    SHOW(syscall(SYS_fspick, AT_FDCWD, "/tmp/m/b", 16));
    SHOW(syscall(SYS_fspick, AT_FDCWD, "", 0));
    int fd = syscall(SYS_fspick, AT_FDCWD, "/tmp/m/b", 1);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(config(fd, CREATE, NULL, NULL, 0));
    SHOW(syscall(SYS_fsmount, fd, 0, 0));
    SHOW(config(fd, SET_STRING, "size", "64k", 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    struct statvfs it;
    SHOW(statvfs("/tmp/m/b", &it) ? -1 : (long)(it.f_blocks * it.f_frsize));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/b", 0, 0, 1, 0));
    SHOW(got(open("/tmp/m/b/x", O_CREAT | O_RDWR, 0600)));
    SHOW(config(fd, SET_FLAG, "ro", NULL, 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    SHOW(open("/tmp/m/b/x", O_RDWR));
    SHOW(config(fd, SET_FLAG, "rw", NULL, 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    SHOW(got(open("/tmp/m/b/x", O_RDWR)));
    SHOW(config(fd, SET_STRING, "nr_inodes", "1", 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    SHOW(config(fd, RECONFIGURE, NULL, NULL, 0));
    close(fd);
    const char *of_terminals = "newinstance,ptmxmode=0666,mode=620";
    SHOW(mount("devpts", "/tmp/m/c", "devpts", MS_NOSUID | MS_NOEXEC, of_terminals));
    SHOW(umount("/tmp/m/c"));
    SHOW(mount("devpts", "/tmp/m/c", "devpts", 0, "nothing=1"));
    int dir = open("/tmp/m/b", O_PATH);
    SHOW(got(syscall(SYS_fspick, dir, "", 8)));
    close(dir);
}

static void nobody(void) {
    int at = made("1M", 0), fd = fs("tmpfs");
    SHOW(setgid(1000) || setuid(1000));
    SHOW(fs("tmpfs"));
    SHOW(fs("nothing"));
    SHOW(syscall(SYS_fsopen, NULL, 2));
    SHOW(config(fd, SET_STRING, "size", "1M", 0));
    SHOW(config(fd, CREATE, NULL, NULL, 0));
    SHOW(syscall(SYS_fsmount, 999, 8, 0));
    SHOW(syscall(SYS_fspick, AT_FDCWD, "/tmp/m/none", 0));
    SHOW(tree(AT_FDCWD, "/tmp/m/none", CLONE_IT));
    SHOW(got(tree(AT_FDCWD, "/tmp/m", 0)));
    SHOW(moved(at, "", AT_FDCWD, "/tmp/m/c", F_EMPTY));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/b", 0, 1, 0, 0));
    SHOW(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/m/b", 0, NULL, 32));
}

static void apart(void) {
    int outside = tree(AT_FDCWD, "/tmp/m/a", CLONE_IT), fd = fs("tmpfs");
    SHOW(setgid(1000) || setuid(1000) || unshare(CLONE_NEWUSER | CLONE_NEWNS));
    int inside = made("1M", 0);
    SHOW(moved(inside, "", AT_FDCWD, "/tmp/m/c", F_EMPTY));
    SHOW(got(open("/tmp/m/c", O_RDONLY | O_DIRECTORY)));
    SHOW(got(fs("ext4")) == 0);
    SHOW(moved(outside, "", AT_FDCWD, "/tmp/m/c", F_EMPTY));
    SHOW(moved(AT_FDCWD, "/tmp/m/a", AT_FDCWD, "/tmp/m/c", 0));
    SHOW(tree(AT_FDCWD, "/tmp/m/a", CLONE_IT));
    SHOW(got(tree(AT_FDCWD, "/tmp/m/a", CLONE_IT | RECURSIVE)));
    SHOW(got(tree(AT_FDCWD, "/tmp/m/b", CLONE_IT)));
    SHOW(config(fd, CREATE, NULL, NULL, 0));
    // Of another's mount something is taken away, but not given.
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0, 4, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 1, 0, 0));
    SHOW(set_attr(AT_FDCWD, "/tmp/m/a", 0, 0, 1, 0));
    SHOW(syscall(SYS_fspick, AT_FDCWD, "/tmp/m/a", 0) >= 0);
}

int main(void) {
    umask(022);
    // What it mounts is nobody else's business.
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    errors();
    places();
    attributes();
    picked();
    child(nobody);
    child(apart);
    umount2("/tmp/m/a", MNT_DETACH), umount2("/tmp/m/b", MNT_DETACH);
    rmdir("/tmp/m/a"), rmdir("/tmp/m/b"), rmdir("/tmp/m/c");
    unlink("/tmp/m/file"), unlink("/tmp/m/other"), unlink("/tmp/m/link");
    SHOW(rmdir("/tmp/m"));
    return 0;
}
