// Threads that are where their process is not, killed and replaced in the middle of it: with their process all of it is gone, whoever
// has run last; and who has few rights gets nothing by it.
// oracle: linux
// build: gcc
// cores: 4
// mem: 512M
#include "spaces.h"
#include <pthread.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>

enum { ROUNDS = 60, THREADS = 4 };

static void *ends_at_once(void *unused) { return unused; }

// Parts again and again, makes threads and children there, and goes back; `seed` decides.
static void *parts(void *seed) {
    unsigned state = (uintptr_t)seed;
    int first = open("/proc/self/ns/uts", O_RDONLY);
    for (;;) {
        pthread_t thread;
        switch (rand_r(&state) % 8) {
        case 0: unshare(CLONE_FS); break;
        case 1:
            if (unshare(CLONE_NEWNS) == 0) mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
            break;
        case 2: unshare(CLONE_NEWNET | CLONE_NEWUTS); break;
        case 3: setns(first, 0); break;
        case 4: mount("of-a-thread", "/tmp/parts", "tmpfs", 0, NULL); break;
        case 5: chdir(rand_r(&state) % 2 ? "/tmp/parts" : "/"); break;
        case 6:
            if (pthread_create(&thread, NULL, ends_at_once, NULL) == 0) pthread_join(thread, NULL);
            break;
        default: {
            pid_t pid = fork();
            if (pid == 0) _exit(0);
            waitpid(pid, NULL, 0);
        }
        }
    }
}

static void many(unsigned seed) {
    pthread_t thread;
    // What is mounted before a thread has others goes with the process.
    if (unshare(CLONE_NEWNS)) _exit(95);
    for (uintptr_t n = 0; n < THREADS; n++) pthread_create(&thread, NULL, parts, (void *)(seed * 10 + n + 1));
    if (seed % 3) parts((void *)(uintptr_t)(seed * 10));
    // Some have one of them, or the first, take over.
    nanosleep(&(struct timespec){.tv_nsec = 3000000 + seed % 7 * 1000000}, NULL);
    unshare(CLONE_FS | CLONE_NEWUTS);
    chdir("/tmp/parts");
    execl("/proc/self/exe", "hostile_thread_spaces", "again", NULL);
    _exit(96);
}

static void killed(void) {
    for (unsigned n = 0; n < ROUNDS; n++) {
        pid_t pid = fork();
        if (pid == 0) many(n);
        nanosleep(&(struct timespec){.tv_nsec = 5000000 + n % 11 * 2000000}, NULL);
        kill(pid, SIGKILL);
        int status = wait_for(pid);
        if (status != SIGKILL && status != 0) printf("round %u: %x\n", n, status);
    }
}

// None of it holds a directory, and there is room for as many name spaces as before.
static void *makes(void *count) {
    *(int *)count += unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS) == 0;
    return NULL;
}
static void has_room(void) {
    int made = 0;
    for (int n = 0; n < 500; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, makes, &made) == 0) pthread_join(thread, NULL);
    }
    SHOW(made);
    SHOW(mount("again", "/tmp/parts", "tmpfs", 0, NULL));
    SHOW(umount("/tmp/parts"));
    SHOW(rmdir("/tmp/parts"));
}

// Without rights a thread gets a directory of its own and nothing else.
static void *tries(void *unused) {
    SHOW(unshare(CLONE_NEWNS));
    SHOW(unshare(CLONE_NEWUTS));
    SHOW(unshare(CLONE_FS | CLONE_NEWNET));
    SHOW(unshare(CLONE_NEWUSER));
    SHOW(chdir("/tmp"));
    char path[32] = "";
    CHECK(readlink("/proc/self/cwd", path, sizeof path) > 0 && strcmp(path, "/tmp") == 0);
    SHOW(unshare(CLONE_FS));
    SHOW(chdir("/"));
    SHOW(chroot("/tmp"));
    memset(path, 0, sizeof path);
    CHECK(readlink("/proc/self/cwd", path, sizeof path) > 0 && strcmp(path, "/tmp") == 0);
    return unused;
}
static void as_nobody(void) {
    // Who was another user looks at himself as at others.
    CHECK(as_user(1000) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, tries, NULL) == 0) pthread_join(thread, NULL);
}

int main(int count, char **args) {
    (void)args;
    if (count > 1) return 0;
    if (unshare(CLONE_NEWUTS | CLONE_NEWNS)) return 97;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    mkdir("/tmp/parts", 0755);
    printf("--- killed\n");
    child(killed);
    printf("--- room\n");
    child(has_room);
    printf("--- nobody\n");
    child(as_nobody);
    return 0;
}
