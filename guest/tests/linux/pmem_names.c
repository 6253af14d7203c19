// Names and attributes of files that survive are as those of other files.
//
// build: gcc, musl
// nvdimm: 32M
// oracle: linux
#include "pmem.h"
#include <dirent.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

static int rename_how(const char *old, const char *new, unsigned how) {
    return syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, how);
}

static void show(const char *name) {
    struct stat s;
    if (lstat(name, &s) != 0) {
        printf("%s: errno %d\n", name, errno);
        return;
    }
    int is_dir = S_ISDIR(s.st_mode);
    printf("%s: mode %o links %d gid %d size %ld\n", name, s.st_mode, (int)s.st_nlink, s.st_gid,
           is_dir ? 0 : (long)s.st_size);
}

static ino_t inode(const char *name) {
    struct stat s;
    return stat(name, &s) == 0 ? s.st_ino : 0;
}

static int make(const char *name, int mode) {
    int fd = open(name, O_CREAT | O_EXCL | O_RDWR, mode);
    return fd < 0 ? -1 : close(fd);
}

static void links(void) {
    SHOW(make("a", 0640));
    SHOW(make("a", 0640));
    ino_t before = inode("a");
    SHOW(link("a", "b"));
    SHOW(link("a", "b"));
    CHECK(inode("b") == before && before != 0);
    SHOW(symlink("a", "s"));
    SHOW(symlink("", "none"));
    SHOW(link(".", "dir"));
    show("a");
    show("s");
    char text[256] = "";
    SHOW(symlink("a text of more than forty-eight bytes, which does not fit beside the attributes of the link",
                 "long"));
    SHOW(readlink("long", text, sizeof text));
    printf("%s\n", text);
    SHOW(unlink("long"));
    SHOW(unlink("none"));
    SHOW(rmdir("a"));
}

static void directories(void) {
    SHOW(mkdir("d", 0700));
    SHOW(chown("d", 0, 7));
    SHOW(chmod("d", 02775));
    SHOW(mkdir("d/sub", 0755));
    SHOW(make("d/f", 0666));
    show("d");
    show("d/sub");
    show("d/f");
    SHOW(rmdir("d"));
    SHOW(unlink("d"));
    SHOW(rename("d", "d/sub/x"));
}

static void renames(void) {
    ino_t a = inode("a"), f = inode("d/f");
    SHOW(rename_how("b", "d/f", RENAME_NOREPLACE));
    SHOW(rename_how("b", "none", RENAME_EXCHANGE));
    SHOW(rename_how("a", "d/f", RENAME_EXCHANGE));
    CHECK(inode("a") == f && inode("d/f") == a);
    SHOW(rename("b", "d/f"));
    SHOW(rename("d/f", "d/g"));
    show("d/g");
    show("b");
    SHOW(unlink("b"));
    SHOW(rename("d/g", "a"));
    CHECK(inode("a") == a);
    show("a");
    SHOW(rename("d/sub", "a"));
    SHOW(rename("a", "d/sub"));
    SHOW(rename("d/sub", "e"));
    SHOW(rename("e", "d"));
    SHOW(rmdir("d"));
    SHOW(link("a", "/tmp/link-from-elsewhere"));
    SHOW(rename("a", "/tmp/name-from-elsewhere"));
    SHOW(unlink("a"));
    SHOW(unlink("s"));
}

static void kinds(void) {
    SHOW(mkfifo("p", 0644));
    SHOW(mknod("n", S_IFCHR | 0600, makedev(1, 3)));
    show("p");
    struct stat s;
    SHOW(stat("n", &s));
    printf("device %d:%d\n", major(s.st_rdev), minor(s.st_rdev));
    int null = open("n", O_WRONLY);
    SHOW(write(null, "x", 1));
    close(null);
    SHOW(unlink("p"));
    SHOW(unlink("n"));
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    SHOW(write(fd, "text", 4));
    SHOW(fstat(fd, &s));
    printf("links %d size %ld\n", (int)s.st_nlink, (long)s.st_size);
    close(fd);
}

static void attributes(void) {
    int fd = open("f", O_CREAT | O_RDWR, 0644);
    SHOW(write(fd, "text", 4));
    SHOW(chmod("f", 06755));
    show("f");
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    SHOW(utimensat(AT_FDCWD, "f", times, 0));
    struct stat s;
    SHOW(stat("f", &s));
    printf("%ld.%ld %ld.%ld\n", (long)s.st_atim.tv_sec, s.st_atim.tv_nsec, (long)s.st_mtim.tv_sec,
           s.st_mtim.tv_nsec);
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    struct flock lock = {.l_type = F_WRLCK};
    SHOW(fcntl(fd, F_SETLK, &lock));
    SHOW(unlink("f"));
    SHOW(write(fd, "more", 4));
    SHOW(fstat(fd, &s));
    printf("links %d size %ld\n", (int)s.st_nlink, (long)s.st_size);
    close(fd);
}

static int count(void) {
    DIR *dir = opendir(".");
    int entries = 0;
    while (readdir(dir)) entries++;
    closedir(dir);
    return entries;
}

static void many(void) {
    char name[257];
    for (int at = 0; at < 700; at++) {
        snprintf(name, sizeof name, "file-%d", at);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (write(fd, name, strlen(name)) != (ssize_t)strlen(name)) printf("%s: no room\n", name);
        close(fd);
    }
    printf("%d entries\n", count());
    DIR *dir = opendir(".");
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (strncmp(entry->d_name, "file-", 5) == 0) unlink(entry->d_name);
    }
    closedir(dir);
    printf("%d entries\n", count());
    memset(name, 'n', 256);
    name[256] = 0;
    SHOW(make(name, 0600));
    name[255] = 0;
    SHOW(make(name, 0600));
    SHOW(unlink(name));
}

int main(void) {
    go_to_folder();
    links();
    directories();
    renames();
    kinds();
    attributes();
    many();
    leave_folder();
    return 0;
}
