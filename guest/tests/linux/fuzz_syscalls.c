// Random system calls with random arguments, each handful in a child of its own: whatever becomes of
// the children, they can be reaped, and neither the parent nor the system notices.
//
//     fuzz_syscalls SEED CHILDREN [FIRST]
//
// What a child does depends only on the seed and its number, so a failure is repeated by giving its
// number as FIRST and 1 as CHILDREN. Minutes: 1 20000.
//
// args: 1 400
// kernel: check=1
// build: gcc
// timeout: 180
// expect-stdout: passed\n
#include "test.h"
#include "chance.h"
#include <ftw.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>

enum { CALLS = 40, KILL_AFTER_MS = 3000, GIVE_UP_AFTER_MS = 20000 };

static volatile struct { int number, done; long arguments[6]; } *last;
static int on_linux;
static char *writable, *read_only, *edge;

static const char *const paths[] = {
    "a", "b", "a/b", "dir", "dir/c", "link", ".", "..", "", "/", "/tmp", "/dev/null", "/dev/zero",
    "/dev/full", "/dev/urandom", "/proc/self/maps", "/proc/self/fd", "/proc/self/exe", "/proc/meminfo",
    "/proc/self/stat", "/nothing", "dir/../a", "fifo", "/proc/self/cwd/a", "/bin/busybox",
};

// Fills the page with a path, or with small numbers: structures, vectors, sets.
static unsigned long filled_page(void) {
    if (below(2)) {
        strcpy(writable, paths[below(sizeof paths / sizeof *paths)]);
        return (unsigned long)writable;
    }
    unsigned long *words = (unsigned long *)writable;
    for (int i = 0; i < 64; i++)
        words[i] = PICK(0, 1, 2, 5, 100, 4096, (unsigned long)writable + 2048, (unsigned long)edge,
                        random_word(), -1);
    return (unsigned long)writable + 8 * below(8);
}

static unsigned long address(void) {
    switch (below(8)) {
    case 0: return PICK(0, 1, 8, 4095, 4096, 0x10000);
    case 1: return PICK(0x7fffdffff000, 0x7fffe0000000, 0x7fffe0010000, 0x7fffe0001000, 0x7fffe0002000,
                        0x7fffe0100000, 0x7fffe0001ff8, 0x7fffffffefff);
    case 2: return PICK(0x800000000000, 0xffff800000000000, 0xffffffff80000000, -4096ul, -8ul, -1ul);
    case 3: return (unsigned long)edge + PAGE - below(64);
    case 4: return (unsigned long)read_only + below(PAGE);
    default: return filled_page();
    }
}

static unsigned long argument(void) {
    switch (below(8)) {
    case 0: return below(12);
    case 1: return PICK(-1ul, 0, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1ul << 63, -100ul);
    case 2: return 1ul << below(64);
    case 3: return PAGE * below(64);
    case 4: return random_word() >> below(64);
    case 5: return below(4096);
    default: return address();
    }
}

// Numbers that could end the session, or on Linux do harm outside the child.
static int excluded(long number) {
    switch (number) {
    case SYS_reboot:
        return 1;
    case SYS_vfork: // returns twice into the same frame of syscall()
        return 1;
    case SYS_mount: case SYS_umount2: case SYS_swapon: case SYS_swapoff: case SYS_settimeofday:
    case SYS_clock_settime: case SYS_sethostname: case SYS_setdomainname: case SYS_init_module:
    case SYS_delete_module: case SYS_kexec_load: case SYS_finit_module: case SYS_adjtimex:
    case SYS_clock_adjtime: case SYS_vhangup: case SYS_pivot_root: case SYS_syslog: case SYS_ptrace:
    case SYS_seccomp: case SYS_bpf: case SYS_shmget: case SYS_msgget: case SYS_semget:
        return on_linux;
    }
    return 0;
}

// Which argument names another process, or -1: that one may be the child itself only.
static int names_a_process(long number) {
    switch (number) {
    case SYS_kill: case SYS_tkill: case SYS_tgkill: case SYS_rt_sigqueueinfo: case SYS_setpgid:
    case SYS_rt_tgsigqueueinfo: case SYS_prlimit64: case SYS_sched_setparam: case SYS_move_pages:
    case SYS_sched_setscheduler: case SYS_sched_setaffinity: case SYS_sched_setattr:
    case SYS_process_vm_readv: case SYS_process_vm_writev: case SYS_pidfd_open:
    case SYS_migrate_pages: case SYS_kcmp:
        return 0;
    case SYS_setpriority: case SYS_ioprio_set: case SYS_ptrace:
        return 1;
    }
    return -1;
}

static long number(void) {
    switch (below(20)) {
    case 0: return random_word() >> below(64);
    case 1: return 424 + below(40);
    case 2: case 3: case 4: case 5: case 6:
        // Memory and processes, more often than the rest.
        return PICK(SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_brk, SYS_madvise, SYS_fork,
                    SYS_read, SYS_write, SYS_open, SYS_close, SYS_dup2, SYS_pipe, SYS_fcntl, SYS_ioctl,
                    SYS_wait4, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_ftruncate, SYS_pread64,
                    SYS_pwrite64, SYS_readv, SYS_writev, SYS_poll, SYS_sigaltstack, SYS_execve);
    default: return below(335);
    }
}

static void one_call(void) {
    long which = number();
    unsigned long a[6];
    for (int i = 0; i < 6; i++) a[i] = argument();
    if (excluded(which)) return;
    int at = names_a_process(which);
    if (at >= 0) a[at] = PICK(getpid(), 0x3fffffff, -0x3fffffff);
    if (which == SYS_tgkill || which == SYS_rt_tgsigqueueinfo) a[1] = getpid();
    // Owners of descriptors are processes too.
    if (which == SYS_fcntl && (a[1] == F_SETOWN || a[1] == F_SETOWN_EX)) return;
    // A clone with the same memory and no stack of its own harms itself only, but it is not reaped.
    if (which == SYS_clone) a[0] = SIGCHLD;
    if (which == SYS_clone3) return;
    last->number = which;
    for (int i = 0; i < 6; i++) last->arguments[i] = a[i];
    long self = getpid();
    syscall(which, a[0], a[1], a[2], a[3], a[4], a[5]);
    last->done++;
    if (syscall(SYS_getpid) != self) _exit(0);
}

static void on_alarm(int signal) { (void)signal; }

static void child(void) {
    // What it prints is nobody's business.
    int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(nothing, fd);
    setpgid(0, 0);
    int ends[2];
    pipe(ends);
    open("a", O_RDWR | O_CREAT, 0600);
    open(".", O_RDONLY | O_DIRECTORY);
    // What blocks is interrupted.
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    struct rlimit limit = {64 << 20, 64 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < CALLS; i++) one_call();
    _exit(0);
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Waits for a child, and kills it when that takes long; 0 if it cannot even be killed.
static int reaped(pid_t pid) {
    long start = milliseconds();
    for (int killed = 0; waitpid(pid, NULL, WNOHANG) != pid;) {
        long passed = milliseconds() - start;
        if (passed > GIVE_UP_AFTER_MS) return 0;
        if (passed > KILL_AFTER_MS && !killed) killed = 1, kill(pid, SIGKILL);
        if (passed > 2) usleep(2000);
    }
    kill(-pid, SIGKILL);
    return 1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind;
    if (walk->level > 0) remove(path);
    return 0;
}

static void fresh_folder(void) {
    chdir("/tmp");
    chmod("fuzz", 0700);
    nftw("fuzz", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    mkdir("fuzz", 0700);
    chdir("fuzz");
    mkdir("dir", 0700);
    symlink("a", "link");
    mkfifo("fifo", 0600);
}

static long free_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.freeram * info.mem_unit;
}

int main(int argc, char **argv) {
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    long children = argc > 2 ? atol(argv[2]) : 400, first = argc > 3 ? atol(argv[3]) : 0;
    struct utsname name;
    uname(&name);
    on_linux = access("/proc/tessera", F_OK) != 0 && strstr(name.version, "Tessera") == NULL;
    // As root there are too many ways to end somebody else's Linux.
    if (on_linux && getuid() == 0 && (setgid(65534) || setuid(65534))) return 1;
    last = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    writable = pages(1, PROT_READ | PROT_WRITE);
    read_only = pages(1, PROT_READ);
    edge = pages(2, PROT_READ | PROT_WRITE);
    munmap(edge + PAGE, PAGE);
    char *canary = pages(16, PROT_READ | PROT_WRITE);
    memset(canary, 0x5a, 16 * PAGE);
    long before = 0, calls = 0;
    for (long i = first; i < first + children; i++) {
        fresh_folder();
        if (i == first + 20) before = free_memory();
        state = (seed * 1000003 + i + 1) * 0x9e3779b97f4a7c15 | 1;
        for (int j = 0; j < 8; j++) random_word();
        last->done = 0;
        pid_t pid = fork();
        if (pid < 0) {
            printf("FAILED: fork for child %ld: errno %d\n", i, errno);
            return 1;
        }
        if (pid == 0) child();
        int gone = reaped(pid);
        calls += last->done;
        if (!gone) {
            printf("FAILED: child %ld of seed %lu cannot be reaped; last call %d(%#lx, %#lx, %#lx, "
                   "%#lx, %#lx, %#lx)\n", i, seed, last->number, last->arguments[0],
                   last->arguments[1], last->arguments[2], last->arguments[3], last->arguments[4],
                   last->arguments[5]);
            return 1;
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
        for (int j = 0; j < 16; j++)
            if (canary[j * PAGE + 7 * j] != 0x5a) {
                printf("FAILED: child %ld of seed %lu has changed the parent's memory\n", i, seed);
                return 1;
            }
    }
    fresh_folder();
    if (children > 1000) printf("seed %lu: %ld calls\n", seed, calls);
    long lost = before - free_memory();
    if (!on_linux && before && lost > 1 << 20) {
        printf("FAILED: %ld bytes lost\n", lost);
        return 1;
    }
    chdir("/tmp");
    nftw("fuzz", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    rmdir("fuzz");
    printf("passed\n");
    return 0;
}
