// Programs, stacks, heaps and mappings are at other places in each program that is executed; in a child as in its parent, and always
// at the same ones for who asks for that by `personality`.
// build: pie
// kernel: randmaps
// oracle: linux
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 24, KINDS = 5 };
static const char *const names[KINDS] = {"program", "stack", "heap", "mapping", "arguments"};
static int data;

static void places(uintptr_t *at, char **argv) {
    char here;
    char *mapping = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at[0] = (uintptr_t)&data, at[1] = (uintptr_t)&here, at[2] = (uintptr_t)sbrk(0), at[3] = (uintptr_t)mapping, at[4] = (uintptr_t)argv[0];
    munmap(mapping, 4096);
}
// Does /proc/self/maps say what is there?
static int named(const char *name, uintptr_t at) {
    char line[256];
    int found = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (strstr(line, name) && sscanf(line, "%lx-%lx", &from, &to) == 2) found |= at >= from && at <= to;
    }
    if (f) fclose(f);
    return found;
}

static int distinct(uintptr_t all[TIMES][KINDS], int kind) {
    int n = 0;
    for (int i = 0; i < TIMES; i++) {
        int again = 0;
        for (int k = 0; k < i; k++) again |= all[k][kind] == all[i][kind];
        n += !again;
    }
    return n;
}
static void execute(const char *how, uintptr_t *at) {
    int ends[2];
    if (pipe(ends)) exit(1);
    pid_t pid = fork();
    if (!pid) {
        if (!strcmp(how, "fixed")) personality(personality(0xffffffff) | ADDR_NO_RANDOMIZE);
        dup2(ends[1], 1);
        execl("/proc/self/exe", "randomized", how, (char *)0);
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], at, KINDS * sizeof *at) != KINDS * sizeof *at) printf("short\n");
    close(ends[0]);
    waitpid(pid, 0, 0);
}

int main(int argc, char **argv) {
    uintptr_t own[KINDS], other[KINDS], all[TIMES][KINDS];
    places(own, argv);
    if (argc > 1) {
        // A child is as its parent, and says so only if it is not.
        pid_t pid = fork();
        if (!pid) {
            places(other, argv);
            _exit(memcmp(own, other, sizeof own) != 0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (status || !named("[stack]", own[1]) || !named("[heap]", own[2])) own[0] = 0;
        return write(1, own, sizeof own) != sizeof own;
    }
    char how[8] = "";
    int fd = open("/proc/sys/kernel/randomize_va_space", O_RDONLY);
    if (read(fd, how, sizeof how - 1) < 0) printf("cannot be read\n");
    printf("randomize_va_space %s", how);
    for (int i = 0; i < TIMES; i++) execute("random", all[i]);
    for (int kind = 0; kind < KINDS; kind++) {
        int zero = 0;
        for (int i = 0; i < TIMES; i++) zero |= !all[i][kind];
        printf("%s: %s%s\n", names[kind], distinct(all, kind) > TIMES - 3 ? "random" : "not random", zero ? ", and something is wrong" : "");
    }
    for (int i = 0; i < TIMES; i++) execute("fixed", all[i]);
    for (int kind = 0; kind < KINDS; kind++) printf("%s: %d\n", names[kind], distinct(all, kind));
    // The stack goes on as far down as it may, and is no other mapping's.
    for (int i = 0; i < 8; i++) {
        execute("random", all[i]);
        if (all[i][3] > all[i][1]) printf("a mapping above the stack\n");
    }
}
