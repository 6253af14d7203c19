// Limits that hold: the size of files, processor time, locked memory, threads of a user; and a stack
// without one.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <time.h>

enum { USER = 1000, OTHER_USER = 1007 };

static volatile sig_atomic_t got[65];
static void on_signal(int signal) { got[signal]++; }

static int set(int which, rlim_t soft, rlim_t hard) {
    struct rlimit limit = {soft, hard};
    return setrlimit(which, &limit);
}

static void become(uid_t user) { setresgid(user, user, user), setresuid(user, user, user); }

static void sizes(void) {
    static char text[20000];
    become(USER);
    signal(SIGXFSZ, on_signal);
    SHOW(set(RLIMIT_FSIZE, 10000, 20000));
    int fd = open("/tmp/limited", O_CREAT | O_RDWR | O_TRUNC, 0600);
    SHOW(write(fd, text, 9000));
    SHOW(write(fd, text, 5000));
    printf("signals %d\n", (int)got[SIGXFSZ]);
    SHOW(write(fd, text, 1));
    printf("signals %d\n", (int)got[SIGXFSZ]);
    SHOW(pwrite(fd, text, 10, 9995));
    SHOW(pwrite(fd, text, 10, 10000));
    SHOW(pwrite(fd, text, 10, 30000));
    SHOW(write(fd, text, 0));
    SHOW(ftruncate(fd, 10000));
    SHOW(ftruncate(fd, 10001));
    SHOW(truncate("/tmp/limited", 10001));
    SHOW(posix_fallocate(fd, 9990, 20));
    SHOW(ftruncate(fd, 5));
    printf("signals %d\n", (int)got[SIGXFSZ]);
    close(fd);
    // Also where the file is only written, large and small, and appended to.
    fd = open("/tmp/limited", O_WRONLY | O_APPEND);
    SHOW(write(fd, text, 20000));
    SHOW(write(fd, text, 20000));
    SHOW(write(fd, text, 2));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);
    printf("signals %d\n", (int)got[SIGXFSZ]);
    int ends[2];
    pipe(ends);
    SHOW(write(ends[1], text, 20000));
    // A child has the limit, too; none gets around it.
    signal(SIGXFSZ, SIG_DFL);
    IN_CHILD("child", { int own = open("/tmp/limited", O_WRONLY); lseek(own, 10000, SEEK_SET); write(own, text, 1); });
    signal(SIGXFSZ, SIG_IGN);
    IN_CHILD("ignored", { int own = open("/tmp/limited", O_WRONLY); SHOW(pwrite(own, text, 1, 10000)); });
    SHOW(set(RLIMIT_FSIZE, 15000, 20000));
    SHOW(set(RLIMIT_FSIZE, 15000, 20001));
    SHOW(set(RLIMIT_FSIZE, 15001, 15000));
    SHOW(set(RLIMIT_FSIZE, 15000, 15000));
    SHOW(set(RLIMIT_FSIZE, 15000, RLIM_INFINITY));
    fd = open("/tmp/limited", O_WRONLY);
    SHOW(pwrite(fd, text, 20000, 0));
    close(fd);
    SHOW(unlink("/tmp/limited"));
}

static long cpu_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void spin_until(long ms) {
    while (cpu_ms() < ms) continue;
}

static void processor(void) {
    become(USER);
    IN_CHILD("by default", { set(RLIMIT_CPU, 1, 5); spin_until(4000); });
    IN_CHILD("at the hard one", {
        signal(SIGXCPU, on_signal);
        set(RLIMIT_CPU, 1, 2);
        spin_until(1800);
        printf("told %s\n", got[SIGXCPU] == 1 ? "once" : "otherwise");
        fflush(stdout);
        spin_until(6000);
    });
    IN_CHILD("that waits", { set(RLIMIT_CPU, 1, 1); usleep(1500000); });
    IN_CHILD("of its parent", {
        set(RLIMIT_CPU, 1, 1);
        IN_CHILD("of a child", spin_until(4000));
        printf("the parent lives\n");
    });
    IN_CHILD("that is taken back", { set(RLIMIT_CPU, 1, 10); set(RLIMIT_CPU, 10, 10); spin_until(1300); });
}

static void locked(void) {
    char *memory = pages(64, PROT_READ | PROT_WRITE);
    SHOW(set(RLIMIT_MEMLOCK, 16 * PAGE, 32 * PAGE));
    SHOW(mlock(memory, 64 * PAGE));
    SHOW(munlock(memory, 64 * PAGE));
    become(USER);
    SHOW(mlock(memory, 16 * PAGE));
    SHOW(mlock(memory, 16 * PAGE));
    SHOW(mlock(memory + 16 * PAGE, 1));
    SHOW(munlock(memory, PAGE));
    SHOW(mlock(memory + 16 * PAGE, 1));
    SHOW(mlock2(memory + 20 * PAGE, PAGE, 1 /* MLOCK_ONFAULT */));
    SHOW(mlockall(MCL_CURRENT));
    SHOW(munlock(memory, 64 * PAGE));
    SHOW(set(RLIMIT_MEMLOCK, 0, 32 * PAGE));
    SHOW(mlock(memory, 1));
    SHOW(mlockall(MCL_FUTURE));
    SHOW(set(RLIMIT_MEMLOCK, 0, 33 * PAGE));
}

static void *wait_for_end(void *argument) { return pause(), argument; }

// Forks until that fails; ends the children, but only the first `waited` of them are waited for.
static int forks(int waited) {
    pid_t all[16];
    int count = 0, error = 0;
    for (; count < 16; count++) {
        all[count] = fork();
        if (all[count] < 0) break;
        if (all[count] == 0) pause(), _exit(0);
    }
    if (count < 16) error = errno;
    for (int i = 0; i < count; i++) kill(all[i], SIGKILL);
    for (int i = 0; i < count; i++) {
        siginfo_t info;
        waitid(P_PID, all[i], &info, WEXITED | (i < waited ? 0 : WNOWAIT));
    }
    printf("%d forks, errno %d\n", count, error);
    return count;
}

static void processes(void) {
    // The administrator is not limited.
    set(RLIMIT_NPROC, 5, 8);
    forks(16);
    become(OTHER_USER);
    forks(16);
    SHOW(set(RLIMIT_NPROC, 5, 9));
    SHOW(set(RLIMIT_NPROC, 8, 8));
    // Those that ended count until somebody has waited for them.
    forks(3);
    forks(16);
    while (waitpid(-1, NULL, 0) > 0) {}
    forks(16);
    // So do threads.
    pthread_t thread;
    for (int i = 0; i < 9; i++) {
        int error = pthread_create(&thread, NULL, wait_for_end, NULL);
        if (error) printf("thread %d: errno %d\n", i, error);
    }
    forks(16);
    SHOW(set(RLIMIT_NPROC, 0, 8));
    SHOW(vfork());
    // A program stays allowed, and what it may do.
    struct rlimit limit;
    getrlimit(RLIMIT_NPROC, &limit);
    printf("limit %d %d\n", (int)limit.rlim_cur, (int)limit.rlim_max);
}

static void stack(const char *self) {
    static const rlim_t limits[] = {RLIM_INFINITY, 1ul << 47, (1ul << 47) - 1, 1ul << 40, 1ul << 20};
    for (int i = 0; i < 5; i++)
        IN_CHILD("exec", {
            set(RLIMIT_STACK, limits[i], RLIM_INFINITY);
            execl("/proc/self/exe", self, "deep", NULL);
            _exit(99);
        });
}

static int deep(int depth) {
    volatile char frame[8192];
    frame[0] = (char)depth;
    return depth == 0 ? 0 : deep(depth - 1) + frame[0] - (char)depth;
}

int main(int argc, char **argv) {
    if (argc > 1) return deep(60);
    IN_CHILD("sizes", sizes());
    IN_CHILD("locked", locked());
    IN_CHILD("processes", processes());
    stack(argv[0]);
    IN_CHILD("processor", processor());
    return 0;
}
