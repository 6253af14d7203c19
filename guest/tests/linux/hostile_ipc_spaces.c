// A user who makes name spaces of System V objects and message queues by the thousand, in each the most that there may be, and leaves them;
// who tries every id that somebody else could have; and two who come and go at once. Afterwards what was the first one's is as it was, and
// there is as much memory as before. The library passes ids on as they are, so that these are the requests of whoever forges some.
// build: gcc
// cores: 4
// expect-stdout: refused at last: 28\nnot too early: yes\nagain, when those are gone: yes\nthousands: yes\nfound by trying: 0\nstill there: 1 5 9\nmemory is back: yes\n
#include "spaces.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { MANY = 2000, USERS = 2, SEGMENT = 1 << 18 };
static struct message {
    long kind;
    char text[4096];
} message = {1, "x"};

static long open_mq(const char *name, int flags) { return syscall(SYS_mq_open, name, flags, 0600, NULL); }

// Something of each kind, under names that are others' too.
static int fill(void) {
    int queue = msgget(5, IPC_CREAT | IPC_EXCL | 0666), set = semget(5, 10, IPC_CREAT | IPC_EXCL | 0666);
    int segment = shmget(5, SEGMENT, IPC_CREAT | IPC_EXCL | 0666), mq = open_mq("q", O_CREAT | O_EXCL | O_RDWR);
    if (queue < 0 || set < 0 || segment < 0 || mq < 0 || msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT)) return 1;
    char *at = shmat(segment, NULL, 0);
    if (at == (void *)-1) return 2;
    for (int n = 0; n < SEGMENT; n += 4096) at[n] = 1;
    struct sembuf up = {0, 1, SEM_UNDO};
    if (semop(set, &up, 1)) return 3;
    // One in two leaves while it has it attached.
    if (segment & 1) shmdt(at);
    else munmap(at, SEGMENT);
    return close(mq);
}

static int as_user_apart(int id) { return as_user(id) || unshare(CLONE_NEWUSER | CLONE_NEWIPC); }

// As many as there may be at once, held by descriptors.
static int hold(int prints) {
    int fds[2000], made = 0, error = 0;
    for (; made < 2000; made++) {
        if (unshare(CLONE_NEWIPC)) {
            error = errno;
            break;
        }
        fds[made] = open("/proc/self/ns/ipc", O_RDONLY);
        if (fds[made] < 0) {
            error = errno;
            break;
        }
    }
    if (prints) printf("refused at last: %d\nnot too early: %s\n", error, made > 900 ? "yes" : "NO");
    for (int n = 0; n < made; n++) close(fds[n]);
    return made;
}

int main(void) {
    struct rlimit files = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &files);
    int queue = msgget(5, IPC_CREAT | 0666), set = semget(5, 1, IPC_CREAT | 0666), segment = shmget(5, 4096, IPC_CREAT | 0666);
    int *shared = shmat(segment, NULL, 0);
    *shared = 9;
    semctl(set, 0, SETVAL, 5);
    msgsnd(queue, &message, 1, 0);
    fflush(stdout);

    pid_t user = fork();
    if (user == 0) {
        if (as_user_apart(1000)) _exit(1);
        hold(1);
        printf("again, when those are gone: %s\n", hold(0) > 900 ? "yes" : "NO");
        fflush(stdout);
        _exit(0);
    }
    if (wait_for(user)) return 1;

    // The first time has made whatever is made once.
    unsigned long before = 0;
    int failed = 0;
    for (int turn = 0; turn < 2; turn++) {
        pid_t users[USERS];
        for (int n = 0; n < USERS; n++)
            if ((users[n] = fork()) == 0) {
                if (as_user_apart(1000 + n)) _exit(1);
                for (int at = 0; at < (turn ? MANY / USERS : 20); at++) {
                    int wrong = fill();
                    if (wrong) _exit(10 + wrong);
                    if (at % 16 == 0) {
                        // By a process that is killed while it waits there.
                        pid_t other = fork();
                        if (other == 0) {
                            if (unshare(CLONE_NEWIPC) || fill()) _exit(1);
                            msgrcv(msgget(5, 0), &message, sizeof message.text, 77, 0);
                            _exit(2);
                        }
                        usleep(100);
                        kill(other, SIGKILL);
                        wait_for(other);
                    }
                    if (unshare(CLONE_NEWIPC)) _exit(2);
                }
                _exit(0);
            }
        for (int n = 0; n < USERS; n++) failed |= wait_for(users[n]);
        if (turn == 0) before = free_pages();
    }
    printf("thousands: %s\n", failed ? "NO" : "yes");
    // What is freed aside comes back soon.
    int is_back = 0;
    for (int n = 0; n < 200 && !(is_back = free_pages() + 512 >= before); n++) usleep(20000);

    int found[2];
    if (pipe(found)) return 2;
    user = fork();
    if (user == 0) {
        if (unshare(CLONE_NEWIPC)) _exit(1);
        int count = 0, places[] = {0, 1, 2, 3, queue & 0x7fff, set & 0x7fff, segment & 0x7fff};
        for (unsigned n = 0; n < sizeof places / sizeof *places; n++) {
            struct msqid_ds one;
            struct shmid_ds other;
            count += msgctl(places[n], MSG_STAT, &one) >= 0;
            count += shmctl(places[n], SHM_STAT, &other) >= 0;
            for (int turn = 0; turn < 3000; turn++) {
                int id = turn << 15 | places[n];
                count += msgctl(id, IPC_RMID, NULL) == 0;
                count += semctl(id, 0, IPC_RMID) == 0;
                if (turn < 100 || id == segment) count += shmctl(id, IPC_RMID, NULL) == 0;
            }
        }
        count += msgctl(queue, IPC_RMID, NULL) == 0;
        count += semctl(set, 0, SETVAL, 1) == 0;
        count += shmctl(segment, IPC_RMID, NULL) == 0;
        _exit(write(found[1], &count, sizeof count) != sizeof count);
    }
    int count = -1;
    if (wait_for(user) || read(found[0], &count, sizeof count) != sizeof count) return 3;
    printf("found by trying: %d\n", count);
    printf("still there: %ld %d %d\n", (long)msgrcv(queue, &message, 8, 0, IPC_NOWAIT), semctl(set, 0, GETVAL), *shared);
    printf("memory is back: %s\n", is_back ? "yes" : "NO");
    if (!is_back) printf("%ld pages less\n", (long)before - (long)free_pages());
    return 0;
}
