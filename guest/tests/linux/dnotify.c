// `F_NOTIFY`: signals that tell what happens in directories: of which calls, once or always, by which signal, until when.
// oracle: linux
// build: gcc, musl
#include "must.h"
#include <dirent.h>
#include <sys/socket.h>
#include <sys/xattr.h>
#include <time.h>
#include <utime.h>

#ifndef F_SETSIG
#define F_SETSIG 10
#define F_GETSIG 11
#endif
enum { USER = 1000, DIR_FD = 60, SECOND = 61 };
static const unsigned EVENTS[] = {DN_ACCESS, DN_MODIFY, DN_CREATE, DN_DELETE, DN_RENAME, DN_ATTRIB};
static const char *const NAMES[] = {"ACCESS", "MODIFY", "CREATE", "DELETE", "RENAME", "ATTRIB"};

static int RT;
static sigset_t told_by;

static int notify(int fd, unsigned long events) { return fcntl(fd, F_NOTIFY, events); }

static int as(int fd, int number) {
    MUST(fd >= 0 && dup2(fd, number) == number);
    close(fd);
    return number;
}

// What has been told since the last time.
static void told(const char *what) {
    printf("  %s:", what);
    struct timespec none = {0, 0};
    siginfo_t info;
    int signal, count = 0;
    while ((signal = sigtimedwait(&told_by, &info, &none)) > 0) {
        if (signal == SIGIO && info.si_code != POLL_MSG) printf(" SIGIO %#x", info.si_code);
        else printf(" [%s code %d band %#lx fd %d]", signal == RT ? "RT" : signal == SIGIO ? "SIGIO" : "?", info.si_code, (long)info.si_band, info.si_fd);
        count++;
    }
    puts(count ? "" : " nothing");
}

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    write(fd, text, strlen(text));
    return close(fd);
}

// Which events a call is, and how often each is told.
#define HAPPENS(call)                                                                    \
    do {                                                                                 \
        for (int n = 0; n < 6; n++) MUST(notify(dirs[n], EVENTS[n] | DN_MULTISHOT) == 0); \
        call;                                                                            \
        show_events(#call);                                                              \
    } while (0)
static int dirs[6];

static void show_events(const char *what) {
    int counts[6] = {0};
    siginfo_t info;
    while (sigtimedwait(&told_by, &info, &(struct timespec){0, 0}) > 0)
        for (int n = 0; n < 6; n++) counts[n] += info.si_fd == dirs[n];
    printf("%s:", what);
    for (int n = 0; n < 6; n++)
        if (counts[n] == 1) printf(" %s", NAMES[n]);
        else if (counts[n]) printf(" %s*%d", NAMES[n], counts[n]);
    puts("");
}

// Removes a directory of files.
static int empty(const char *path) {
    DIR *list = opendir(path);
    for (struct dirent *entry; (entry = readdir(list));) {
        char name[512];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        unlink(name);
    }
    closedir(list);
    return rmdir(path);
}

static void refusals(void) {
    puts("-- refusals");
    int file = open("file", O_RDWR | O_CREAT, 0644), ends[2];
    MUST(pipe(ends) == 0);
    SHOW(notify(-1, DN_CREATE));
    SHOW(notify(99, DN_CREATE));
    SHOW(notify(file, DN_CREATE));
    SHOW(notify(file, 0));
    SHOW(notify(file, DN_MULTISHOT));
    SHOW(notify(file, 0x40));
    SHOW(notify(ends[0], DN_CREATE));
    SHOW(notify(ends[0], 0));
    int path = open("watched", O_PATH);
    SHOW(notify(path, DN_CREATE));
    SHOW(notify(path, 0));
    close(path);
    int dir = open("watched", O_RDONLY | O_DIRECTORY);
    SHOW(notify(dir, 0));
    SHOW(fcntl(dir, F_GETOWN));
    SHOW(notify(dir, 0x40));
    SHOW(fcntl(dir, F_GETOWN) == getpid());
    SHOW(notify(dir, 0x100000000ul));
    SHOW(notify(dir, DN_MULTISHOT | DN_ACCESS | DN_MODIFY | DN_CREATE | DN_DELETE | DN_RENAME | DN_ATTRIB));
    close(dir), close(file), close(ends[0]), close(ends[1]);
    IN_CHILD("another user", MUST(setuid(USER) == 0); int own = open("watched", O_RDONLY); SHOW(notify(own, DN_CREATE)));
}

static void calls(void) {
    puts("-- calls");
    for (int n = 0; n < 6; n++) {
        dirs[n] = as(open("watched", O_RDONLY), 70 + n);
        fcntl(dirs[n], F_SETSIG, RT);
    }
    static char room[4096];
    int fd = -1;
    HAPPENS(fd = open("watched/a", O_RDWR | O_CREAT, 0644));
    HAPPENS(write(fd, "bytes", 5));
    HAPPENS(pread(fd, room, 5, 0));
    HAPPENS(pread(fd, room, 5, 100));
    HAPPENS(ftruncate(fd, 3));
    HAPPENS(truncate("watched/a", 4));
    HAPPENS(fallocate(fd, 0, 0, 100));
    HAPPENS(fchmod(fd, 0600));
    HAPPENS(chmod("watched/a", 0644));
    HAPPENS(chown("watched/a", 0, 0));
    HAPPENS(utime("watched/a", NULL));
    HAPPENS(utimensat(AT_FDCWD, "watched/a", (struct timespec[]){{0, UTIME_OMIT}, {5, 0}}, 0));
    HAPPENS(utimensat(AT_FDCWD, "watched/a", (struct timespec[]){{5, 0}, {0, UTIME_OMIT}}, 0));
    HAPPENS(close(fd));
    HAPPENS(close(open("watched/a", O_RDONLY)));
    HAPPENS(close(open("watched/a", O_WRONLY | O_TRUNC)));
    HAPPENS(stat("watched/a", (struct stat *)room));
    HAPPENS(access("watched/a", R_OK));
    HAPPENS(mkdir("watched/folder", 0755));
    HAPPENS(chmod("watched/folder", 0700));
    HAPPENS(put("watched/folder/below", "x"));
    HAPPENS(rmdir("watched/folder"));
    HAPPENS(unlink("watched/folder/below"));
    HAPPENS(rmdir("watched/folder"));
    HAPPENS(symlink("a", "watched/link"));
    HAPPENS(readlink("watched/link", room, 9));
    HAPPENS(mkfifo("watched/fifo", 0644));
    HAPPENS(link("watched/a", "watched/second"));
    HAPPENS(link("file", "watched/from outside"));
    HAPPENS(put("file", "by its other name"));
    HAPPENS(put("watched/from outside", "by this one"));
    HAPPENS(rename("watched/a", "watched/b"));
    HAPPENS(rename("watched/b", "watched/link"));
    HAPPENS(rename("watched/link", "elsewhere"));
    HAPPENS(rename("elsewhere", "watched/a"));
    HAPPENS(syscall(SYS_renameat2, AT_FDCWD, "watched/a", AT_FDCWD, "watched/fifo", 2));
    HAPPENS(syscall(SYS_renameat2, AT_FDCWD, "watched/a", AT_FDCWD, "file", 2));
    HAPPENS(rename("watched/a", "watched/a"));
    HAPPENS(rename("watched/absent", "watched/b"));
    HAPPENS(unlink("watched/second"));
    HAPPENS(unlink("watched/from outside"));
    // To the directory itself.
    HAPPENS(chmod("watched", 0755));
    HAPPENS(utime("watched", NULL));
    DIR *list = NULL;
    HAPPENS(list = opendir("watched"));
    HAPPENS(readdir(list));
    HAPPENS(closedir(list));
    HAPPENS(rename("watched", "moved"));
    HAPPENS(put("moved/new", "x"));
    HAPPENS(rename("moved", "watched"));
    // What is open and has no name any more.
    fd = open("watched/new", O_RDWR);
    HAPPENS(unlink("watched/new"));
    HAPPENS(write(fd, "x", 1));
    HAPPENS(close(fd));
    HAPPENS(close(open("watched", O_TMPFILE | O_RDWR, 0600)));
    // Mapped memory is not told of.
    fd = open("watched/mapped", O_RDWR | O_CREAT, 0644);
    ftruncate(fd, PAGE);
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HAPPENS(*at = 1);
    munmap(at, PAGE);
    close(fd);
    for (int n = 0; n < 6; n++) close(dirs[n]);
}

static void shots(void) {
    puts("-- once, and always");
    int dir = as(open("watched", O_RDONLY), DIR_FD);
    SHOW(notify(dir, DN_CREATE));
    put("watched/1", "");
    told("first");
    put("watched/2", "");
    told("second");
    SHOW(notify(dir, DN_CREATE | DN_MULTISHOT));
    put("watched/3", "");
    told("first");
    put("watched/4", "");
    told("second");
    SHOW(notify(dir, DN_DELETE));
    unlink("watched/1");
    told("more");
    put("watched/1", "");
    told("as before");
    unlink("watched/1");
    told("always");
    SHOW(notify(dir, 0));
    unlink("watched/2");
    told("ended");
    SHOW(notify(dir, DN_CREATE | DN_DELETE));
    put("watched/2", "");
    unlink("watched/2");
    told("one of both");
    SHOW(notify(dir, DN_CREATE));
    SHOW(notify(dir, DN_DELETE));
    unlink("watched/3");
    told("added");
    put("watched/3", "");
    told("gone with it");
    SHOW(notify(dir, DN_RENAME));
    rename("watched/3", "elsewhere");
    told("out of it");
    rename("elsewhere", "watched/3");
    told("into it");
    rename("watched/3", "watched/33");
    told("in it");
    SHOW(notify(dir, DN_CREATE | DN_MULTISHOT));
    SHOW(notify(dir, DN_MULTISHOT));
    put("watched/5", "");
    told("ended by that alone");
    close(dir);
}

static void signals(void) {
    puts("-- signals");
    int dir = as(open("watched", O_RDONLY), DIR_FD);
    SHOW(fcntl(dir, F_SETSIG, RT));
    SHOW(notify(dir, DN_CREATE | DN_MULTISHOT));
    put("watched/7", "");
    told("RT");
    SHOW(fcntl(dir, F_SETSIG, SIGIO));
    put("watched/8", "");
    told("SIGIO with what comes with it");
    SHOW(fcntl(dir, F_SETSIG, 0));
    put("watched/9", "");
    told("SIGIO");
    // By another descriptor of the same description, which is named then.
    SHOW(fcntl(dir, F_SETSIG, RT));
    int second = dup2(dir, SECOND);
    put("watched/10", "");
    told("the first");
    SHOW(notify(second, DN_DELETE));
    put("watched/11", "");
    told("the second");
    close(second);
    put("watched/12", "");
    told("one of them is closed");
    // Two descriptions.
    SHOW(notify(dir, DN_CREATE | DN_MULTISHOT));
    second = as(open("watched", O_RDONLY), SECOND);
    SHOW(fcntl(second, F_SETSIG, RT));
    SHOW(notify(second, DN_CREATE | DN_MULTISHOT));
    put("watched/13", "");
    told("both");
    close(dir);
    put("watched/14", "");
    told("the second");
    // Nobody.
    SHOW(fcntl(second, F_SETOWN, 0));
    put("watched/15", "");
    told("nobody");
    SHOW(notify(second, DN_CREATE));
    put("watched/16", "");
    told("again");
    close(second);
}

static void others(void) {
    puts("-- others");
    int dir = as(open("watched", O_RDONLY), DIR_FD);
    SHOW(fcntl(dir, F_SETSIG, RT));
    SHOW(notify(dir, DN_CREATE | DN_MULTISHOT));
    IN_CHILD("a child makes a file", put("watched/17", ""); told("itself"));
    told("the parent");
    IN_CHILD("a child closes it", close(dir));
    put("watched/18", "");
    told("the parent");
    // What the child has said ends with it.
    IN_CHILD("a child says more", SHOW(notify(dir, DN_DELETE | DN_MULTISHOT)); unlink("watched/18"));
    told("the parent, who is the owner");
    unlink("watched/17");
    told("no more");
    IN_CHILD("another user makes one", chmod("watched", 0777); MUST(setuid(USER) == 0); put("watched/19", ""));
    told("the parent");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        // A program that is executed has it still.
        put("watched/20", "");
        execl("/proc/self/exe", "dnotify", "told", (char *)NULL);
        _exit(9);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("%#x\n", status);
    told("the parent");
    close(dir);
    IN_CHILD("kept", int own = as(open("watched", O_RDONLY), DIR_FD); fcntl(own, F_SETSIG, RT); notify(own, DN_CREATE | DN_MULTISHOT);
             execl("/proc/self/exe", "dnotify", "own", (char *)NULL));
    IN_CHILD("closed", int own = as(open("watched", O_RDONLY), DIR_FD); fcntl(own, F_SETSIG, RT); fcntl(own, F_SETFD, FD_CLOEXEC);
             notify(own, DN_CREATE | DN_MULTISHOT); execl("/proc/self/exe", "dnotify", "own", (char *)NULL));
    IN_CHILD("by default", sigprocmask(SIG_UNBLOCK, &told_by, NULL); int own = open("watched", O_RDONLY); notify(own, DN_CREATE);
             put("watched/21", ""); pause());
    // A directory that is gone.
    mkdir("short", 0755);
    dir = as(open("short", O_RDONLY), DIR_FD);
    SHOW(fcntl(dir, F_SETSIG, RT));
    SHOW(notify(dir, DN_ATTRIB | DN_DELETE | DN_MULTISHOT));
    rmdir("short");
    told("its end");
    SHOW(notify(dir, DN_CREATE));
    mkdir("short", 0755);
    put("short/file", "");
    told("another one of its name");
    close(dir);
}

int main(int argc, char **argv) {
    RT = SIGRTMIN + 1;
    sigemptyset(&told_by);
    sigaddset(&told_by, SIGIO);
    sigaddset(&told_by, RT);
    sigprocmask(SIG_BLOCK, &told_by, NULL);
    if (argc > 1) {
        if (!strcmp(argv[1], "own")) put("watched/by another program", "");
        told(argv[1]);
        return 0;
    }
    // Where other users can look.
    char folder[] = "/tmp/dnotify.XXXXXX";
    MUST(mkdtemp(folder) && chmod(folder, 0755) == 0 && chdir(folder) == 0);
    mkdir("watched", 0755);
    refusals();
    calls();
    shots();
    signals();
    others();
    SHOW(empty("watched") || empty("short"));
    unlink("file");
    MUST(rmdir(folder) == 0);
    return 0;
}
