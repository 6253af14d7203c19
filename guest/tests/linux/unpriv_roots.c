// Who has rights in a user name space of its own only builds itself a root as bwrap does: what it found is covered and cannot be taken away, but for
// the root that it has left.
// oracle: linux
#include "test.h"
#include "must.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    MUST(fd >= 0 && write(fd, text, strlen(text)) == (long)strlen(text));
    close(fd);
}

#define TRY(e)                                            \
    do {                                                  \
        errno = 0;                                        \
        long value_ = (e);                                \
        printf("%s: %ld\n", #e, value_ < 0 ? -errno : value_); \
    } while (0)

static void build(void) {
    char map[64];
    unsigned uid = getuid(), gid = getgid();
    MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid), put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid), put("/proc/self/gid_map", map);
    TRY(mount("", "/", NULL, MS_SLAVE | MS_REC, NULL));
    // What was mounted before stays where it is.
    TRY(umount2("/proc", MNT_DETACH));
    TRY(umount2("/proc", 0));
    TRY(umount2("/", MNT_DETACH));
    TRY(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, NULL));
    MUST(chdir("/tmp") == 0 && mkdir("newroot", 0755) == 0 && mkdir("oldroot", 0755) == 0);
    TRY(mount("newroot", "newroot", NULL, MS_BIND | MS_REC, NULL));
    TRY(syscall(SYS_pivot_root, "/tmp", "oldroot"));
    MUST(chdir("/") == 0);
    TRY(mkdir("newroot/bin", 0755));
    TRY(mount("oldroot/bin", "newroot/bin", NULL, MS_BIND | MS_REC, NULL));
    TRY(umount2("oldroot/proc", MNT_DETACH));
    TRY(umount2("oldroot", 0));
    TRY(mount("oldroot", "oldroot", NULL, MS_REC | MS_PRIVATE, NULL));
    TRY(umount2("oldroot", MNT_DETACH));
    TRY(access("oldroot/bin", F_OK));
    int fd = open("/", O_DIRECTORY);
    MUST(fd >= 0 && chdir("/newroot") == 0);
    TRY(syscall(SYS_pivot_root, ".", "."));
    MUST(fchdir(fd) == 0);
    TRY(umount2(".", MNT_DETACH));
    MUST(chdir("/") == 0);
    close(fd);
    TRY(access("/bin", F_OK));
    TRY(access("/newroot", F_OK));
    TRY(umount2("/", MNT_DETACH));
}

int main(void) {
    IN_CHILD("root", build());
    IN_CHILD("a user", {
        MUST(setgid(1000) == 0 && setuid(1000) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
        build();
    });
    return 0;
}
