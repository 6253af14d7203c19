// Runs a shell pipeline, and says between which two readings of the time-stamp counter it did, and
// how many of the ticks in between the processor was idle:
//
//     window FROM TO IDLE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

static const char *const pipeline[] = {
    "sh", "-c", "for i in 1 2 3; do cat /etc/passwd | sort | wc -l; done", NULL,
};

static unsigned long long idle(void) {
    static char text[1 << 14];
    FILE *counters = fopen("/proc/tessera/counters", "r");
    size_t length = counters ? fread(text, 1, sizeof text - 1, counters) : 0;
    text[length] = 0;
    char *at = strstr(text, "idle_ticks");
    if (at == NULL) exit(2);
    fclose(counters);
    return strtoull(at + strlen("idle_ticks"), NULL, 10);
}

int main(void) {
    unsigned long long idle_before = idle();
    uint64_t from = __rdtsc();
    pid_t child = fork();
    if (child == 0) {
        execvp(pipeline[0], (char *const *)pipeline);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    uint64_t to = __rdtsc();
    printf("window %llu %llu %llu\n", (unsigned long long)from, (unsigned long long)to,
           idle() - idle_before);
}
