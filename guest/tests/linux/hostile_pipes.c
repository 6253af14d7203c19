// What a user may do with pipes that it shares with others, and with those of others: no more than read
// what is to be read and write what it writes itself, also by requests that no library would send.
//
// build: gcc
// cores: 4
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <dirent.h>
#include <sys/mman.h>

enum { USER = 1000, OTHER = 1001, SECRET = 0x53, PIECE = 5000 };

static int failures;
static void check(const char *what, long got, long expected) {
    if (got != expected) printf("FAILED: %s: %ld, not %ld\n", what, got, expected), failures++;
}

static void become(uid_t user) { setresgid(user, user, user), setresuid(user, user, user); }

static long write_raw(unsigned desc, int byte, int count) {
    static char text[8192];
    memset(text, byte, count);
    text[count] = 0;
    return REQUEST(OP_WRITE, text, desc);
}

static unsigned reading, writing;

// A request that lends so many bytes and says that there are `said`: it answers 0, that `count` were copied, and that
// there should have been more.
static void lends(const char *what, unsigned op, unsigned long bits, const void *address, unsigned long bytes,
                  unsigned long said, unsigned long count) {
    unsigned desc = op == OP_PIPE_READ ? reading : writing;
    check(what, LENDING(bits, op, address, bytes, desc, said, 0), 0);
    check(what, raw_results[1], count);
    check(what, raw_results[2], count < said);
}

// What is in the pipe, no more than fits the data area: so many bytes, all the same.
static void holds(const char *what, int byte, unsigned long count) {
    check(what, REQUEST(OP_READ, NULL, reading, 20000), 0);
    check(what, raw_results[1], count);
    for (unsigned long i = 0; i < count; i++)
        if (((unsigned char *)RAW_DATA)[i] != byte) return check(what, i, count);
}

// Nowhere is there anything to be had, or to be written to.
static void nowhere(unsigned op, unsigned long bits) {
    static const unsigned long places[] = {0, 8, 0x10000, 1ul << 46, 1ul << 47, 0xffff800000000000, 0xffff888000000000,
                                           0xffffffff80000000, 0xffffffff80200000, -4096ul, -8ul, -1ul};
    for (int i = 0; i < (int)(sizeof places / sizeof *places); i++)
        for (int j = 0; j < 3; j++) {
            unsigned long bytes = (unsigned long[]){PIECE, 1ul << 47, -1ul}[j];
            lends("nowhere", op, bits, (void *)places[i], bytes, PIECE, 0);
        }
}

static void lies(void) {
    static unsigned char page[3 * 4096] __attribute__((aligned(4096)));
    memset(page, 'a', sizeof page);
    check("reads from the end that is written", LENDING(LENDS_WRITE, OP_PIPE_READ, page, PIECE, writing, PIECE, 1), EBADF);
    check("writes to the end that is read", LENDING(LENDS_READ, OP_PIPE_WRITE, page, PIECE, reading, PIECE), EBADF);
    lends("lends nothing", OP_PIPE_WRITE, 0, page, PIECE, PIECE, 0);
    lends("lends to be written to only", OP_PIPE_WRITE, LENDS_WRITE, page, PIECE, PIECE, 0);
    nowhere(OP_PIPE_WRITE, LENDS_READ);
    lends("less than it says", OP_PIPE_WRITE, LENDS_READ, page, 100, PIECE, 100);
    holds("less than it says", 'a', 100);
    lends("very much", OP_PIPE_WRITE, LENDS_READ, page, 200, -1ul, 200);
    holds("very much", 'a', 200);
    munmap(page + 4096, 4096);
    lends("up to a hole", OP_PIPE_WRITE, LENDS_READ, page, sizeof page, sizeof page, 4096);
    holds("up to a hole", 'a', 4096);
    // There is something to be read, and nowhere to put it: nothing of it is lost.
    write_raw(writing, SECRET, PIECE);
    lends("no place", OP_PIPE_READ, 0, page, PIECE, PIECE, 0);
    lends("a place to be read", OP_PIPE_READ, LENDS_READ, page, PIECE, PIECE, 0);
    nowhere(OP_PIPE_READ, LENDS_WRITE);
    lends("its text", OP_PIPE_READ, LENDS_WRITE, (void *)((unsigned long)lies & -4096ul), PIECE, PIECE, 0);
    lends("a little place", OP_PIPE_READ, LENDS_WRITE, page, 10, PIECE, 10);
    check("a little place", page[9] == SECRET && page[10] == 'a', 1);
    mprotect(page + 8192, 4096, PROT_READ);
    lends("a place to be read only", OP_PIPE_READ, LENDS_WRITE, page + 8192, 100, 100, 0);
    check("a place to be read only", page[8192], 'a');
    // The page is shared with a child until it is written to.
    pid_t pid = fork();
    if (pid == 0) pause();
    lends("what a child has, too", OP_PIPE_READ, LENDS_WRITE, page, 100, 100, 0);
    check("what a child has, too", page[20], 'a');
    kill(pid, SIGKILL), waitpid(pid, NULL, 0);
    holds("what is left", SECRET, PIECE - 10);
}

// The kernel copies for whoever has been called, and for nobody else.
static void invokes(void) {
    static char bytes[100];
    unsigned long word = (unsigned long)bytes;
    enum { CALLER = 0xffffffff, COPY_FROM_CALLER = 52, COPY_TO_CALLER, COPY_BETWEEN };
    for (int op = COPY_FROM_CALLER; op <= COPY_BETWEEN; op++) {
        check("copies of an endpoint", INVOKE(op, UNIXD, 0, word, 8) != 0, 1);
        check("copies of nothing", INVOKE(op, 250, 0, word, 8) != 0, 1);
        check("copies of its own", INVOKE(op, 2, 0, op == COPY_BETWEEN ? 2 : word, op == COPY_BETWEEN ? 0 : 8, 8) != 0, 1);
    }
}

static void alone(void) {
    become(USER);
    check("pipe", REQUEST(OP_PIPE, NULL, 0), 0);
    reading = raw_results[1], writing = raw_results[2];
    lies();
    invokes();
}

// Another user writes to a pipe, lends much and is killed with what is left; or asks for bytes and never takes them.
static void killed(void) {
    int ends[2];
    enum { MUCH = 1 << 20 };
    for (int i = 0; i < 20; i++) {
        pipe(ends);
        pid_t pid = fork();
        if (pid == 0) {
            become(USER);
            char *much = malloc(MUCH);
            memset(much, 'b', MUCH);
            if (i & 1) write(ends[1], much, MUCH);
            else read(ends[0], much, MUCH);
            _exit(0);
        }
        usleep(1000 + 500 * i);
        static char text[MUCH];
        ssize_t n = i & 1 ? read(ends[0], text, 10000) : 0, rest;
        kill(pid, SIGKILL), waitpid(pid, NULL, 0);
        close(ends[1]);
        while ((rest = read(ends[0], text + n, MUCH - n)) > 0) n += rest;
        int bad = 0;
        for (int j = 0; j < n; j++) bad += text[j] != 'b';
        check("bytes of one that was killed", bad, 0);
        check("how many", n <= MUCH, 1);
        close(ends[0]);
    }
}

static void in_child(void (*part)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        failures = 0;
        part();
        _exit(failures != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    check("the user's process", status, 0);
}

// Pipes and files of a process of root, and of another user, by its folder in /proc.
static void by_proc(pid_t victim, int pipe_fd, int file_fd, uid_t user) {
    char path[64], text[64];
    become(user);
    int fds[] = {pipe_fd, file_fd, 0};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", victim, fds[i]);
        for (int mode = O_RDONLY; mode <= O_RDWR; mode++)
            check(path, open(path, mode | O_NONBLOCK) == -1 ? errno : 0, EACCES);
        check("readlink", readlink(path, text, sizeof text) == -1 ? errno : 0, EACCES);
        struct stat stat_;
        check("stat", stat(path, &stat_) == -1 ? errno : 0, EACCES);
        check("execute", execl(path, path, NULL) == -1 ? errno : 0, EACCES);
    }
    snprintf(path, sizeof path, "/proc/%d/fd", victim);
    check("its folder", opendir(path) == NULL ? errno : 0, EACCES);
    static const char *const links[] = {"cwd", "root", "exe"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", victim, links[i]);
        check(path, readlink(path, text, sizeof text) == -1 ? errno : 0, EACCES);
        check(path, open(path, O_RDONLY) == -1 ? errno : 0, EACCES);
        check(path, chdir(path) == -1 ? errno : 0, EACCES);
    }
}

static void proc(uid_t victim_user, uid_t user) {
    int ends[2], ready[2];
    pipe(ready);
    pid_t victim = fork();
    if (victim == 0) {
        become(victim_user);
        chdir("/tmp");
        pipe(ends);
        int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        write(ready[1], (int[]){ends[0], file}, 2 * sizeof(int));
        for (;;) pause();
    }
    int fds[2];
    read(ready[0], fds, sizeof fds);
    close(ready[0]), close(ready[1]);
    pid_t hostile = fork();
    if (hostile == 0) {
        failures = 0;
        by_proc(victim, fds[0], fds[1], user);
        fflush(stdout);
        _exit(failures != 0);
    }
    int status;
    waitpid(hostile, &status, 0);
    check("hostile", status, 0);
    // Its own user and the administrator may.
    hostile = fork();
    if (hostile == 0) {
        if (victim_user) become(victim_user);
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", victim, fds[0]);
        // Whoever changed its user hides from it, as on Linux.
        _exit(victim_user ? 0 : open(path, O_RDONLY | O_NONBLOCK) == -1);
    }
    waitpid(hostile, &status, 0);
    check("friendly", status, 0);
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    in_child(alone);
    in_child(killed);
    proc(0, USER);
    proc(OTHER, USER);
    if (!failures) printf("passed\n");
    return 0;
}
