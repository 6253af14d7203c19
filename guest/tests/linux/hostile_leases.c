// What a user can do with leases and notes of directories to others: holders that never answer, thousands of leases, ends in the middle,
// requests that no library sends, signals to whom he could send none, directories of others. Many at once on four cores.
//
// build: gcc, musl
// cores: 4
// expect-stdout: others work\npassed\n
#include "others.h"
#include "raw.h"
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum {
    OP_SET_LEASE = 276, OP_GET_LEASE = 277, OP_NOTIFY_DIR = 278,
    LEASES = 1000, USER_LEASES = 2048, MEMBERS = 20, OPENERS = 100, ROUNDS = 300, NOTES = 256, FD_BASE = 3,
};
#define FILE_NAME "/tmp/leased"

static long ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_number(const char *path, const char *value) {
    int fd = open(path, O_WRONLY);
    check(path, write(fd, value, strlen(value)), strlen(value));
    close(fd);
}

static int lease(int fd, int kind) { return fcntl(fd, F_SETLEASE, kind); }

// Ready is said by a byte through this pipe.
static int ready[2];
static void say(void) { write(ready[1], "r", 1); }
static void wait_for_ready(void) {
    char byte;
    check("ready", read(ready[0], &byte, 1), 1);
}

// Has a lease and never answers.
static void holds(int kind) {
    signal(SIGIO, SIG_IGN);
    int fd = open(FILE_NAME, O_RDONLY);
    check("a lease", lease(fd, kind), 0);
    say();
    for (;;) pause();
}

static void opens(int flags) {
    int fd = open(FILE_NAME, flags);
    if (fd < 0) fail("open", fd);
}

// Many wait for one that never answers: all of them as long as root has said, and not longer.
static void silent_holder(void) {
    set_number("/proc/sys/fs/lease-break-time", "1");
    pid_t holder = as_user(USER, holds, F_WRLCK), openers[OPENERS];
    wait_for_ready();
    long start = ms();
    for (int i = 0; i < OPENERS; i++) openers[i] = as_user(i % 2 ? OTHER : 0, opens, i % 3 ? O_RDONLY : O_RDWR);
    others_work();
    for (int i = 0; i < OPENERS; i++) ends("an opener", openers[i], 0);
    long took = ms() - start;
    if (took < 900 || took > 30000) fail("time until all had opened it", took);
    kill(holder, SIGKILL);
    ends("the holder", holder, SIGKILL);
    set_number("/proc/sys/fs/lease-break-time", "45");
}

// Those who wait, and the holder, are killed in any order: nothing is left of them.
static void killed(void) {
    for (int order = 0; order < 3; order++) {
        pid_t holder = as_user(USER, holds, order ? F_RDLCK : F_WRLCK), openers[OPENERS / 5];
        wait_for_ready();
        for (int i = 0; i < OPENERS / 5; i++) openers[i] = as_user(OTHER, opens, O_WRONLY);
        usleep(order * 100000);
        if (order != 1) kill(holder, SIGKILL);
        for (int i = 0; i < OPENERS / 5; i++) kill(openers[i], SIGKILL);
        for (int i = 0; i < OPENERS / 5; i++) {
            int status;
            waitpid(openers[i], &status, 0);
        }
        if (order == 1) kill(holder, SIGKILL);
        ends("a holder", holder, SIGKILL);
        // Nobody has it open, and nobody waits for it.
        int fd = open(FILE_NAME, O_RDONLY | O_NONBLOCK);
        check("open", fd >= 0, 1);
        check("alone", lease(fd, F_WRLCK), 0);
        close(fd);
    }
}

// So many leases on one file, or each on one of its own.
static void many(int on_one) {
    signal(SIGIO, SIG_IGN);
    struct rlimit files = {LEASES + 50, LEASES + 50};
    check("setrlimit", setrlimit(RLIMIT_NOFILE, &files), 0);
    for (int i = 0; i < LEASES; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/own/%d", on_one ? 0 : i);
        int fd = open(path, O_RDONLY | O_CREAT, 0666);
        if (fd < 0 || lease(fd, F_RDLCK)) return fail("one of many", i);
    }
    // One opens the first: all of that file are told.
    check("O_NONBLOCK", open("/tmp/own/0", O_WRONLY | O_NONBLOCK), -1);
    check("EAGAIN", errno, EAGAIN);
    long size = 0, bytes;
    char room[65536];
    int list = open("/proc/locks", O_RDONLY);
    while ((bytes = read(list, room, sizeof room)) > 0) size += bytes;
    if (size < LEASES * 30) fail("the list of all", size);
    say();
    for (;;) pause();
}

static void thousand(void) {
    mkdir("/tmp/own", 0777);
    chown("/tmp/own", USER, USER);
    for (int on_one = 0; on_one < 2; on_one++) {
        pid_t one = as_user(USER, many, on_one);
        wait_for_ready();
        // Another one needs leases, too.
        int fd = open("/tmp/shared", O_RDONLY);
        check("of somebody else", lease(fd, F_RDLCK), 0);
        close(fd);
        pid_t opener = fork();
        if (opener == 0) {
            int own = open("/tmp/own/0", O_WRONLY);
            _exit(own < 0);
        }
        usleep(100000);
        kill(one, SIGKILL);
        ends("who had a thousand", one, SIGKILL);
        ends("who waited for them", opener, 0);
    }
}

// As many as a user may have, and one more.
static void all_of_a_user(int nothing) {
    (void)nothing;
    signal(SIGIO, SIG_IGN);
    struct rlimit files = {USER_LEASES + 50, USER_LEASES + 50};
    check("setrlimit", setrlimit(RLIMIT_NOFILE, &files), 0);
    int fd = -1;
    for (int i = 0; i < USER_LEASES; i++) {
        fd = open(FILE_NAME, O_RDONLY);
        if (fd < 0 || lease(fd, F_RDLCK)) return fail("one of all", i);
    }
    int more = open(FILE_NAME, O_RDONLY);
    check("one more", lease(more, F_RDLCK), -1);
    check("ENOMEM", errno, ENOMEM);
    // What there is can be changed, and given back.
    check("the same once more", lease(fd, F_RDLCK), 0);
    check("given up", lease(fd, F_UNLCK), 0);
    check("instead", lease(more, F_RDLCK), 0);
    check("closed", close(more), 0);
    check("instead of that", lease(fd, F_RDLCK), 0);
}

// A group is told once of all leases that end at once: else leases times processes would be sent.
static void tells_a_group(int signal_number) {
    setpgid(0, 0);
    sigset_t told_by = set_of(signal_number, 0, 0);
    sigprocmask(SIG_BLOCK, &told_by, NULL);
    int go[2], times[2];
    if (pipe(go) || pipe(times)) _exit(92);
    for (int i = 0; i < MEMBERS; i++)
        if (fork() == 0) {
            char byte;
            close(go[1]);
            read(go[0], &byte, 1);
            int count = 0;
            while (sigtimedwait(&told_by, NULL, &(struct timespec){0, 0}) > 0) count++;
            write(times[1], &count, sizeof count);
            _exit(0);
        }
    for (int i = 0; i < 200; i++) {
        int fd = open(FILE_NAME, O_RDONLY);
        check("F_SETSIG", fcntl(fd, 10, signal_number), 0);
        check("F_SETOWN", fcntl(fd, F_SETOWN, -getpgrp()), 0);
        check("a lease", lease(fd, F_RDLCK), 0);
    }
    check("O_NONBLOCK", open(FILE_NAME, O_WRONLY | O_NONBLOCK), -1);
    close(go[1]), close(go[0]);
    for (int i = 0; i < MEMBERS; i++) {
        int count = -1;
        check("a count", read(times[0], &count, sizeof count), sizeof count);
        check("how often a member is told", count, 1);
    }
    while (wait(NULL) > 0) continue;
}

// Several processes take turns: while one has the file leased alone nobody else has it open.
struct shared {
    volatile int leased, wrong, alone;
};
static struct shared *shared;
static volatile int own_fd, has_it;

static void has_no_more(void) {
    if (has_it) has_it = shared->leased = 0;
}

static void give_up(int signal) {
    (void)signal;
    has_no_more();
    lease(own_fd, F_UNLCK);
}

static void takes_turns(int which) {
    struct sigaction action = {.sa_handler = give_up, .sa_flags = SA_RESTART};
    sigaction(SIGIO, &action, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + which) % 3) {
            int fd = open(FILE_NAME, i % 2 ? O_WRONLY : O_RDONLY);
            // Between these two looks nobody can get it alone.
            if (fd < 0) fail("open", fd);
            if (shared->leased) shared->wrong++;
            sched_yield();
            if (shared->leased) shared->wrong++;
            close(fd);
            continue;
        }
        own_fd = open(FILE_NAME, O_RDWR);
        // The signal is not to come before it is known who has it.
        sigset_t set = set_of(SIGIO, 0, 0);
        sigprocmask(SIG_BLOCK, &set, NULL);
        if (lease(own_fd, F_WRLCK) == 0) {
            has_it = shared->leased = 1;
            sigprocmask(SIG_UNBLOCK, &set, NULL);
            shared->alone++;
            for (int n = 0; n < 5; n++) sched_yield();
            sigprocmask(SIG_BLOCK, &set, NULL);
            has_no_more();
        }
        close(own_fd);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
}

static void at_once(void) {
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    chown(FILE_NAME, USER, USER);
    pid_t all[4];
    for (int i = 0; i < 4; i++) all[i] = as_user(USER, takes_turns, i);
    for (int i = 0; i < 4; i++) ends("one of four", all[i], 0);
    check("open while somebody else had it alone", shared->wrong, 0);
    if (shared->alone == 0) fail("nobody ever had it alone", 0);
}

// Signals go to whom the user could send them; requests are of descriptions that he has.
static void forges(int victim) {
    int fd = open(FILE_NAME, O_RDONLY), dir = open("/tmp", O_RDONLY);
    check("F_SETOWN", fcntl(fd, F_SETOWN, victim) | fcntl(dir, F_SETOWN, victim), 0);
    check("F_SETSIG", fcntl(fd, 10, SIGKILL) | fcntl(dir, 10, SIGKILL), 0);
    check("a lease", lease(fd, F_RDLCK), 0);
    check("a note", fcntl(dir, F_NOTIFY, DN_CREATE | DN_MULTISHOT), 0);
    check("its own open", open(FILE_NAME, O_WRONLY | O_NONBLOCK), -1);
    check("a new file", open("/tmp/new", O_RDWR | O_CREAT, 0600) >= 0, 1);
    check("F_UNLCK", lease(fd, F_UNLCK), 0);
    if (access("/proc/tessera", F_OK)) return;
    const unsigned long ids[] = {0, 1, 2, 3, 1000, 32768, 40000, 0x7fffffff, 0xffffffff, 0x100000000, ~0ul};
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++)
        for (unsigned long kind = 0; kind < 5; kind++) {
            // Of its own three it may have what it likes; they are no regular files.
            long error = REQUEST(OP_SET_LEASE, NULL, ids[i], kind, 5);
            if (error != EBADF && error != EINVAL && error != EACCES) fail("a forged lease", error);
            error = REQUEST(OP_SET_LEASE, NULL, ids[i], ~0ul - kind, ~0ul);
            if (error != EBADF && error != EINVAL) fail("a forged kind", error);
            error = REQUEST(OP_GET_LEASE, NULL, ids[i]);
            if (error != EBADF && error != EINVAL && error != 0) fail("a forged question", error);
            error = REQUEST(OP_NOTIFY_DIR, NULL, ids[i], 5, kind ? 1ul << (kind * 8) : 0xff);
            if (error != EBADF && error != EINVAL && error != ENOTDIR) fail("a forged note", error);
        }
}

// More notes than a user may have; each directory once by each description.
static void notes(int most) {
    struct rlimit files = {NOTES + 100, NOTES + 100};
    check("setrlimit", setrlimit(RLIMIT_NOFILE, &files), 0);
    signal(SIGIO, SIG_IGN);
    int given = 0;
    for (int i = 0; i < NOTES + 20; i++) {
        int dir = open("/tmp", O_RDONLY);
        check("open", dir >= 0, 1);
        if (fcntl(dir, F_NOTIFY, DN_CREATE | DN_DELETE | DN_MULTISHOT) == 0) given++;
        else check("ENOMEM", errno, ENOMEM);
    }
    check("notes", given, most);
    say();
    for (;;) pause();
}

static void notes_of_others(void) {
    pid_t one = as_user(USER, notes, NOTES);
    wait_for_ready();
    int dir = open("/tmp", O_RDONLY);
    check("a note of somebody else", fcntl(dir, F_NOTIFY, DN_CREATE), 0);
    signal(SIGIO, SIG_IGN);
    for (int i = 0; i < 50; i++) {
        int fd = open("/tmp/noted", O_RDWR | O_CREAT, 0600);
        check("open", fd >= 0, 1);
        close(fd);
        check("unlink", unlink("/tmp/noted"), 0);
    }
    kill(one, SIGKILL);
    ends("who had the notes", one, SIGKILL);
    // What it had can be had again.
    one = as_user(USER, notes, NOTES);
    wait_for_ready();
    kill(one, SIGKILL);
    ends("who had them again", one, SIGKILL);
    close(dir);
}

int main(void) {
    if (pipe(ready)) return 1;
    int fd = open(FILE_NAME, O_RDWR | O_CREAT, 0666);
    fchmod(fd, 0666);
    fchown(fd, USER, USER);
    close(fd);
    fd = open("/tmp/shared", O_RDWR | O_CREAT, 0666);
    fchmod(fd, 0666);
    close(fd);
    silent_holder();
    killed();
    thousand();
    at_once();
    ends("who has all", as_user(USER, all_of_a_user, 0), 0);
    ends("who tells a group", as_user(USER, tells_a_group, SIGRTMIN + 1), 0);
    ends("who forges", as_user(USER, forges, getpid()), 0);
    notes_of_others();
    if (!failed) printf("passed\n");
    return failed;
}
