// Memory that goes to other processes (docs/passing-memory.md), and descriptors through sockets.
#pragma once
#include "must.h"
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define PR_TESSERA_PASS 0x54535042
enum { PASS_SHARE = 1, PASS_COPY, PASS_DONATE, PASS_IMPORT, PASS_TAKE, PASS_CLOEXEC = 0x100 };

struct tessera_import {
    uint64_t addr, len, offset;
    uint32_t prot, flags;
};

static inline int export_range(int how, void *addr, size_t len, uint64_t *offset) {
    return (int)syscall(SYS_prctl, PR_TESSERA_PASS, how, addr, len, offset);
}

// Where it is, or MAP_FAILED.
static inline void *import_at(int how, int fd, void *addr, size_t len, uint64_t offset, int prot, int flags) {
    struct tessera_import it = {(uintptr_t)addr, len, offset, (uint32_t)prot, (uint32_t)flags};
    if (syscall(SYS_prctl, PR_TESSERA_PASS, how, fd, &it, sizeof it)) return MAP_FAILED;
    return (void *)(uintptr_t)it.addr;
}

static inline void *import_range(int how, int fd, size_t len, uint64_t offset) {
    return import_at(how, fd, NULL, len, offset, PROT_READ | PROT_WRITE, 0);
}

// Sends a descriptor, and where in its file something begins.
static inline void send_range(int socket, int fd, uint64_t offset) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct iovec data = {&offset, sizeof offset};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    MUST(sendmsg(socket, &message, 0) == sizeof offset);
}

static inline int receive_range(int socket, uint64_t *offset) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct iovec data = {offset, sizeof *offset};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    MUST(recvmsg(socket, &message, 0) == sizeof *offset);
    int fd;
    MUST(CMSG_FIRSTHDR(&message) != NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

// What page n of a range is filled with.
static inline void fill(char *at, size_t count, int value) {
    for (size_t n = 0; n < count; n++) memset(at + n * PAGE, value + (int)(n % 97), PAGE);
}
static inline int is_filled(const char *at, size_t count, int value) {
    for (size_t n = 0; n < count; n++) {
        const unsigned char *page = (const unsigned char *)at + n * PAGE, wanted = (unsigned char)(value + (int)(n % 97));
        if (page[0] != wanted || page[PAGE / 2] != wanted || memcmp(page, page + 1, PAGE - 1)) return 0;
    }
    return 1;
}

// A child that ends well.
static inline void child_is_well(pid_t pid, int line) {
    int status = -1;
    must(waitpid(pid, &status, 0) == pid && status == 0, line, "a child that ends well");
}
#define CHILD_IS_WELL(pid) child_is_well(pid, __LINE__)

static inline long free_kib(void) { return number_in("/proc/meminfo", "MemFree: %ld"); }
