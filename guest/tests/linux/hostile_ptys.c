// A hostile user at terminals: those of others, one who types without end at a line that nobody reads, one who takes all of
// them, sides that go while others wait, and a window that changes all the time.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

static int master(char name[64]) {
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd < 0) return fd;
    if (unlockpt(fd) || ptsname_r(fd, name, 64)) printf("no name: %d\n", errno);
    return fd;
}

static void child(void (*body)(void *), void *with) {
    int status;
    fflush(stdout);
    if (fork() == 0) {
        body(with);
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    if (status) printf("status %x\n", status);
}

static int opened(const char *name) {
    int fd = open(name, O_RDWR | O_NOCTTY);
    if (fd >= 0) close(fd);
    return fd < 0 ? -1 : 0;
}

static void stranger(void *name) {
    setgid(1000), setuid(1000);
    SHOW(opened(name));
    SHOW(chmod(name, 0666));
    SHOW(unlink(name));
    SHOW(rename(name, "/dev/pts/mine"));
    SHOW(open("/dev/pts/new", O_CREAT | O_RDWR, 0666));
    SHOW(mknod("/tmp/line", S_IFCHR | 0666, 136 << 8));
    char own[64];
    int fd = master(own);
    struct stat at;
    SHOW(stat(own, &at));
    SHOW(at.st_uid);
    SHOW(at.st_mode & 0606);
    SHOW(opened(own));
    SHOW(ioctl(fd, TIOCSCTTY, 1));
    close(fd);
}

// Types without end; what nobody reads does not grow.
static void types(void *raw) {
    char name[64], bytes[4096], answer[4096];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY);
    struct termios settings;
    tcgetattr(line, &settings);
    if (raw) cfmakeraw(&settings);
    tcsetattr(line, TCSANOW, &settings);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    long took = 0;
    static const char kinds[] = { 4, 'x', '\n', 3, 0x16, 0x12, 0x15, 0x17, 0x7f, 0x13, 0x11 };
    for (int round = 0; round < 300; round++) {
        for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = kinds[round < 250 ? round % 2 * 2 : (i * 7 + round) % sizeof kinds];
        long now = write(fd, bytes, sizeof bytes);
        if (now > 0) took += now;
        else if (errno != EAGAIN) printf("typing: %d\n", errno);
    }
    printf("took something %d\n", took > 0);
    while (read(fd, answer, sizeof answer) > 0) {}
    SHOW(tcflush(line, TCIFLUSH));
    close(fd);
    SHOW(read(line, answer, sizeof answer));
}

static void takes_all(void *unused) {
    static int all[3000];
    char name[64];
    struct rlimit limit = { 4096, 4096 };
    (void)unused;
    setrlimit(RLIMIT_NOFILE, &limit);
    setgid(1000), setuid(1000);
    int count = 0;
    while (count < 200 && (all[count] = master(name)) >= 0) count++;
    printf("had 200 %d\n", count == 200);
    for (int i = 0; i < count; i++) close(all[i]);
    int again = 0;
    for (int i = 0; i < 300; i++) {
        int fd = master(name);
        again += fd >= 0;
        close(fd);
    }
    printf("again %d\n", again);
}

static volatile int over;

static void *reads(void *fd) {
    char bytes[100];
    while (read((int)(long)fd, bytes, sizeof bytes) > 0) {}
    return NULL;
}

static void *sizes(void *fd) {
    struct winsize size = { 0 };
    while (!over) {
        size.ws_row++;
        ioctl((int)(long)fd, TIOCSWINSZ, &size);
    }
    return NULL;
}

// Both sides go again and again while others wait at them, in the midst of what they do.
static void goes(void *unused) {
    (void)unused;
    signal(SIGHUP, SIG_IGN);
    int ended = 0;
    for (int i = 0; i < 60; i++) {
        char name[64];
        int fd = master(name), line = open(name, O_RDWR | O_NOCTTY);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            close(fd);
            setsid();
            ioctl(line, TIOCSCTTY, 0);
            if (i % 3 == 0) while (write(line, "output\n", 7) > 0) {}
            if (i % 3 == 1) reads((void *)(long)line);
            for (;;) if (opened("/dev/tty") < 0) _exit(0);
        }
        close(line);
        pthread_t resizer;
        over = 0;
        int copy = dup(fd);
        pthread_create(&resizer, NULL, sizes, (void *)(long)copy);
        usleep(i % 7 * 300);
        if (i % 4 == 3) kill(child, SIGKILL);
        over = 1;
        pthread_join(resizer, NULL);
        close(copy);
        close(fd);
        int status;
        // The last kind opens its terminal until it has none.
        waitpid(child, &status, 0);
        ended += WIFEXITED(status) || WIFSIGNALED(status);
    }
    printf("ended %d\n", ended);
}

int main(void) {
    char name[64];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY);
    umask(0);
    // The test's own name for it: numbers are not the same everywhere.
    SHOW(chmod(name, 0600));
    if (chdir("/dev/pts")) puts("no /dev/pts");
    child(stranger, strrchr(name, '/') + 1);
    child(types, NULL);
    child(types, "raw");
    child(takes_all, NULL);
    child(goes, NULL);
    // What was there before still works.
    SHOW(write(fd, "after\n", 6));
    char bytes[100] = "";
    SHOW(read(line, bytes, sizeof bytes));
    fputs(bytes, stdout);
    return 0;
}
