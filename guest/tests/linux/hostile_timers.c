// A user sets timers so short that the server could do nothing else: by system calls, by requests of
// its own to the server. Others go on: they get their answers, and about in time.
//
// build: gcc, musl
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <sys/time.h>
#include <time.h>

enum { HOSTILE = 8, USER = 1000 };

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Timers of a microsecond and of a nanosecond, whose signals nobody wants, then nothing more.
static void attack(int raw) {
    static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF};
    for (int which = 0; which < 3; which++) {
        signal(signals[which], SIG_IGN);
        struct itimerval short_one = {{0, 1}, {0, 1}};
        if (!raw) setitimer(which, &short_one, NULL);
        else if (REQUEST(OP_SET_TIMER, NULL, which, 1, 1)) _exit(1);
    }
    for (;;) pause();
}

// What somebody else needs of the server: some hundred requests and a short sleep.
static int work(void) {
    struct stat file;
    for (int i = 0; i < 300; i++)
        if (stat("/", &file)) return 0;
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0x700;
}

int main(void) {
    int on_tessera = access("/proc/tessera", F_OK) == 0;
    pid_t hostile[HOSTILE];
    for (int i = 0; i < HOSTILE; i++) {
        hostile[i] = fork();
        if (hostile[i] == 0) {
            setuid(USER);
            attack(on_tessera && i % 2);
        }
    }
    usleep(50000);
    long start = milliseconds();
    int worked = 1;
    for (int i = 0; i < 20; i++) worked &= work();
    long took = milliseconds() - start;
    for (int i = 0; i < HOSTILE; i++) {
        int status = 0;
        kill(hostile[i], SIGKILL);
        waitpid(hostile[i], &status, 0);
        if (status != SIGKILL) printf("FAILED: number %d ended by itself: %#x\n", i, status);
    }
    // Twenty sleeps of 20 ms, and a slow machine.
    if (took > 15000) printf("FAILED: it took %ld ms\n", took);
    if (!worked) printf("FAILED: others were refused\n");
    else if (took <= 15000) printf("passed\n");
    return 0;
}
