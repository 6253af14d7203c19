// vfork and posix_spawn: one memory, two processes, and the parent waits.
// oracle: linux
#include "test.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;
static volatile int shared, caught;
static char *volatile memory;

static void handler(int signal) { caught += signal == SIGUSR1; }

static int waited(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// What the child writes, the parent reads; what else it changes is its own.
static void share(void) {
    pid_t child = vfork();
    if (!child) {
        shared = 7;
        close(0);
        chdir("/");
        signal(SIGUSR2, SIG_IGN);
        execl("/proc/self/exe", "vfork", "child", "of exec", NULL);
        _exit(99);
    }
    SHOW(waited(child));
    SHOW(shared);
    SHOW(fcntl(0, F_GETFD));
    CHECK(signal(SIGUSR2, SIG_DFL) == SIG_DFL);
    child = vfork();
    if (!child) {
        execl("/nonexistent", "x", NULL);
        shared = errno;
        _exit(3);
    }
    SHOW(waited(child));
    CHECK(shared == ENOENT);
    child = vfork();
    if (!child) {
        memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        strcpy(memory, "from the child");
        _exit(0);
    }
    SHOW(waited(child));
    puts(memory);
}

// A child that dies takes only itself.
static void die(void) {
    pid_t child = vfork();
    if (!child) kill(getpid(), SIGKILL);
    SHOW(waited(child));
    child = vfork();
    if (!child) *(volatile char *)16 = 1;
    SHOW(waited(child));
    child = vfork();
    if (!child) kill(getpid(), SIGTERM);
    SHOW(waited(child));
}

// A signal for the parent waits until it is itself again.
static void signals(void) {
    signal(SIGUSR1, handler);
    pid_t child = vfork();
    if (!child) {
        kill(getppid(), SIGUSR1);
        _exit(10 + caught);
    }
    SHOW(caught);
    SHOW(waited(child));
    child = vfork();
    if (!child) {
        kill(getpid(), SIGUSR1);
        _exit(10 + caught);
    }
    SHOW(waited(child));
}

// Children of the child, by both calls.
static void nested(void) {
    pid_t child = vfork();
    if (!child) {
        pid_t own = fork();
        if (!own) _exit(4);
        int first = waited(own) >> 8;
        own = vfork();
        if (!own) _exit(6);
        _exit(10 * first + (waited(own) >> 8));
    }
    SHOW(waited(child) >> 8);
}

// Files that the child opens and closes are not the parent's, and mappings stay.
static void files(void) {
    int file = open("file", O_RDWR | O_CREAT, 0600);
    SHOW(write(file, "mapped", 6));
    char *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    int ends[2];
    SHOW(pipe(ends));
    pid_t child = vfork();
    if (!child) {
        int other = open("other", O_RDWR | O_CREAT, 0600);
        write(other, "x", 1);
        write(ends[1], "through", 7);
        close(ends[0]), close(ends[1]), close(file);
        _exit(mapped[0]);
    }
    SHOW(waited(child) >> 8);
    char text[8] = "";
    SHOW(read(ends[0], text, 7));
    puts(text);
    SHOW(lseek(file, 0, SEEK_END));
    SHOW(munmap(mapped, 4096));
    SHOW(close(file));
    SHOW(open("other", O_RDONLY));
}

static void spawned(void) {
    pid_t child = -1;
    char *arguments[] = {"vfork", "child", "of posix_spawn", NULL};
    SHOW(posix_spawn(&child, "/nonexistent", NULL, NULL, arguments, environ));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 1, 9);
    posix_spawn_file_actions_addclose(&actions, 0);
    int error = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ);
    SHOW(waited(child));
    SHOW(error);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 2) {
        int zero = fcntl(0, F_GETFD), nine = fcntl(9, F_GETFD);
        printf("%s %s: %d %d\n", arguments[1], arguments[2], zero, nine);
        return 5;
    }
    share();
    die();
    signals();
    nested();
    files();
    spawned();
    return 0;
}
