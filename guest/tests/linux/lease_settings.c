// What root says of leases and directories in /proc/sys/fs: how long a holder has, who does not answer, whether there are any. What is
// expected is what Linux 6.1 does (`./x compare` shows it); the Linux that tests are recorded on is not to be changed.
//
// build: gcc, musl
// expect-stdout: passed\n
#include "must.h"
#include <time.h>

#ifndef F_SETSIG
#define F_SETSIG 10
#define F_GETSIG 11
#endif
enum { USER = 1000, HOLDER = 60 };
#define BREAK_TIME "lease-break-time"
#define ENABLE "leases-enable"
#define NOTIFY "dir-notify-enable"

static int failed, RT;
static sigset_t told_by;

static void expect(int line, const char *what, long got, long expected) {
    if (got != expected) printf("line %d: %s = %ld, not %ld\n", line, what, got, expected), failed = 1;
}
#define EXPECT(e, value) expect(__LINE__, #e, e, value)

static long ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int lease(int fd, int wanted) { return fcntl(fd, F_SETLEASE, wanted) ? -errno : 0; }
static int got(int fd) { return fcntl(fd, F_GETLEASE); }

// The signal that has been told, or 0.
static int told(void) {
    struct timespec time = {0, 50000000};
    siginfo_t info;
    int signal = sigtimedwait(&told_by, &info, &time);
    return signal < 0 ? 0 : signal;
}

// Says a number, or asks for it.
static int setting(const char *name, const char *value) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/fs/%s", name);
    int fd = open(path, value ? O_WRONLY : O_RDONLY);
    if (fd < 0) return -errno;
    char text[32] = "";
    int result = value ? write(fd, value, strlen(value)) : read(fd, text, sizeof text - 1);
    if (result < 0) result = -errno;
    close(fd);
    return value || result < 0 ? result : atoi(text);
}

static pid_t opens(int flags) {
    pid_t pid = fork();
    if (pid) return pid;
    close(HOLDER);
    _exit(open("file", flags) < 0 ? errno : 0);
}
static int ended(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
static int opened(int flags) { return ended(opens(flags)); }

static int holder(void) {
    int fd = open("file", O_RDONLY);
    MUST(fd >= 0 && dup2(fd, HOLDER) == HOLDER && close(fd) == 0);
    return HOLDER;
}

// Numbers as these files take them.
static void numbers(void) {
    EXPECT(setting(BREAK_TIME, NULL), 45);
    EXPECT(setting(ENABLE, NULL), 1);
    EXPECT(setting(NOTIFY, NULL), 1);
    pid_t pid = fork();
    if (pid == 0) {
        MUST(setuid(USER) == 0);
        EXPECT(setting(BREAK_TIME, NULL), 45);
        EXPECT(setting(BREAK_TIME, "2"), -EACCES);
        EXPECT(setting(ENABLE, "0"), -EACCES);
        EXPECT(setting(NOTIFY, "0"), -EACCES);
        _exit(failed);
    }
    EXPECT(ended(pid), 0);
    struct stat it;
    EXPECT(stat("/proc/sys/fs/" BREAK_TIME, &it), 0);
    EXPECT(it.st_mode, 0100644);
    static const struct { const char *text; int answer, then; } cases[] = {
        {"x", -EINVAL, 45},    {"", 0, 45},     {" ", -EINVAL, 45}, {" 12 ", 4, 12},      {"99999999999", -EINVAL, 12}, {"3x", -EINVAL, 12},
        {"4 5", 2, 4},         {"-7", 2, -7},   {"+3", -EINVAL, -7}, {"--3", -EINVAL, -7}, {"0x10", 4, 16},             {"011\t\n", 5, 9},
        {"2147483647", 10, 2147483647}, {"2147483648", -EINVAL, 2147483647}, {"-2147483648", 11, -2147483647 - 1}, {"09", -EINVAL, -2147483647 - 1},
        {"0x", -EINVAL, -2147483647 - 1}, {"1\n", 2, 1},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int answer = setting(BREAK_TIME, cases[i].text), then = setting(BREAK_TIME, NULL);
        if (answer == cases[i].answer && then == cases[i].then) continue;
        printf("%s: %d, then %d\n", cases[i].text, answer, then);
        failed = 1;
    }
    EXPECT(setting(BREAK_TIME, "1"), 1);
}

// Who does not answer loses the lease, or keeps a lesser one.
static void silent(void) {
    static const struct { int held, flags, left; } cases[] = {
        {F_RDLCK, O_WRONLY, F_UNLCK}, {F_WRLCK, O_WRONLY, F_UNLCK}, {F_WRLCK, O_RDONLY, F_RDLCK},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = holder(), stays = cases[i].left != F_UNLCK;
        EXPECT(fcntl(fd, F_SETSIG, RT), 0);
        EXPECT(lease(fd, cases[i].held), 0);
        long start = ms();
        EXPECT(opened(cases[i].flags), 0);
        long took = ms() - start;
        if (took < 900 || took > 8000) printf("it took %ld ms\n", took), failed = 1;
        EXPECT(told() == RT, 1);
        EXPECT(told(), 0);
        EXPECT(got(fd), cases[i].left);
        // Who has lost it has said nothing any more.
        EXPECT(fcntl(fd, F_GETOWN), stays ? getpid() : 0);
        EXPECT(fcntl(fd, F_GETSIG), stays ? RT : 0);
        EXPECT(lease(fd, F_UNLCK), stays ? 0 : -EAGAIN);
        close(fd);
    }
    // Nobody waits: its time is over nevertheless.
    int fd = holder();
    EXPECT(lease(fd, F_WRLCK), 0);
    EXPECT(opened(O_WRONLY | O_NONBLOCK), EAGAIN);
    EXPECT(got(fd), F_UNLCK);
    EXPECT(opened(O_WRONLY | O_NONBLOCK), EAGAIN);
    usleep(1200000);
    EXPECT(opened(O_WRONLY | O_NONBLOCK), 0);
    EXPECT(got(fd), F_UNLCK);
    EXPECT(lease(fd, F_UNLCK), -EAGAIN);
    EXPECT(lease(fd, F_WRLCK), 0);
    EXPECT(opened(O_RDONLY | O_NONBLOCK), EAGAIN);
    usleep(1200000);
    EXPECT(got(fd), F_RDLCK);
    EXPECT(opened(O_RDONLY | O_NONBLOCK), 0);
    EXPECT(lease(fd, F_UNLCK), 0);
    // One that is given while the time of the one before is over and nobody has looked is told of as any other.
    EXPECT(lease(fd, F_WRLCK), 0);
    EXPECT(opened(O_WRONLY | O_NONBLOCK), EAGAIN);
    EXPECT(told(), SIGIO);
    usleep(1200000);
    EXPECT(lease(fd, F_WRLCK), 0);
    EXPECT(opened(O_WRONLY | O_NONBLOCK), EAGAIN);
    EXPECT(told(), SIGIO);
    EXPECT(lease(fd, F_UNLCK), 0);
    // Who comes later waits as long as there is left of the first one's time.
    EXPECT(setting(BREAK_TIME, "2"), 1);
    EXPECT(lease(fd, F_RDLCK), 0);
    long start = ms();
    EXPECT(opened(O_WRONLY | O_NONBLOCK), EAGAIN);
    usleep(1200000);
    EXPECT(setting(BREAK_TIME, "20"), 2);
    EXPECT(opened(O_WRONLY), 0);
    long took = ms() - start;
    if (took < 1900 || took > 10000) printf("both took %ld ms\n", took), failed = 1;
    // For ever.
    static const char *const forever[] = {"0", "-1"};
    for (int i = 0; i < 2; i++) {
        EXPECT(setting(BREAK_TIME, forever[i]) > 0, 1);
        EXPECT(lease(fd, F_RDLCK), 0);
        pid_t pid = opens(O_WRONLY);
        usleep(500000);
        EXPECT(waitpid(pid, NULL, WNOHANG), 0);
        EXPECT(got(fd), F_UNLCK);
        EXPECT(lease(fd, F_UNLCK), 0);
        EXPECT(ended(pid), 0);
    }
    EXPECT(setting(BREAK_TIME, "45"), 2);
    close(fd);
}

// No new leases, and none of what there is is lost.
static void none(void) {
    int fd = holder(), second = open("file", O_RDONLY);
    EXPECT(lease(fd, F_RDLCK), 0);
    EXPECT(setting(ENABLE, "0"), 1);
    EXPECT(setting(ENABLE, NULL), 0);
    EXPECT(lease(second, F_RDLCK), -EINVAL);
    EXPECT(lease(fd, F_RDLCK), 0);
    EXPECT(got(fd), F_RDLCK);
    EXPECT(got(second), F_UNLCK);
    EXPECT(opened(O_WRONLY | O_NONBLOCK), EAGAIN);
    EXPECT(lease(fd, F_UNLCK), 0);
    EXPECT(lease(fd, F_RDLCK), -EINVAL);
    EXPECT(setting(ENABLE, "1"), 1);
    EXPECT(lease(fd, F_RDLCK), 0);
    close(fd), close(second);
    while (told()) continue;
}

static void directories(void) {
    mkdir("watched", 0755);
    int dir = open("watched", O_RDONLY), file;
    EXPECT(fcntl(dir, F_NOTIFY, DN_CREATE | DN_MULTISHOT), 0);
    EXPECT(setting(NOTIFY, "0\n"), 2);
    EXPECT(fcntl(dir, F_NOTIFY, DN_DELETE), -1);
    EXPECT(errno, EINVAL);
    EXPECT(fcntl(dir, F_NOTIFY, 0), -1);
    EXPECT(errno, EINVAL);
    EXPECT((file = open("watched/one", O_RDWR | O_CREAT, 0600)) >= 0, 1);
    EXPECT(told(), SIGIO);
    EXPECT(setting(NOTIFY, "1\n"), 2);
    EXPECT(fcntl(dir, F_NOTIFY, 0), 0);
    EXPECT(close(file) | unlink("watched/one") | rmdir("watched"), 0);
    EXPECT(told(), 0);
    close(dir);
}

int main(void) {
    RT = SIGRTMIN + 1;
    told_by = set_of(SIGIO, RT, 0);
    sigprocmask(SIG_BLOCK, &told_by, NULL);
    close(open("file", O_RDWR | O_CREAT, 0666));
    numbers();
    silent();
    none();
    directories();
    if (!failed) puts("passed");
    return failed;
}
