// System V shared memory: keys and ids, rights, what is told, who has it attached, and that it goes with the last.
// oracle: linux
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHOW(call) show(#call, (long)(call))

static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

static int id;

static void tell(const char *when) {
    struct shmid_ds ds;
    if (shmctl(id, IPC_STAT, &ds)) {
        printf("%s: errno %d\n", when, errno);
        return;
    }
    long now = time(NULL);
    printf("%s: key %x mode %o size %zu attached %lu by %d last %d times %d %d %d\n", when, ds.shm_perm.__key, ds.shm_perm.mode,
           ds.shm_segsz, (unsigned long)ds.shm_nattch, ds.shm_cpid == getpid(), ds.shm_lpid == getpid(), now - ds.shm_atime < 9,
           now - ds.shm_dtime < 9, now - ds.shm_ctime < 9);
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    enum { KEY = 0x7e55e7a };
    SHOW(shmget(KEY, 4096, 0600));
    SHOW(shmget(KEY, 0, IPC_CREAT | 0600));
    id = shmget(KEY, 10000, IPC_CREAT | 0640);
    show("made", id >= 0 ? 0 : -1);
    tell("new");
    SHOW(shmget(KEY, 4096, IPC_CREAT | IPC_EXCL | 0600));
    SHOW(shmget(KEY, 10001, 0600));
    SHOW(shmget(KEY, 0, 0) == id);
    SHOW(shmget(KEY, 10000, 0600) == id);
    int own = shmget(IPC_PRIVATE, 1, 0600), other = shmget(IPC_PRIVATE, 1, 0600);
    SHOW(own >= 0 && other >= 0 && own != other && own != id);
    SHOW(shmctl(own, IPC_RMID, NULL));
    SHOW(shmctl(own, IPC_RMID, NULL));
    SHOW(shmctl(other, IPC_RMID, NULL));
    SHOW(shmctl(id, 99, NULL));
    SHOW(shmctl(-1, IPC_STAT, NULL));
    SHOW(shmctl(id, IPC_STAT, (void *)8));

    char *at = shmat(id, NULL, 0);
    show("attach", at == (void *)-1 ? -1 : 0);
    tell("attached");
    show("zeros", at[0] | at[9999] | at[12287]);
    strcpy(at, "from the parent");
    char *again = shmat(id, NULL, SHM_RDONLY);
    printf("elsewhere %d: %s\n", again != at, again);
    SHOW((long)shmat(id, (void *)123, 0));
    SHOW((long)shmat(id, at, 0));
    SHOW((long)shmat(id, NULL, SHM_REMAP));
    SHOW((long)shmat(12345, NULL, 0));
    char *place = mmap(NULL, 8 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(shmat(id, place + 100, SHM_RND | SHM_REMAP) == place);
    strcpy(place, "there");
    printf("the same: %s\n", at);
    SHOW(shmdt(place));
    SHOW(shmdt(place));
    SHOW(shmdt(at + 4096));
    tell("two");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        tell("in a child");
        strcpy(at, "from the child");
        SHOW(shmdt(again));
        tell("it has left one");
        fflush(stdout);
        pause();
    }
    while (strcmp(at, "from the child")) usleep(1000);
    usleep(50000);
    tell("beside it");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    tell("it was killed");
    struct shmid_ds ds;
    shmctl(id, IPC_STAT, &ds);
    ds.shm_perm.mode = 0444;
    SHOW(shmctl(id, IPC_SET, &ds));
    tell("set");
    SHOW(shmctl(id, SHM_LOCK, NULL));
    tell("locked");
    SHOW(shmctl(id, SHM_UNLOCK, NULL));
    SHOW(shmctl(id, IPC_RMID, NULL));
    tell("removed");
    SHOW(shmget(KEY, 0, 0));
    int second = shmget(KEY, 5, IPC_CREAT | 0600);
    SHOW(second >= 0 && second != id);
    shmctl(second, IPC_RMID, NULL);
    char *late = shmat(id, NULL, 0);
    printf("still: %s\n", late == (void *)-1 ? "no" : late);
    SHOW(shmdt(late));
    SHOW(shmdt(again));
    munmap(at, 12288);
    tell("gone");

    // As another user.
    id = shmget(IPC_PRIVATE, 4096, 0600);
    fflush(stdout);
    if (!fork()) {
        if (setgid(1234) || setuid(1234)) _exit(1);
        SHOW(shmat(id, NULL, 0));
        SHOW(shmat(id, NULL, SHM_RDONLY));
        SHOW(shmctl(id, IPC_STAT, &ds));
        SHOW(shmctl(id, IPC_RMID, NULL));
        SHOW(shmctl(id, SHM_LOCK, NULL));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    shmctl(id, IPC_RMID, NULL);
    return 0;
}
