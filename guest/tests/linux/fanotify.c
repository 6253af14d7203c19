// build: gcc, musl
// oracle: linux
// cores: 4
// fanotify as far as anybody may: who has no capabilities is told by handles what happens to the files that he has marked.
#include "test.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#ifndef FAN_REPORT_TARGET_FID
#define FAN_REPORT_TARGET_FID 0x1000
#endif
#ifndef FAN_RENAME
#define FAN_RENAME 0x10000000
#endif
#ifndef FAN_MARK_EVICTABLE
#define FAN_MARK_EVICTABLE 0x200
#endif
#ifndef FAN_MARK_IGNORE
#define FAN_MARK_IGNORE 0x400
#endif
#define ALL_EVENTS (0xfffull | FAN_OPEN_EXEC)
#define DIR_REPORTS (FAN_REPORT_DIR_FID | FAN_REPORT_NAME)
#define ALL_REPORTS (FAN_REPORT_FID | DIR_REPORTS | FAN_REPORT_TARGET_FID)

static char room[65536] __attribute__((aligned(8)));

static int group(unsigned flags, unsigned event_flags) { return (int)syscall(SYS_fanotify_init, flags, event_flags); }

static int mark(int fd, unsigned flags, uint64_t mask, int dir, const char *path) {
    return (int)syscall(SYS_fanotify_mark, fd, flags, mask, dir, path);
}

// Handles are called by the names that files had when they were first shown.
static struct {
    unsigned char handle[12];
    const char *name;
} known[64];
static int known_count;

static void know(const char *path, const char *name) {
    struct {
        unsigned bytes;
        int type;
        unsigned char handle[128];
    } h = {12, 0, {0}};
    int mount;
    if (syscall(SYS_name_to_handle_at, AT_FDCWD, path, &h, &mount, 0) != 0) {
        perror(path);
        return;
    }
    memcpy(known[known_count].handle, h.handle, 12);
    known[known_count++].name = name;
}

static const char *name_of(const unsigned char *handle) {
    for (int n = known_count - 1; n >= 0; n--)
        if (memcmp(known[n].handle, handle, 12) == 0) return known[n].name;
    return "?";
}

static void show_events(const char *what, int fd) {
    static const char *bits[] = {"ACCESS", "MODIFY", "ATTRIB", "CLOSE_WRITE", "CLOSE_NOWRITE", "OPEN", "MOVED_FROM",
                                 "MOVED_TO", "CREATE", "DELETE", "DELETE_SELF", "MOVE_SELF", "OPEN_EXEC", 0, "OVERFLOW"};
    printf("%s:", what);
    for (;;) {
        long got = read(fd, room, sizeof room);
        if (got <= 0) break;
        struct fanotify_event_metadata *e = (void *)room;
        for (; FAN_EVENT_OK(e, got); e = FAN_EVENT_NEXT(e, got)) {
            printf("\n    [");
            for (int bit = 0; bit < 15; bit++)
                if (e->mask & 1u << bit) printf("%s ", bits[bit]);
            if (e->mask & FAN_RENAME) printf("RENAME ");
            if (e->mask & FAN_ONDIR) printf("ONDIR ");
            if (e->vers != 3 || e->metadata_len != 24 || e->fd != FAN_NOFD) printf("%d %d %d ", e->vers, e->metadata_len, e->fd);
            printf("pid %s]", e->pid == 0 ? "0" : e->pid == getpid() ? "own" : "another's");
            for (char *at = (char *)e + 24; at < (char *)e + e->event_len;) {
                struct fanotify_event_info_fid *info = (void *)at;
                unsigned *h = (void *)info->handle;
                printf(" {%d, %d bytes: %u %u %s", info->hdr.info_type, info->hdr.len, h[0], h[1], name_of((void *)(h + 2)));
                if (info->hdr.info_type != 1 && info->hdr.info_type != 3) printf(" '%s'", (char *)(h + 2) + h[0]);
                printf("}");
                at += info->hdr.len;
            }
        }
    }
    printf("\n");
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (write(fd, text, strlen(text)) < 0) perror(path);
    close(fd);
}

static void get(const char *path) {
    int fd = open(path, O_RDONLY);
    char byte;
    if (read(fd, &byte, 1) < 0) perror(path);
    close(fd);
}

static void errors(void) {
    SHOW(group(0, 0));
    SHOW(group(FAN_CLASS_CONTENT | FAN_REPORT_FID, 0));
    SHOW(group(FAN_UNLIMITED_QUEUE | FAN_REPORT_FID, 0));
    SHOW(group(FAN_UNLIMITED_MARKS | FAN_REPORT_FID, 0));
    SHOW(group(FAN_REPORT_TID | FAN_REPORT_FID, 0));
    SHOW(group(0x80 | FAN_REPORT_FID, 0));
    SHOW(group(0x80000000 | FAN_REPORT_FID, 0));
    SHOW(group(FAN_REPORT_FID, 3));
    SHOW(group(FAN_REPORT_FID, O_CREAT));
    SHOW(group(FAN_REPORT_FID | FAN_REPORT_NAME, 0));
    SHOW(group(FAN_REPORT_NAME, 0));
    SHOW(group(FAN_REPORT_TARGET_FID | FAN_REPORT_FID, 0));
    SHOW(group(FAN_REPORT_TARGET_FID | DIR_REPORTS, 0));
    int fid = group(FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_APPEND | 0100000);
    CHECK(fcntl(fid, F_GETFD) == FD_CLOEXEC);
    printf("%#x\n", fcntl(fid, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    int names = group(FAN_REPORT_FID | DIR_REPORTS | FAN_NONBLOCK, 0), strict = group(ALL_REPORTS | FAN_NONBLOCK, 0);
    int file = open("d/f", O_RDONLY), dir = open("d", O_RDONLY), path = open("d", O_PATH);
    SHOW(mark(fid, FAN_MARK_ADD, 0, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, 1ull << 32, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, 0x2000, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_Q_OVERFLOW | FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD | 0x800, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, 0, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_REMOVE, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_FLUSH | FAN_MARK_ONLYDIR, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_FLUSH, 0, -1, "/none"));
    SHOW(mark(fid, FAN_MARK_FLUSH | FAN_MARK_MOUNT, 0, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_FILESYSTEM | FAN_MARK_MOUNT, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_IGNORE | FAN_MARK_IGNORED_MASK, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, 0x8000, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_RENAME, AT_FDCWD, "d"));
    SHOW(mark(99, FAN_MARK_ADD, 0, AT_FDCWD, "d"));
    SHOW(mark(99, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(file, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "none"));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, ""));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "secret"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_ONLYDIR, FAN_OPEN, AT_FDCWD, "d/f"));
    SHOW(mark(fid, FAN_MARK_ADD | FAN_MARK_ONLYDIR, FAN_OPEN, file, NULL));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, path, NULL));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, 99, NULL));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, dir, NULL));
    SHOW(mark(fid, FAN_MARK_REMOVE, FAN_OPEN, dir, "f"));
    SHOW(mark(fid, FAN_MARK_REMOVE, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_REMOVE, FAN_OPEN, AT_FDCWD, "d"));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_CREATE | FAN_ONDIR, file, NULL));
    SHOW(mark(names, FAN_MARK_ADD, FAN_RENAME, file, NULL));
    SHOW(mark(strict, FAN_MARK_ADD, FAN_CREATE, file, NULL));
    SHOW(mark(strict, FAN_MARK_ADD, FAN_OPEN | FAN_ONDIR, file, NULL));
    SHOW(mark(strict, FAN_MARK_ADD | FAN_MARK_IGNORE, FAN_OPEN, dir, NULL));
    SHOW(mark(strict, FAN_MARK_ADD | FAN_MARK_IGNORE | FAN_MARK_IGNORED_SURV_MODIFY, FAN_OPEN, dir, NULL));
    SHOW(mark(strict, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK, FAN_OPEN, dir, NULL));
    SHOW(mark(strict, FAN_MARK_ADD | FAN_MARK_EVICTABLE, FAN_OPEN, dir, NULL));
    SHOW(read(fid, room, sizeof room));
    SHOW(mark(fid, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "d/f"));
    get("d/f");
    SHOW(read(fid, room, 23));
    struct pollfd look = {fid, POLLIN | POLLOUT, 0};
    SHOW(poll(&look, 1, 0));
    printf("%#x\n", look.revents);
    int bytes = -1;
    SHOW(ioctl(fid, FIONREAD, &bytes));
    printf("%d bytes\n", bytes);
    show_events("then", fid);
    close(fid), close(names), close(strict), close(file), close(dir), close(path);
}

// All that can be done, by a group that is told this.
static void happenings(const char *what, unsigned reports) {
    printf("--- %s\n", what);
    int fd = group(reports | FAN_NONBLOCK, 0);
    uint64_t rename_too = reports & FAN_REPORT_NAME ? FAN_RENAME : 0;
    SHOW(mark(fd, FAN_MARK_ADD, ALL_EVENTS | FAN_ONDIR | FAN_EVENT_ON_CHILD, AT_FDCWD, "d"));
    SHOW(mark(fd, FAN_MARK_ADD, ALL_EVENTS & ~0x3c0ull, AT_FDCWD, "d/f"));
#define EVENTS(call) \
    do {             \
        call;        \
        show_events(#call, fd); \
    } while (0)
    EVENTS(get("d/f"));
    EVENTS(put("d/f", "x"));
    EVENTS(put("d/new", "x"));
    know("d/new", "new");
    EVENTS(get("d/new"));
    EVENTS(chmod("d/new", 0600));
    EVENTS(link("d/new", "d/also"));
    EVENTS(unlink("d/also"));
    EVENTS(rename("d/new", "d/newer"));
    EVENTS(unlink("d/newer"));
    EVENTS(mkdir("d/sub", 0755));
    know("d/sub", "sub");
    EVENTS(close(open("d/sub", O_RDONLY)));
    EVENTS(chmod("d/sub", 0700));
    EVENTS(rmdir("d/sub"));
    EVENTS(close(open("d", O_RDONLY)));
    EVENTS(chmod("d", 0777));
    EVENTS(rename("d/f", "e/f"));
    EVENTS(rename("e/f", "d/f"));
    if (rename_too) {
        SHOW(mark(fd, FAN_MARK_ADD, FAN_RENAME, AT_FDCWD, "d"));
        EVENTS(rename("d/f", "d/g"));
        EVENTS(rename("d/g", "e/g"));
        EVENTS(rename("e/g", "d/f"));
        SHOW(mark(fd, FAN_MARK_ADD, FAN_RENAME, AT_FDCWD, "e"));
        EVENTS(rename("d/f", "e/g"));
        EVENTS(rename("e/g", "d/f"));
    }
    IN_CHILD("another process", get("d/f"));
    show_events("what it did", fd);
    close(fd);
}

static void ignoring(void) {
    printf("--- ignoring\n");
    int fd = group(FAN_REPORT_FID | FAN_NONBLOCK, 0);
    SHOW(mark(fd, FAN_MARK_ADD, FAN_OPEN | FAN_MODIFY | FAN_CLOSE, AT_FDCWD, "d/f"));
    SHOW(mark(fd, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK, FAN_OPEN, AT_FDCWD, "d/f"));
    EVENTS(get("d/f"));
    EVENTS(put("d/f", "y"));
    EVENTS(get("d/f"));
    SHOW(mark(fd, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK | FAN_MARK_IGNORED_SURV_MODIFY, FAN_OPEN, AT_FDCWD, "d/f"));
    EVENTS(put("d/f", "y"));
    EVENTS(get("d/f"));
    SHOW(mark(fd, FAN_MARK_REMOVE | FAN_MARK_IGNORED_MASK, FAN_OPEN, AT_FDCWD, "d/f"));
    EVENTS(get("d/f"));
    SHOW(mark(fd, FAN_MARK_REMOVE, FAN_OPEN | FAN_MODIFY | FAN_CLOSE, AT_FDCWD, "d/f"));
    SHOW(mark(fd, FAN_MARK_REMOVE, FAN_OPEN, AT_FDCWD, "d/f"));
    SHOW(mark(fd, FAN_MARK_ADD, FAN_OPEN | FAN_ONDIR | FAN_EVENT_ON_CHILD, AT_FDCWD, "d"));
    SHOW(mark(fd, FAN_MARK_ADD | FAN_MARK_IGNORE | FAN_MARK_IGNORED_SURV_MODIFY, FAN_OPEN | FAN_EVENT_ON_CHILD, AT_FDCWD, "d"));
    EVENTS(get("d/f"));
    EVENTS(close(open("d", O_RDONLY)));
    SHOW(mark(fd, FAN_MARK_ADD | FAN_MARK_IGNORE, FAN_CLOSE, AT_FDCWD, "d"));
    SHOW(mark(fd, FAN_MARK_FLUSH, 0, AT_FDCWD, NULL));
    EVENTS(get("d/f"));
    close(fd);
}

// Events become one where they only differ in what has happened.
static void merging(void) {
    printf("--- merging\n");
    int fd = group(FAN_REPORT_FID | DIR_REPORTS | FAN_NONBLOCK, 0);
    put("d/g", "");
    know("d/g", "g");
    mark(fd, FAN_MARK_ADD, FAN_OPEN | FAN_CLOSE | FAN_ACCESS | FAN_EVENT_ON_CHILD | FAN_ONDIR, AT_FDCWD, "d");
    get("d/f"), get("d/g"), get("d/f");
    IN_CHILD("another process", get("d/f"); get("d/g"));
    EVENTS(get("d/g"));
    for (int n = 0; n < 20000; n++) {
        char name[32];
        snprintf(name, sizeof name, "d/n%d", n % 2 ? n : 0);
        close(open(n % 2 ? "d/g" : "d/f", O_RDONLY));
    }
    show_events("many alike", fd);
    mark(fd, FAN_MARK_ADD, FAN_CREATE, AT_FDCWD, "d");
    for (int n = 0; n < 16400; n++) {
        char name[32];
        snprintf(name, sizeof name, "d/n%d", n);
        if (link("d/g", name) != 0) perror(name);
    }
    int events = 0, lost = 0, others = 0;
    for (long got; (got = read(fd, room, sizeof room)) > 0;)
        for (struct fanotify_event_metadata *e = (void *)room; FAN_EVENT_OK(e, got); e = FAN_EVENT_NEXT(e, got)) {
            events++;
            if (e->mask == FAN_Q_OVERFLOW) lost++, printf("lost: %u bytes, pid %d, fd %d\n", e->event_len, e->pid, e->fd);
            else if (e->mask != FAN_CREATE) others++;
        }
    printf("%d events, %d of them that others are lost, %d others\n", events, lost, others);
    for (int n = 0; n < 16400; n++) {
        char name[32];
        snprintf(name, sizeof name, "d/n%d", n);
        unlink(name);
    }
    close(fd);
}

static void waiting(void) {
    printf("--- waiting\n");
    int fd = group(FAN_REPORT_FID, 0), set = epoll_create1(0);
    mark(fd, FAN_MARK_ADD, FAN_ATTRIB | FAN_DELETE_SELF, AT_FDCWD, "d/g");
    struct epoll_event event = {.events = EPOLLIN}, got = {0};
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SHOW(epoll_wait(set, &got, 1, 0));
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        chmod("d/g", 0600);
        _exit(0);
    }
    SHOW(read(fd, room, sizeof room));
    waitpid(child, NULL, 0);
    unlink("d/g");
    SHOW(epoll_wait(set, &got, 1, -1));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    show_events("it is gone", fd);
    SHOW(mark(fd, FAN_MARK_REMOVE, FAN_ATTRIB, AT_FDCWD, "d/f"));
    close(set), close(fd);
}

int main(void) {
    char dir[] = "/dev/shm/fanXXXXXX";
    mkdir("/dev/shm", 01777);
    if (!mkdtemp(dir) || chdir(dir)) return 1;
    chmod(dir, 0777);
    put("secret", "");
    chmod("secret", 0600);
    if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) return 2;
    mkdir("d", 0777), mkdir("e", 0777);
    put("d/f", "f");
    know(".", "top"), know("d", "d"), know("e", "e"), know("d/f", "f");
    errors();
    happenings("FID", FAN_REPORT_FID);
    happenings("DIR_FID", FAN_REPORT_DIR_FID);
    happenings("FID DIR_FID", FAN_REPORT_FID | FAN_REPORT_DIR_FID);
    happenings("DIR_FID NAME", DIR_REPORTS);
    happenings("FID DIR_FID NAME", FAN_REPORT_FID | DIR_REPORTS);
    happenings("FID DIR_FID NAME TARGET_FID", ALL_REPORTS);
    ignoring();
    merging();
    waiting();
    return 0;
}
