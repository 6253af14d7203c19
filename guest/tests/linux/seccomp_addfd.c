// Who decides about calls of others gives them files (SECCOMP_IOCTL_NOTIF_ADDFD): each flag, each error, several at once, a call that
// answers the descriptor, one that is left meanwhile, and a process that has as many as it may.
// oracle: linux
// cores: 2
#include "bpf.h"
#include "handing.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct notice { uint64_t id; uint32_t pid, flags; int32_t number; uint32_t architecture; uint64_t instruction, arguments[6]; };
struct response { uint64_t id; int64_t value; int32_t error; uint32_t flags; };
struct addfd { uint64_t id; uint32_t flags, file, fd, fd_flags; };
struct larger { struct addfd of; uint64_t more; };
enum { SETFD = 1, SENDS = 2 };
#define RECV _IOWR('!', 0, struct notice)
#define SEND _IOWR('!', 1, struct response)
#define ADDFD _IOW('!', 3, struct addfd)

static int listener(void) {
    struct instruction code[] = {{0x20, 0, 0, 0}, {0x15, 0, 1, SYS_getppid}, {6, 0, 0, 0x7fc00000}, {6, 0, 0, 0x7fff0000}};
    struct program program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, 1, 8, &program);
}

static long ask(void) {
    long result = syscall(SYS_getppid);
    return result == -1 ? -errno : result;
}

static void on_signal_here(int signal) { (void)signal; }

static void asks(int socket) {
    int fd = listener();
    give(socket, fd);
    close(fd);
    char text[16] = {0};
    printf("given: %ld", ask());
    printf(", flags %d, read %zd %s\n", fcntl(40, F_GETFD), pread(40, text, 5, 0), text);
    long sent = ask();
    memset(text, 0, sizeof text);
    printf("sent: %d, flags %d, read %zd %s\n", sent > 2, fcntl(sent, F_GETFD), pread(sent, text, 5, 0), text);
    printf("replaced: %ld, flags %d, writes %zd\n", ask(), fcntl(40, F_GETFD), write(40, "x", 1));
    struct rlimit none = {0, 64};
    setrlimit(RLIMIT_NOFILE, &none);
    printf("none may be had: %ld\n", ask());
    none.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &none);
    struct sigaction action = {.sa_handler = on_signal_here};
    sigaction(SIGUSR1, &action, NULL);
    printf("left: %ld\n", ask());
    printf("own memory: %ld\n", ask());
    fflush(stdout);
    _exit(0);
}

static long add(int fd, uint64_t id, unsigned flags, int file, int at, unsigned fd_flags) {
    struct addfd what = {id, flags, file, at, fd_flags};
    long result = ioctl(fd, ADDFD, &what);
    return result < 0 ? -errno : result;
}
static struct notice next(int fd) {
    struct notice notice = {0};
    MUST(ioctl(fd, RECV, &notice) == 0);
    return notice;
}
static long answer(int fd, uint64_t id, long value) {
    struct response response = {id, value, 0, 0};
    return ioctl(fd, SEND, &response) ? -errno : 0;
}

int main(void) {
    int pair[2], said[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(said) == 0);
    int file = open("/tmp/addfd", O_CREAT | O_TRUNC | O_RDWR, 0600);
    MUST(write(file, "hello", 5) == 5);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(said[1], 1);
        close(file);
        asks(pair[1]);
    }
    close(said[1]);
    int fd = taken(pair[0]);
    struct notice one = next(fd);
    printf("nothing of it: %ld\n", add(fd, one.id + 9, 0, file, 0, 0));
    printf("no such file: %ld\n", add(fd, one.id, 0, 999, 0, 0));
    printf("flags: %ld %ld %ld\n", add(fd, one.id, 4, file, 0, 0), add(fd, one.id, 0, file, 0, 1), add(fd, one.id, 0, file, 5, 0));
    printf("number: %ld\n", add(fd, one.id, SETFD, file, 100000, 0));
    struct larger larger = {{one.id, SETFD, file, 40, O_CLOEXEC}, 1};
    printf("larger: %d", ioctl(fd, _IOW('!', 3, struct larger), &larger) ? errno : 0);
    larger.more = 0;
    printf(" %d\n", ioctl(fd, _IOW('!', 3, struct larger), &larger));
    printf("smaller: %d, nowhere: %d\n", ioctl(fd, _IOW('!', 3, uint64_t), &larger) ? errno : 0, ioctl(fd, ADDFD, 8) ? errno : 0);
    printf("a number of its own: %d\n", add(fd, one.id, 0, file, 0, 0) > 2);
    printf("answered: %ld", answer(fd, one.id, 7));
    printf(", then refused: %d\n", add(fd, one.id, 0, file, 0, 0) < 0);
    one = next(fd);
    printf("sends: %d", add(fd, one.id, SENDS, file, 0, O_CLOEXEC) > 2);
    printf(", then refused: %d\n", answer(fd, one.id, 1) < 0);
    one = next(fd);
    printf("in its place: %ld\n", add(fd, one.id, SETFD, said[0], 40, 0));
    printf("%ld\n", answer(fd, one.id, 1));
    one = next(fd);
    printf("too many: %ld", add(fd, one.id, 0, file, 0, 0));
    printf(" %ld", add(fd, one.id, SETFD, file, 41, 0));
    printf(", sent: %ld\n", add(fd, one.id, SENDS, file, 0, 0));
    printf("%ld\n", answer(fd, one.id, 2));
    one = next(fd);
    kill(child, SIGUSR1);
    usleep(300000);
    printf("left: %ld\n", add(fd, one.id, 0, file, 0, 0));
    one = next(fd);
    // A counter that only this process knew.
    int counter = syscall(SYS_eventfd2, 3, 0);
    int got = add(fd, one.id, 0, counter, 0, 0);
    printf("counter: %d\n", got > 2);
    printf("%ld\n", answer(fd, one.id, 5));
    char text[2000];
    ssize_t bytes;
    while ((bytes = read(said[0], text, sizeof text)) > 0) fwrite(text, 1, bytes, stdout);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("over: %ld, status %x\n", add(fd, one.id, 0, file, 0, 0), status);
    unlink("/tmp/addfd");
    return 0;
}
