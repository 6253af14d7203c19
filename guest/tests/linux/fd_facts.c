// All descriptors of a process are in /proc/PID/fd, however many, also of another process, after a fork and a program; what is told of each in
// /proc/PID/fdinfo: position, flags, and what there is to say of its kind.
// oracle: linux
// build: gcc
// mem: 512M
#include "spaces.h"
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

enum { MANY = 3000 };

// How many descriptors are listed, and how many of them in order.
static int listed(const char *form, pid_t pid, int *in_order) {
    char path[64];
    snprintf(path, sizeof path, form, pid);
    DIR *dir = opendir(path);
    if (!dir) return -errno;
    int count = 0, last = -1, own = dirfd(dir);
    *in_order = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        int fd = atoi(entry->d_name);
        if (pid == getpid() && fd == own) continue;
        count++, *in_order += fd > last, last = fd;
    }
    closedir(dir);
    return count;
}

static void count(const char *what, pid_t pid) {
    int in_order, count = listed("/proc/%d/fd", pid, &in_order);
    printf("%s: %d descriptors, in order %d", what, count, count == in_order);
    count = listed("/proc/%d/fdinfo", pid, &in_order);
    printf(", %d told of, in order %d\n", count, count == in_order);
}

static void link_of(const char *what, pid_t pid, int fd) {
    char path[64], to[256];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    ssize_t bytes = readlink(path, to, sizeof to - 1);
    int error = errno;
    if (bytes < 0) return (void)printf("%s: errno %d\n", what, error);
    to[bytes] = 0;
    if (strchr(to, '[') && to[bytes - 2] >= '0' && to[bytes - 2] <= '9') *strchr(to, '[') = 0;
    printf("%s: %s\n", what, to);
}

// What is told of a descriptor, without numbers that differ from system to system.
static void facts(const char *what, pid_t pid, int fd) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", pid, fd);
    FILE *file = fopen(path, "r");
    printf("%s: %s", what, file ? "\n" : "none\n");
    while (file && fgets(line, sizeof line, file)) {
        static const char *const passed[] = {"mnt_id:", "ino:", "eventfd-id:", "Pid:", "NSpid:"};
        int is_passed = 0;
        for (int n = 0; n < 5; n++)
            if (!strncmp(line, passed[n], strlen(passed[n]))) is_passed = 1;
        unsigned tail, events, wd, mask, flags;
        unsigned long long data;
        if (sscanf(line, "tfd: %u events: %x data: %llx", &tail, &events, &data) == 3)
            printf("  member %x %llx\n", events, data);
        else if (sscanf(line, "inotify wd:%x", &wd) == 1 && sscanf(strstr(line, "mask:"), "mask:%x", &mask) == 1)
            printf("  watch %u %x\n", wd, mask);
        // Whether it is closed by a new program is the descriptor's.
        else if (sscanf(line, "flags: %o", &flags) == 1) printf("  flags %o\n", flags & ~O_CLOEXEC);
        else if (!strncmp(line, "it_", 3)) printf("  %.10s\n", line);
        else if (is_passed) printf("  %.*s\n", (int)strcspn(line, ":"), line);
        else printf("  %s", line);
    }
    if (file) fclose(file);
}

static int up_to(int fd) { return fcntl(fd, F_DUPFD, MANY); }

static void others(pid_t pid) {
    count("another", pid);
    link_of("high", pid, MANY);
    link_of("none", pid, MANY + 500);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        count("executed", getpid());
        link_of("high", getpid(), atoi(argv[1]));
        return 0;
    }
    struct rlimit most = {4096, 4096};
    SHOW(setrlimit(RLIMIT_NOFILE, &most));
    syscall(SYS_close_range, 3, ~0u, 0);
    count("first", getpid());
    int null = open("/dev/null", O_RDONLY);
    for (int n = 0; n < MANY - 100; n++)
        if (dup(null) < 0) printf("errno %d\n", errno);
    count("many", getpid());
    for (int n = 0; n < 2000; n += 2) close(200 + n);
    count("fewer", getpid());
    int high = up_to(null), file = open("/tmp/fd_facts", O_RDWR | O_CREAT | O_APPEND | O_TRUNC, 0600);
    CHECK(high == MANY);
    link_of("high", getpid(), high);
    link_of("closed", getpid(), 200);
    link_of("low", getpid(), 201);
    int pipes[2];
    if (pipe(pipes)) return 1;
    pid_t child_pid = fork();
    if (child_pid == 0) {
        char word;
        count("forked", getpid());
        close(MANY), close(201);
        count("forked", getpid());
        close(pipes[1]);
        if (read(pipes[0], &word, 1)) puts("something came");
        _exit(0);
    }
    close(pipes[0]);
    usleep(300000);
    count("kept", getpid());
    others(getpid());
    close(pipes[1]);
    wait_for(child_pid);
    fflush(stdout);
    if (fork() == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", high);
        fcntl(high - 800, F_SETFD, FD_CLOEXEC);
        execl("/proc/self/exe", "fd_facts", number, NULL);
        _exit(9);
    }
    wait_for(-1);
    // A program by a descriptor that is high up.
    int self = open("/proc/self/exe", O_RDONLY), program = up_to(self);
    fflush(stdout);
    if (fork() == 0) {
        char *args[] = {"fd_facts", "3000", NULL}, *none[] = {NULL};
        syscall(SYS_execveat, program, "", args, none, AT_EMPTY_PATH);
        printf("errno %d\n", errno);
        _exit(0);
    }
    wait_for(-1);
    puts("--- facts");
    if (write(file, "12345", 5) != 5) puts("not written");
    lseek(file, 3, SEEK_SET);
    // Another process has it, too.
    fflush(stdout);
    if (fork() == 0) _exit(0);
    wait_for(-1);
    facts("file", getpid(), file);
    facts("high", getpid(), high);
    facts("none", getpid(), MANY + 500);
    sigset_t signals = set_of(SIGUSR1, SIGTERM, 0);
    int event = eventfd(7, EFD_SEMAPHORE | EFD_NONBLOCK), timer = timerfd_create(CLOCK_BOOTTIME, 0), set = epoll_create1(0);
    int notices = inotify_init(), hears = signalfd(-1, &signals, 0), by_pid = syscall(434, getpid(), 0), sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
    const struct itimerspec in = {.it_value = {1000, 0}, .it_interval = {5, 6}};
    timerfd_settime(timer, 0, &in, NULL);
    struct epoll_event one = {EPOLLIN | EPOLLET, {.u64 = 0x1234}};
    epoll_ctl(set, EPOLL_CTL_ADD, sockets[0], &one);
    inotify_add_watch(notices, "/tmp", IN_CREATE | IN_DELETE);
    link_of("event", getpid(), event), link_of("timer", getpid(), timer), link_of("set", getpid(), set);
    link_of("signals", getpid(), hears), link_of("notices", getpid(), notices), link_of("pid", getpid(), by_pid);
    link_of("socket", getpid(), sockets[1]);
    // One is on its way.
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.head), &null, sizeof null);
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    SHOW(sendmsg(sockets[0], &message, 0));
    // From here on others have them, too.
    fflush(stdout);
    if (fork() == 0) {
        link_of("event", getppid(), event);
        facts("event", getppid(), event);
        facts("timer", getpid(), timer);
        facts("set", getpid(), set);
        facts("notices", getpid(), notices);
        facts("signals", getpid(), hears);
        facts("pid", getpid(), by_pid);
        facts("socket", getpid(), sockets[1]);
        fflush(stdout);
        _exit(0);
    }
    wait_for(-1);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fdinfo", getpid());
    fflush(stdout);
    if (fork() == 0) {
        SHOW(as_user(1000));
        SHOW(open(path, O_RDONLY | O_DIRECTORY));
        snprintf(path, sizeof path, "/proc/%d/fdinfo/0", getppid());
        SHOW(open(path, O_RDONLY));
        snprintf(path, sizeof path, "/proc/%d/fd/0", getppid());
        SHOW(readlink(path, path, sizeof path));
        _exit(0);
    }
    wait_for(-1);
}
