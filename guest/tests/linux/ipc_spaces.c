// Name spaces of System V objects and POSIX queues: what has an id, a key or a name in one is not there in another; how others get in,
// and what stays of what is open or attached.
// oracle: linux
// build: gcc, musl
#include "spaces.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { KEY = 0x1234 };

static struct message {
    long kind;
    char text[8];
} in, out = {1, "text"};

static int queue, set, segment, mq;
static char *memory;
static pid_t parent;

static void part(const char *what, void (*body)(void)) {
    printf("--- %s\n", what);
    child(body);
}

static int is_same(pid_t other) { return in_same("ipc", other); }

// Heads, and of each row what is the same everywhere: no ids of objects and processes, no times.
static void shown(void) {
    static const char *const names[] = {"msg", "sem", "shm"};
    for (int n = 0; n < 3; n++) {
        char path[32], line[512];
        snprintf(path, sizeof path, "/proc/sysvipc/%s", names[n]);
        FILE *file = fopen(path, "r");
        if (!file) {
            printf("%s: errno %d\n", path, errno);
            continue;
        }
        for (int row = 0; fgets(line, sizeof line, file); row++) {
            if (row == 0) printf("%s", line);
            int key, id, length = strlen(line);
            unsigned mode;
            long size, count;
            if (row > 0 && sscanf(line, "%d %d %o %ld %ld", &key, &id, &mode, &size, &count) == 5)
                printf("%x %o %ld %ld, %d letters\n", key, mode, size, n == 0 ? count : 0, length);
        }
        fclose(file);
    }
}

static long open_mq(const char *name, int flags) { return syscall(SYS_mq_open, name, flags, 0600, NULL); }
static int value(void) { return semctl(set, 0, GETVAL); }
static int up(int flags) {
    struct sembuf one = {0, 1, flags};
    return semop(set, &one, 1);
}

static void inside(void) {
    struct sembuf none = {0, 0, IPC_NOWAIT};
    struct msqid_ds state;
    struct shmid_ds segment_state;
    CHECK(is_same(parent) == 1);
    SHOW(unshare(CLONE_NEWIPC));
    CHECK(is_same(parent) == 0);
    shown();
    SHOW(msgget(KEY, 0));
    SHOW(semget(KEY, 1, 0));
    SHOW(shmget(KEY, 1, 0));
    SHOW(open_mq("q", O_RDWR));
    SHOW(syscall(SYS_mq_unlink, "q"));
    SHOW(msgsnd(queue, &out, 4, IPC_NOWAIT));
    SHOW(msgrcv(queue, &in, 8, 0, IPC_NOWAIT));
    SHOW(msgctl(queue, IPC_STAT, &state));
    SHOW(msgctl(queue, IPC_SET, &state));
    SHOW(msgctl(queue, IPC_RMID, NULL));
    SHOW(msgctl(queue & 0x7fff, MSG_STAT, (struct msqid_ds *)&state));
    SHOW(semop(set, &none, 1));
    SHOW(semctl(set, 0, GETVAL));
    SHOW(semctl(set, 0, SETVAL, 7));
    SHOW(semctl(set, 0, IPC_RMID));
    SHOW_PTR(shmat(segment, NULL, 0));
    SHOW(shmctl(segment, IPC_STAT, &segment_state));
    SHOW(shmctl(segment, SHM_LOCK, NULL));
    SHOW(shmctl(segment, IPC_RMID, NULL));
    // What was attached or open stays.
    printf("%s\n", memory);
    SHOW(syscall(SYS_mq_timedsend, mq, "mine", 4, 1, NULL));
    SHOW(shmdt(memory));
    // The same keys and names, for others.
    int own_queue = msgget(KEY, IPC_CREAT | IPC_EXCL | 0600), own_set = semget(KEY, 3, IPC_CREAT | IPC_EXCL | 0640);
    int own_segment = shmget(KEY, 8192, IPC_CREAT | IPC_EXCL | 0604), own_mq = open_mq("q", O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK);
    CHECK(own_queue >= 0 && own_set >= 0 && own_segment >= 0 && own_mq >= 0);
    SHOW(msgsnd(own_queue, &out, 4, 0));
    SHOW(syscall(SYS_mq_timedreceive, own_mq, pages(4, 3), 8192, NULL, NULL));
    char *own = shmat(own_segment, NULL, 0);
    strcpy(own, "of the new one");
    shown();
    struct shm_info info;
    SHOW(shmctl(0, SHM_INFO, (void *)&info) >= 0);
    printf("segments %d, pages %ld\n", info.used_ids, info.shm_tot);
    // And once more, with all of it in between left to nobody.
    SHOW(unshare(CLONE_NEWIPC | CLONE_SYSVSEM));
    printf("%s\n", own);
    SHOW(msgget(KEY, 0));
    SHOW(open_mq("q", O_RDWR));
    SHOW(syscall(SYS_mq_timedsend, own_mq, "still", 5, 1, NULL));
    SHOW(shmdt(own));
    // Ends while somebody waits in it.
    pid_t waiting = fork();
    if (waiting == 0) {
        int id = msgget(KEY, IPC_CREAT | 0600);
        msgrcv(id, &in, 8, 0, 0);
        _exit(1);
    }
    while (msgget(KEY, 0) < 0) usleep(1000);
    kill(waiting, SIGKILL);
    int status;
    waitpid(waiting, &status, 0);
    printf("status %x\n", status);
}

static void undone(void) {
    SHOW(up(SEM_UNDO));
    SHOW(value());
    SHOW(unshare(CLONE_SYSVSEM));
    SHOW(value());
    SHOW(up(SEM_UNDO));
    int before = open("/proc/self/ns/ipc", O_RDONLY);
    SHOW(unshare(CLONE_NEWIPC));
    SHOW(setns(before, 0));
    SHOW(value());
    SHOW(up(SEM_UNDO));
    SHOW(setns(before, CLONE_NEWIPC));
    SHOW(value());
}

static void entered(void) {
    int ready[2], over[2];
    if (pipe(ready) || pipe(over)) return;
    fflush(stdout);
    pid_t pid = fork();
    char byte;
    if (pid == 0) {
        if (unshare(CLONE_NEWIPC) || msgget(0x77, IPC_CREAT | 0600) < 0 || open_mq("theirs", O_CREAT | O_RDWR) < 0) _exit(1);
        if (write(ready[1], "x", 1) != 1 || read(over[0], &byte, 1) != 1) _exit(1);
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) return;
    int home = open("/proc/self/ns/ipc", O_RDONLY), pidfd = syscall(434, pid, 0);
    char path[64], text[64] = {0};
    snprintf(path, sizeof path, "/proc/%d/ns/ipc", pid);
    printf("%d %.5s\n", readlink(path, text, 63) > 10, text);
    int space = open(path, O_RDONLY);
    struct stat st;
    SHOW(fstat(space, &st));
    printf("mode %o\n", st.st_mode);
    SHOW(setns(space, CLONE_NEWUTS));
    SHOW(setns(pidfd, CLONE_NEWIPC));
    CHECK(is_same(pid) == 1);
    SHOW(msgget(0x77, 0) >= 0);
    SHOW(msgget(KEY, 0));
    SHOW(setns(home, CLONE_NEWIPC));
    SHOW(msgget(0x77, 0));
    CHECK(msgget(KEY, 0) == queue);
    SHOW(write(over[1], "x", 1));
    waitpid(pid, NULL, 0);
    SHOW(open(path, O_RDONLY));
    // It is there as long as somebody has it open.
    SHOW(setns(space, 0));
    SHOW(msgget(0x77, 0) >= 0);
    SHOW(open_mq("theirs", O_RDWR) >= 0);
    SHOW(setns(home, 0));
    SHOW(setgid(1000));
    SHOW(setuid(1000));
    SHOW(setns(space, CLONE_NEWIPC));
    SHOW(setns(home, CLONE_NEWIPC));
    SHOW(unshare(CLONE_NEWIPC));
    SHOW(unshare(CLONE_NEWIPC | CLONE_SYSVSEM));
    // Who has one of his own may in it whatever it takes, and nothing in others.
    SHOW(prctl(PR_SET_DUMPABLE, 1));
    SHOW(unshare(CLONE_NEWUSER | CLONE_NEWIPC));
    SHOW(put("/proc/self/uid_map", "0 1000 1"));
    SHOW(setns(home, CLONE_NEWIPC));
    int own = msgget(KEY, IPC_CREAT | 0);
    SHOW(own >= 0);
    SHOW(msgrcv(own, &in, 8, 0, IPC_NOWAIT));
    SHOW(unshare(CLONE_NEWIPC));
    SHOW(msgget(KEY, 0));
}

static void seen(uint64_t flags) {
    printf("same %d, ", is_same(parent));
    SHOW(msgget(KEY, 0) >= 0);
}
static int cloned(uint64_t flags) { return cloned_for(flags, seen); }

static void clones(void) {
    parent = getpid();
    SHOW(cloned(CLONE_SYSVSEM));
    SHOW(cloned(CLONE_NEWIPC));
    SHOW(cloned(CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS));
    SHOW(cloned(CLONE_NEWIPC | CLONE_SYSVSEM));
    SHOW(cloned(CLONE_NEWUSER | CLONE_NEWIPC));
    SHOW(setgid(1000));
    SHOW(setuid(1000));
    SHOW(cloned(CLONE_NEWIPC));
    SHOW(cloned(CLONE_NEWIPC | CLONE_SYSVSEM));
    SHOW(cloned(CLONE_NEWUSER | CLONE_NEWIPC));
}

int main(void) {
    umask(022);
    if (unshare(CLONE_NEWIPC | CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    shown();
    parent = getpid();
    queue = msgget(KEY, IPC_CREAT | 0644), set = semget(KEY, 2, IPC_CREAT | 0600), segment = shmget(KEY, 4096, IPC_CREAT | 0666);
    mq = open_mq("q", O_RDWR | O_CREAT);
    memory = shmat(segment, NULL, 0);
    if (queue < 0 || set < 0 || segment < 0 || mq < 0) return 2;
    strcpy(memory, "of the old one");
    msgsnd(queue, &out, 4, 0);
    shown();
    part("inside", inside);
    shown();
    part("undone", undone);
    part("entered", entered);
    part("clones", clones);
    SHOW(msgrcv(queue, &in, 8, 0, IPC_NOWAIT));
    SHOW(syscall(SYS_mq_timedreceive, mq, pages(4, 3), 8192, NULL, NULL));
    SHOW(value());
    printf("%s\n", memory);
    SHOW(syscall(SYS_mq_unlink, "q"));
    SHOW(msgctl(queue, IPC_RMID, NULL));
    SHOW(semctl(set, 0, IPC_RMID));
    SHOW(shmctl(segment, IPC_RMID, NULL));
    return 0;
}
