// Who opens the same file again and again has what he would have if each were the first: its offset, flags and name, and what others
// have made of the file or its path meanwhile. And nobody sees files open that have been closed.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include "must.h"
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { AGAIN = 8 };
static const char *const path = "/tmp/kept/a/f";

// Lets a child do something, and waits for its end.
#define OTHER(...)                  \
    do {                            \
        fflush(stdout);             \
        pid_t child = fork();       \
        MUST(child >= 0);           \
        if (child == 0) {           \
            __VA_ARGS__;            \
            fflush(stdout);         \
            _exit(0);               \
        }                           \
        int status;                 \
        MUST(waitpid(child, &status, 0) == child && status == 0); \
    } while (0)

static void make(const char *name, const char *text) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0 && write(fd, text, strlen(text)) == (long)strlen(text) && close(fd) == 0);
}

// Opens it, looks at what that is, and closes it.
static void look(const char *what, const char *name, int flags) {
    char text[32] = "", link[64], to[64] = "";
    struct stat named = {0}, opened;
    int is_named = stat(name, &named) == 0, fd = open(name, flags);
    if (fd < 0) {
        printf("%s: errno %d\n", what, errno);
        return;
    }
    sprintf(link, "/proc/self/fd/%d", fd);
    MUST(readlink(link, to, sizeof to - 1) > 0);
    long at = lseek(fd, 0, SEEK_CUR), got = read(fd, text, 5);
    printf("%s: at %ld, %ld bytes: %s, flags %o, %d, %s\n", what, at, got, text, fcntl(fd, F_GETFL) & ~0100000, fcntl(fd, F_GETFD), to);
    // What is told of the path without opening it is of the same file.
    if (is_named && (fstat(fd, &opened) || opened.st_ino != named.st_ino || opened.st_size != named.st_size)) printf("%s: WRONG stat\n", what);
    MUST(close(fd) == 0);
}

// Opens and closes until that is known.
static void again(void) {
    for (int i = 0; i < AGAIN; i++) {
        int fd = open(path, O_RDONLY);
        MUST(fd >= 0);
        char byte;
        if (i % 3) MUST(read(fd, &byte, 1) >= 0);
        MUST(close(fd) == 0);
        struct stat named;
        if (i % 2) MUST(stat(path, &named) == 0);
    }
}

static void events_of(const char *what, int notes) {
    char buffer[4096] __attribute__((aligned(8)));
    struct pollfd look = {notes, POLLIN, 0};
    printf("%s:", what);
    while (poll(&look, 1, 0) > 0) {
        long bytes = read(notes, buffer, sizeof buffer);
        for (long at = 0; at < bytes;) {
            struct inotify_event *event = (void *)(buffer + at);
            printf(" %x", event->mask);
            at += sizeof *event + event->len;
        }
    }
    printf("\n");
}

// Another process, which has been there before: what is kept is so until it does something.
static int to_another[2], from_another[2];

static void serve(void) {
    void (*what)(void);
    close(to_another[1]);
    while (read(to_another[0], &what, sizeof what) == sizeof what) {
        what();
        fflush(stdout);
        MUST(write(from_another[1], "", 1) == 1);
    }
    _exit(0);
}

static void another(void (*what)(void)) {
    char byte;
    MUST(write(to_another[1], &what, sizeof what) == sizeof what && read(from_another[0], &byte, 1) == 1);
}

static void replace(void) {
    make("/tmp/kept/a/g", "other"), MUST(rename("/tmp/kept/a/g", path) == 0);
}
static void remove_it(void) {
    MUST(unlink(path) == 0);
}
static void make_anew(void) {
    make(path, "made anew");
}
static void write_to_it(void) {
    make(path, "written");
}
static void move_directory(void) {
    MUST(rename("/tmp/kept/a", "/tmp/kept/b") == 0);
}
static void move_directory_back(void) {
    MUST(rename("/tmp/kept/b", "/tmp/kept/a") == 0);
}
static void for_owner_alone(void) {
    MUST(chmod(path, 0600) == 0);
}
static void lock_whole(void) {
    int own = open(path, O_RDONLY);
    printf("locked by another: %d\n", flock(own, LOCK_EX | LOCK_NB));
    close(own);
}
static void lock_bytes(void) {
    int own = open(path, O_RDWR);
    struct flock mine = {.l_type = F_WRLCK};
    printf("locks end with a close: %d\n", fcntl(own, F_SETLK, &mine));
    close(own);
}
static void watch_it(void) {
    int others = inotify_init1(0);
    MUST(inotify_add_watch(others, path, IN_ALL_EVENTS) >= 0);
    events_of("nothing, by another", others);
    close(others);
}
static void lease_it(void) {
    int own = open(path, O_RDWR);
    printf("a lease for writing: %d\n", fcntl(own, F_SETLEASE, F_WRLCK));
    close(own);
}
static void unmount_it(void) {
    printf("unmounted by another: %d\n", umount("/tmp/kept/m"));
}
// Nothing changes of any file or directory by that, but where the path leads.
static void cover_it(void) {
    printf("covered by another: %d\n", mount("/tmp/kept/o", "/tmp/kept/a", NULL, MS_BIND, NULL));
}
static void uncover_it(void) {
    printf("uncovered by another: %d\n", umount("/tmp/kept/a"));
}

static const char *const in_mount = "/tmp/kept/m/f";
static void remove_in_mount(void) {
    MUST(unlink(in_mount) == 0);
}

static void changes(void) {
    again(), look("as it was", path, O_RDONLY);
    again(), look("closed by a program that is executed", path, O_RDONLY | O_CLOEXEC);
    again(), look("not waiting", path, O_RDONLY | O_NONBLOCK);
    again(), look("to be written", path, O_RDWR);
    again(), look("as a directory", path, O_RDONLY | O_DIRECTORY);
    again();
    another(replace), look("replaced", path, O_RDONLY);
    again();
    another(remove_it), look("removed", path, O_RDONLY);
    another(make_anew), look("made anew", path, O_RDONLY);
    again();
    another(write_to_it), look("written to", path, O_RDONLY);
    again();
    another(move_directory), look("its directory is elsewhere", path, O_RDONLY);
    another(move_directory_back), look("and here again", path, O_RDONLY);
    again();
    another(for_owner_alone), look("for its owner alone", path, O_RDONLY);
    again();
    MUST(seteuid(1000) == 0);
    look("by another user", path, O_RDONLY);
    MUST(seteuid(0) == 0);
    MUST(chmod(path, 0644) == 0);
    again(), MUST(link(path, "/tmp/kept/a/h") == 0);
    again(), look("by another name", "/tmp/kept/a/h", O_RDONLY), look("by its name", path, O_RDONLY);
    MUST(unlink("/tmp/kept/a/h") == 0 && chdir("/tmp/kept/a") == 0);
    for (int i = 0; i < AGAIN; i++) close(open("f", O_RDONLY));
    look("by a short path", "f", O_RDONLY);
    MUST(chdir("/tmp/kept") == 0);
    look("from elsewhere", "f", O_RDONLY);
    MUST(chdir("/") == 0);
}

// What is done to a description ends with it.
static void descriptions(void) {
    again();
    int fd = open(path, O_RDONLY);
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && close(fd) == 0);
    look("after it did not wait", path, O_RDONLY);
    again(), fd = open(path, O_RDONLY);
    MUST(flock(fd, LOCK_EX) == 0 && close(fd) == 0);
    another(lock_whole);
    again(), fd = open(path, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK};
    MUST(fcntl(fd, F_SETLK, &lock) == 0);
    close(open(path, O_RDONLY));
    another(lock_bytes);
    close(fd);
    again(), fd = open(path, O_RDONLY);
    int copy = dup(fd);
    MUST(close(fd) == 0 && lseek(copy, 3, SEEK_SET) == 3 && close(copy) == 0);
    look("after a duplicate", path, O_RDONLY);
    again(), fd = open(path, O_RDONLY);
    OTHER(MUST(lseek(fd, 2, SEEK_SET) == 2));
    printf("moved by a child to %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    MUST(close(fd) == 0), look("after that", path, O_RDONLY);
    again();
    OTHER(again(); look("by a child", path, O_RDONLY); int own = open(path, O_RDONLY); MUST(lseek(own, 4, SEEK_SET) == 4));
    look("after it", path, O_RDONLY);
    again();
    pid_t child = vfork();
    if (child == 0) {
        for (int i = 0; i < AGAIN; i++) close(open(path, O_RDONLY));
        int own = open(path, O_RDONLY);
        lseek(own, 1, SEEK_SET), close(own), _exit(own < 0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    look("after a child in the same memory", path, O_RDONLY);
}

// Somebody else has it.
static void passed(void) {
    int ends[2], go[2];
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && pipe(go) == 0);
    fflush(stdout);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        char space[64], data;
        struct iovec vec = {&data, 1};
        struct msghdr message = {.msg_iov = &vec, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
        MUST(recvmsg(ends[1], &message, 0) == 1);
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        MUST(read(go[0], &byte, 1) == 1);
        MUST(lseek(fd, 3, SEEK_SET) == 3 && write(ends[1], "", 1) == 1);
        MUST(read(go[0], &byte, 1) == 1);
        printf("who was given it is at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
        fflush(stdout), _exit(0);
    }
    again();
    int fd = open(path, O_RDONLY);
    char space[CMSG_SPACE(sizeof fd)] = "", data = 0;
    struct iovec vec = {&data, 1};
    struct msghdr message = {.msg_iov = &vec, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    MUST(sendmsg(ends[0], &message, 0) == 1 && close(fd) == 0);
    fd = open(path, O_RDONLY);
    MUST(write(go[1], "", 1) == 1 && read(ends[0], &byte, 1) == 1);
    printf("who has passed it and opened it again is at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    MUST(lseek(fd, 1, SEEK_SET) == 1 && close(fd) == 0 && write(go[1], "", 1) == 1);
    MUST(waitpid(child, NULL, 0) == child);
    // Taken, and not given.
    again();
    pid_t parent = getpid();
    fd = open(path, O_RDONLY);
    fflush(stdout);
    child = fork();
    MUST(child >= 0);
    if (child == 0) {
        MUST(close(fd) == 0 && read(go[0], &byte, 1) == 1);
        int pidfd = syscall(SYS_pidfd_open, parent, 0), own = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        MUST(own >= 0 && write(ends[1], "", 1) == 1 && read(go[0], &byte, 1) == 1);
        printf("who has taken it is at %ld\n", (long)lseek(own, 0, SEEK_CUR));
        fflush(stdout), _exit(0);
    }
    MUST(close(fd) == 0);
    again(), fd = open(path, O_RDONLY);
    MUST(write(go[1], "", 1) == 1 && read(ends[0], &byte, 1) == 1 && close(fd) == 0);
    fd = open(path, O_RDONLY);
    MUST(lseek(fd, 5, SEEK_SET) == 5 && close(fd) == 0);
    fd = open(path, O_RDONLY);
    MUST(lseek(fd, 2, SEEK_SET) == 2 && write(go[1], "", 1) == 1);
    MUST(waitpid(child, NULL, 0) == child && close(fd) == 0);
}

static void watched(void) {
    again();
    int notes = inotify_init1(0);
    MUST(notes >= 0 && inotify_add_watch(notes, path, IN_ALL_EVENTS) >= 0);
    events_of("nothing yet", notes);
    close(open(path, O_RDONLY));
    events_of("opened and closed", notes);
    again();
    OTHER(again());
    events_of("many times", notes);
    close(notes);
    again();
    another(watch_it);
    again();
    another(lease_it);
    look("after a lease", path, O_RDONLY);
}

static void covered(void) {
    MUST(mkdir("/tmp/kept/o", 0755) == 0);
    make("/tmp/kept/o/f", "of the other directory");
    again();
    another(cover_it);
    look("covered by a directory", path, O_RDONLY);
    again();
    another(uncover_it);
    look("uncovered again", path, O_RDONLY);
    MUST(unlink("/tmp/kept/o/f") == 0 && rmdir("/tmp/kept/o") == 0);
}

// What has ended is kept by nobody: another process can have it for itself alone, and what was removed is gone.
static void let_go(void) {
    again(), another(write_to_it), another(lease_it);
    struct statvfs before, after;
    MUST(mkdir("/tmp/kept/m", 0755) == 0 && mount("none", "/tmp/kept/m", "tmpfs", 0, NULL) == 0);
    MUST(statvfs("/tmp/kept/m", &before) == 0);
    for (int i = 0; i < 3 * AGAIN; i++) {
        make(in_mount, "text");
        for (int j = 0; j < AGAIN; j++) close(open(in_mount, O_RDONLY));
        another(remove_in_mount);
    }
    MUST(statvfs("/tmp/kept/m", &after) == 0);
    printf("files that were removed and are there still: %ld\n", (long)(before.f_ffree - after.f_ffree));
    printf("unmounted: %d\n", umount("/tmp/kept/m"));
    MUST(rmdir("/tmp/kept/m") == 0);
}

static void unmounted(void) {
    MUST(mkdir("/tmp/kept/m", 0755) == 0 && mount("none", "/tmp/kept/m", "tmpfs", 0, NULL) == 0);
    make("/tmp/kept/m/f", "text");
    for (int i = 0; i < AGAIN; i++) close(open("/tmp/kept/m/f", O_RDONLY));
    another(unmount_it);
    look("unmounted", "/tmp/kept/m/f", O_RDONLY);
    MUST(mount("none", "/tmp/kept/m", "tmpfs", 0, NULL) == 0);
    make("/tmp/kept/m/f", "other");
    look("mounted again", "/tmp/kept/m/f", O_RDONLY);
    MUST(umount("/tmp/kept/m") == 0 && rmdir("/tmp/kept/m") == 0);
    again();
    MUST(mount("none", "/tmp/kept/a", "tmpfs", 0, NULL) == 0);
    look("covered", path, O_RDONLY);
    MUST(umount("/tmp/kept/a") == 0);
    look("uncovered", path, O_RDONLY);
}

// A program that is executed, and one that is executed in its place.
static void executed(char *self) {
    again();
    OTHER(execl("/proc/self/exe", self, "again", NULL));
    fflush(stdout);
    execl("/proc/self/exe", self, "last", NULL);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 1) {
        again(), look(argv[1], path, O_RDONLY);
        if (argv[1][0] == 'l') MUST(unlink(path) == 0 && rmdir("/tmp/kept/a") == 0 && rmdir("/tmp/kept") == 0);
        return 0;
    }
    umask(022);
    MUST(mkdir("/tmp/kept", 0755) == 0 && mkdir("/tmp/kept/a", 0755) == 0);
    make(path, "first text");
    MUST(pipe(to_another) == 0 && pipe(from_another) == 0);
    pid_t helper = fork();
    MUST(helper >= 0);
    if (helper == 0) serve();
    changes();
    covered();
    let_go();
    watched();
    unmounted();
    passed();
    // Behind a child in the same memory nothing is kept any more.
    descriptions();
    close(to_another[1]);
    MUST(waitpid(helper, NULL, 0) == helper);
    executed(argv[0]);
}
