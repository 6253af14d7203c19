// What is mounted where: tmpfs, proc, bind mounts, mounts that are only read, and what gets in the way of unmounting.
// oracle: linux
// build: gcc, musl
#include "test.h"
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <utime.h>

static void touch(const char *path, const char *text) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) printf("touch %s: errno %d\n", path, errno);
    close(fd);
}

// Lines of a table of mounts that are about the places of this test; numbers and what only Linux says are left out.
static void table(const char *path, int info) {
    static char text[65536];
    int fd = open(path, O_RDONLY);
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes < 0 ? 0 : bytes] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strstr(line, "/t/")) continue;
        char *inode = strstr(line, ",inode64");
        if (inode) memmove(inode, inode + 8, strlen(inode + 8) + 1);
        if (info) {
            int id, above, major, minor, at;
            sscanf(line, "%d %d %d:%d %n", &id, &above, &major, &minor, &at);
            line += at;
        }
        printf("  %s\n", line);
    }
}

static void flags(const char *path) {
    struct statfs fs;
    if (statfs(path, &fs)) {
        printf("statfs %s: errno %d\n", path, errno);
        return;
    }
    printf("%s: type %lx, flags %lx, names %ld\n", path, (long)fs.f_type, (long)fs.f_flags & ~0x20l, (long)fs.f_namelen);
}

static void read_only(void) {
    SHOW(open("/t/b/new", O_WRONLY | O_CREAT, 0600));
    SHOW(open("/t/b/file", O_WRONLY));
    SHOW(open("/t/b/file", O_RDONLY | O_TRUNC));
    SHOW(open("/t/b/file", O_RDONLY | O_CREAT, 0600) < 0);
    SHOW(open("/t/b", O_TMPFILE | O_RDWR, 0600));
    SHOW(mkdir("/t/b/file", 0700));
    SHOW(mkdir("/t/b/new", 0700));
    SHOW(mknod("/t/b/new", S_IFIFO | 0600, 0));
    SHOW(symlink("x", "/t/b/new"));
    SHOW(link("/t/b/file", "/t/b/new"));
    SHOW(unlink("/t/b/file"));
    SHOW(unlink("/t/b/nothing"));
    SHOW(rmdir("/t/b/dir"));
    SHOW(rename("/t/b/file", "/t/b/other"));
    SHOW(rename("/t/b/nothing", "/t/b/other"));
    SHOW(chmod("/t/b/file", 0600));
    SHOW(chown("/t/b/file", 1, 1));
    SHOW(utime("/t/b/file", NULL));
    SHOW(truncate("/t/b/file", 0));
    SHOW(access("/t/b/file", W_OK));
    SHOW(access("/t/b/file", R_OK));
    SHOW(access("/t/b/fifo", W_OK));
    int fd = open("/t/b/file", O_RDONLY);
    SHOW(fchmod(fd, 0600));
    SHOW(fchown(fd, 1, 1));
    SHOW(futimens(fd, NULL));
    close(fd);
    int fifo = open("/t/b/fifo", O_RDWR);
    SHOW(fifo >= 0);
    close(fifo);
}

static void flags_of_mounts(void) {
    printf("-- flags\n");
    SHOW(mount("none", "/t/f", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, "mode=0750"));
    flags("/t/f");
    struct stat st;
    SHOW(stat("/t/f", &st));
    printf("mode %o\n", st.st_mode);
    touch("/t/f/prog", "#!/bin/true\n");
    SHOW(chmod("/t/f/prog", 0755));
    SHOW(access("/t/f/prog", X_OK));
    char *arguments[] = {"prog", NULL};
    SHOW(execv("/t/f/prog", arguments));
    SHOW(mknod("/t/f/null", S_IFCHR | 0666, 1 << 8 | 3));
    SHOW(open("/t/f/null", O_RDWR));
    SHOW(mount(NULL, "/t/f", NULL, MS_REMOUNT | MS_BIND | MS_NODIRATIME, NULL));
    flags("/t/f");
    int fd = open("/t/f/null", O_RDWR);
    SHOW(fd >= 0);
    SHOW(umount("/t/f"));
    close(fd);
    SHOW(umount("/t/f"));
}

static void sizes(void) {
    printf("-- sizes\n");
    SHOW(mount("none", "/t/f", "tmpfs", 0, "size=64k,nr_inodes=5,mode=700,uid=7,gid=8"));
    struct statfs fs;
    SHOW(statfs("/t/f", &fs));
    printf("%ld blocks of %ld, %ld free, %ld files, %ld free\n", (long)fs.f_blocks, (long)fs.f_bsize, (long)fs.f_bfree, (long)fs.f_files, (long)fs.f_ffree);
    struct stat st;
    SHOW(stat("/t/f", &st));
    printf("mode %o owner %d %d\n", st.st_mode, st.st_uid, st.st_gid);
    static char page[4096];
    int fd = open("/t/f/a", O_RDWR | O_CREAT, 0600), pages = 0;
    while (write(fd, page, sizeof page) == sizeof page) pages++;
    printf("%d pages, errno %d\n", pages, errno);
    SHOW(pwrite(fd, page, 100, 100));
    SHOW(ftruncate(fd, 4096));
    SHOW(statfs("/t/f", &fs));
    printf("%ld free\n", (long)fs.f_bfree);
    SHOW(mount(NULL, "/t/f", NULL, MS_REMOUNT, "size=8k"));
    SHOW(mount(NULL, "/t/f", NULL, MS_REMOUNT, "size=4k"));
    SHOW(pwrite(fd, page, 1, 4096));
    SHOW(ftruncate(fd, 0));
    SHOW(pwrite(fd, page, 1, 0));
    close(fd);
    SHOW(unlink("/t/f/a"));
    int made = 0;
    char name[] = "/t/f/n0";
    for (; mkdir(name, 0700) == 0; name[6]++) made++;
    printf("%d directories, errno %d\n", made, errno);
    SHOW(rmdir("/t/f/n0"));
    SHOW(mkdir("/t/f/n9", 0700));
    SHOW(umount("/t/f"));
    SHOW(mount("none", "/t/f", "tmpfs", 0, "size=x"));
    SHOW(mount("none", "/t/f", "tmpfs", 0, "nothing=1"));
    SHOW(mount("none", "/t/f", "tmpfs", 0, "mode=9"));
}

static void errors(void) {
    printf("-- errors\n");
    SHOW(mount("none", "/t/nothing", "tmpfs", 0, NULL));
    SHOW(mount("none", "/t/a/file", "tmpfs", 0, NULL));
    SHOW(mount("none", "/t/f", "nosuchfs", 0, NULL));
    SHOW(mount("none", "/t/f", NULL, 0, NULL));
    SHOW(mount("none", NULL, "tmpfs", 0, NULL));
    SHOW(mount("none", "/t/f", (char *)1, 0, NULL));
    SHOW(mount(NULL, "/t/f", NULL, MS_BIND, NULL));
    SHOW(mount("", "/t/f", NULL, MS_BIND, NULL));
    SHOW(mount("/t/nothing", "/t/f", NULL, MS_BIND, NULL));
    SHOW(mount("/t/a/file", "/t/f", NULL, MS_BIND, NULL));
    SHOW(mount("/t/a", "/t/a/file", NULL, MS_BIND, NULL));
    SHOW(mount(NULL, "/t/f", NULL, MS_REMOUNT, NULL));
    SHOW(mount(NULL, "/t/f", NULL, MS_REMOUNT | MS_BIND, NULL));
    SHOW(mount("/t/f", "/t/b", NULL, MS_MOVE, NULL));
    SHOW(mount(NULL, "/t/f", NULL, MS_PRIVATE, NULL));
    SHOW(umount("/t/f"));
    SHOW(umount("/t/nothing"));
    SHOW(umount2("/t/a", 0x100));
    SHOW(umount2("/t/a", MNT_EXPIRE | MNT_DETACH));
    SHOW(umount2("/t/link", UMOUNT_NOFOLLOW));
    if (fork() == 0) {
        SHOW(setuid(1000));
        SHOW(mount("none", "/t/f", "tmpfs", 0, NULL));
        SHOW(mount("none", "/t/nothing", "tmpfs", 0, NULL));
        SHOW(umount("/t/a"));
        SHOW(umount("/t/nothing"));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static void entries(const char *path) {
    DIR *dir = opendir(path);
    char *names[32];
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && count < 32;) names[count++] = strdup(entry->d_name);
    closedir(dir);
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (strcmp(names[i], names[j]) > 0) {
                char *name = names[i];
                names[i] = names[j];
                names[j] = name;
            }
    printf("%s:", path);
    for (int i = 0; i < count; i++) printf(" %s", names[i]);
    printf("\n");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    // So that nothing of it is left on the machine that answers.
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    mkdir("/t", 0755);
    if (mount("whole", "/t", "tmpfs", 0, NULL)) return 2;
    mkdir("/t/a", 0755), mkdir("/t/b", 0755), mkdir("/t/f", 0755), mkdir("/t/p", 0755);
    symlink("a", "/t/link");
    printf("-- tmpfs\n");
    SHOW(mount("one two", "/t/a", "tmpfs", 0, "size=1m"));
    flags("/t/a");
    struct stat top, inside;
    SHOW(stat("/t", &top) + stat("/t/a", &inside));
    SHOW(top.st_dev != inside.st_dev);
    touch("/t/a/file", "hello\n");
    mkdir("/t/a/dir", 0755);
    mkfifo("/t/a/fifo", 0666);
    entries("/t/a");
    SHOW(rename("/t/a/file", "/t/file"));
    SHOW(link("/t/a/file", "/t/file"));
    SHOW(rmdir("/t/a"));
    SHOW(rename("/t/a", "/t/c"));
    SHOW(rename("/t/b", "/t/a"));
    SHOW(unlink("/t/a"));
    SHOW(mount("again", "/t/a", "tmpfs", 0, NULL));
    entries("/t/a");
    SHOW(umount("/t/a"));
    entries("/t/a");
    SHOW(chdir("/t/a/dir"));
    char where[PATH_MAX];
    printf("%s\n", getcwd(where, sizeof where));
    SHOW(chdir("../.."));
    printf("%s\n", getcwd(where, sizeof where));
    table("/proc/self/mounts", 0);
    table("/proc/mounts", 0);
    table("/proc/self/mountinfo", 1);

    printf("-- bind\n");
    SHOW(mount("/t/a", "/t/b", NULL, MS_BIND | MS_RDONLY, NULL));
    entries("/t/b");
    touch("/t/b/file", "HELLO\n");
    SHOW(stat("/t/a/file", &top) + stat("/t/b/file", &inside));
    SHOW(top.st_dev == inside.st_dev && top.st_ino == inside.st_ino);
    SHOW(link("/t/a/file", "/t/b/file2"));
    SHOW(rename("/t/a/file", "/t/b/file2"));
    SHOW(mount(NULL, "/t/b", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
    flags("/t/b");
    flags("/t/a");
    read_only();
    touch("/t/a/file", "hello\n");
    table("/proc/self/mounts", 0);
    table("/proc/self/mountinfo", 1);
    SHOW(umount("/t/b"));
    touch("/t/f/file", "");
    SHOW(mount("/t/a/file", "/t/f/file", NULL, MS_BIND, NULL));
    SHOW(stat("/t/f/file", &inside));
    SHOW(top.st_ino == inside.st_ino);
    SHOW(unlink("/t/f/file"));
    table("/proc/self/mountinfo", 1);
    SHOW(umount("/t/f/file"));
    SHOW(mount("/t/a/dir", "/t/b", NULL, MS_BIND, NULL));
    SHOW(chdir("/t/b"));
    printf("%s\n", getcwd(where, sizeof where));
    SHOW(chdir(".."));
    printf("%s\n", getcwd(where, sizeof where));
    table("/proc/self/mountinfo", 1);
    SHOW(umount("/t/b"));

    printf("-- below\n");
    mkdir("/t/a/dir/x", 0755);
    SHOW(mount("deep", "/t/a/dir/x", "tmpfs", 0, "mode=755"));
    touch("/t/a/dir/x/deep", "");
    SHOW(mount("/t/a", "/t/b", NULL, MS_BIND, NULL));
    entries("/t/b/dir/x");
    SHOW(umount("/t/b"));
    SHOW(mount("/t/a", "/t/b", NULL, MS_BIND | MS_REC, NULL));
    entries("/t/b/dir/x");
    SHOW(umount("/t/b"));
    SHOW(umount2("/t/b", MNT_DETACH));
    entries("/t/b");
    SHOW(mount("/t/a/dir/x", "/t/b", NULL, MS_MOVE, NULL));
    entries("/t/b");
    entries("/t/a/dir/x");
    SHOW(mount("/t/a", "/t/a/dir", NULL, MS_MOVE, NULL));
    SHOW(umount("/t/b"));

    printf("-- busy\n");
    SHOW(chdir("/t/a"));
    SHOW(umount("/t/a"));
    SHOW(umount2("/t/a", MNT_FORCE));
    SHOW(chdir("/"));
    int fd = open("/t/a/file", O_RDONLY);
    SHOW(umount("/t/a"));
    SHOW(umount2("/t/link", UMOUNT_NOFOLLOW));
    SHOW(umount2("/t/link", MNT_DETACH));
    char text[8] = "";
    SHOW(pread(fd, text, 6, 0));
    printf("%s", text);
    entries("/t/a");
    close(fd);
    SHOW(mount("none", "/t/a", "tmpfs", MS_RDONLY, NULL));
    flags("/t/a");
    SHOW(mkdir("/t/a/x", 0700));
    SHOW(mount(NULL, "/t/a", NULL, MS_REMOUNT, NULL));
    SHOW(mkdir("/t/a/x", 0700));
    SHOW(umount2("/t/a", MNT_EXPIRE));

    printf("-- proc\n");
    SHOW(mount("proc", "/t/p", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    flags("/t/p");
    SHOW(access("/t/p/self/status", R_OK));
    SHOW(mount("proc", "/t/p", "proc", 0, NULL));
    SHOW(mount("/proc/self", "/t/f", NULL, MS_BIND, NULL));
    SHOW(access("/t/f/status", R_OK));
    SHOW(chdir("/t/f/fd"));
    printf("%s\n", getcwd(where, sizeof where));
    SHOW(chdir("/"));
    SHOW(umount("/t/f"));
    SHOW(umount("/t/p"));
    flags_of_mounts();
    sizes();
    errors();
    SHOW(umount2("/t", MNT_DETACH));
    return rmdir("/t");
}
