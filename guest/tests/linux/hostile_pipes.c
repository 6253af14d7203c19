// What a user may do with pipes that it shares with others, and with those of others: no more than read
// what is to be read and write what it writes itself, also by requests that no library would send.
//
// build: gcc
// timeout: 60
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <dirent.h>
#include <setjmp.h>

enum { USER = 1000, OTHER = 1001, GOT = 1, TABLE = 2, MAPPINGS = 3, SECRET = 0x53 };
// The library's second-level table; an entry of it that nothing uses.
enum { LIBRARY_PD = 26, FREE_ENTRY = 300, RING = 65536 };
#define SHOWN ((volatile unsigned char *)(0x7fffc0000000ul + FREE_ENTRY * 0x200000ul))

static int failures;
static void check(const char *what, long got, long expected) {
    if (got != expected) printf("FAILED: %s: %ld, not %ld\n", what, got, expected), failures++;
}

static void become(uid_t user) { setresgid(user, user, user), setresuid(user, user, user); }

static int make_table(void) {
    unsigned long ram = own(RAW_NODE, 20);
    return raw_make_node() && raw_make_ram(ram, 4096) && !INVOKE(RETYPE, ram, PT, 0, 4096, 1, own(RAW_NODE, TABLE)) &&
           !INVOKE(MAP, LIBRARY_PD, FREE_ENTRY, 1, own(RAW_NODE, TABLE), 0, 7, own(RAW_NODE, MAPPINGS));
}

// Asks for the ring of a description and maps it. Answers what could be had: 1 read, 2 write.
static int get_ring(unsigned desc) {
    unsigned long slot = own(RAW_NODE, GOT), mapping = own(RAW_NODE, MAPPINGS + 1);
    INVOKE(DELETE, mapping, 0), INVOKE(DELETE, slot, 0);
    REQUEST_CAPS(OP_PIPE_RING, NULL, slot, desc);
    if (!INVOKE(MAP, own(RAW_NODE, TABLE), 0, RING / 4096, slot, 0, 3, mapping)) return 3;
    if (!INVOKE(MAP, own(RAW_NODE, TABLE), 0, RING / 4096, slot, 0, 1, mapping)) return 1;
    return 0;
}

static sigjmp_buf away;
static void on_fault(int signal) { (void)signal, siglongjmp(away, 1); }

// Does what is (still) mapped show the secret?
static int sees(void) {
    signal(SIGSEGV, on_fault), signal(SIGBUS, on_fault);
    if (sigsetjmp(away, 1)) return 0;
    for (int i = 0; i < RING; i++)
        if (SHOWN[i] == SECRET) return 1;
    return 0;
}

static long write_raw(unsigned desc, int byte, int count) {
    static char text[8192];
    memset(text, byte, count);
    text[count] = 0;
    return REQUEST(OP_WRITE, text, desc);
}

// The child waits for the parent and the other way round.
static int to_child[2], to_parent[2];
static void tell(int fd) { write(fd, "", 1); }
static void await(int fd) { char byte; read(fd, &byte, 1); }

static void child_writes(unsigned reading, unsigned writing) {
    become(USER);
    if (!make_table()) { printf("FAILED: no table\n"); failures++; return; }
    // What root has written before.
    check("a writer's ring with what another wrote", get_ring(writing), 0);
    tell(to_parent[1]), await(to_child[0]);
    // It is empty now, so it may be had; then others write.
    int rights = get_ring(writing);
    check("a writer's ring, at once", rights == 3 || rights == 0, 1);
    check("sees what was read", sees(), 0);
    tell(to_parent[1]), await(to_child[0]);
    check("sees what another writes", sees(), 0);
    check("may put without a ring", REQUEST(OP_PIPE_PUT, NULL, writing, 0, 5000) != 0, 1);
    check("gets it again", get_ring(writing), 0);
    check("takes from the end that is written", REQUEST(OP_PIPE_TAKE, NULL, writing, 0, 10), EBADF);
    (void)reading;
}

static void child_reads(unsigned reading, unsigned writing) {
    become(USER);
    if (!make_table()) { printf("FAILED: no table\n"); failures++; return; }
    check("a reader's ring", get_ring(reading), 1);
    check("puts to the end that is read", REQUEST(OP_PIPE_PUT, NULL, reading, 0, 10), EBADF);
    check("writes to it", REQUEST(OP_WRITE, "x", reading), EBADF);
    tell(to_parent[1]), await(to_child[0]);
    // Root has read what came then.
    check("sees what another has read", sees(), 0);
    check("may take without a ring", REQUEST(OP_PIPE_TAKE, NULL, reading, 0, 5000) != 0, 1);
    (void)writing;
}

static void shared(void (*child)(unsigned, unsigned), void (*parent)(unsigned, unsigned)) {
    pipe(to_child), pipe(to_parent);
    check("pipe", REQUEST(OP_PIPE, NULL, 0), 0);
    unsigned reading = raw_results[1], writing = raw_results[2];
    if (child == child_writes) check("write", write_raw(writing, SECRET, 5000), 0);
    pid_t pid = fork();
    if (pid == 0) {
        failures = 0;
        child(reading, writing);
        _exit(failures != 0);
    }
    await(to_parent[0]);
    parent(reading, writing);
    int status;
    waitpid(pid, &status, 0);
    check("the user's process", status, 0);
}

static void parent_writes(unsigned reading, unsigned writing) {
    check("read", REQUEST(OP_READ, NULL, reading, 8000), 0);
    tell(to_child[1]), await(to_parent[0]);
    check("write", write_raw(writing, SECRET, 6000), 0);
    check("its first byte", *(unsigned char *)RAW_DATA, SECRET);
    tell(to_child[1]);
}

static void parent_reads(unsigned reading, unsigned writing) {
    check("write", write_raw(writing, SECRET, 7000), 0);
    check("read", REQUEST(OP_READ, NULL, reading, 6900), 0);
    tell(to_child[1]);
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
    shared(child_writes, parent_writes);
    shared(child_reads, parent_reads);
    proc(0, USER);
    proc(OTHER, USER);
    if (!failures) printf("passed\n");
    return 0;
}
