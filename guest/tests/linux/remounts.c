// What a user may change of mounts in name spaces of his own: of what he was given, nothing for others and nothing that takes less
// away; of what he has made, everything.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

enum { USER = 1000 };

static void says(const char *what, int result) {
    printf("%s: %d\n", what, result ? errno : 0);
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) printf("%s: errno %d\n", path, errno);
    close(fd);
}

static void creates(const char *what, const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    says(what, fd < 0);
    if (fd >= 0) close(fd), unlink(path);
}

static void user(void) {
    // Else his files in /proc are root's, who has begun him.
    if (setgid(USER) || setuid(USER) || prctl(PR_SET_DUMPABLE, 1)) exit(1);
    says("unshare", unshare(CLONE_NEWUSER | CLONE_NEWNS));
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "1000 1000 1");
    put("/proc/self/gid_map", "1000 1000 1");
    says("remount what was there", mount(NULL, "/tmp/remounts/open", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    says("its size", mount(NULL, "/tmp/remounts/open", NULL, MS_REMOUNT, "size=4k"));
    says("unmount it", umount("/tmp/remounts/open"));
    says("bind one", mount("/tmp/remounts/open", "/tmp/remounts/own", NULL, MS_BIND, NULL));
    says("remount what all see of it", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    creates("it is as it was", "/tmp/remounts/own/file");
    says("remount what he sees of it", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
    creates("so it is", "/tmp/remounts/own/file");
    creates("and not elsewhere", "/tmp/remounts/open/file");
    says("and back", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_BIND, NULL));
    creates("as before", "/tmp/remounts/own/file");
    says("unmount his own", umount("/tmp/remounts/own"));
    says("what is read-only is written", mount(NULL, "/tmp/remounts/closed", NULL, MS_REMOUNT | MS_BIND, NULL));
    says("bind it", mount("/tmp/remounts/closed", "/tmp/remounts/own", NULL, MS_BIND, NULL));
    creates("it is read-only", "/tmp/remounts/own/file");
    says("written there", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_BIND, NULL));
    says("without programs", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
    says("less", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOEXEC, NULL));
    creates("still", "/tmp/remounts/own/file");
    says("unmount", umount("/tmp/remounts/own"));
    says("bind all", mount("/tmp/remounts", "/tmp/remounts/own", NULL, MS_BIND | MS_REC, NULL));
    says("what is mounted in it", umount("/tmp/remounts/own/open"));
    says("written there", mount(NULL, "/tmp/remounts/own/closed", NULL, MS_REMOUNT | MS_BIND, NULL));
    creates("it is read-only there", "/tmp/remounts/own/closed/file");
    says("unmount all", umount2("/tmp/remounts/own", MNT_DETACH));
    says("proc", mount("none", "/tmp/remounts/own", "proc", 0, NULL));
    says("sysfs", mount("none", "/tmp/remounts/own", "sysfs", 0, NULL));
    says("a tmpfs of his own", mount("none", "/tmp/remounts/own", "tmpfs", 0, NULL));
    says("remount it", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    creates("it is read-only", "/tmp/remounts/own/file");
    says("and back", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT, "size=64k"));
    creates("it is not", "/tmp/remounts/own/file");
    says("another name space", unshare(CLONE_NEWNS));
    says("remount it there", mount(NULL, "/tmp/remounts/own", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    exit(0);
}

int main(void) {
    umask(0);
    says("a name space", unshare(CLONE_NEWNS));
    says("private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    mkdir("/tmp", 01777);
    mkdir("/tmp/remounts", 0777);
    says("all", mount("none", "/tmp/remounts", "tmpfs", 0, "mode=777"));
    mkdir("/tmp/remounts/open", 0777), mkdir("/tmp/remounts/closed", 0777), mkdir("/tmp/remounts/own", 0777);
    says("open", mount("none", "/tmp/remounts/open", "tmpfs", 0, "mode=777"));
    says("closed", mount("/tmp/remounts/open", "/tmp/remounts/closed", NULL, MS_BIND, NULL));
    says("closed", mount(NULL, "/tmp/remounts/closed", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL));
    fflush(stdout);
    if (fork() == 0) user();
    int status;
    wait(&status);
    printf("status %d\n", status);
    creates("open to all", "/tmp/remounts/open/file");
    says("over", umount2("/tmp/remounts", MNT_DETACH));
    return 0;
}
