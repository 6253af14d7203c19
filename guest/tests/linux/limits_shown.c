// /proc/PID/limits shows the limits that hold: of the size of files, processor time and threads not what the
// process says, but what its server enforces.
//
// build: gcc
// oracle: linux
#include "raw.h"
#include "test.h"
#include <sys/resource.h>

enum { SOFT = 23456, HARD = 34567 };

static void show(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "cpu time") || strstr(line, "Max file size") || strstr(line, "processes")) printf("%s", line);
    if (file) fclose(file);
    else perror(path);
}

// Has the process's own word for it say something else. How many words there were.
static int lie(void) {
    uint64_t *words = (uint64_t *)RAW_SESSION;
    int found = 0;
    for (int at = 0; at + 1 < 4096 / 8; at++)
        if (words[at] == SOFT && words[at + 1] == HARD) words[at] = words[at + 1] = ~0ull, found++;
    return found;
}

int main(void) {
    int is_tessera = access("/proc/tessera", F_OK) == 0;
    const int all[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NPROC};
    struct rlimit limit = {SOFT, HARD};
    for (int i = 0; i < 3; i++) SHOW(setrlimit(all[i], &limit));
    show(getpid());
    int ends[2];
    SHOW(pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        struct rlimit less = {SOFT - 1, HARD - 1};
        setrlimit(RLIMIT_FSIZE, &less);
        write(ends[1], "", 1);
        pause();
    }
    char byte;
    SHOW(read(ends[0], &byte, 1));
    show(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%s\n", !is_tessera || lie() == 3 ? "said otherwise" : "the words were not found");
    show(getpid());
}
