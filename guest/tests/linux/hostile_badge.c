// A user keeps what a process was given that has ended: its endpoint to the server, and the memory that
// it shared with it, also mapped. Then ids come again: a process of root gets the id of the one that
// has ended. Whoever kept its things must not act as it, nor see what it says to the server.
//
// The keeper is the parent of a vfork: the child acts in its parent's domain, so what the child copies
// stays there.
//
// build: gcc
// timeout: 240
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <setjmp.h>

enum { USER = 1000, KEPT_ENDPOINT = 1, KEPT_SESSION = 2, KEPT_TABLE = 3, KEPT_MAPPINGS = 4 };

// Slots of the library: its second-level table; an entry of that which nothing uses.
enum { LIBRARY_PD = 26, FREE_ENTRY = 300 };
#define MAPPED ((volatile uint32_t *)(0x7fffc0000000ul + FREE_ENTRY * 0x200000ul))

static struct shared { volatile int kept, checked, accepted, seen; } *shared;
static sigjmp_buf away;

static void on_fault(int signal) { (void)signal; siglongjmp(away, 1); }

// Can the memory of whoever uses the session frame now be read?
static int can_read_session(void) {
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    if (sigsetjmp(away, 1)) return 0;
    return MAPPED[0] != 0;
}

static void keep_everything(void) {
    INVOKE(COPY, UNIXD, own(RAW_NODE, KEPT_ENDPOINT));
    INVOKE(COPY, SESSION, own(RAW_NODE, KEPT_SESSION));
    INVOKE(MAP, own(RAW_NODE, KEPT_TABLE), 0, 4, own(RAW_NODE, KEPT_SESSION), 0, 1, own(RAW_NODE, KEPT_MAPPINGS + 1));
    // At another core, nothing stays mapped of which that core has no capability any more; not for the library either.
    if (raw_keeper() != UNIXD) return;
    // The mapping alone must not be enough.
    INVOKE(DELETE, own(RAW_NODE, KEPT_SESSION), 0);
    INVOKE(DELETE, SESSION, 0);
}

static void keeper(int go) {
    if (setuid(USER) || !raw_make_node()) _exit(1);
    unsigned long ram = own(RAW_NODE, 20);
    if (!raw_make_ram(ram, 4096)) _exit(2);
    if (INVOKE(RETYPE, ram, PT, 0, 4096, 1, own(RAW_NODE, KEPT_TABLE))) _exit(3);
    if (INVOKE(MAP, LIBRARY_PD, FREE_ENTRY, 1, own(RAW_NODE, KEPT_TABLE), 0, 7, own(RAW_NODE, KEPT_MAPPINGS)))
        _exit(4);
    pid_t child = vfork();
    if (child == 0) {
        keep_everything();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    shared->kept = child;
    // Until somebody else has that id.
    char byte;
    if (read(go, &byte, 1) != 1) _exit(5);
    int victim;
    if (read(go, &victim, sizeof victim) != sizeof victim) _exit(6);
    shared->seen = can_read_session();
    static const struct { int op; unsigned long words[5]; } tries[] = {
        {OP_GET_FLAGS, {1}}, {OP_SET_PGID, {0, 0}}, {OP_GET_PGID, {0}}, {OP_CPU_USAGE, {0}},
        {OP_FUTEX_COUNT, {0}}, {OP_SYSTEM_INFO, {0}}, {OP_EXIT, {0x700}},
    };
    unsigned long kill_words[5] = {victim, SIGKILL, 0, 0};
    int accepted = 0;
    accepted += raw_request_through(own(RAW_NODE, KEPT_ENDPOINT), OP_KILL, NULL, 0, kill_words) == 0;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        accepted += raw_request_through(own(RAW_NODE, KEPT_ENDPOINT), tries[i].op, NULL, 0, tries[i].words) == 0;
    shared->accepted = accepted;
    shared->checked = 1;
    _exit(0);
}

static pid_t sleeper(void) {
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    return pid;
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int go[2];
    pipe(go);
    // The lowest ids do not come again.
    for (int i = 0; i < 320; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        waitpid(pid, NULL, 0);
    }
    pid_t hostile = fork();
    if (hostile == 0) keeper(go[0]);
    for (int i = 0; i < 2000 && !shared->kept; i++) usleep(1000);
    pid_t wanted = shared->kept, victim = sleeper(), last = 0, same = 0;
    if (wanted == 0) printf("FAILED: nothing was kept\n");
    // Others come and go until the id comes again.
    for (int i = 0; wanted && i < 40000 && same == 0; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (getpid() == wanted)
                for (;;) pause();
            _exit(0);
        }
        if (pid == wanted) same = pid;
        else waitpid(pid, NULL, 0);
        last = pid;
    }
    if (wanted && !same) printf("FAILED: id %d did not come again; the last one was %d\n", wanted, last);
    write(go[1], "g", 1);
    write(go[1], &victim, sizeof victim);
    for (int i = 0; i < 5000 && !shared->checked; i++) usleep(1000);
    int failed = 0, status;
    if (!shared->checked) failed = 1, printf("FAILED: the keeper has not come to its end\n");
    if (shared->accepted) failed = 1, printf("FAILED: %d requests were accepted\n", shared->accepted);
    if (shared->seen) failed = 1, printf("FAILED: the session of another process is visible\n");
    if (waitpid(victim, &status, WNOHANG) != 0) failed = 1, printf("FAILED: the victim has ended\n");
    if (same && waitpid(same, &status, WNOHANG) != 0) failed = 1, printf("FAILED: its namesake has ended\n");
    kill(victim, SIGKILL);
    if (same) kill(same, SIGKILL);
    kill(hostile, SIGKILL);
    while (wait(NULL) > 0) continue;
    if (!failed && same) printf("passed\n");
    return 0;
}
