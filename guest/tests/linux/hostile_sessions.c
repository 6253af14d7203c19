// What a process has exchanged with the server of files is not shown to the next process that gets the same
// memory for it: neither what the server wrote there (the target of a link) nor what the library did (a path).
//
// build: gcc
// expect-stdout: both are there while it runs\nnothing is left\n
#include "raw.h"
#include "test.h"

// The session frame (abi::layout, unixproto::session).
enum { BYTES = 16384, ROUNDS = 40 };
#define SESSION ((const char *)RAW_SESSION)

static char target[2001], path[1501];

// Is there a run of 64 bytes of `c` in this process's session frame?
static int shows(char c) {
    int run = 0;
    for (int at = 0; at < BYTES; at++) {
        run = SESSION[at] == c ? run + 1 : 0;
        if (run == 64) return 1;
    }
    return 0;
}

static int child(int (*what)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(what());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

// The path is there after `open`, the target after `readlink`.
static int exchange(void) {
    static char got[4096];
    int wrong = open(path, O_RDONLY) != -1;
    int theirs = shows('P');
    wrong |= readlink("/tmp/link", got, sizeof got) != sizeof target - 1;
    return wrong ? 3 : theirs && shows('S') ? 0 : 2;
}
static int look(void) { return shows('S') || shows('P'); }

int main(void) {
    memset(target, 'S', sizeof target - 1);
    memset(path, 'P', sizeof path - 1);
    for (int at = 0; at < (int)sizeof path - 1; at += 100) path[at] = '/';
    if (child(look)) printf("there already\n");
    // The parent's own session is not what is looked at.
    if (symlink(target, "/tmp/link")) printf("symlink: %s\n", strerror(errno));
    int there = 1, left = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int result = child(exchange);
        if (result) printf("round %d: %d\n", i, result), there = 0;
        for (int k = 0; k < 3; k++) left |= child(look);
    }
    if (there) printf("both are there while it runs\n");
    printf(left ? "something is left\n" : "nothing is left\n");
}
