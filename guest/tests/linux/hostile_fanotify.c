// What a user can do with fanotify and file handles to others: as many groups and marks as he may have, queues that are never read, files
// that he may not read, handles that he has made up, requests that no library sends, ends in the middle. On four cores.
//
// build: gcc, musl
// cores: 4
// expect-stdout: others work\nothers work\npassed\n
#include "others.h"
#include "raw.h"
#include <sys/fanotify.h>
#include <sys/resource.h>

enum { OP_HANDLE_OF = 296, OP_OPEN_HANDLE = 297, OP_FANOTIFY = 298, OP_MARK_FILE = 299, GROUPS = 128, MARKS = 8192, KILLS = 20 };
#define REPORTS (FAN_REPORT_FID | FAN_REPORT_DIR_FID | FAN_REPORT_NAME)
#define FOLDER "/tmp/fan"

static int group(unsigned flags) { return (int)syscall(SYS_fanotify_init, flags, 0); }
static int mark(int fd, unsigned flags, unsigned long mask, const char *path) {
    return (int)syscall(SYS_fanotify_mark, fd, flags, mask, AT_FDCWD, path);
}

static int ready[2];

// Takes all groups and marks that a user may have, and a queue that is never read.
static void greedy(int argument) {
    int groups = 0, first = group(REPORTS), fd;
    if (first < 0) fail("the first group", first);
    else groups = 1;
    while ((fd = group(REPORTS)) >= 0) groups++;
    check("no more groups", errno, EMFILE);
    check("groups", groups, GROUPS);
    mark(first, FAN_MARK_ADD, FAN_OPEN | FAN_CLOSE | FAN_CREATE | FAN_DELETE | FAN_EVENT_ON_CHILD, FOLDER "/open");
    mkdir(FOLDER "/open/own", 0700);
    int marks = 1;
    for (int n = 0; n < MARKS + 10; n++) {
        char name[64];
        snprintf(name, sizeof name, FOLDER "/open/own/%d", n % 300);
        int file = open(name, O_RDWR | O_CREAT, 0600);
        close(file);
        // One group after the other marks the same 300 files.
        if (mark(first + n / 300, FAN_MARK_ADD, FAN_OPEN, name) == 0) marks++;
        else {
            check("no more marks", errno, ENOSPC);
            break;
        }
    }
    check("marks", marks, MARKS);
    for (int n = 0; n < 20000; n++) {
        char name[64];
        snprintf(name, sizeof name, FOLDER "/open/event%d", n);
        int file = open(name, O_RDWR | O_CREAT, 0600);
        close(file);
        unlink(name);
    }
    if (write(ready[1], "r", 1) != 1) fail("ready", 0);
    pause();
}

// What a user may not read he cannot mark; whom he is told of he is not told; handles lead him nowhere.
static void curious(int argument) {
    int fd = group(REPORTS | FAN_NONBLOCK);
    check("a mark of another one's file", mark(fd, FAN_MARK_ADD, FAN_OPEN, FOLDER "/secret") == -1 && errno == EACCES, 1);
    check("a mark in a closed directory", mark(fd, FAN_MARK_ADD, FAN_OPEN, FOLDER "/closed/f") == -1 && errno == EACCES, 1);
    check("a mark of all", mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_OPEN, "/tmp") == -1 && errno == EPERM, 1);
    check("descriptors of events", group(FAN_CLASS_NOTIF) == -1 && errno == EPERM, 1);
    struct {
        unsigned bytes;
        int type;
        unsigned words[3];
    } handle = {12, 1, {0}};
    int mount;
    check("a handle", syscall(SYS_name_to_handle_at, AT_FDCWD, FOLDER "/secret", &handle, &mount, 0), 0);
    check("by a handle", syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY) == -1 && errno == EPERM, 1);
    if (access("/proc/tessera", F_OK)) return;
    const unsigned long ids[] = {0, 1, 2, 3, 1000, 40000, 0x7fffffff, 0xffffffff, 0x100000000, ~0ul};
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
        long error = REQUEST(OP_OPEN_HANDLE, NULL, 0, O_RDONLY, handle.words[1], handle.words[0]);
        if (error != EPERM) fail("a forged handle", error);
        error = REQUEST(OP_OPEN_HANDLE, NULL, ids[i], ~0ul >> i, ids[i], ids[i]);
        if (error != EPERM && error != EBADF && error != EINVAL && error != ESTALE) fail("a forged handle", error);
        error = REQUEST(OP_FANOTIFY, NULL, ids[i] & ~0x1e00ul, 0);
        if (error != EPERM && error != EINVAL) fail("a forged group", error);
        error = REQUEST(OP_MARK_FILE, NULL, ids[i], FAN_MARK_ADD, FAN_OPEN, ids[i], 1);
        if (error != EBADF && error != EINVAL) fail("a forged mark", error);
        error = REQUEST(OP_MARK_FILE, NULL, ids[i], ids[i], ids[i], ids[i], ids[i] & 1);
        if (error != EBADF && error != EINVAL) fail("a forged request", error);
    }
}

static void waits(int argument) {
    int fd = group(REPORTS);
    check("a mark", mark(fd, FAN_MARK_ADD, FAN_DELETE_SELF, FOLDER "/open"), 0);
    char event[256];
    read(fd, event, sizeof event);
}

int main(void) {
    struct rlimit files = {1000, 1000};
    setrlimit(RLIMIT_NOFILE, &files);
    close(open("/tmp/shared", O_RDWR | O_CREAT, 0666));
    chmod("/tmp/shared", 0666);
    mkdir(FOLDER, 0755), mkdir(FOLDER "/open", 0777), mkdir(FOLDER "/closed", 0700);
    chmod(FOLDER "/open", 0777);
    close(open(FOLDER "/secret", O_RDWR | O_CREAT, 0600));
    close(open(FOLDER "/closed/f", O_RDWR | O_CREAT, 0666));
    if (pipe(ready)) return 1;
    // What somebody had who was killed he may have again.
    for (int round = 0; round < 2; round++) {
        pid_t pid = as_user(USER, greedy, 0);
        char byte;
        check("ready", read(ready[0], &byte, 1), 1);
        others_work();
        ends("another user", as_user(OTHER, curious, 0), 0);
        kill(pid, SIGKILL);
        ends("the greedy one", pid, SIGKILL);
    }
    for (int n = 0; n < KILLS; n++) {
        pid_t pid = as_user(USER, waits, 0);
        usleep(n * 1000);
        kill(pid, SIGKILL);
        ends("who waits", pid, SIGKILL);
    }
    if (!failed) printf("passed\n");
    return failed;
}
