// mount and umount: each error, who may, what keeps a disk, and what is in /dev/vda.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

static void is(const char *what, long got, long wanted) {
    printf("%s: %ld%s\n", what, got, got == wanted ? "" : " WRONG");
}

// 0, or the error.
static long e(long result) { return result < 0 ? errno : 0; }

static int in_mounts(void) {
    char text[4096] = "";
    int fd = open("/proc/mounts", O_RDONLY);
    if (read(fd, text, sizeof text - 1) < 0)
        perror("read");
    close(fd);
    return strstr(text, "/dev/vda /mnt ext4 rw") != NULL;
}

static void as_user(void (*act)(void)) {
    fflush(stdout);
    if (fork() == 0) {
        if (setgid(1000) || setuid(1000))
            _exit(1);
        act();
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static void user_mounts(void) {
    is("mount by a user", e(mount("/dev/vda", "/mnt", "ext4", 0, NULL)), EPERM);
    is("umount by a user", e(umount("/mnt")), EPERM);
    is("the disk by a user", e(open("/dev/vda", O_RDONLY)), EACCES);
}

static void user_files(void) {
    struct stat st;
    is("in a directory of root", e(open("/mnt/x", O_CREAT | O_WRONLY, 0644)), EACCES);
    is("in one for all", e(open("/mnt/open/x", O_CREAT | O_WRONLY, 04755)), 0);
    is("stat", e(stat("/mnt/open/x", &st)), 0);
    is("its owner", st.st_uid, 1000);
    is("its group", st.st_gid, 1000);
    is("given away", e(chown("/mnt/open/x", 0, 0)), EPERM);
    is("a directory", e(mkdir("/mnt/open/d", 0755)), 0);
    is("stat", e(stat("/mnt/open/d", &st)), 0);
    is("its owner", st.st_uid, 1000);
}

int main(void) {
    struct stat st;
    struct statfs fs;
    unsigned long long bytes = 0;
    int sector = 0, fd;
    setvbuf(stdout, NULL, _IOFBF, 65536);
    mkdir("/mnt", 0755);
    mkdir("/other", 0755);
    close(open("/file", O_CREAT | O_WRONLY, 0644));

    is("stat of the disk", e(stat("/dev/vda", &st)), 0);
    is("a block device", S_ISBLK(st.st_mode), 1);
    is("its mode", st.st_mode & 07777, 0600);
    fd = open("/dev/vda", O_RDWR);
    is("open", e(fd), 0);
    is("BLKGETSIZE64", e(ioctl(fd, BLKGETSIZE64, &bytes)), 0);
    is("bytes", bytes, 16 << 20);
    is("BLKSSZGET", e(ioctl(fd, BLKSSZGET, &sector)), 0);
    is("sector", sector, 512);
    is("its end", lseek(fd, 0, SEEK_END), 16 << 20);
    char block[3000], again[3000];
    is("read", pread(fd, block, sizeof block, 1000001), sizeof block);
    is("read behind the end", pread(fd, again, sizeof again, 16 << 20), 0);
    // Of a block that is not used: the last ones.
    memset(block, 'x', sizeof block);
    is("write", pwrite(fd, block, sizeof block, (16 << 20) - 3501), sizeof block);
    is("read again", pread(fd, again, sizeof again, (16 << 20) - 3501), sizeof again);
    is("the same", memcmp(block, again, sizeof block), 0);
    is("write over the end", pwrite(fd, block, sizeof block, (16 << 20) - 100), 100);
    is("write behind the end", e(pwrite(fd, block, sizeof block, 16 << 20)), ENOSPC);
    memset(block, 0, sizeof block);
    pwrite(fd, block, sizeof block, (16 << 20) - 3501);
    pwrite(fd, block, 100, (16 << 20) - 100);
    is("fsync", e(fsync(fd)), 0);
    close(fd);

    as_user(user_mounts);
    is("no such type", e(mount("/dev/vda", "/mnt", "nonesuchfs", 0, NULL)), ENODEV);
    is("no type", e(mount("/dev/vda", "/mnt", NULL, 0, NULL)), EINVAL);
    is("no such disk", e(mount("/dev/nonesuch", "/mnt", "ext4", 0, NULL)), ENOENT);
    is("no disk", e(mount("/file", "/mnt", "ext4", 0, NULL)), ENOTBLK);
    is("no device of blocks", e(mount("/dev/null", "/mnt", "ext4", 0, NULL)), ENOTBLK);
    is("no such directory", e(mount("/dev/vda", "/nonesuch", "ext4", 0, NULL)), ENOENT);
    is("no directory", e(mount("/dev/vda", "/file", "ext4", 0, NULL)), ENOTDIR);
    is("bad path", e(mount("/dev/vda", (char *)1, "ext4", 0, NULL)), EFAULT);
    is("bad type", e(mount("/dev/vda", "/mnt", (char *)1, 0, NULL)), EFAULT);
    is("umount of nothing", e(umount("/mnt")), EINVAL);
    is("umount of none", e(umount("/nonesuch")), ENOENT);

    for (int round = 0; round < 3; round++) {
        is("mount", e(mount("/dev/vda", "/mnt", "ext4", 0, NULL)), 0);
        is("in /proc/mounts", in_mounts(), 1);
        is("mounted at another place, too", e(mount("/dev/vda", "/other", "ext4", 0, NULL)), 0);
        is("mounted twice at a place", e(mount("/dev/vda", "/other", "ext4", 0, NULL)), EBUSY);
        close(open("/mnt/both", O_CREAT | O_WRONLY, 0644));
        is("the same file system", e(stat("/other/both", &st)), 0);
        is("unlink", e(unlink("/other/both")), 0);
        is("gone in both", e(stat("/mnt/both", &st)), ENOENT);
        is("umount of the other", e(umount("/other")), 0);
        is("rmdir", e(rmdir("/mnt")), EBUSY);
        is("rename", e(rename("/mnt", "/renamed")), EBUSY);
        is("statfs", e(statfs("/mnt", &fs)), 0);
        is("its type", fs.f_type, 0xef53);
        is("write to the disk", e((fd = open("/dev/vda", O_RDWR)) < 0 ? -1 : pwrite(fd, "x", 1, 0)), EBUSY);
        close(fd);
        fd = open("/mnt/file", O_CREAT | O_RDWR, 0644);
        is("open", e(fd), 0);
        is("umount while it is open", e(umount("/mnt")), EBUSY);
        is("write", write(fd, "text", 4), 4);
        close(fd);
        is("chdir", e(chdir("/mnt")), 0);
        is("umount while one is there", e(umount("/mnt")), EBUSY);
        char here[100];
        is("getcwd", getcwd(here, sizeof here) && !strcmp(here, "/mnt"), 1);
        is("up", e(chdir("..")), 0);
        is("getcwd", getcwd(here, sizeof here) && !strcmp(here, "/"), 1);
        is("link across", e(link("/file", "/mnt/link")), EXDEV);
        is("rename across", e(rename("/mnt/file", "/other/file")), EXDEV);
        if (round == 0) {
            mkdir("/mnt/open", 0777);
            chmod("/mnt/open", 0777);
            as_user(user_files);
            is("chown", e(chown("/mnt/open/x", 5, 6)), 0);
        }
        is("stat", e(stat("/mnt/open/x", &st)), 0);
        is("owner", st.st_uid * 10 + st.st_gid, 56);
        sync();
        is("umount of a directory in it", e(umount("/mnt/open")), EINVAL);
        is("umount", e(umount("/mnt")), 0);
        is("in /proc/mounts", in_mounts(), 0);
        is("the file", e(stat("/mnt/file", &st)), ENOENT);
    }
    // Who mounts is killed at some moment; then another one does.
    for (int round = 0; round < 20; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            for (;;) {
                mount("/dev/vda", "/mnt", "ext4", 0, NULL);
                umount("/mnt");
            }
        usleep(3000 + round * 1700);
        kill(child, 9);
        waitpid(child, NULL, 0);
        umount("/mnt");
        is("mount", e(mount("/dev/vda", "/mnt", "ext4", 0, NULL)), 0);
        is("the file", e(stat("/mnt/file", &st)), 0);
        is("umount", e(umount("/mnt")), 0);
    }
    printf("done\n");
    return 0;
}
