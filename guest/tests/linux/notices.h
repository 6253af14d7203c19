// Whose calls somebody decides about, and who does: what `seccomp(2)` and `seccomp_unotify(2)` have.
#ifndef NOTICES_H
#define NOTICES_H
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "bpf.h"
#include "handing.h"

struct data {
    int32_t number;
    uint32_t architecture;
    uint64_t instruction, arguments[6];
};
struct notice {
    uint64_t id;
    uint32_t pid, flags;
    struct data data;
};
struct response {
    uint64_t id;
    int64_t value;
    int32_t error;
    uint32_t flags;
};
enum { FILTER = 1, TSYNC = 1, LISTENER = 8, TSYNC_ESRCH = 16, CONTINUE = 1 };
#define RECV _IOWR('!', 0, struct notice)
#define SEND _IOWR('!', 1, struct response)
#define VALID _IOW('!', 2, uint64_t)
#define NOTIFY 0x7fc00000u

// Calls with this number are for the listener.
static long install(int number, unsigned flags) {
    struct instruction code[] = {{0x20, 0, 0, 0}, {0x15, 0, 1, number}, {6, 0, 0, NOTIFY}, {6, 0, 0, 0x7fff0000}};
    struct program program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    long fd = syscall(SYS_seccomp, FILTER, flags, &program);
    return fd < 0 ? -errno : fd;
}

static long result_of(long result) { return result == -1 ? -errno : result; }

static int is_valid(int fd, uint64_t id) { return ioctl(fd, VALID, &id) == 0 ? 0 : -errno; }

static struct notice next(int fd) {
    struct notice notice = {0};
    MUST(ioctl(fd, RECV, &notice) == 0);
    return notice;
}

#endif
