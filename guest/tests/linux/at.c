// Calls with directory descriptors, flags of rename and link, fifos, locks, times, listings.
// oracle: linux
#include "test.h"
#include <dirent.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/statfs.h>

static struct stat st;
static char text[5000];

static void at_functions(void) {
    SHOW(mkdir("box", 0755));
    int box = open("box", O_RDONLY | O_DIRECTORY), path = open("box", O_PATH);
    int file = openat(box, "file", O_CREAT | O_RDWR, 0644);
    SHOW(file >= 0);
    SHOW(mkdirat(box, "inner", 0700));
    SHOW(mkdirat(file, "inner", 0700));
    SHOW(mkdirat(99, "inner", 0700));
    SHOW(fstatat(path, "file", &st, 0));
    SHOW(fstatat(path, "", &st, AT_EMPTY_PATH));
    CHECK(S_ISDIR(st.st_mode));
    SHOW(fstatat(file, "", &st, AT_EMPTY_PATH));
    SHOW(fstatat(file, "", &st, 0));
    SHOW(fstatat(box, "file", &st, 0x40000));
    SHOW(read(path, text, 10));
    SHOW(syscall(SYS_fchmod, path, 0700));
    SHOW(ftruncate(path, 0));
    SHOW(openat(path, "../box/./inner/../file", O_RDONLY) >= 0);
    SHOW(openat(path, "file/", O_RDONLY));
    SHOW(openat(file, "/", O_RDONLY) >= 0);
    SHOW(renameat(box, "file", path, "inner/moved"));
    SHOW(linkat(box, "inner/moved", box, "again", 0));
    SHOW(symlinkat("inner/moved", box, "soft"));
    SHOW(linkat(box, "soft", box, "follows", AT_SYMLINK_FOLLOW));
    SHOW(linkat(box, "soft", box, "stays", 0));
    SHOW(fstatat(box, "follows", &st, AT_SYMLINK_NOFOLLOW));
    printf("%d links, type %o\n", (int)st.st_nlink, st.st_mode >> 12);
    SHOW(fstatat(box, "stays", &st, AT_SYMLINK_NOFOLLOW));
    printf("%d links, type %o\n", (int)st.st_nlink, st.st_mode >> 12);
    SHOW(readlinkat(box, "soft", text, 3));
    SHOW(faccessat(box, "again", X_OK, 0));
    SHOW(faccessat(box, "again", R_OK, 0));
    SHOW(fchmodat(box, "again", 0755, 0));
    SHOW(faccessat(box, "again", X_OK, 0));
    SHOW(unlinkat(box, "inner", 0));
    SHOW(unlinkat(box, "inner", AT_REMOVEDIR));
    SHOW(unlinkat(box, "again", AT_REMOVEDIR));
    SHOW(unlinkat(box, ".", AT_REMOVEDIR));
    SHOW(unlinkat(box, "inner/..", AT_REMOVEDIR));
    SHOW(unlinkat(box, "none", 4));
    SHOW(syscall(SYS_renameat2, box, "soft", box, "stays", 1));
    SHOW(syscall(SYS_renameat2, box, "again", box, "inner", 2));
    SHOW(syscall(SYS_renameat2, box, "again", box, "inner", 3));
    SHOW(syscall(SYS_renameat2, box, "again", box, "none", 2));
    SHOW(fstatat(box, "inner", &st, 0));
    CHECK(S_ISREG(st.st_mode));
    SHOW(fchdir(box));
    SHOW(fchdir(file));
    SHOW(access("inner", F_OK));
    SHOW(chdir(".."));
    SHOW(rename("box", "box"));
    SHOW(rename("box/", "box2/"));
    SHOW(rename("box2", "box"));
}

static void listing(void) {
    DIR *dir = opendir("box");
    long places[10];
    int count = 0;
    for (places[0] = telldir(dir); readdir(dir); places[++count] = telldir(dir));
    printf("%d entries\n", count);
    seekdir(dir, places[2]);
    int left = 0;
    while (readdir(dir)) left++;
    printf("%d behind the second\n", left);
    rewinddir(dir);
    SHOW(unlink("box/stays"));
    for (left = 0; readdir(dir); left++);
    printf("%d after one has gone\n", left);
    closedir(dir);
    for (int i = 0; i < 300; i++) {
        sprintf(text, "box/with a rather long name, number %d", i);
        close(open(text, O_CREAT | O_WRONLY, 0600));
    }
    dir = opendir("box");
    for (count = 0, left = 0; ; left++) {
        struct dirent *entry = readdir(dir);
        if (!entry) break;
        if (entry->d_name[0] != 'w') continue;
        sprintf(text, "box/%s", entry->d_name);
        count += unlink(text) == 0;
    }
    printf("%d removed while listing, %d seen\n", count, left);
    closedir(dir);
    int fd = open("box", O_RDONLY);
    SHOW(syscall(SYS_getdents64, fd, text, 10));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(syscall(SYS_getdents64, 1, text, 100));
    SHOW(syscall(SYS_getdents64, fd, 8, 100));
}

static void fifos(void) {
    SHOW(mkfifo("fifo", 0600));
    SHOW(mkfifo("fifo", 0600));
    SHOW(open("fifo", O_WRONLY | O_NONBLOCK));
    int in = open("fifo", O_RDONLY | O_NONBLOCK), out = open("fifo", O_WRONLY);
    CHECK(in >= 0 && out >= 0);
    SHOW(read(in, text, 5));
    SHOW(write(out, "hello", 5));
    SHOW(lseek(in, 0, SEEK_SET));
    SHOW(read(in, text, 50));
    close(out);
    SHOW(read(in, text, 50));
    struct pollfd polled = {in, POLLIN, 0};
    SHOW(poll(&polled, 1, 0));
    printf("%#x\n", polled.revents);
    close(in);
    fflush(stdout);
    if (fork() == 0) {
        out = open("fifo", O_WRONLY);
        write(out, "from a child", 12);
        _exit(0);
    }
    in = open("fifo", O_RDONLY);
    wait(NULL);
    SHOW(read(in, text, 50));
    SHOW(fstat(in, &st));
    CHECK(S_ISFIFO(st.st_mode));
    close(in);
    SHOW(unlink("fifo"));
}

static void locks(void) {
    int fd = open("locked", O_CREAT | O_RDWR, 0600), read_only = open("locked", O_RDONLY);
    struct flock lock = {F_WRLCK, SEEK_SET, 10, 5};
    SHOW(fcntl(fd, F_SETLK, &lock));
    SHOW(fcntl(read_only, F_SETLK, &lock));
    SHOW(fcntl(fd, F_GETLK, &lock));
    printf("%d\n", lock.l_type);
    lock.l_type = 77;
    SHOW(fcntl(fd, F_SETLK, &lock));
    SHOW(fcntl(fd, F_SETLK, (void *)8));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(fd, LOCK_UN));
    SHOW(flock(fd, 99));
    SHOW(flock(99, LOCK_UN));
    close(read_only);
    unlink("locked");
}

static void times(void) {
    int fd = open("timed", O_CREAT | O_RDWR, 0600);
    struct timespec set[2] = {{5, UTIME_OMIT}, {7, 8}};
    struct timespec bad[2] = {{5, 1000000000}, {7, 8}};
    struct timespec both[2] = {{1, 2}, {3, 4}};
    SHOW(futimens(fd, both));
    SHOW(utimensat(AT_FDCWD, "timed", set, 0));
    fstat(fd, &st);
    printf("%d %d %d %d\n", (int)st.st_atime, (int)st.st_atim.tv_nsec, (int)st.st_mtime, (int)st.st_mtim.tv_nsec);
    SHOW(utimensat(AT_FDCWD, "timed", bad, 0));
    SHOW(utimensat(AT_FDCWD, "none", set, 0));
    SHOW(utimensat(AT_FDCWD, "timed", set, 0x77));
    SHOW(syscall(SYS_utimensat, AT_FDCWD, "timed", 8, 0));
    SHOW(syscall(SYS_utimensat, fd, NULL, NULL, 0));
    fstat(fd, &st);
    CHECK(st.st_atime > 1000000);
    SHOW(symlink("timed", "link"));
    SHOW(utimensat(AT_FDCWD, "link", both, AT_SYMLINK_NOFOLLOW));
    lstat("link", &st);
    printf("%d\n", (int)st.st_mtime);
    SHOW(write(fd, "x", 1));
    fstat(fd, &st);
    CHECK(st.st_mtime > 1000000 && st.st_ctime > 1000000 && st.st_blocks > 0 && st.st_blksize == 4096);
    struct statfs fs;
    SHOW(fstatfs(fd, &fs));
    CHECK(fs.f_bsize == 4096 && fs.f_namelen == 255 && fs.f_blocks > 0);
    SHOW(statfs("none", &fs));
    SHOW(unlink("timed"));
    SHOW(unlink("link"));
    SHOW(open("tmp-dir-missing/x", O_CREAT | O_WRONLY, 0600));
    fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0);
    SHOW(write(fd, "unnamed", 7));
    fstat(fd, &st);
    printf("links %d\n", (int)st.st_nlink);
}

int main(void) {
    umask(022);
    at_functions();
    listing();
    fifos();
    locks();
    times();
    return 0;
}
