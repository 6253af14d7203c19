// A user with name spaces of his own makes file systems and mounts by descriptors until no more can be had, leaves them open when he is
// killed, hands them on, and forges requests: others still have theirs, and with his last process all of it is gone.
//
// build: gcc
// cores: 4
// mem: 512M
// timeout: 300
// expect-stdout: forged: 22 22 9 22 22 22\nmany: 28\nothers: yes\nkilled in the middle: 0\nhanded on: yes\nmemory is back: yes\n
#include "spaces.h"
#include "raw.h"
#include <sys/mount.h>

enum { CREATE = 6, CLONE_IT = 1, RECURSIVE = 0x8000, F_EMPTY = 4 };
enum { OP_CONFIGURE_FS = 322, OP_MOUNT_FS, OP_OPEN_TREE, OP_MOVE_MOUNT, OP_SET_MOUNT, MOST = 5000, ROUNDS = 30 };

static int apart(int user) {
    char map[32];
    if (as_user(user) || unshare(CLONE_NEWUSER | CLONE_NEWNS)) return 1;
    snprintf(map, sizeof map, "0 %d 1", user);
    return put("/proc/self/setgroups", "deny") || put("/proc/self/uid_map", map) || put("/proc/self/gid_map", map);
}

static int made(void) {
    int fd = syscall(SYS_fsopen, "tmpfs", 1);
    if (fd < 0 || syscall(SYS_fsconfig, fd, CREATE, NULL, NULL, 0)) return close(fd), -1;
    int at = syscall(SYS_fsmount, fd, 1, 0), error = errno;
    close(fd);
    errno = error;
    return at;
}

static void forged(void) {
    // Attributes that there are not, twice; what is no such description; flags that there are not; ways to follow that are two.
    printf("forged: %ld %ld %ld", REQUEST(OP_MOUNT_FS, 0, 1, 0xffff0000), REQUEST(OP_MOUNT_FS, 0, 1, 0x30), REQUEST(OP_CONFIGURE_FS, 0, 0xfffff, CREATE));
    printf(" %ld %ld %ld\n", REQUEST(OP_OPEN_TREE, "/tmp", 0xffffffff, 0x7fffffff), REQUEST(OP_MOVE_MOUNT, "/tmp", 0xffffffff, 0xffffffff, 0x100),
           REQUEST(OP_SET_MOUNT, "/", 0xffffffff, 0, 0, 0, 3ul << 17));
}

// As many as there may be: each holds one at no place, by a copy of all that is seen.
static int many(void) {
    if (apart(1001)) return 1;
    int count = 0, fd, error = 0;
    while (count < MOST && !error) {
        fd = count & 1 ? made() : (int)syscall(SYS_open_tree, AT_FDCWD, "/", CLONE_IT | RECURSIVE);
        if (fd < 0) error = errno;
        else count++;
        // Descriptors are not what there is least of.
        if (fd > 200 && syscall(SYS_move_mount, fd, "", AT_FDCWD, "/mnt", F_EMPTY)) error = errno;
        if (fd > 200) close(fd);
    }
    return error;
}

static int round_of(int user) {
    if (apart(user)) return 1;
    for (int n = 0;; n++) {
        int fd = n & 1 ? made() : (int)syscall(SYS_open_tree, AT_FDCWD, "/", CLONE_IT | RECURSIVE);
        if (fd < 0) {
            for (int one = 3; one < 300; one++) close(one);
            continue;
        }
        close(openat(fd, "file", O_CREAT | O_RDWR, 0600));
        if (n % 5 == 0) syscall(SYS_move_mount, fd, "", AT_FDCWD, "/tmp", F_EMPTY);
        if (n % 7 == 0) umount2("/tmp", MNT_DETACH);
        if (n % 3 == 0) close(fd);
    }
}

static int forked(int (*body)(int), int argument) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(body(argument));
    return pid;
}

static int many_of(int unused) { return many() + unused; }

// A mount that its maker has left is there for who was given it, and gone with him.
static int handed(void) {
    int pair[2], fd = made();
    if (fd < 0 || pipe(pair)) return 0;
    close(openat(fd, "kept", O_CREAT | O_RDWR, 0600));
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(pair[1]);
        if (read(pair[0], &byte, 1) != 0) _exit(1);
        _exit(faccessat(fd, "kept", F_OK, 0) ? 2 : 0);
    }
    close(fd), close(pair[0]), close(pair[1]);
    return wait_for(pid) == 0;
}

static int rounds(int count) {
    int failed = 0;
    for (int n = 0; n < count; n++) {
        pid_t pids[4];
        for (int one = 0; one < 4; one++) pids[one] = forked(round_of, 1001 + one);
        usleep(20000 + n * 1000);
        for (int one = 0; one < 4; one++) kill(pids[one], SIGKILL);
        for (int one = 0; one < 4; one++) failed += wait_for(pids[one]) != SIGKILL;
    }
    return failed;
}

int main(void) {
    forged();
    // What it takes the first times stays.
    for (int n = 0; n < 2; n++) wait_for(forked(many_of, 0));
    int failed = rounds(3) + !handed();
    unsigned long before = free_pages();
    int status = wait_for(forked(many_of, 0));
    printf("many: %d\n", status >> 8);
    int fd = made();
    printf("others: %s\n", fd >= 0 ? "yes" : "no");
    close(fd);
    printf("killed in the middle: %d\n", failed + rounds(ROUNDS));
    printf("handed on: %s\n", handed() ? "yes" : "no");
    int is_back = 0;
    for (int n = 0; n < 200 && !is_back; n++) {
        is_back = free_pages() + 256 >= before;
        if (!is_back) usleep(20000);
    }
    printf("memory is back: %s\n", is_back ? "yes" : "no");
    return 0;
}
