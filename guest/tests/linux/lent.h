// What tests of lent pipes and streams have in common: bytes that say where they belong, and who else writes and reads some of them.
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>

extern char **environ;

// What a stream has at a place.
static unsigned char byte_at(long at) { return at * 7 + (at >> 8) * 13 + (at >> 16); }

static void fill(unsigned char *to, long at, long bytes) {
    for (long i = 0; i < bytes; i++) to[i] = byte_at(at + i);
}

static int is_right(const unsigned char *from, long at, long bytes) {
    for (long i = 0; i < bytes; i++)
        if (from[i] != byte_at(at + i)) return 0;
    return 1;
}

static void fail(const char *what) {
    printf("%s: wrong, errno %d\n", what, errno);
    _exit(1);
}

static int status_of(int pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

static void set_nonblocking(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static unsigned char buffer[200000];

// Writes the next bytes, however many calls that takes.
static void write_on(int fd, long at, long bytes) {
    fill(buffer, at, bytes);
    for (long done = 0; done < bytes;) {
        ssize_t n = write(fd, buffer + done, bytes - done);
        if (n > 0) done += n;
        else if (errno == EAGAIN) poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        else if (errno != EINTR) fail("write");
    }
}

static long read_on(int fd, long at, long most) {
    for (;;) {
        ssize_t n = read(fd, buffer, most);
        if (n < 0 && errno == EAGAIN) poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
        else if (n < 0 && errno != EINTR) fail("read");
        else if (n >= 0) {
            if (!is_right(buffer, at, n)) fail("what was read");
            return n;
        }
    }
}

static long some_bytes(void) {
    return 1 + below(PICK(1, 16, 100, 100, 1000, 4096, 4096, 9000, 100000));
}

// Passes a descriptor to a process that writes with it.
static void write_elsewhere(int fd, long at, long bytes) {
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control = {0};
    char byte = 1;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int pid = fork();
    if (pid == 0) {
        close(fd);
        if (recvmsg(ends[1], &message, 0) != 1) _exit(2);
        write_on(*(int *)CMSG_DATA(&control.head), at, bytes);
        _exit(0);
    }
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    *(int *)CMSG_DATA(&control.head) = fd;
    sendmsg(ends[0], &message, 0);
    close(ends[0]), close(ends[1]);
    if (status_of(pid)) fail("who was passed it");
}

// A process that writes or reads the next bytes, as this one's child.
static long by_child(int fd, long at, long bytes, int writes) {
    int pid = fork();
    if (pid == 0) {
        if (writes) write_on(fd, at, bytes);
        else for (long done = 0; done < bytes;) {
            long n = read_on(fd, at + done, bytes - done);
            if (n == 0) _exit(3);
            done += n;
        }
        _exit(0);
    }
    int status = status_of(pid);
    if (status && !(writes == 0 && WEXITSTATUS(status) == 3)) fail("child");
    return status ? -1 : bytes;
}

// The same as another program, whose `main` begins with `as_program`.
static void by_program(int fd, long at, long bytes) {
    char words[3][24];
    snprintf(words[0], 24, "%d", fd), snprintf(words[1], 24, "%ld", at), snprintf(words[2], 24, "%ld", bytes);
    char *args[] = {"lent", "write", words[0], words[1], words[2], NULL};
    int pid;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ) || status_of(pid)) fail("program");
}

static int as_program(int argc, char **argv) {
    if (argc != 5 || strcmp(argv[1], "write")) return 0;
    write_on(atoi(argv[2]), atol(argv[3]), atol(argv[4]));
    return 1;
}

static volatile sig_atomic_t came;
static void on_signal(int signal) { came = signal; }

static void on(int signal, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static void alarm_in(int us) {
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, us}}, NULL);
}
