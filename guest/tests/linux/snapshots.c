// Snapshots of all files in /pmem, and of all others: what is in one is as it was, whatever becomes of the files, and nobody
// changes it. All memory comes back.
//
// build: gcc, musl
// nvdimm: 32M
// expect-status: 0
#include "must.h"
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <utime.h>
#define FICLONE 0x40049409
#define BIG (3ul << 20)

static int fails(long result, int error) { return result == -1 && errno == error; }

static char of[64], in[128], root[64];

// A path of the files, and the same in the snapshot.
static const char *live(const char *name) {
    static char path[4][512];
    static int next;
    snprintf(path[++next % 4], 512, "%s/%s", of, name);
    return path[next % 4];
}
static const char *old(const char *name) {
    static char path[4][512];
    static int next;
    snprintf(path[++next % 4], 512, "%s/%s", in, name);
    return path[next % 4];
}

static long free_pages(void) {
    struct statfs fs;
    MUST(statfs(of, &fs) == 0);
    return fs.f_bavail;
}

static void write_file(const char *path, size_t bytes, int seed) {
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0640);
    MUST(fd >= 0);
    char block[4096];
    for (size_t at = 0; at < bytes; at += sizeof block) {
        memset(block, seed + at / sizeof block, sizeof block);
        size_t part = bytes - at < sizeof block ? bytes - at : sizeof block;
        MUST(write(fd, block, part) == (ssize_t)part);
    }
    MUST(close(fd) == 0);
}

static int has(const char *path, size_t bytes, int seed) {
    int fd = open(path, O_RDONLY);
    struct stat s;
    MUST(fd >= 0 && fstat(fd, &s) == 0);
    char block[4096];
    int same = s.st_size == (off_t)bytes;
    for (size_t at = 0; same && at < bytes; at += sizeof block) {
        ssize_t got = read(fd, block, sizeof block);
        for (ssize_t n = 0; n < got; n++) same &= block[n] == (char)(seed + at / sizeof block);
        same &= got > 0;
    }
    MUST(close(fd) == 0);
    return same;
}

static void make_tree(void) {
    MUST(mkdir(live("d"), 0750) == 0 && mkdir(live("d/e"), 0711) == 0);
    write_file(live("small"), 100, 's');
    write_file(live("big"), BIG, 'b');
    write_file(live("empty"), 0, 0);
    write_file(live("d/e/deep"), 5000, 'd');
    MUST(link(live("d/e/deep"), live("other")) == 0);
    MUST(symlink("d/e/deep", live("symlink")) == 0 && mkfifo(live("fifo"), 0600) == 0);
    MUST(chown(live("small"), 1000, 1001) == 0 && chmod(live("small"), 04751) == 0);
    int fd = open(live("holes"), O_CREAT | O_RDWR, 0600);
    MUST(fd >= 0 && ftruncate(fd, 8 << 20) == 0 && pwrite(fd, "x", 1, 5 << 20) == 1 && close(fd) == 0);
    struct utimbuf times = {1000000000, 1100000000};
    MUST(utime(live("small"), &times) == 0 && utime(live("d"), &times) == 0);
}

// All but the number is as it was.
static void same(const struct stat *a, const struct stat *b) {
    MUST(a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_gid == b->st_gid);
    MUST(a->st_size == b->st_size && a->st_nlink == b->st_nlink && a->st_rdev == b->st_rdev);
    MUST(a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec);
    MUST(a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec);
    MUST(a->st_atim.tv_sec == b->st_atim.tv_sec && a->st_blocks == b->st_blocks);
    MUST(a->st_ino != b->st_ino);
}

static const char *const all[] = {"d", "d/e", "d/e/deep", "other", "small", "big", "empty", "symlink", "fifo", "holes"};
enum { ALL = sizeof all / sizeof all[0] };

static void who_may(void) {
    char dir[128];
    snprintf(dir, sizeof dir, "%s/.snapshots", root);
    pid_t child = fork();
    if (child == 0) {
        MUST(setgid(1000) == 0 && setuid(1000) == 0);
        MUST(mkdir(dir, 0755) == -1 && (errno == EPERM || errno == EACCES));
        MUST(open(dir, O_CREAT | O_RDWR, 0600) == -1 && symlink("x", dir) == -1 && rename(of, dir) == -1);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(fails(open(dir, O_CREAT | O_RDWR, 0600), EPERM) && fails(symlink("x", dir), EPERM));
    MUST(fails(rename(of, dir), EPERM) && fails(link(live("small"), dir), EPERM));
    MUST(mkdir(dir, 0755) == 0 && fails(mkdir(dir, 0755), EEXIST));
    MUST(fails(rename(dir, live("moved")), EBUSY));
    MUST(rmdir(dir) == 0 && mkdir(dir, 0755) == 0);
    snprintf(dir, sizeof dir, "%s/.snapshots/x", root);
    MUST(fails(open(dir, O_CREAT | O_RDWR, 0600), EPERM) && fails(symlink("x", dir), EPERM));
    MUST(fails(link(live("small"), dir), EPERM) && fails(rename(live("small"), dir), EPERM));
    child = fork();
    if (child == 0) {
        MUST(setgid(1000) == 0 && setuid(1000) == 0);
        MUST(fails(mkdir(dir, 0755), EACCES) && fails(rmdir(dir), ENOENT));
        _exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void nobody_writes(void) {
    MUST(fails(open(old("small"), O_RDWR), EROFS) && fails(open(old("small"), O_WRONLY), EROFS));
    MUST(fails(open(old("small"), O_RDONLY | O_TRUNC), EROFS) && fails(open(old("new"), O_CREAT | O_RDWR, 0600), EROFS));
    MUST(fails(open(in, O_TMPFILE | O_RDWR, 0600), EROFS));
    MUST(fails(truncate(old("small"), 1), EROFS) && fails(chmod(old("small"), 0600), EROFS));
    MUST(fails(chown(old("small"), 1, 1), EROFS) && fails(lchown(old("symlink"), 1, 1), EROFS));
    MUST(fails(utime(old("small"), NULL), EROFS) && fails(access(old("small"), W_OK), EROFS));
    MUST(fails(access(old("d"), W_OK), EROFS) && access(old("small"), R_OK) == 0);
    MUST(fails(mkdir(old("new"), 0700), EROFS) && fails(mkdir(old("d"), 0700), EEXIST));
    MUST(fails(rmdir(old("d/e")), EROFS) && fails(unlink(old("small")), EROFS));
    MUST(fails(symlink("x", old("new")), EROFS) && fails(mkfifo(old("new"), 0600), EROFS));
    MUST(fails(link(old("small"), old("new")), EROFS) && fails(rename(old("small"), old("new")), EROFS));
    MUST(fails(link(old("small"), live("new")), EXDEV) && fails(rename(old("small"), live("new")), EXDEV));
    MUST(fails(rename(live("small"), old("small")), EXDEV) && fails(link(live("small"), old("new")), EXDEV));
    int error = setxattr(old("small"), "user.a", "b", 1, 0) == -1 ? errno : 0;
    MUST(error == (strcmp(root, "/pmem") == 0 ? EROFS : EOPNOTSUPP));
    int fd = open(old("small"), O_RDONLY);
    MUST(fd >= 0 && fails(write(fd, "x", 1), EBADF) && fails(ftruncate(fd, 0), EINVAL));
    MUST(fails(fchmod(fd, 0600), EROFS) && fails(futimens(fd, NULL), EROFS));
    MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
    char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    MUST(at != MAP_FAILED && at[99] == 's' && fails(mprotect(at, PAGE, PROT_READ | PROT_WRITE), EACCES));
    MUST(munmap(at, PAGE) == 0 && close(fd) == 0);
    struct statvfs fs;
    MUST(statvfs(in, &fs) == 0 && fs.f_flag & ST_RDONLY);
    MUST(statvfs(of, &fs) == 0 && !(fs.f_flag & ST_RDONLY));
    // What is written to a fifo is nowhere in the snapshot.
    fd = open(old("fifo"), O_RDWR | O_NONBLOCK);
    MUST(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
}

static void entries(void) {
    char dir[128], names[256] = "";
    snprintf(dir, sizeof dir, "%s/.snapshots", root);
    DIR *open_dir = opendir(dir);
    MUST(open_dir);
    for (struct dirent *entry; (entry = readdir(open_dir));) {
        if (entry->d_name[0] != '.') strcat(names, entry->d_name);
    }
    MUST(closedir(open_dir) == 0 && strcmp(names, "one") == 0);
    struct stat s;
    snprintf(dir, sizeof dir, "%s/.snapshots/one/.snapshots", root);
    MUST(fails(stat(dir, &s), ENOENT));
    // Of other file systems there is the directory, and nothing in it.
    if (!root[0]) MUST(stat("/.snapshots/one/pmem", &s) == 0 && fails(stat("/.snapshots/one/pmem/test", &s), ENOENT));
    char here[256];
    MUST(chdir(in) == 0 && getcwd(here, sizeof here) && strcmp(here, in) == 0 && chdir("/") == 0);
}

static void test(const char *part) {
    snprintf(root, sizeof root, "%s", part);
    snprintf(of, sizeof of, "%s/%s", root, root[0] ? "test" : "tmp/test");
    snprintf(in, sizeof in, "%s/.snapshots/one%s", root, root[0] ? "/test" : "/tmp/test");
    MUST(mkdir(of, 0755) == 0);
    make_tree();
    who_may();
    int has_xattrs = root[0] != 0;
    if (has_xattrs) MUST(setxattr(live("small"), "user.color", "green", 5, 0) == 0);
    struct stat before[ALL], after;
    for (int n = 0; n < ALL; n++) MUST(lstat(live(all[n]), &before[n]) == 0);

    // Somebody stores to a file all the time.
    int shared = open(live("big"), O_RDWR);
    char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    MUST(at != MAP_FAILED && at[0] == 'b');
    at[0] = 'b';
    long pages = free_pages();
    char top[128];
    snprintf(top, sizeof top, "%s/.snapshots/one", root);
    MUST(mkdir(top, 0700) == 0 && fails(mkdir(top, 0700), EEXIST));
    // Names and tables, and no copy of the contents.
    printf("%s: the snapshot took %s\n", root[0] ? root : "/", pages - free_pages() < 200 ? "little" : "MUCH");
    for (int n = 0; n < ALL; n++) {
        MUST(lstat(old(all[n]), &after) == 0);
        same(&before[n], &after);
    }
    MUST(lstat(live("d/e/deep"), &after) == 0 && after.st_nlink == 2);
    struct stat one, two;
    MUST(stat(old("d/e/deep"), &one) == 0 && stat(old("other"), &two) == 0 && one.st_ino == two.st_ino);

    memset(at, 'X', BIG);
    MUST(unlink(live("small")) == 0 && truncate(live("d/e/deep"), 10) == 0 && rename(live("d"), live("D")) == 0);
    MUST(truncate(live("holes"), 0) == 0 && unlink(live("fifo")) == 0 && rename(live("empty"), live("symlink")) == 0);
    write_file(live("empty"), 77, 'e');
    MUST(has(old("big"), BIG, 'b') && has(old("small"), 100, 's') && has(old("empty"), 0, 0));
    MUST(has(old("d/e/deep"), 5000, 'd') && has(old("other"), 5000, 'd') && has(old("symlink"), 5000, 'd'));
    MUST(at[12345] == 'X');
    char byte = 0;
    int fd = open(old("holes"), O_RDONLY);
    MUST(fd >= 0 && pread(fd, &byte, 1, 5 << 20) == 1 && byte == 'x' && lseek(fd, 0, SEEK_DATA) == 5 << 20 && close(fd) == 0);
    char value[16] = "";
    if (has_xattrs) MUST(getxattr(old("small"), "user.color", value, sizeof value) == 5 && memcmp(value, "green", 5) == 0);
    // Reading changes no times.
    MUST(lstat(old("small"), &after) == 0 && after.st_atim.tv_sec == 1000000000);
    write_file(live("small"), 1, 'n');
    nobody_writes();
    entries();

    // What was is had again without a copy.
    fd = open(live("restored"), O_CREAT | O_RDWR, 0600);
    int from = open(old("big"), O_RDONLY);
    MUST(fd >= 0 && from >= 0 && ioctl(fd, FICLONE, from) == 0 && has(live("restored"), BIG, 'b'));
    MUST(pwrite(fd, "w", 1, 0) == 1 && has(old("big"), BIG, 'b') && close(fd) == 0);
    MUST(close(shared) == 0 && munmap(at, BIG) == 0);

    // A snapshot of what has changed, and the first one goes while somebody reads in it.
    snprintf(top, sizeof top, "%s/.snapshots/two", root);
    MUST(mkdir(top, 0700) == 0);
    MUST(fails(unlink(top), EISDIR) && fails(rename(top, live("x")), EBUSY));
    snprintf(top, sizeof top, "%s/.snapshots", root);
    MUST(fails(rmdir(top), ENOTEMPTY));
    snprintf(top, sizeof top, "%s/.snapshots/one", root);
    int dir = open(in, O_RDONLY | O_DIRECTORY);
    MUST(dir >= 0 && rmdir(top) == 0 && fails(rmdir(top), ENOENT) && fails(access(in, F_OK), ENOENT));
    MUST(pread(from, &byte, 1, BIG - 1) == 1 && byte == (char)('b' + BIG / 4096 - 1));
    MUST(fails(openat(dir, "small", O_RDONLY), ENOENT) && fails(openat(dir, "new", O_CREAT | O_RDWR, 0600), ENOENT));
    MUST(close(from) == 0 && close(dir) == 0);
    snprintf(in, sizeof in, "%s/.snapshots/two%s", root, root[0] ? "/test" : "/tmp/test");
    MUST(has(old("empty"), 77, 'e') && has(old("restored"), 1, 'w') == 0 && fails(access(old("d"), F_OK), ENOENT));
    MUST(access(old("D/e/deep"), F_OK) == 0);
    snprintf(top, sizeof top, "%s/.snapshots/two", root);
    MUST(rmdir(top) == 0);
    snprintf(top, sizeof top, "%s/.snapshots", root);
    MUST(rmdir(top) == 0);
    const char *left[] = {"D/e/deep", "D/e", "D", "other", "small", "big", "empty", "symlink", "holes", "restored"};
    for (unsigned n = 0; n < sizeof left / sizeof left[0]; n++) MUST(remove(live(left[n])) == 0);
    MUST(rmdir(of) == 0);
}

// Shared pages that are shown one by one are copied one by one, if there is no memory for more of them at a time.
static void copied_one_by_one(void) {
    enum { ROUNDS = 6 };
    for (int round = 0; round < ROUNDS; round++) {
        write_file("/tmp/one", BIG, 'b');
        int fd = open("/tmp/one", O_RDWR), other = open("/tmp/other", O_CREAT | O_RDWR | O_TRUNC, 0600);
        char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        MUST(at != MAP_FAILED);
        at[0] = 'b';
        MUST(ioctl(other, FICLONE, fd) == 0);
        for (size_t n = 0; n < BIG; n += PAGE) MUST(signal_of(at + n, 1) == 0);
        MUST(has("/tmp/other", BIG, 'b') && at[BIG - PAGE] == 7);
        MUST(munmap(at, BIG) == 0 && close(fd) == 0 && close(other) == 0);
    }
    MUST(unlink("/tmp/one") == 0 && unlink("/tmp/other") == 0);
}

int main(void) {
    umask(0);
    catch_faults();
    struct statfs fs;
    MUST(statfs("/pmem", &fs) == 0);
    long before = fs.f_bavail;
    test("/pmem");
    MUST(statfs("/pmem", &fs) == 0);
    printf("all pages are back: %s\n", (long)fs.f_bavail == before ? "yes" : "NO");
    MUST((long)fs.f_bavail == before);
    test("");
    copied_one_by_one();
    return 0;
}
