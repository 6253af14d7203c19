// As whom somebody has logged in: /proc/PID/loginuid and sessionid, which children inherit, whoever they become.
// oracle: linux
// build: gcc
#include "test.h"
#include <pthread.h>

static void show(const char *what) {
    char user[32] = "", session[32] = "";
    int fd = open("/proc/self/loginuid", O_RDONLY);
    CHECK(read(fd, user, sizeof user - 1) > 0);
    close(fd);
    fd = open("/proc/thread-self/sessionid", O_RDONLY);
    CHECK(read(fd, session, sizeof session - 1) > 0);
    close(fd);
    // Which number a session has depends on who has logged in before.
    printf("%s: %s, %s\n", what, user, !strcmp(session, "4294967295") ? "no session" : "a session");
}

static unsigned session(void) {
    char text[32] = "";
    int fd = open("/proc/self/sessionid", O_RDONLY);
    CHECK(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtoul(text, NULL, 10);
}

static void say(const char *path, const char *text) {
    int fd = open(path, O_RDWR);
    errno = 0;
    long result = write(fd, text, strlen(text));
    printf("[%s]: %ld, errno %d\n", text, result, errno);
    close(fd);
}

static void *other(void *arg) {
    // It is the first thread's.
    say("/proc/self/loginuid", "44");
    return arg;
}

// A size can be set of what can be written in /proc, and of nothing that is no file.
static void sizes(void) {
    const char *paths[] = { "/proc/self/comm", "/proc/self/mem", "/proc/self/clear_refs", "/proc/sys/kernel/hostname", "/dev/null", "/dev/zero", "/dev/ptmx" };
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        int fd = open(paths[i], O_WRONLY);
        CHECK(fd >= 0);
        printf("%s: ", paths[i]); SHOW(ftruncate(fd, 0));
        close(fd);
    }
    int fd = open("/proc/self/comm", O_RDONLY), both[2];
    SHOW(ftruncate(fd, 0));
    CHECK(!pipe(both)); SHOW(ftruncate(both[1], 0));
}

int main(void) {
    sizes();
    const char *own = "/proc/self/loginuid";
    struct stat st;
    SHOW(stat(own, &st)); SHOW(st.st_mode);
    SHOW(stat("/proc/thread-self/loginuid", &st)); SHOW(st.st_mode);
    SHOW(stat("/proc/self/sessionid", &st)); SHOW(st.st_mode);
    show("at first");
    const char *wrong[] = { "\n", "x", "12x", " 12", "-1", "4294967296", "0x10", "12\n\n", "99999999999999999999" };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) say(own, wrong[i]);
    show("still");
    // What a program that logs in somebody does.
    int fd = open(own, O_RDWR | O_NOFOLLOW);
    char text[32];
    SHOW(read(fd, text, sizeof text)); SHOW(lseek(fd, 0, SEEK_SET)); SHOW(ftruncate(fd, 0)); SHOW(write(fd, "1000", 4));
    close(fd);
    show("logged in");
    unsigned before = session();
    say(own, "+12"); show("again");
    CHECK(session() != before);
    say(own, "010\n"); show("in octal it is not");
    say("/proc/thread-self/loginuid", "11"); show("by the thread");
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL), pthread_join(thread, NULL);
    show("by another thread");
    char path[64];
    sprintf(path, "/proc/%d/loginuid", getppid());
    before = session();
    if (!fork()) {
        show("a child");
        CHECK(session() == before);
        sprintf(path, "/proc/%d/loginuid", getppid());
        say(path, "13");
        CHECK(!setgid(12345) && !setuid(12345));
        show("as somebody else");
        // What has been said, others cannot change, but see.
        SHOW(open(own, O_RDWR));
        SHOW(open(path, O_RDONLY) >= 0);
        _exit(0);
    }
    wait(NULL);
    say(own, "4294967295"); show("nobody");
    say(own, "4294967294"); show("the last");
    return 0;
}
