// What does it cost to give 4 KiB to 64 MiB of memory to another process, until that has looked at each page? By passing the range in each
// mode (docs/passing-memory.md), which is not there on Linux; through a pipe, by process_vm_readv, through shared memory that both have mapped.
#include "bench.h"
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PR_TESSERA_PASS 0x54535042
enum { SHARE = 1, COPY, DONATE, IMPORT, TAKE, WRITTEN = 8 };
enum { PIPE = 16, READV, MEMORY };
enum { MOST = 64 * MIB / PAGE };

struct tessera_import {
    uint64_t addr, len, offset;
    uint32_t prot, flags;
};

// What the receiver is told.
struct order {
    int how;
    size_t pages;
    uint64_t offset;
    char *from;
};

static int wire[2], stream[2], has_passing, has_readv;
static char *shared;

static void send_order(struct order order, int fd) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct iovec data = {&order, sizeof order};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control, message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    expect("sendmsg", sendmsg(wire[0], &message, 0), sizeof order);
}

static int receive_order(struct order *order) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct iovec data = {order, sizeof *order};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(wire[1], &message, 0) != sizeof *order) exit(0);
    int fd = -1;
    if (CMSG_FIRSTHDR(&message)) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void look(volatile char *at, size_t pages, int writes) {
    for (size_t page = 0; page < pages; page++) {
        if (at[page * PAGE] != (char)(page + 1)) expect("a page", at[page * PAGE], (char)(page + 1));
        if (writes) at[page * PAGE + 8] = 1;
    }
}

// The receiver: does what it is told, and says when it is done.
static void receive(void) {
    struct order order;
    pid_t sender = getppid();
    char *buffer = map(MOST);
    memset(buffer, 1, (size_t)MOST * PAGE);
    for (;;) {
        int fd = receive_order(&order), how = order.how & ~WRITTEN;
        size_t bytes = order.pages * PAGE;
        char *at = buffer, byte = 0;
        if (how == SHARE) {
            at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)order.offset);
            expect("mmap of a range", at == MAP_FAILED, 0);
        } else if (how == COPY || how == DONATE) {
            struct tessera_import it = {0, bytes, order.offset, PROT_READ | PROT_WRITE, 0};
            expect("import", syscall(SYS_prctl, PR_TESSERA_PASS, how == COPY ? IMPORT : TAKE, fd, &it, sizeof it), 0);
            at = (char *)it.addr;
        } else if (how == PIPE) {
            for (size_t done = 0; done < bytes;) {
                ssize_t n = read(stream[0], buffer + done, bytes - done);
                expect("read", n > 0, 1);
                done += (size_t)n;
            }
        } else if (how == READV) {
            struct iovec here = {buffer, bytes}, there = {order.from, bytes};
            expect("process_vm_readv", process_vm_readv(sender, &here, 1, &there, 1, 0), (long long)bytes);
        } else {
            memcpy(buffer, shared, bytes);
        }
        look(at, order.pages, order.how & WRITTEN);
        expect("write", write(wire[1], &byte, 1), 1);
        // What it was given goes when nobody measures.
        expect("read", read(wire[1], &byte, 1), 1);
        if (at != buffer) unmap(at, order.pages);
        if (fd >= 0) close(fd);
        expect("write", write(wire[1], &byte, 1), 1);
    }
}

static void measure(const char *name, int how, size_t pages) {
    int is_pass = (how & ~WRITTEN) <= DONATE, repeats = pages > 256 ? 3 : 5;
    char *at = NULL, byte;
    for (int n = 0; n < repeats && (is_pass ? has_passing : how != READV || has_readv); n++) {
        if (!at) at = map(pages);
        for (size_t page = 0; page < pages; page++) memset(at + page * PAGE, (char)(page + 1), PAGE);
        struct order order = {how, pages, 0, at};
        uint64_t from = ticks();
        int fd = -1;
        if (is_pass) {
            fd = (int)syscall(SYS_prctl, PR_TESSERA_PASS, how & ~WRITTEN, at, pages * PAGE, &order.offset);
            expect("export", fd >= 0, 1);
        }
        if (how == MEMORY) memcpy(shared, at, pages * PAGE);
        send_order(order, fd);
        if (fd >= 0) close(fd);
        for (size_t done = 0; how == PIPE && done < pages * PAGE;) {
            ssize_t written = write(stream[1], at + done, pages * PAGE - done);
            expect("write", written > 0, 1);
            done += (size_t)written;
        }
        expect("read", read(wire[0], &byte, 1), 1);
        // The first time, tables are made.
        if (n > 0) sample(ticks() - from);
        expect("write", write(wire[0], &byte, 1), 1);
        expect("read", read(wire[0], &byte, 1), 1);
        if (is_pass && (how & ~WRITTEN) != DONATE) unmap(at, pages);
        if (is_pass) at = NULL;
    }
    if (at) unmap(at, pages);
    report(name, 1, "at=%zu:pages", pages);
}

int main(void) {
    calibrate();
    shared = mmap(NULL, (size_t)MOST * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect("shared memory", shared == MAP_FAILED, 0);
    memset(shared, 1, (size_t)MOST * PAGE);
    expect("socketpair", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, wire), 0);
    expect("pipe", pipe(stream), 0);
    char *probe = map(1);
    uint64_t offset;
    int fd = (int)syscall(SYS_prctl, PR_TESSERA_PASS, COPY, probe, (size_t)PAGE, &offset);
    has_passing = fd >= 0;
    if (fd >= 0) close(fd);
    struct iovec here = {&fd, sizeof fd}, there = {&has_passing, sizeof has_passing};
    has_readv = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof fd;
    pid_t child = fork();
    if (child == 0) {
        close(wire[0]), close(stream[1]);
        receive();
    }
    close(wire[1]), close(stream[0]);
    for (size_t pages = 1; pages <= MOST; pages *= pages < 4096 ? 16 : 4) {
        measure("share", SHARE, pages);
        measure("copy", COPY, pages);
        measure("copy,_written", COPY | WRITTEN, pages);
        measure("donate", DONATE, pages);
        measure("donate,_written", DONATE | WRITTEN, pages);
        measure("pipe", PIPE, pages);
        measure("process_vm_readv", READV, pages);
        measure("shared_memory,_copied_in_and_out", MEMORY, pages);
    }
    close(wire[0]);
    wait_for(child);
}
