// Runs a program and says how it ended and what it took: the same binary on Tessera and on Linux.
//
//     measure STDIN PROG ARGS…
//
// Standard input is the file STDIN; standard output and error go to a file in memory each. What was
// written there comes to our standard output after the end, so the console costs the program
// nothing on either side: output, then errors, then a line
//
//     @measured status=S ticks=T idle=I ns=N in=P out=Q errors=E
//
// E is the number of bytes of the errors. P and Q are the pages that came in from a disk and left for it (-1 if the system does not say). S is the status that wait gave (or error=E, the errno of exec), T what the time-stamp counter went
// on by from before the fork to after the wait, I how much of that the processor was idle (-1 if
// the system does not say), N the same time in nanoseconds by CLOCK_MONOTONIC.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char output[] = "/run/output", errors[] = "/run/errors";

static void fail(const char *what) {
    printf("measure: %s: %s\n", what, strerror(errno));
    exit(1);
}

// The number after `name` in a file of the system's; -1 if there is none.
static long long number_in(const char *file, const char *name) {
    static char text[1 << 16];
    int from = open(file, O_RDONLY);
    if (from < 0) return -1;
    size_t length = 0;
    ssize_t now;
    while (length < sizeof text - 1 && (now = read(from, text + length, sizeof text - 1 - length)) > 0)
        length += now;
    close(from);
    text[length] = 0;
    char *at = strstr(text, name);
    if (at == NULL) return -1;
    at += strlen(name);
    return strtoll(at + strspn(at, " :"), NULL, 10);
}

// Ticks that the (first) processor has been idle. Linux says nanoseconds (`in_ns`), by a clock whose rate it has measured: where it waits
// for hours of the machine's time, as for a disk, a millionth that it is off by is more than all that was executed.
static int in_ns;
static long long idle(void) {
    long long ticks = number_in("/proc/tessera/counters", "idle_ticks");
    if (ticks >= 0) return ticks;
    // Linux counts the time in which somebody waits for a disk by itself.
    long long idle = number_in("/proc/timer_list", ".idle_sleeptime");
    long long waiting = number_in("/proc/timer_list", ".iowait_sleeptime");
    in_ns = 1;
    return idle < 0 || waiting < 0 ? -1 : idle + waiting;
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

// In the child; does not come back.
static void become(const char *input, char **program, int failed) {
    int from = open(input, O_RDONLY);
    int to = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    int complain = open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (from >= 0 && to >= 0 && complain >= 0) {
        dup2(from, 0);
        dup2(to, 1);
        dup2(complain, 2);
        close(from);
        close(to);
        close(complain);
        execvp(program[0], program);
    }
    int error = errno;
    write(failed, &error, sizeof error);
    _exit(127);
}

// Copies a file to our standard output; how many bytes it has.
static size_t show(const char *file) {
    static char piece[1 << 16];
    int from = open(file, O_RDONLY);
    size_t all = 0;
    ssize_t now;
    while (from >= 0 && (now = read(from, piece, sizeof piece)) > 0) {
        if (fwrite(piece, 1, now, stdout) != (size_t)now) fail("write");
        all += now;
    }
    return all;
}

int main(int count, char **arguments) {
    int failed[2];
    if (count < 3) return 2;
    if (pipe2(failed, O_CLOEXEC)) fail("pipe");
    long long in_before = number_in("/proc/vmstat", "pswpin ");
    long long out_before = number_in("/proc/vmstat", "pswpout ");
    long long idle_before = idle();
    uint64_t ns = nanoseconds(), ticks = __builtin_ia32_rdtsc();
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) become(arguments[1], arguments + 2, failed[1]);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail("waitpid");
    ticks = __builtin_ia32_rdtsc() - ticks;
    ns = nanoseconds() - ns;
    long long idle_after = idle();
    long long in = number_in("/proc/vmstat", "pswpin "), out = number_in("/proc/vmstat", "pswpout ");
    long long idled = idle_before < 0 ? -1 : idle_after - idle_before;
    // The same interval by both clocks says how many ticks a nanosecond of that clock has.
    if (in_ns && idled > 0 && ns > 0) idled = (long double)idled * ticks / ns;
    if (in_before >= 0) in -= in_before;
    if (out_before >= 0) out -= out_before;
    int error = 0;
    close(failed[1]);
    read(failed[0], &error, sizeof error);
    show(output);
    size_t complaints = show(errors);
    if (error)
        printf("\n@measured error=%d\n", error);
    else
        printf("\n@measured status=%d ticks=%llu idle=%lld ns=%llu in=%lld out=%lld errors=%zu\n", status,
               (unsigned long long)ticks, idled,
               (unsigned long long)ns, in, out, complaints);
    return fflush(stdout) ? 1 : 0;
}
