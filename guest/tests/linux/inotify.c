// build: gcc, musl
// oracle: linux
// cores: 4
// inotify: what each call on files tells those who watch them, and in which order.
#include "test.h"
#include <pthread.h>
#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static int in;
static char room[65536] __attribute__((aligned(8)));
static unsigned cookies[16];
static int cookie_count;

static int cookie_number(unsigned cookie) {
    if (cookie == 0) return 0;
    for (int n = 0; n < cookie_count; n++)
        if (cookies[n] == cookie) return n + 1;
    cookies[cookie_count++] = cookie;
    return cookie_count;
}

static void show_events(const char *what, int fd) {
    static const char *names[] = {"ACCESS", "MODIFY", "ATTRIB", "CLOSE_WRITE", "CLOSE_NOWRITE", "OPEN", "MOVED_FROM",
                                  "MOVED_TO", "CREATE", "DELETE", "DELETE_SELF", "MOVE_SELF"};
    printf("%s:", what);
    for (;;) {
        long got = read(fd, room, sizeof room);
        if (got <= 0) break;
        for (char *at = room; at < room + got;) {
            struct inotify_event *e = (void *)at;
            printf(" [%d", e->wd);
            for (int bit = 0; bit < 12; bit++)
                if (e->mask & 1u << bit) printf(" %s", names[bit]);
            if (e->mask & IN_IGNORED) printf(" IGNORED");
            if (e->mask & IN_Q_OVERFLOW) printf(" OVERFLOW");
            if (e->mask & IN_ISDIR) printf(" ISDIR");
            if (e->len) printf(" '%s' %u", e->name, e->len);
            if (e->cookie) printf(" cookie %d", cookie_number(e->cookie));
            printf("]");
            at += sizeof *e + e->len;
        }
    }
    printf("\n");
}

#define EVENTS(call)                     \
    do {                                 \
        call;                            \
        show_events(#call, in);          \
    } while (0)

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (write(fd, text, strlen(text)) < 0) perror("write");
    close(fd);
}

static void *later(void *arg) {
    usleep(50000);
    put(arg, "later");
    return NULL;
}

static void errors(void) {
    SHOW(inotify_init1(1));
    SHOW(syscall(SYS_inotify_init1, -1));
    SHOW(fcntl(in, F_GETFL));
    SHOW(fcntl(in, F_GETFD));
    SHOW(inotify_add_watch(-1, "d", IN_OPEN));
    SHOW(inotify_add_watch(0, "d", IN_OPEN) != 1 && errno == EINVAL);
    SHOW(inotify_add_watch(in, "d", 0));
    SHOW(inotify_add_watch(-1, "d", 0));
    SHOW(inotify_add_watch(in, "d", 0x1000));
    SHOW(inotify_add_watch(in, "d", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
    SHOW(inotify_add_watch(in, "none", IN_OPEN));
    SHOW(inotify_add_watch(in, "", IN_OPEN));
    SHOW(inotify_add_watch(in, NULL, IN_OPEN));
    SHOW(inotify_add_watch(in, "d/f", IN_OPEN | IN_ONLYDIR));
    SHOW(inotify_add_watch(in, "d/f/g", IN_OPEN));
    SHOW(inotify_rm_watch(in, 1));
    SHOW(inotify_rm_watch(-1, 1));
    SHOW(inotify_rm_watch(0, 1) == -1 && (errno == EINVAL));
    SHOW(write(in, "x", 1));
    SHOW(lseek(in, 0, SEEK_SET));
    SHOW(ftruncate(in, 0));
    SHOW_PTR(mmap(NULL, 4096, PROT_READ, MAP_SHARED, in, 0));
    char name[64];
    sprintf(name, "/proc/self/fd/%d", in);
    long length = readlink(name, room, 64);
    printf("%.*s\n", (int)length, room);
}

static void files(void) {
    int wd = inotify_add_watch(in, "d", IN_ALL_EVENTS);
    int self = inotify_add_watch(in, "d/f", IN_ALL_EVENTS);
    printf("watches %d %d\n", wd, self);
    int fd;
    char bytes[4096];
    EVENTS(fd = open("d/f", O_RDWR));
    EVENTS(read(fd, bytes, 3));
    EVENTS(read(fd, bytes, 100));
    EVENTS(read(fd, bytes, 100));
    EVENTS(read(fd, bytes, 0));
    EVENTS(pread(fd, bytes, 2, 0));
    EVENTS(pread(fd, bytes, 2, 0); pread(fd, bytes, 2, 0); pread(fd, bytes, 2, 0));
    EVENTS(write(fd, "abc", 3));
    EVENTS(write(fd, "abc", 0));
    EVENTS(pwrite(fd, "abc", 3, 100));
    EVENTS(ftruncate(fd, 10));
    EVENTS(ftruncate(fd, 10));
    EVENTS(posix_fallocate(fd, 0, 4096));
    EVENTS(fchmod(fd, 0600));
    EVENTS(fchown(fd, -1, -1));
    struct timespec times[2] = {{5, 0}, {6, 0}};
    EVENTS(futimens(fd, times));
    times[0].tv_nsec = UTIME_OMIT;
    EVENTS(futimens(fd, times));
    times[0].tv_nsec = 0, times[1].tv_nsec = UTIME_OMIT;
    EVENTS(futimens(fd, times));
    times[0].tv_nsec = UTIME_OMIT;
    EVENTS(futimens(fd, times));
    struct stat st;
    EVENTS(fstat(fd, &st); stat("d/f", &st); access("d/f", R_OK); lseek(fd, 0, SEEK_END); fsync(fd));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EVENTS(map[0]++);
    EVENTS(munmap(map, 4096));
    int two;
    EVENTS(two = dup(fd));
    EVENTS(close(fd));
    EVENTS(close(two));
    EVENTS(close(open("d/f", O_RDONLY)));
    EVENTS(close(open("d/f", O_WRONLY)));
    EVENTS(close(open("d/f", O_PATH)));
    EVENTS(close(open("d/f", O_WRONLY | O_TRUNC)));
    EVENTS(close(open("d/f", O_WRONLY | O_CREAT, 0600)));
    EVENTS(open("d/f", O_WRONLY | O_CREAT | O_EXCL, 0600));
    EVENTS(close(open("d/new", O_WRONLY | O_CREAT, 0600)));
    EVENTS(chmod("d/f", 0644));
    EVENTS(truncate("d/f", 3));
    EVENTS(link("d/f", "d/l"));
    EVENTS(unlink("d/l"));
    EVENTS(symlink("f", "d/s"));
    EVENTS(close(open("d/s", O_RDONLY)));
    EVENTS(readlink("d/s", bytes, 10));
    EVENTS(unlink("d/s"));
    EVENTS(mkdir("d/sub", 0755));
    EVENTS(chmod("d/sub", 0700));
    EVENTS(put("d/sub/x", "x"); unlink("d/sub/x"));
    EVENTS(rmdir("d/sub"));
    EVENTS(mknod("d/fifo", S_IFIFO | 0600, 0));
    EVENTS(unlink("d/fifo"));
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {AF_UNIX, "d/socket"};
    EVENTS(bind(s, (void *)&address, sizeof address));
    close(s);
    EVENTS(unlink("d/socket"));
    DIR *dir;
    EVENTS(dir = opendir("d"));
    EVENTS(while (readdir(dir)));
    EVENTS(closedir(dir));
    EVENTS(chdir("d"); chdir(".."));
    EVENTS(rename("d/f", "d/g"));
    EVENTS(rename("d/g", "g"));
    EVENTS(rename("g", "d/f"));
    EVENTS(rename("d/new", "d/f"));
    show_events("later", in);
    EVENTS(unlink("d/f"));
    SHOW(inotify_rm_watch(in, self));
    EVENTS(chmod("d", 0700));
    EVENTS(rename("d", "e"));
    EVENTS(rename("e", "d"));
    EVENTS(rmdir("d"));
    SHOW(inotify_rm_watch(in, wd));
}

static void ends(void) {
    mkdir("d", 0755);
    put("d/f", "text");
    int wd = inotify_add_watch(in, "d/f", IN_ALL_EVENTS), fd = open("d/f", O_RDWR);
    int dir = inotify_add_watch(in, "d", IN_ALL_EVENTS);
    printf("%d %d\n", wd, dir);
    show_events("open", in);
    EVENTS(unlink("d/f"));
    EVENTS(write(fd, "x", 1));
    EVENTS(close(fd));
    // Of what has no name any more its directory is told, or not.
    put("d/f", "text");
    fd = open("d/f", O_RDWR);
    show_events("again", in);
    inotify_add_watch(in, "d", IN_ALL_EVENTS | IN_EXCL_UNLINK);
    EVENTS(unlink("d/f"));
    EVENTS(write(fd, "x", 1));
    EVENTS(close(fd));
    inotify_add_watch(in, "d", IN_ALL_EVENTS);
    // A file that has moved while it was open.
    put("d/f", "text");
    fd = open("d/f", O_RDWR);
    rename("d/f", "d/moved");
    show_events("moved", in);
    EVENTS(write(fd, "x", 1));
    rename("d/moved", "out");
    show_events("out", in);
    EVENTS(write(fd, "x", 1));
    rename("out", "d/back");
    show_events("back", in);
    EVENTS(write(fd, "x", 1));
    EVENTS(close(fd));
    // A rename onto another one.
    put("d/other", "other");
    int other = inotify_add_watch(in, "d/other", IN_ALL_EVENTS);
    show_events("other", in);
    EVENTS(rename("d/back", "d/other"));
    put("d/a", "a");
    put("d/b", "b");
    show_events("two", in);
    EVENTS(syscall(SYS_renameat2, AT_FDCWD, "d/a", AT_FDCWD, "d/b", 2));
    EVENTS(rename("d/a", "d/none/x"));
    SHOW(other > dir);
    unlink("d/a"), unlink("d/b"), unlink("d/other");
    show_events("rest", in);
    SHOW(inotify_rm_watch(in, dir));
    show_events("removed", in);
    SHOW(inotify_rm_watch(in, dir));
}

static void flags(void) {
    put("d/f", "text");
    symlink("d", "link");
    int wd = inotify_add_watch(in, "d/f", IN_OPEN);
    SHOW(inotify_add_watch(in, "d/f", IN_MODIFY | IN_MASK_ADD) == wd);
    EVENTS(put("d/f", "other"));
    SHOW(inotify_add_watch(in, "d/f", IN_OPEN | IN_MASK_CREATE));
    SHOW(inotify_add_watch(in, "d/f", IN_CLOSE_WRITE) == wd);
    EVENTS(put("d/f", "other"));
    SHOW(inotify_rm_watch(in, wd));
    show_events("removed", in);
    SHOW(inotify_add_watch(in, "link", IN_CREATE | IN_DONT_FOLLOW) > wd);
    EVENTS(put("d/through", "x"));
    SHOW(inotify_add_watch(in, "link", IN_CREATE | IN_ONLYDIR) > wd);
    SHOW(inotify_add_watch(in, "link", IN_CREATE | IN_ONLYDIR | IN_DONT_FOLLOW));
    EVENTS(put("d/via", "x"));
    EVENTS(unlink("link"));
    SHOW(inotify_add_watch(in, "d/f", IN_OPEN | IN_ONESHOT) > wd);
    EVENTS(put("d/f", "x"));
    EVENTS(put("d/f", "x"));
    SHOW(inotify_add_watch(in, "d/f", IN_ONLYDIR));
    SHOW(inotify_add_watch(in, "d", IN_ONLYDIR) > 0);
    unlink("d/via"), unlink("d/through"), unlink("d/f");
    show_events("rest", in);
}

static void reading(void) {
    int in2 = inotify_init();
    SHOW(inotify_add_watch(in2, "d", IN_ALL_EVENTS));
    int left = -1;
    SHOW(ioctl(in2, FIONREAD, &left));
    SHOW(left);
    struct pollfd p = {in2, POLLIN | POLLOUT, 0};
    SHOW(poll(&p, 1, 0));
    put("d/twelve bytes", "x");
    SHOW(ioctl(in2, FIONREAD, &left));
    SHOW(left);
    SHOW(poll(&p, 1, 0));
    printf("revents %#x\n", p.revents);
    SHOW(read(in2, room, 16));
    SHOW(read(in2, room, 31));
    SHOW(read(in2, room, 0));
    SHOW(read(in2, room, 32));
    SHOW(read(in2, room, 63));
    SHOW(read(in2, NULL, 64));
    SHOW(ioctl(in2, FIONREAD, &left));
    SHOW(left >= 0);
    fcntl(in2, F_SETFL, O_NONBLOCK);
    while (read(in2, room, sizeof room) > 0) { }
    SHOW(read(in2, room, 1));
    fcntl(in2, F_SETFL, 0);
    // Waiting: by read, by poll, by epoll, in a child.
    pthread_t thread;
    pthread_create(&thread, NULL, later, "d/y");
    long got = read(in2, room, sizeof room);
    printf("waited: %d %#x\n", got >= 32, ((struct inotify_event *)room)->mask);
    pthread_join(thread, NULL);
    fcntl(in2, F_SETFL, O_NONBLOCK);
    show_events("is empty", -1);
    while (read(in2, room, sizeof room) > 0) { }
    pthread_create(&thread, NULL, later, "d/y");
    SHOW(poll(&p, 1, 10000));
    pthread_join(thread, NULL);
    while (read(in2, room, sizeof room) > 0) { }
    int ep = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 7}};
    SHOW(epoll_ctl(ep, EPOLL_CTL_ADD, in2, &event));
    SHOW(epoll_wait(ep, &event, 1, 0));
    put("d/y", "z");
    SHOW(epoll_wait(ep, &event, 1, 1000));
    SHOW(epoll_wait(ep, &event, 1, 0));
    put("d/y", "z");
    SHOW(epoll_wait(ep, &event, 1, 1000));
    while (read(in2, room, sizeof room) > 0) { }
    IN_CHILD("child", put("d/y", "by a child"); SHOW(poll(&p, 1, 0)));
    long first = read(in2, room, sizeof room);
    SHOW(first > 0);
    close(in2);
    unlink("d/y"), unlink("d/twelve bytes");
    show_events("rest", in);
}

// A file that was read before, so that whoever reads it may know its size already.
static void known(void) {
    put("d/k", "some text that is read often");
    int fd = open("d/k", O_RDONLY), fd2 = open("d/k", O_RDWR);
    static char big[3 * 4096];
    for (int n = 0; n < 10; n++)
        if (pread(fd, big, sizeof big, 0) < 0) perror("pread");
    show_events("rest", in);
    int wd = inotify_add_watch(in, "d/k", IN_ALL_EVENTS);
    EVENTS(pread(fd, big, sizeof big, 0));
    EVENTS(pread(fd, big, sizeof big, 0));
    EVENTS(for (int n = 0; n < 10; n++) read(fd, big, sizeof big));
    EVENTS(pwrite(fd2, big, sizeof big, 0));
    EVENTS(pwrite(fd2, big, sizeof big, 0));
    inotify_rm_watch(in, wd);
    show_events("removed", in);
    for (int n = 0; n < 10; n++)
        if (pread(fd, big, sizeof big, 0) < 0) perror("pread");
    inotify_add_watch(in, "d", IN_ALL_EVENTS);
    EVENTS(pread(fd, big, sizeof big, 0));
    EVENTS(close(fd));
    EVENTS(close(fd2));
    // The bytes are there when the event is.
    static volatile int wrong;
    int watch = inotify_init();
    inotify_add_watch(watch, "d/k", IN_MODIFY);
    pid_t child = fork();
    if (child == 0) {
        int out = open("d/k", O_WRONLY | O_APPEND);
        memset(big, 'x', sizeof big);
        for (int n = 0; n < 200; n++)
            if (write(out, big, 5000) != 5000) _exit(1);
        _exit(0);
    }
    int look = open("d/k", O_RDONLY);
    static char all[2 << 20];
    long at = sizeof big;
    while (at < (long)sizeof big + 200 * 5000) {
        if (read(watch, room, sizeof room) <= 0) break;
        long got = pread(look, all, sizeof all, at);
        // Of what one write has put there after the event for another one, anything may be missing.
        for (long n = 0; n < got && n < 5000 && at % 1 == 0; n++)
            if (all[n] != 'x') wrong++;
        at = got > 0 ? at + got : at;
    }
    waitpid(child, NULL, 0);
    SHOW(wrong);
    close(watch), close(look);
    unlink("d/k");
    fcntl(in, F_SETFL, O_NONBLOCK);
    while (read(in, room, sizeof room) > 0) { }
}

static void overflow(void) {
    int in3 = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    SHOW(inotify_add_watch(in3, "d", IN_OPEN | IN_CLOSE));
    put("d/o", "x");
    for (int n = 0; n < 10000; n++) close(open("d/o", O_RDONLY));
    long count = 0, lost = 0, last = 0, got;
    while ((got = read(in3, room, sizeof room)) > 0)
        for (char *at = room; at < room + got;) {
            struct inotify_event *e = (void *)at;
            count++, last = e->mask;
            if (e->mask & IN_Q_OVERFLOW) lost += e->wd == -1 && e->len == 0;
            at += sizeof *e + e->len;
        }
    printf("events %ld, lost %ld, last %#lx\n", count, lost, last);
    close(open("d/o", O_RDONLY));
    show_events("after that", in3);
    close(in3);
    unlink("d/o");
    while (read(in, room, sizeof room) > 0) { }
}

// Another user may not watch what it may not read, and is told of what it may.
static void users(void) {
    put("d/mine", "x");
    chmod("d/mine", 0600);
    chmod("d", 0755);
    IN_CHILD(
        "another user", if (setgid(1000) || setuid(1000)) _exit(9); int own = inotify_init1(IN_NONBLOCK);
        SHOW(inotify_add_watch(own, "d/mine", IN_ALL_EVENTS)); SHOW(inotify_add_watch(own, "d", IN_ALL_EVENTS));
        show_events("nothing", own));
    unlink("d/mine");
    int all[300], n = 0;
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1001) || setuid(1001)) _exit(9);
        while (n < 300 && (all[n] = inotify_init()) >= 0) n++;
        printf("instances of a user: %d, then %d\n", n, errno);
        close(all[0]);
        SHOW(inotify_init() >= 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    while (read(in, room, sizeof room) > 0) { }
}

// Some write, read and rename on all cores while others watch, and one of those is killed.
static void *work(void *arg) {
    char name[32], other[32];
    sprintf(name, "d/t%ld", (long)arg), sprintf(other, "d/u%ld", (long)arg);
    for (int n = 0; n < 200; n++) {
        put(name, "some text");
        rename(name, other);
        int fd = open(other, O_RDONLY);
        if (read(fd, name + 20, 5) != 5) printf("short\n");
        close(fd);
        unlink(other);
    }
    return NULL;
}

static void crowd(void) {
    pid_t child = fork();
    if (child == 0) {
        int own = inotify_init();
        inotify_add_watch(own, "d", IN_ALL_EVENTS);
        for (;;)
            if (read(own, room, sizeof room) < 0) _exit(1);
    }
    int own = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(own, "d", IN_CREATE | IN_DELETE | IN_MOVE);
    pthread_t threads[3];
    for (long n = 0; n < 3; n++) pthread_create(&threads[n], NULL, work, (void *)n);
    usleep(20000);
    kill(child, SIGKILL);
    for (int n = 0; n < 3; n++) pthread_join(threads[n], NULL);
    waitpid(child, NULL, 0);
    long counts[32] = {0}, got;
    while ((got = read(own, room, sizeof room)) > 0)
        for (char *at = room; at < room + got;) {
            struct inotify_event *e = (void *)at;
            for (int bit = 0; bit < 32; bit++) counts[bit] += e->mask >> bit & 1;
            at += sizeof *e + e->len;
        }
    printf("created %ld, moved %ld to %ld, deleted %ld\n", counts[8], counts[6], counts[7], counts[9]);
    close(own);
}

int main(void) {
    chdir("/tmp");
    mkdir("inotify", 0755);
    chmod("inotify", 0755);
    if (chdir("inotify")) return 99;
    mkdir("d", 0755);
    put("d/f", "some text");
    in = inotify_init1(IN_NONBLOCK);
    errors();
    files();
    ends();
    flags();
    reading();
    known();
    overflow();
    users();
    crowd();
    close(in);
    rmdir("d");
    chdir("..");
    SHOW(rmdir("inotify"));
    return 0;
}
