// A hostile user at the error queues of sockets: he fills as many as he can and reads none, forges ends of calls, and says control messages
// wrongly. Another user has what he needs in the meantime, and all is back afterwards.
//
// build: gcc
// cores: 4
// expect-stdout: filled: bounded\nanother user: well\nforged: one entry\nnext: well\ncontrol: refused\nafterwards: well\n
#include "must.h"
#include "errqueue.h"
#include "raw.h"
#include <sys/resource.h>

enum { TX_SCHED = 1 << 8, SOFTWARE = 1 << 4, TX_SOFTWARE = 1 << 1 };
// unixproto::ops, and of its requests to send.
enum { OP_SEND = 148 };
#define CONTINUES (1ul << 30)
#define CONTINUED (1ul << 31)

static char much[60000];

// A call, and a time, are told of.
static int is_well(void) {
    int to, fd = sender(AF_INET, &to), ends[2];
    if (set(fd, SOL_SOCKET, SO_ZEROCOPY, 1) || set(fd, SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE)) return 0;
    if (send(fd, much, 1000, MSG_ZEROCOPY) != 1000 || recv(to, much, sizeof much, MSG_DONTWAIT) != 1000) return 0;
    struct entry *entry = read_entry(fd);
    if (entry->got != 1000 + 42 || entry->stamps != 1 || !is_recent(&entry->times[0])) return 0;
    entry = read_entry(fd);
    if (entry->got != 0 || entry->said.ee_origin != ORIGIN_ZEROCOPY || entry->said.ee_data != 0) return 0;
    close(fd);
    close(to);
    streams(AF_INET, ends);
    if (set(ends[0], SOL_SOCKET, SO_ZEROCOPY, 1) || send(ends[0], much, sizeof much, MSG_ZEROCOPY) != sizeof much) return 0;
    if (recv(ends[1], much, sizeof much, MSG_WAITALL) != sizeof much || read_entry(ends[0])->said.ee_origin != ORIGIN_ZEROCOPY) return 0;
    close(ends[0]);
    close(ends[1]);
    return 1;
}

static int user_is_well(int uid) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(setuid(uid) || !is_well());
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

enum { PAIRS = 200 };

// Fills the queues of many sockets. Answers how many of them had room for anything.
static long fill(void) {
    long all = 0;
    for (int n = 0; n < PAIRS; n++) {
        int to, fd = sender(AF_INET, &to);
        if (fd < 0 || to < 0) break;
        set(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
        set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
        set(fd, SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | TX_SCHED | SOFTWARE);
        for (int m = 0; m < 5; m++) send(fd, much, sizeof much, MSG_ZEROCOPY | MSG_DONTWAIT);
        for (int m = 0; m < 20; m++) send(fd, "x", 1, MSG_ZEROCOPY | MSG_DONTWAIT);
        if (n == 0) {
            // Of one it is known how much that is: what a socket may hold, and a packet.
            long held = 0, calls = 0;
            for (struct entry *entry; (entry = read_entry(fd))->got >= 0;) {
                held += entry->got;
                calls += entry->said.ee_origin == ORIGIN_ZEROCOPY;
            }
            if (held < 300000 || held > 425984 + 60042 || calls > 157) return -1;
        }
        all += !!(ready(fd, 0, 0) & POLLERR);
    }
    return all;
}

static void filled(void) {
    int up[2], down[2];
    MUST(pipe(up) == 0 && pipe(down) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        MUST(setuid(1000) == 0);
        long all = fill();
        MUST(write(up[1], &all, sizeof all) == sizeof all);
        // It holds them until it is killed.
        char byte;
        if (read(down[0], &byte, 1) >= 0) pause();
        _exit(0);
    }
    long all = 0;
    MUST(read(up[0], &all, sizeof all) == sizeof all);
    printf("filled: %s\n", all > 20 && all < PAIRS - 20 ? "bounded" : "NOT AS EXPECTED");
    printf("another user: %s\n", user_is_well(1001) && user_is_well(0) ? "well" : "ILL");
    kill(pid, SIGKILL);
    MUST(waitpid(pid, NULL, 0) == pid);
    for (int n = 0; n < 2; n++) close(up[n]), close(down[n]);
}

// Asks to send, with so many bytes of what goes along, of which so many are control messages.
static long asks_to_send(unsigned long desc, unsigned long flags, const void *a, unsigned long bytes, const void *b, unsigned long along,
                         unsigned long control) {
    memcpy((void *)RAW_DATA, a, bytes);
    memcpy((char *)RAW_DATA + bytes, b, along);
    long status = INVOKE(CALL, UNIXD, OP_SEND | bytes << 16 | along << 32, desc, flags, 0, 0, control, 0, 0);
    return status ? -1 : (long)raw_results[0];
}

static void forged(void) {
    int ends[2];
    streams(AF_INET, ends);
    MUST(set(ends[0], SOL_SOCKET, SO_ZEROCOPY, 1) == 0);
    // Which description it is nobody has said: each that there may be. Those of others are refused.
    const unsigned long flags[] = {CONTINUED, CONTINUES, CONTINUED | CONTINUES, 0};
    int answers = 0;
    for (unsigned long desc = 0; desc < 3000; desc++)
        for (int n = 0; n < 4; n++)
            answers += asks_to_send(desc, MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL | flags[n], "", 0, "", 0, 0) == 0;
    MUST(answers > 0);
    // Each was a call that has sent nothing, and told its own socket so: all of them in one entry.
    struct entry *entry = read_entry(ends[0]);
    int is_range = entry->got == 0 && entry->said.ee_info == 0;
    uint32_t next = entry->said.ee_data + 1;
    int is_one = is_range && read_entry(ends[0])->got < 0;
    printf("forged: %s\n", is_one ? "one entry" : "MORE, OR NONE");
    MUST(send(ends[0], "x", 1, MSG_ZEROCOPY) == 1);
    printf("next: %s\n", read_entry(ends[0])->said.ee_info == next ? "well" : "ILL");
    close(ends[0]);
    close(ends[1]);
    int refused = 0, all = 0, to, fd = sender(AF_INET, &to);
    struct { uint64_t len; uint32_t level, type, flags, pad; } said[] = {
        {0, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0}, {15, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0},
        {16, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0}, {19, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0},
        {24, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0}, {25, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0},
        {-1ull, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0}, {1ull << 63 | 20, SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED, 0},
        {20, SOL_SOCKET, SO_TIMESTAMPING, -1u, 0}, {20, SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE, 0}, {20, SOL_SOCKET, 61, 0, 0},
    };
    for (unsigned long desc = 0; desc < 3000; desc++) {
        // One that the process has, and that is a socket of datagrams which may send.
        if (asks_to_send(desc, MSG_DONTWAIT, "x", 1, "", 0, 0) || recv(to, much, 1, MSG_DONTWAIT) != 1) continue;
        for (size_t n = 0; n < sizeof said / sizeof *said; n++, all++)
            refused += asks_to_send(desc, MSG_DONTWAIT, "x", 1, &said[n], sizeof said[n], sizeof said[n]) == EINVAL;
        // More of them than there are.
        refused += asks_to_send(desc, MSG_DONTWAIT, "x", 1, &said[8], 24, 25) == EINVAL;
        refused += asks_to_send(desc, MSG_DONTWAIT, "x", 1, &said[8], 24, -1ul) == EINVAL;
        all += 2;
    }
    printf("control: %s\n", all == 13 && refused == all && recv(to, much, 1, MSG_DONTWAIT) < 0 ? "refused" : "NOT ALL REFUSED");
    close(fd);
    close(to);
}

int main(void) {
    struct rlimit files = {4096, 4096};
    MUST(setrlimit(RLIMIT_NOFILE, &files) == 0);
    filled();
    forged();
    printf("afterwards: %s\n", user_is_well(1000) && user_is_well(1001) && is_well() ? "well" : "ILL");
    return 0;
}
