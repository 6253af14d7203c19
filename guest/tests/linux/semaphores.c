// System V semaphores: several at once or none, who waits and is woken, what is undone, and the errors of each call.
// oracle: linux
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

union semun { int val; struct semid_ds *buf; unsigned short *array; };
static int id;

static int change(int number, int by, int flags) {
    struct sembuf one = { number, by, flags };
    return semop(id, &one, 1);
}

static void values(const char *when) {
    unsigned short all[3] = { 9, 9, 9 };
    semctl(id, 0, GETALL, (union semun){ .array = all });
    printf("%s: %d %d %d\n", when, all[0], all[1], all[2]);
}

// Until a child waits there.
static void until(int number, int command) { while (semctl(id, number, command) < 1) usleep(1000); }

static void handler(int signal) { (void)signal; }

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    alarm(20);
    enum { KEY = 0x7e55e7b };
    SHOW(semget(KEY, 3, 0600));
    SHOW(semget(KEY, 0, IPC_CREAT | 0600));
    SHOW(semget(KEY, -1, IPC_CREAT | 0600));
    SHOW(semget(KEY, 1000000, IPC_CREAT | 0600));
    id = semget(KEY, 3, IPC_CREAT | 0640);
    show("made", id >= 0 ? 0 : -1);
    SHOW(semget(KEY, 3, IPC_CREAT | IPC_EXCL | 0600));
    SHOW(semget(KEY, 4, 0600));
    SHOW(semget(KEY, 2, 0600) == id);
    values("new");
    SHOW(semctl(id, 1, SETVAL, (union semun){ .val = 5 }));
    SHOW(semctl(id, 1, SETVAL, (union semun){ .val = 32768 }));
    SHOW(semctl(id, 1, SETVAL, (union semun){ .val = -1 }));
    SHOW(semctl(id, 3, SETVAL, (union semun){ .val = 1 }));
    SHOW(semctl(id, 3, GETVAL));
    SHOW(semctl(id, 1, GETVAL));
    SHOW(semctl(id, 1, GETPID) == getpid());
    SHOW(semctl(id, 0, 999));
    SHOW(semctl(-1, 0, GETVAL));
    struct semid_ds ds;
    SHOW(semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds }));
    printf("key %x mode %o count %lu times %d %d\n", ds.sem_perm.__key, ds.sem_perm.mode, (unsigned long)ds.sem_nsems, ds.sem_otime != 0,
           time(NULL) - ds.sem_ctime < 9);
    SHOW(semctl(id, 0, IPC_STAT, (union semun){ .buf = (void *)8 }));

    SHOW(change(0, 1, 0));
    SHOW(change(7, 1, 0));
    SHOW(change(0, -2, IPC_NOWAIT));
    SHOW(change(1, 0, IPC_NOWAIT));
    SHOW(change(1, 32767, 0));
    SHOW(semop(id, NULL, 0));
    SHOW(semop(id, NULL, 501));
    SHOW(semop(id, (void *)8, 1));
    SHOW(semop(77777, &(struct sembuf){ 0, 1, 0 }, 1));
    values("before");
    struct sembuf both[] = { { 0, -1, 0 }, { 1, -6, IPC_NOWAIT } };
    SHOW(semop(id, both, 2));
    values("none of two");
    both[1].sem_op = -5;
    SHOW(semop(id, both, 2));
    values("both");
    struct sembuf in_turn[] = { { 2, 0, 0 }, { 2, 3, 0 }, { 2, -2, 0 } };
    SHOW(semop(id, in_turn, 3));
    values("in turn");
    struct timespec time_out = { 0, 20000000 }, bad = { 0, 1000000000 };
    SHOW(semtimedop(id, &(struct sembuf){ 0, -1, 0 }, 1, &time_out));
    SHOW(semtimedop(id, &(struct sembuf){ 0, -1, 0 }, 1, &bad));

    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(change(0, -2, 0));
        SHOW(change(2, 0, 0));
        fflush(stdout);
        _exit(0);
    }
    until(0, GETNCNT);
    printf("waiting: %d %d\n", semctl(id, 0, GETNCNT), semctl(id, 0, GETZCNT));
    change(0, 1, 0);
    usleep(20000);
    printf("still: %d\n", semctl(id, 0, GETNCNT));
    fflush(stdout);
    change(0, 1, 0);
    until(2, GETZCNT);
    printf("for zero: %d %d\n", semctl(id, 2, GETNCNT), semctl(id, 2, GETZCNT));
    fflush(stdout);
    change(2, -1, 0);
    waitpid(child, NULL, 0);
    values("after");
    SHOW(semctl(id, 0, GETPID) == child);

    // A signal, and what is removed.
    child = fork();
    if (!child) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
        sigaction(SIGUSR1, &action, NULL);
        SHOW(change(0, -1, 0));
        SHOW(change(1, -1, 0));
        fflush(stdout);
        _exit(0);
    }
    until(0, GETNCNT);
    kill(child, SIGUSR1);
    until(1, GETNCNT);
    printf("nobody there: %d\n", semctl(id, 0, GETNCNT));
    fflush(stdout);
    int second = id;
    id = semget(IPC_PRIVATE, 3, 0600);
    semctl(second, 0, IPC_RMID);
    waitpid(child, NULL, 0);
    SHOW(semctl(second, 0, GETVAL));

    // What is undone.
    unsigned short start[] = { 4, 5, 6 };
    SHOW(semctl(id, 0, SETALL, (union semun){ .array = start }));
    fflush(stdout);
    child = fork();
    if (!child) {
        change(0, -3, SEM_UNDO), change(1, 2, SEM_UNDO), change(1, 1, SEM_UNDO), change(2, -1, 0);
        values("in a child");
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    values("undone");
    child = fork();
    if (!child) {
        change(0, -4, SEM_UNDO);
        pause();
    }
    while (semctl(id, 0, GETVAL)) usleep(1000);
    pid_t other = fork();
    if (!other) {
        SHOW(change(0, -1, 0));
        fflush(stdout);
        _exit(0);
    }
    until(0, GETNCNT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0), waitpid(other, NULL, 0);
    values("woken by the undone");
    child = fork();
    if (!child) {
        change(0, -1, SEM_UNDO);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    values("and again");

    // As another user.
    fflush(stdout);
    if (!fork()) {
        if (setgid(1234) || setuid(1234)) _exit(1);
        SHOW(change(0, 1, 0));
        SHOW(semctl(id, 0, GETVAL));
        SHOW(semctl(id, 0, SETVAL, (union semun){ .val = 1 }));
        SHOW(semctl(id, 0, IPC_RMID));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds });
    ds.sem_perm.mode = 0444;
    SHOW(semctl(id, 0, IPC_SET, (union semun){ .buf = &ds }));
    semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds });
    printf("mode %o operated %d\n", ds.sem_perm.mode, ds.sem_otime != 0);

    // Four processes, two semaphores, each the other's turn.
    unsigned short turns[] = { 1, 0, 0 };
    semctl(id, 0, SETALL, (union semun){ .array = turns });
    for (int n = 0; n < 4; n++) {
        if (fork()) continue;
        for (int turn = 0; turn < 200; turn++) {
            struct sembuf go[] = { { n % 2, -1, 0 } }, next[] = { { 1 - n % 2, 1, 0 }, { 2, 1, 0 } };
            semop(id, go, 1);
            semop(id, next, 2);
        }
        _exit(0);
    }
    while (wait(NULL) > 0);
    values("turns");
    semctl(id, 0, IPC_RMID);
    return 0;
}
