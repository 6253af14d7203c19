// Name spaces of one of several threads: which there may be, what the others see of them, who inherits them (threads, children, the
// program that takes over), and a root and working directory of a thread's own.
// oracle: linux
// build: gcc
// cores: 2
#include "spaces.h"
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#define UNSHARE(flags) SHOW(unshare(flags))

static pthread_barrier_t turn;
static pid_t other; // The thread that is apart.

static pid_t own_tid(void) { return syscall(SYS_gettid); }
static void next(void) { pthread_barrier_wait(&turn); }

static void *run(void *body) { return ((void (*)(void))body)(), NULL; }

// What a thread does, until its end.
static void in_thread(void (*body)(void)) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, body);
    if (error) printf("no thread: %d\n", error);
    else pthread_join(thread, NULL);
}

// Another thread does `there` while this one does `here`; both take turns with `next`.
static void (*there)(void), (*here)(void);
static void *takes_turns(void *unused) {
    other = own_tid();
    there();
    return unused;
}
static void both(void) {
    pthread_t thread;
    pthread_barrier_init(&turn, NULL, 2);
    if (pthread_create(&thread, NULL, takes_turns, NULL)) exit(98);
    here();
    pthread_join(thread, NULL);
}
static void part(const char *what, void (*apart)(void), void (*with)(void)) {
    printf("--- %s\n", what);
    there = apart, here = with;
    child(both);
}

static ino_t space(pid_t tid, const char *kind) {
    char path[64];
    struct stat it;
    snprintf(path, sizeof path, "/proc/self/task/%d/ns/%s", tid, kind);
    return stat(path, &it) ? 0 : it.st_ino;
}

// In which the other thread is that this one is not in.
static void differ(void) {
    static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts"};
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        ino_t own = space(getpid(), kinds[n]), theirs = space(other, kinds[n]);
        if (own != theirs && own && theirs) printf(" %s", kinds[n]);
    }
    printf("\n");
}

// --- Which there may be.

static int wanted;
static void unshares_one(void) {
    int failed = unshare(wanted);
    printf("%#x: %d, errno %d:", wanted, failed, failed ? errno : 0);
    fflush(stdout);
    next();
    next();
}
static void looks(void) {
    next();
    differ();
    next();
}
static void each_kind(void) {
    static const int all[] = {CLONE_NEWNET, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWCGROUP, CLONE_NEWNS, CLONE_FS, CLONE_SYSVSEM,
        CLONE_NEWTIME, CLONE_NEWUSER, CLONE_THREAD, CLONE_VM, CLONE_SIGHAND, CLONE_NEWNET | CLONE_NEWUSER,
        CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP | CLONE_NEWNS | CLONE_SYSVSEM, CLONE_NEWNET | 1 << 20};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        wanted = all[n];
        there = unshares_one, here = looks;
        child(both);
    }
}

// --- What is in them.

static int bound(int port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    return bind(fd, (void *)&at, sizeof at) ? -errno : fd;
}
static const char *host(void) {
    static struct utsname name;
    uname(&name);
    return name.nodename;
}
static void in_others(void) {
    sethostname("first", 5);
    UNSHARE(CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWIPC);
    SHOW(sethostname("second", 6));
    CHECK(bound(7777) > 0);
    CHECK(shmget(4711, 4096, IPC_CREAT | 0600) >= 0);
    next();
    next();
    printf("there: %s\n", host());
    SHOW(shmget(4711, 4096, 0) >= 0);
    SHOW(shmget(4712, 4096, 0));
    shmctl(shmget(4711, 4096, 0), IPC_RMID, NULL);
}
static void in_first(void) {
    next();
    CHECK(bound(7777) > 0);
    SHOW(bound(7777));
    SHOW(shmget(4711, 4096, 0));
    CHECK(shmget(4712, 4096, IPC_CREAT | 0600) >= 0);
    printf("here: %s, there:", host());
    differ();
    next();
    shmctl(shmget(4712, 4096, 0), IPC_RMID, NULL);
}

// --- Where it stands.

static char *cwd(void) {
    static char path[256];
    return syscall(SYS_getcwd, path, sizeof path) < 0 ? "?" : path;
}
static int mode_made(const char *name) {
    struct stat it;
    int fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0777);
    if (fd < 0) return -errno;
    fstat(fd, &it);
    unlink(name);
    close(fd);
    return it.st_mode & 0777;
}
static void made_there(void) {
    printf("a thread of it: %s, mode %o\n", cwd(), mode_made("mode"));
    SHOW(chdir("/tmp/apart/inner"));
}
static void stands(void) {
    next();
    UNSHARE(CLONE_FS);
    SHOW(chdir("/tmp/apart"));
    umask(077);
    printf("there: %s, mode %o\n", cwd(), mode_made("mode"));
    in_thread(made_there);
    printf("there: %s\n", cwd());
    SHOW(chdir("/tmp/apart"));
    next();
    next();
    printf("there: %s, mode %o\n", cwd(), mode_made("mode"));
    SHOW(chroot("/tmp/apart"));
    // Asked again and again: nobody may be told what is true of another thread.
    struct stat it;
    for (int n = 0; n < 20; n++)
        if (stat("/inner", &it) || stat("inner", &it)) printf("lost\n");
    next();
    next();
    printf("there: %s\n", cwd());
    umask(0);
    if (fork() == 0) {
        printf("its child: %s, mode %o, %d\n", cwd(), mode_made("mode"), access("/inner", F_OK));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}
static void stays(void) {
    struct stat it;
    umask(022);
    SHOW(chdir("/tmp"));
    next();
    next();
    printf("here: %s, mode %o\n", cwd(), mode_made("mode"));
    SHOW(chdir("/"));
    next();
    next();
    int found = 0;
    for (int n = 0; n < 20; n++) found += stat("/inner", &it) == 0 || stat("inner", &it) == 0;
    printf("here: %s, found %d\n", cwd(), found);
    char path[64], to[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/root", other);
    CHECK(readlink(path, to, sizeof to - 1) > 0);
    printf("its root: %s\n", to);
    CHECK(readlink("/proc/self/root", to, sizeof to - 1) == 1 && *to == '/');
    next();
}

// --- Mounts.

static int readable(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) return -errno;
    close(fd);
    return 1;
}
static int lists(const char *path, const char *what) {
    char line[512];
    int found = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) found |= strstr(line, what) != NULL;
    if (file) fclose(file);
    return file ? found : -1;
}
static void mounts(void) {
    UNSHARE(CLONE_NEWNS);
    SHOW(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    SHOW(mount("of-a-thread", "/tmp/apart/inner", "tmpfs", 0, NULL));
    CHECK(mode_made("/tmp/apart/inner/mode") > 0);
    close(open("/tmp/apart/inner/file", O_CREAT | O_RDWR, 0600));
    next();
    for (int n = 0; n < 20; n++)
        if (readable("/tmp/apart/inner/file") != 1) printf("lost\n");
    next();
    SHOW(lists("/proc/thread-self/mounts", "of-a-thread"));
    SHOW(lists("/proc/self/mounts", "of-a-thread"));
}
static void sees_none(void) {
    next();
    int found = 0;
    for (int n = 0; n < 20; n++) found += readable("/tmp/apart/inner/file") == 1;
    SHOW(found);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/mountinfo", other);
    SHOW(lists(path, "of-a-thread"));
    SHOW(lists("/proc/self/mountinfo", "of-a-thread"));
    snprintf(path, sizeof path, "/proc/self/task/%d/root/tmp/apart/inner/file", other);
    SHOW(readable(path));
    next();
}

// --- Going back, and into others'.

static int of_first[5];
static const char *const kinds[] = {"uts", "ipc", "net", "cgroup", "mnt"};
static void enters(void) {
    for (int n = 0; n < 5; n++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[n]);
        of_first[n] = open(path, O_RDONLY);
    }
    SHOW(setns(of_first[4], 0));
    UNSHARE(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_NEWNS);
    next();
    next();
    for (int n = 0; n < 5; n++) {
        printf("%s ", kinds[n]);
        SHOW(setns(of_first[n], 0));
    }
    next();
    next();
    int user = open("/proc/self/ns/user", O_RDONLY), times = open("/proc/self/ns/time", O_RDONLY);
    SHOW(setns(user, 0));
    SHOW(setns(times, 0));
    SHOW(setns(of_first[0], CLONE_NEWNET));
}
static void watches(void) {
    next();
    printf("apart:");
    differ();
    next();
    next();
    printf("back:");
    differ();
    next();
}

// --- Who inherits.

static void of_grandchild(void) { printf("a thread of it: %d %s\n", bound(7779) > 0, host()); }
static void inherits(void) {
    UNSHARE(CLONE_NEWUTS | CLONE_NEWNET);
    sethostname("inherited", 9);
    CHECK(bound(7779) > 0);
    next();
    SHOW(bound(7779));
    in_thread(of_grandchild);
    next();
    pid_t pid = fork();
    if (pid == 0) {
        printf("child: %s, port %d\n", host(), bound(7779));
        in_thread(of_grandchild);
        fflush(stdout);
        _exit(0);
    }
    wait_for(pid);
    next();
}
static void inherits_not(void) {
    next();
    next();
    next();
    in_thread(of_grandchild);
}

static void runs_self(void) {
    UNSHARE(CLONE_NEWUTS | CLONE_FS);
    sethostname("taken-over", 10);
    chdir("/tmp/apart");
    umask(027);
    fflush(stdout);
    execl("/proc/self/exe", "thread_spaces", "again", NULL);
    printf("errno %d\n", errno);
}
static void is_ended(void) {
    for (;;) pause();
}

static void numbers(void) {
    UNSHARE(CLONE_NEWPID);
    next();
    for (int n = 1; n < 3; n++) {
        pid_t pid = fork();
        if (pid == 0) _exit(getpid() == 1 ? 7 : 1);
        printf("first: %x\n", pid < 0 ? -errno : wait_for(pid));
    }
    in_thread(of_grandchild);
    SHOW(unshare(CLONE_NEWPID));
    next();
    next();
}
static void numbers_here(void) {
    next();
    next();
    pid_t pid = fork();
    if (pid == 0) _exit(getpid() == 1 ? 7 : 1);
    printf("here: %x\n", wait_for(pid));
    in_thread(of_grandchild);
    printf("differ:");
    differ();
    next();
}

// The first thread is apart, and the others are not.
static void second(void) {
    next();
    printf("other: %s\n", host());
    ino_t leader = space(getpid(), "uts"), own = space(own_tid(), "uts");
    struct stat self;
    stat("/proc/self/ns/uts", &self);
    CHECK(leader != own && self.st_ino == leader);
    stat("/proc/thread-self/ns/uts", &self);
    CHECK(self.st_ino == own);
    next();
}
static void first(void) {
    sethostname("before", 6);
    UNSHARE(CLONE_NEWUTS);
    sethostname("leader", 6);
    next();
    next();
    printf("first: %s\n", host());
}

// The old root is taken from all who are at it.
static void at_old_root(void) {
    UNSHARE(CLONE_FS);
    next();
    next();
    printf("there: %s, %d\n", cwd(), access("/inner", F_OK));
}
static void pivots(void) {
    next();
    SHOW(mount("new", "/tmp/apart", "tmpfs", 0, NULL));
    mkdir("/tmp/apart/inner", 0755);
    SHOW(syscall(SYS_pivot_root, "/tmp/apart", "/tmp/apart/inner"));
    printf("here: %s, %d\n", cwd(), access("/inner/tmp", F_OK));
    next();
}
static void pivot(void) {
    if (unshare(CLONE_NEWNS)) exit(97);
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    chdir("/");
    both();
}

// With its thread a name space is gone, and what was mounted in it: there is room for others.
static int made;
static void mounts_and_ends(void) {
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET)) return;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    made += mount("gone", "/tmp/apart/inner", "tmpfs", 0, NULL) == 0 && chdir("/tmp/apart/inner") == 0;
}
static void ends(void) {
    for (int n = 0; n < 700; n++) in_thread(mounts_and_ends);
    SHOW(made);
    SHOW(rmdir("/tmp/apart/inner"));
    SHOW(mkdir("/tmp/apart/inner", 0755));
}

int main(int count, char **args) {
    if (count > 1) {
        printf("%s: %s, %s, mode %o\n", args[1], host(), cwd(), mode_made("mode"));
        return 0;
    }
    mkdir("/tmp/apart", 0755);
    mkdir("/tmp/apart/inner", 0755);
    // What is done to host names is done elsewhere.
    if (unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)) return 97;
    printf("--- each kind\n");
    each_kind();
    part("host names, ports, keys", in_others, in_first);
    part("where it stands", stands, stays);
    part("mounts", mounts, sees_none);
    part("back again", enters, watches);
    part("who inherits", inherits, inherits_not);
    part("a program takes over", runs_self, is_ended);
    part("process ids", numbers, numbers_here);
    part("the first thread", second, first);
    printf("--- another root\n");
    there = at_old_root, here = pivots;
    child(pivot);
    printf("--- ends\n");
    child(ends);
    rmdir("/tmp/apart/inner");
    rmdir("/tmp/apart");
    return 0;
}
