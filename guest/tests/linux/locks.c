// Advisory locks: fcntl of processes and of descriptions, flock.
// oracle: linux
#include "test.h"
#include <signal.h>
#include <sys/file.h>

static int file;

static int set(int command, short type, off_t start, off_t len) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(file, command, &lock);
}

static void get(short type, off_t start, off_t len, pid_t expected) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    SHOW(fcntl(file, F_GETLK, &lock));
    if (lock.l_type == F_UNLCK) {
        printf("free\n");
        return;
    }
    printf("type %d from %ld, %ld bytes", lock.l_type, (long)lock.l_start, (long)lock.l_len);
    printf(" %s\n", lock.l_pid == expected ? "of the parent" : lock.l_pid == -1 ? "of nobody" : "?");
}

// Runs `child` in a process of its own, which ends before this goes on.
#define IN_CHILD(...)                  \
    do {                               \
        fflush(stdout);                \
        pid_t child_ = fork();         \
        if (!child_) {                 \
            __VA_ARGS__;               \
            fflush(stdout);            \
            _exit(0);                  \
        }                              \
        waitpid(child_, NULL, 0);      \
    } while (0)

static void ranges(void) {
    pid_t parent = getpid();
    SHOW(set(F_SETLK, F_WRLCK, 10, 20));
    SHOW(set(F_SETLK, F_RDLCK, 15, 5));
    IN_CHILD({
        get(F_WRLCK, 0, 10, parent);
        get(F_WRLCK, 0, 11, parent);
        get(F_RDLCK, 16, 2, parent);
        get(F_WRLCK, 16, 2, parent);
        SHOW(set(F_SETLK, F_WRLCK, 0, 10));
        SHOW(set(F_SETLK, F_RDLCK, 16, 2));
        SHOW(set(F_SETLK, F_WRLCK, 16, 2));
        SHOW(set(F_SETLK, F_WRLCK, 30, 0));
    });
    SHOW(set(F_SETLK, F_UNLCK, 12, 2));
    IN_CHILD({
        get(F_WRLCK, 12, 2, parent);
        get(F_WRLCK, 11, 2, parent);
        get(F_WRLCK, 13, 2, parent);
    });
    SHOW(set(F_SETLK, F_WRLCK, 0, 0));
    IN_CHILD(get(F_RDLCK, 1000, 1, parent));
    // Any descriptor of the file that is closed takes the locks with it.
    SHOW(close(dup(file)));
    IN_CHILD(get(F_WRLCK, 0, 0, parent));
    SHOW(set(F_SETLK, F_WRLCK, 0, 0));
    close(open("file", O_RDWR));
    IN_CHILD(get(F_WRLCK, 0, 0, parent));
}

static void errors(void) {
    struct flock lock = {.l_type = 7};
    SHOW(fcntl(file, F_SETLK, &lock));
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = 9};
    SHOW(fcntl(file, F_SETLK, &lock));
    lock = (struct flock){.l_type = F_WRLCK, .l_start = -5};
    SHOW(fcntl(file, F_SETLK, &lock));
    lock = (struct flock){.l_type = F_WRLCK, .l_start = 5, .l_len = -6};
    SHOW(fcntl(file, F_SETLK, &lock));
    SHOW(fcntl(file, F_SETLK, (void *)8));
    int readable = open("file", O_RDONLY);
    lock = (struct flock){.l_type = F_WRLCK};
    SHOW(fcntl(readable, F_SETLK, &lock));
    lock.l_type = F_RDLCK;
    SHOW(fcntl(readable, F_SETLK, &lock));
    SHOW(close(readable));
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -4, .l_len = 4};
    SHOW(fcntl(file, F_SETLK, &lock));
    IN_CHILD(get(F_WRLCK, 0, 0, getppid()));
    SHOW(set(F_SETLK, F_UNLCK, 0, 0));
}

// A child has no lock of its parent's: what that gives up while the child lives is free for others, and
// what the child unlocks stays its parent's.
static void inherited(void) {
    pid_t parent = getpid();
    int ends[2], back[2];
    char byte;
    CHECK(pipe(ends) == 0 && pipe(back) == 0);
    SHOW(set(F_SETLK, F_WRLCK, 0, 10));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(set(F_SETLK, F_UNLCK, 0, 0));
        get(F_WRLCK, 0, 10, parent);
        SHOW(set(F_SETLK, F_WRLCK, 0, 1));
        fflush(stdout);
        write(back[1], "u", 1);
        read(ends[0], &byte, 1);
        _exit(0);
    }
    CHECK(read(back[0], &byte, 1) == 1);
    SHOW(set(F_SETLK, F_UNLCK, 0, 0));
    get(F_WRLCK, 0, 0, parent);
    IN_CHILD(get(F_RDLCK, 0, 0, parent); SHOW(set(F_SETLK, F_WRLCK, 0, 0)));
    SHOW(set(F_SETLK, F_WRLCK, 0, 0));
    // One that only lives on.
    fflush(stdout);
    pid_t idle = fork();
    if (!idle) {
        read(ends[0], &byte, 1);
        _exit(0);
    }
    SHOW(set(F_SETLK, F_UNLCK, 0, 0));
    get(F_WRLCK, 0, 0, parent);
    IN_CHILD(SHOW(set(F_SETLK, F_WRLCK, 0, 0)));
    CHECK(write(ends[1], "ee", 2) == 2);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(waitpid(idle, &status, 0) == idle && status == 0);
    get(F_WRLCK, 0, 0, parent);
}

static void nothing(int signal) { (void)signal; }

// Somebody waits, gets the lock when it is free, and can be interrupted.
static void waiting(void) {
    int ends[2];
    SHOW(pipe(ends));
    SHOW(set(F_SETLK, F_WRLCK, 0, 1));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        int got = set(F_SETLKW, F_WRLCK, 0, 1);
        write(ends[1], "c", 1);
        _exit(got);
    }
    usleep(200000);
    write(ends[1], "p", 1);
    SHOW(set(F_SETLK, F_UNLCK, 0, 1));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    char text[3] = "";
    SHOW(read(ends[0], text, 2));
    puts(text);

    SHOW(set(F_SETLK, F_WRLCK, 0, 1));
    fflush(stdout);
    child = fork();
    if (!child) {
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = nothing}, NULL);
        alarm(1);
        SHOW(set(F_SETLKW, F_WRLCK, 0, 1));
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    // Each has one and waits for the other's: one of them is told.
    fflush(stdout);
    child = fork();
    if (!child) {
        set(F_SETLK, F_WRLCK, 1, 1);
        write(ends[1], "x", 1);
        set(F_SETLKW, F_WRLCK, 0, 1);
        _exit(0);
    }
    read(ends[0], text, 1);
    usleep(200000);
    SHOW(set(F_SETLKW, F_WRLCK, 1, 1));
    SHOW(set(F_SETLK, F_UNLCK, 0, 1));
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void descriptions(void) {
    int other = open("file", O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_len = 5};
    SHOW(fcntl(file, F_OFD_SETLK, &lock));
    SHOW(fcntl(other, F_OFD_SETLK, &lock));
    SHOW(fcntl(other, F_OFD_GETLK, &lock));
    printf("%d of %d\n", lock.l_type, lock.l_pid);
    lock = (struct flock){.l_type = F_WRLCK, .l_pid = 1};
    SHOW(fcntl(other, F_OFD_SETLK, &lock));
    SHOW(set(F_SETLK, F_WRLCK, 0, 1));
    lock = (struct flock){.l_type = F_UNLCK};
    SHOW(fcntl(file, F_OFD_SETLK, &lock));
    SHOW(close(other));

    other = open("file", O_RDWR);
    SHOW(flock(file, LOCK_EX));
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    SHOW(set(F_SETLK, F_WRLCK, 0, 0)); // apart from them
    SHOW(flock(file, LOCK_SH));
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    SHOW(flock(file, LOCK_UN));
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    IN_CHILD(SHOW(flock(other, LOCK_EX | LOCK_NB)); SHOW(flock(file, LOCK_EX | LOCK_NB)));
    IN_CHILD(SHOW(flock(other, LOCK_UN)));
    SHOW(flock(file, LOCK_EX | LOCK_NB));
    SHOW(flock(file, 77));
    SHOW(flock(99, LOCK_EX));
}

int main(void) {
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write(file, "0123456789", 10);
    ranges();
    errors();
    inherited();
    waiting();
    descriptions();
    return 0;
}
