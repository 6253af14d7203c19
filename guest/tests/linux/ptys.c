// Pseudoterminals: names, keys and what is shown, controlling terminals, windows, who is told when either side goes, packets,
// and the errors of each call.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

// musl has no names of errors.
static const char *error(long result) {
    static const struct { int number; const char *name; } names[] = {
#define N(name) { name, #name }
        N(EACCES), N(EAGAIN), N(EBADF), N(EFAULT), N(EINVAL), N(EIO), N(EINTR), N(ENOENT), N(ENOTTY), N(ENXIO), N(EPERM), N(ESPIPE),
        N(ESRCH),
    };
    static char text[8][40];
    static int next;
    char *to = text[next++ % 8];
    snprintf(to, 40, "%ld", result);
    if (result < 0) {
        snprintf(to, 40, "error %d", errno);
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
            if (names[i].number == errno) snprintf(to, 40, "%s", names[i].name);
    }
    return to;
}

static int ready(int fd) {
    struct pollfd one = { fd, POLLIN | POLLPRI | POLLOUT, 0 };
    poll(&one, 1, 0);
    return one.revents;
}

// What is there, once there is something.
static void show(const char *what, int fd) {
    if (fcntl(fd, F_GETFL) & O_NONBLOCK && strcmp(what, "nothing")) while (!(ready(fd) & POLLIN)) usleep(1000);
    char bytes[4096];
    long got = read(fd, bytes, sizeof bytes);
    printf("%s: %s", what, error(got));
    if (got > 0) printf(" \"");
    for (long i = 0; i < got; i++) {
        if (bytes[i] < 32 || bytes[i] > 126) printf("\\x%02x", (unsigned char)bytes[i]);
        else putchar(bytes[i]);
    }
    puts(got > 0 ? "\"" : "");
}

static void put(int fd, const char *text) {
    long got = write(fd, text, strlen(text));
    if (got != (long)strlen(text)) printf("write \"%s\": %s\n", text, error(got));
}

static int master(char name[64]) {
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd < 0 || grantpt(fd) || unlockpt(fd) || ptsname_r(fd, name, 64)) {
        printf("no pseudoterminal: %s\n", error(-1));
        exit(1);
    }
    return fd;
}

static void raw(int fd, int on) {
    static struct termios before;
    struct termios now;
    if (!on) {
        tcsetattr(fd, TCSANOW, &before);
        return;
    }
    tcgetattr(fd, &before);
    now = before;
    cfmakeraw(&now);
    tcsetattr(fd, TCSANOW, &now);
}

static void names(void) {
    int fd = posix_openpt(O_RDWR | O_NOCTTY), number = -1, locked = -1, on = 1, off = 0;
    char name[64], wanted[64];
    struct stat at;
    printf("number %s, locked %s", error(ioctl(fd, TIOCGPTN, &number)), error(ioctl(fd, TIOCGPTLCK, &locked)));
    printf(" %d\n", locked);
    snprintf(wanted, sizeof wanted, "/dev/pts/%d", number);
    printf("open while locked %s\n", error(open(wanted, O_RDWR | O_NOCTTY)));
    printf("grant %s unlock %s name %d\n", error(grantpt(fd)), error(unlockpt(fd)), ptsname_r(fd, name, sizeof name) || strcmp(name, wanted));
    int line = open(name, O_RDWR | O_NOCTTY);
    fstat(line, &at);
    // Which group may write to it is said where it is mounted.
    printf("line: %o, of %d, device %d %d\n", at.st_mode & ~020, (int)(at.st_uid == geteuid()), (int)major(at.st_rdev), minor(at.st_rdev) == (unsigned)number);
    fstat(fd, &at);
    printf("master: %o, device %d %d\n", at.st_mode & S_IFMT, (int)major(at.st_rdev), (int)minor(at.st_rdev));
    printf("terminals %d %d, name %d\n", isatty(fd), isatty(line), strcmp(ttyname(line), name));
    printf("the line has no number %s %s\n", error(ioctl(line, TIOCGPTN, &number)), error(ioctl(line, TIOCSPTLCK, &on)));
    ioctl(fd, TIOCSPTLCK, &on);
    printf("locked again %s\n", error(open(name, O_RDWR | O_NOCTTY)));
    ioctl(fd, TIOCSPTLCK, &off);
    printf("seek %s\n", error(lseek(fd, 0, SEEK_CUR)));
    struct termios settings;
    tcgetattr(line, &settings);
    printf("settings %x %x %x %x %d\n", settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag, settings.c_cc[VINTR]);
    int other = master(wanted);
    printf("another one has another name %d\n", strcmp(wanted, name) != 0);
    close(other);
    close(line);
    close(fd);
    printf("gone %s\n", error(open(name, O_RDWR | O_NOCTTY)));
}

static void keys(void) {
    char name[64];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY), count = -1;
    put(fd, "abc");
    show("echo", fd);
    printf("ready %x %x\n", ready(fd), ready(line));
    put(fd, "d\x7f" "e\r");
    show("line", line);
    show("echo", fd);
    put(line, "one\ntwo\n");
    // Linux brings it to the other side in a while.
    while (!(ready(fd) & POLLIN)) usleep(1000);
    printf("unread %s", error(ioctl(fd, FIONREAD, &count)));
    printf(" %d, unsent %s", count, error(ioctl(line, TIOCOUTQ, &count)));
    printf(" %d\n", count);
    printf("ready %x %x\n", ready(fd), ready(line));
    show("shown", fd);
    put(fd, "x\x04");
    show("end of file", line);
    put(fd, "\x04");
    show("end of file", line);
    show("echo", fd);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(line, F_SETFL, O_NONBLOCK);
    show("nothing", fd);
    show("nothing", line);
    raw(line, 1);
    put(fd, "\x03\r\x7f");
    show("raw", line);
    put(line, "a\nb");
    show("raw", fd);
    put(fd, "thrown");
    while (!(ready(line) & POLLIN)) usleep(1000);
    printf("flush %s\n", error(tcflush(line, TCIFLUSH)));
    show("nothing", line);
    put(line, "thrown");
    while (!(ready(fd) & POLLIN)) usleep(1000);
    printf("flush %s\n", error(tcflush(fd, TCIFLUSH)));
    show("nothing", fd);
    put(fd, "kept");
    while (!(ready(line) & POLLIN)) usleep(1000);
    printf("flush %s %s\n", error(tcflush(fd, TCOFLUSH)), error(ioctl(fd, TCFLSH, 7)));
    show("it is at the other side", line);
    put(line, "kept");
    while (!(ready(fd) & POLLIN)) usleep(1000);
    printf("flush %s\n", error(tcflush(line, TCOFLUSH)));
    show("it is at the other side", fd);
    raw(line, 0);
    // The master has the line's settings.
    struct termios settings;
    tcgetattr(fd, &settings);
    settings.c_lflag &= ~ECHO;
    printf("set %s\n", error(tcsetattr(fd, TCSANOW, &settings)));
    tcgetattr(line, &settings);
    printf("echo %d\n", (settings.c_lflag & ECHO) != 0);
    put(fd, "quiet\n");
    show("nothing", fd);
    show("line", line);
    close(line);
    close(fd);
}

// Whatever does not fit is not taken, and what is taken comes out.
static void full(void) {
    char name[64], bytes[1000];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY);
    raw(line, 1);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(line, F_SETFL, O_NONBLOCK);
    for (int side = 0; side < 2; side++) {
        int from = side ? line : fd, to = side ? fd : line;
        long sent = 0, got = 0, now;
        memset(bytes, 'a' + side, sizeof bytes);
        while ((now = write(from, bytes, sizeof bytes)) > 0) sent += now;
        printf("full %s, more than 4000 %d, writable %d", error(now), sent > 4000, (ready(from) & POLLOUT) != 0);
        // Linux moves what was typed on behind the writer's back.
        for (int wait = 0; wait < 50 && got < sent; wait++) {
            while ((now = read(to, bytes, sizeof bytes)) > 0) {
                for (long i = 0; i < now; i++) if (bytes[i] != 'a' + side) printf("wrong byte %d\n", bytes[i]);
                got += now;
            }
            if (got < sent) usleep(2000);
        }
        printf(", all came %d, writable %d\n", got == sent, (ready(from) & POLLOUT) != 0);
    }
    close(line);
    close(fd);
}

static volatile int signals[4], told_of;

static void told(int signal) {
    if (told_of < 4) signals[told_of++] = signal;
}

// A process of a new session with the line as its controlling terminal, which says so in a pipe and then does as told.
static pid_t session(const char *name, int fd, void (*body)(int line)) {
    int pipes[2];
    char byte;
    fflush(stdout);
    pipe(pipes);
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        close(fd);
        setsid();
        int line = open(name, O_RDWR);
        fcntl(pipes[1], F_SETFD, FD_CLOEXEC);
        dup2(pipes[1], 9);
        close(pipes[1]);
        body(line);
        fflush(stdout);
        _exit(7);
    }
    close(pipes[1]);
    if (read(pipes[0], &byte, 1) != 1) puts("the child does not say that it is there");
    close(pipes[0]);
    return child;
}

static void here(void) {
    fflush(stdout);
    write(9, "x", 1);
    close(9);
}

static void ended(const char *what, pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) printf("%s: exit %d\n", what, WEXITSTATUS(status));
    else printf("%s: signal %d\n", what, WTERMSIG(status));
}

static void waits(int line) {
    pid_t group = -1, of = -1;
    int other = open("/dev/tty", O_RDWR);
    printf("/dev/tty %d, foreground %d, session %d\n", other > 0, tcgetpgrp(line) == getpid(), tcgetsid(other) == getsid(0));
    printf("its own already %s, of another %s\n", error(ioctl(line, TIOCSCTTY, 0)), error(tcsetpgrp(line, getpgid(getppid()))));
    printf("no group %s %s\n", error(tcsetpgrp(line, 999999)), error(ioctl(line, TIOCGPGRP, &group)));
    printf("%d\n", group == getpid());
    (void)of;
    here();
    for (;;) pause();
}

static void handles(int line) {
    (void)line;
    signal(SIGINT, told);
    signal(SIGWINCH, told);
    signal(SIGHUP, told);
    signal(SIGCONT, told);
    here();
    while (told_of < 2) usleep(1000);
    printf("signals %d %d\n", signals[0], signals[1]);
}

static void reads_and_hangs_up(int line) {
    signal(SIGHUP, SIG_IGN);
    here();
    show("hung up while it waits", line);
    show("hung up", line);
    printf("write %s, settings %s, ready %x\n", error(write(line, "x", 1)), error(ioctl(line, TCGETS, (struct termios[1]){})), ready(line));
    printf("foreground %s, /dev/tty %s\n", error(tcsetpgrp(line, getpid())), error(open("/dev/tty", O_RDWR)));
    printf("unread %s\n", error(ioctl(line, FIONREAD, (int[1]){})));
}

static void leaves_a_group(int line) {
    signal(SIGTTOU, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        signal(SIGHUP, told);
        signal(SIGCONT, told);
        tcsetpgrp(line, getpid());
        printf("a job in the foreground %d\n", tcgetpgrp(line) == getpid());
        here();
        while (told_of < 1) usleep(1000);
        usleep(20000);
        printf("the job: signals %d %d\n", signals[0], signals[1]);
        fflush(stdout);
        _exit(0);
    }
    close(9);
    // It is in the foreground when it may be hung up.
    while (tcgetpgrp(line) != child) usleep(1000);
    usleep(50000);
}

static void reads_in_background(int line) {
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        char byte;
        read(line, &byte, 1);
        _exit(3);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    printf("stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    here();
}

static void sessions(void) {
    char name[64];
    pid_t group = -1;
    int fd = master(name);
    printf("no session: foreground %s", error(ioctl(fd, TIOCGPGRP, &group)));
    printf(" %d, session %s\n", group, error(ioctl(fd, TIOCGSID, &group)));
    pid_t child = session(name, fd, waits);
    printf("foreground %s", error(ioctl(fd, TIOCGPGRP, &group)));
    printf(" %d, session %s", group == child, error(ioctl(fd, TIOCGSID, &group)));
    printf(" %d, not ours %s\n", group == child, error(ioctl(fd, TIOCSPGRP, &group)));
    int line = open(name, O_RDWR | O_NOCTTY);
    printf("not ours %s %s\n", error(ioctl(line, TIOCGPGRP, &group)), error(ioctl(line, TIOCNOTTY)));
    close(line);
    put(fd, "\x03");
    ended("interrupted", child);
    show("echo", fd);
    show("left", fd);
    printf("ready %x\n", ready(fd) & ~POLLOUT);
    line = open(name, O_RDWR | O_NOCTTY);
    printf("back: ready %x\n", ready(fd) & ~POLLOUT);
    close(line);
    close(fd);

    fd = master(name);
    child = session(name, fd, handles);
    struct winsize size = { 5, 6, 7, 8 }, got = { 0 };
    printf("size %s\n", error(ioctl(fd, TIOCGWINSZ, &got)));
    printf("%d %d\n", got.ws_row, got.ws_col);
    ioctl(fd, TIOCSWINSZ, &size);
    usleep(50000);
    printf("not this one %s\n", error(ioctl(fd, TIOCSIG, SIGKILL)));
    int sent = ioctl(fd, TIOCSIG, SIGINT);
    ended("two signals", child);
    printf("the master sent one %d\n", sent);
    line = open(name, O_RDWR | O_NOCTTY);
    ioctl(line, TIOCGWINSZ, &got);
    printf("%d %d %d %d\n", got.ws_row, got.ws_col, got.ws_xpixel, got.ws_ypixel);
    close(line);
    close(fd);

    fd = master(name);
    child = session(name, fd, waits);
    close(fd);
    ended("hung up", child);

    fd = master(name);
    child = session(name, fd, reads_and_hangs_up);
    usleep(20000);
    close(fd);
    ended("hung up", child);
    printf("gone %s\n", error(open(name, O_RDWR | O_NOCTTY)));

    fd = master(name);
    child = session(name, fd, leaves_a_group);
    // Until the job has gone too.
    char bytes[100];
    while (read(fd, bytes, sizeof bytes) > 0) {}
    ended("leader", child);
    close(fd);

    fd = master(name);
    child = session(name, fd, reads_in_background);
    ended("background", child);
    close(fd);
}

static void packets(void) {
    char name[64];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY), on = 1, off = 0;
    printf("packets %s, of the line %s\n", error(ioctl(fd, TIOCPKT, &on)), error(ioctl(line, TIOCPKT, &on)));
    printf("%s", error(ioctl(fd, TIOCGPKT, &off)));
    printf(" %d\n", off);
    put(line, "data\n");
    show("packet", fd);
    tcflush(line, TCIFLUSH);
    printf("ready %x\n", ready(fd));
    show("packet", fd);
    tcflush(line, TCIOFLUSH);
    show("packet", fd);
    struct termios settings;
    tcgetattr(line, &settings);
    settings.c_iflag &= ~IXON;
    tcsetattr(line, TCSANOW, &settings);
    show("packet", fd);
    settings.c_iflag |= IXON;
    tcsetattr(line, TCSANOW, &settings);
    show("packet", fd);
    off = 0;
    ioctl(fd, TIOCPKT, &off);
    put(line, "plain\n");
    show("no packet", fd);
    close(line);
    close(fd);
}

// Whoever waits at one side is told what happens at the other.
static void waiting(void) {
    char name[64];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY);
    raw(line, 1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char bytes[10];
        for (int i = 0; i < 1000; i++) {
            long got = read(line, bytes, sizeof bytes);
            if (got <= 0 || write(line, bytes, got) != got) _exit(1);
            if (bytes[got - 1] == '.') _exit(0);
        }
        _exit(2);
    }
    for (int i = 0; i < 200; i++) {
        char byte = i == 199 ? '.' : 'a' + i % 26, back = 0;
        if (write(fd, &byte, 1) != 1 || read(fd, &back, 1) != 1 || back != byte) printf("round %d: %d\n", i, back);
    }
    ended("200 keys and answers", child);

    int set = epoll_create1(0);
    struct epoll_event event = { EPOLLIN | EPOLLET, { .u32 = 1 } };
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    event.data.u32 = 2;
    epoll_ctl(set, EPOLL_CTL_ADD, line, &event);
    printf("nothing %d\n", epoll_wait(set, &event, 1, 0));
    put(line, "x");
    printf("the master %d", epoll_wait(set, &event, 1, 1000));
    printf(" %d %x, once %d\n", event.data.u32, event.events, epoll_wait(set, &event, 1, 0));
    put(fd, "y");
    printf("the line %d", epoll_wait(set, &event, 1, 1000));
    printf(" %d %x\n", event.data.u32, event.events);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(fd);
        usleep(20000);
        _exit(0);
    }
    char byte;
    read(fd, &byte, 1);
    close(line);
    printf("the last one that has the line goes: %s\n", error(read(fd, &byte, 1)));
    ended("which was", child);
    close(fd);
}

// The calls of System V set the lower half of each word and eight characters.
static void old(void) {
    struct { unsigned short words[4]; unsigned char line, characters[8]; } termio;
    char name[64];
    int fd = master(name), line = open(name, O_RDWR | O_NOCTTY);
    struct termios before, after;
    tcgetattr(line, &before);
    before.c_cc[VSUSP] = 'z', before.c_oflag |= 0x10000, before.c_cc[VMIN] = 5;
    tcsetattr(line, TCSANOW, &before);
    printf("TCGETA %s", error(ioctl(line, 0x5405, &termio)));
    for (int i = 0; i < 4; i++) printf(" %x", termio.words[i]);
    for (int i = 0; i < 8; i++) printf(" %d", termio.characters[i]);
    puts("");
    termio.words[3] &= ~ECHO, termio.characters[0] = 'c', termio.line = 0;
    for (int call = 0x5406; call <= 0x5408; call++) {
        put(fd, "typed\n");
        while (!(ready(line) & POLLIN)) usleep(1000);
        termio.characters[1] = call;
        printf("TCSETA %s", error(ioctl(line, call, &termio)));
        tcgetattr(line, &after);
        printf(" %x %x %x, %d %d %d %d\n", after.c_oflag, after.c_lflag, after.c_cflag, after.c_cc[0], after.c_cc[1], after.c_cc[VSUSP], after.c_cc[VMIN]);
        int there = -1;
        ioctl(line, FIONREAD, &there);
        printf("%d to read\n", there);
        char bytes[20];
        if (there) read(line, bytes, sizeof bytes);
    }
    printf("to the master %s %s %s\n", error(ioctl(fd, 0x5405, &termio)), error(ioctl(fd, 0x5406, NULL)), error(ioctl(line, 0x5405, NULL)));
    close(line), close(fd);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    old();
    names();
    keys();
    full();
    sessions();
    packets();
    waiting();
    return 0;
}
