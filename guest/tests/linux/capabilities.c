// POSIX capabilities: what the administrator gives up is gone, what ids do to them, what programs get.
//
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { USER = 1000, OTHER = 1001 };
#define ALL ((1ul << 41) - 1)
#define BIT(cap) (1ul << (cap))

struct sets { unsigned long effective, permitted, inheritable; };

static struct sets caps_of(int pid) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, pid};
    struct __user_cap_data_struct data[2] = {0};
    struct sets sets = {-1ul, -1ul, -1ul};
    if (syscall(SYS_capget, &head, data)) return sets;
    sets.effective = data[0].effective | (unsigned long)data[1].effective << 32;
    sets.permitted = data[0].permitted | (unsigned long)data[1].permitted << 32;
    sets.inheritable = data[0].inheritable | (unsigned long)data[1].inheritable << 32;
    return sets;
}

static int set_caps(struct sets sets) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    for (int i = 0; i < 2; i++) {
        data[i].effective = sets.effective >> 32 * i;
        data[i].permitted = sets.permitted >> 32 * i;
        data[i].inheritable = sets.inheritable >> 32 * i;
    }
    return syscall(SYS_capset, &head, data) ? -errno : 0;
}

static int keep_only(unsigned long caps) { return set_caps((struct sets){caps, caps, 0}); }

#define ERROR(call) ((call) == -1 ? errno : 0)

// Runs in a process of its own. What a check says there counts here.
#define IN_CHILD(...)                                                         \
    do {                                                                      \
        pid_t pid = fork();                                                   \
        if (pid == 0) {                                                       \
            failures = 0;                                                     \
            __VA_ARGS__;                                                      \
            _exit(failures != 0);                                             \
        }                                                                     \
        int status;                                                           \
        waitpid(pid, &status, 0);                                             \
        check("child", status, 0);                                            \
    } while (0)

static int failures;
static void check(const char *what, long got, long expected) {
    if (got != expected) printf("%s: %ld, not %ld\n", what, got, expected), failures++;
}

static void follow_ids(void) {
    struct sets all = caps_of(0);
    check("all permitted", all.permitted == ALL, 1);
    check("all effective", all.effective == ALL, 1);
    check("none inheritable", all.inheritable == 0, 1);
    check("seteuid", setresuid(-1, USER, -1), 0);
    check("none effective", caps_of(0).effective == 0, 1);
    check("all still permitted", caps_of(0).permitted == ALL, 1);
    check("open as user", ERROR(open("secret", O_RDONLY)), EACCES);
    check("back", setresuid(-1, 0, -1), 0);
    check("all effective again", caps_of(0).effective == ALL, 1);
    check("keep", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
    check("keeps", prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0), 1);
    check("setuid", setuid(USER), 0);
    check("kept permitted", caps_of(0).permitted == ALL, 1);
    check("not effective", caps_of(0).effective == 0, 1);
    check("made effective", set_caps((struct sets){BIT(CAP_DAC_OVERRIDE), ALL, 0}), 0);
    check("open by capability", ERROR(open("secret", O_RDONLY)), 0);
    check("dropped", keep_only(0), 0);
    check("open without", ERROR(open("secret", O_RDONLY)), EACCES);
    check("not again", set_caps((struct sets){0, BIT(CAP_KILL), 0}), -EPERM);
    check("not effective beyond permitted", set_caps((struct sets){BIT(CAP_KILL), 0, 0}), -EPERM);
    check("not inheritable", set_caps((struct sets){0, 0, BIT(CAP_KILL)}), -EPERM);
    check("no root", ERROR(setuid(0)), EPERM);
}

static void file_ids(void) {
    check("setfsuid", syscall(SYS_setfsuid, USER), 0);
    check("setfsuid again", syscall(SYS_setfsuid, USER), USER);
    check("open", ERROR(open("secret", O_RDONLY)), EACCES);
    check("kill stays", (caps_of(0).effective & BIT(CAP_KILL)) != 0, 1);
    check("files do not", (caps_of(0).effective & BIT(CAP_DAC_OVERRIDE)) != 0, 0);
    int fd = open("shared/by_file_id", O_CREAT | O_RDWR, 0600);
    struct stat st = {0};
    fstat(fd, &st);
    check("owner", st.st_uid, USER);
    check("back", syscall(SYS_setfsuid, 0), USER);
    check("open as root", ERROR(open("secret", O_RDONLY)), 0);
    check("minus one", syscall(SYS_setfsuid, -1), 0);
    check("setfsgid", syscall(SYS_setfsgid, 5), 0);
    check("setfsgid again", syscall(SYS_setfsgid, -1), 5);
    check("seteuid takes it along", setresuid(-1, USER, -1), 0);
    check("that", syscall(SYS_setfsuid, -1), USER);
}

static void without(int cap) { check("drop", keep_only(ALL & ~BIT(cap)), 0); }

static void each_counts(void) {
    pid_t victim = fork();
    if (victim == 0) {
        setresuid(OTHER, OTHER, OTHER);
        for (;;) pause();
    }
    usleep(20000);
    IN_CHILD(without(CAP_KILL); check("kill", ERROR(kill(victim, SIGTERM)), EPERM));
    IN_CHILD(without(CAP_KILL); check("kill 0", ERROR(kill(victim, 0)), EPERM));
    IN_CHILD(without(CAP_KILL); check("tkill", ERROR(syscall(SYS_tkill, victim, SIGTERM)), EPERM));
    IN_CHILD(without(CAP_SETUID); check("setuid", ERROR(setuid(USER)), EPERM));
    IN_CHILD(without(CAP_SETGID); check("setgid", ERROR(setgid(USER)), EPERM));
    IN_CHILD(without(CAP_SETGID); check("setgroups", ERROR(syscall(SYS_setgroups, 0, NULL)), EPERM));
    IN_CHILD(without(CAP_CHOWN); check("chown", ERROR(chown("secret", USER, -1)), EPERM));
    IN_CHILD(without(CAP_FOWNER); check("chmod", ERROR(chmod("theirs", 0600)), EPERM));
    IN_CHILD(without(CAP_MKNOD); check("mknod", ERROR(mknod("dev", S_IFCHR | 0600, 259)), EPERM));
    IN_CHILD(without(CAP_DAC_OVERRIDE); check("write", ERROR(open("theirs", O_WRONLY)), EACCES));
    IN_CHILD(without(CAP_DAC_OVERRIDE); check("read", ERROR(open("theirs", O_RDONLY)), 0));
    IN_CHILD(keep_only(ALL & ~BIT(CAP_DAC_OVERRIDE) & ~BIT(CAP_DAC_READ_SEARCH));
             check("read", ERROR(open("theirs", O_RDONLY)), EACCES));
    IN_CHILD(without(CAP_SETPCAP); check("bound", ERROR(prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0)), EPERM));
    IN_CHILD(without(CAP_DAC_READ_SEARCH);
             int fd = open("secret", O_RDONLY);
             check("link", ERROR(linkat(fd, "", AT_FDCWD, "other", AT_EMPTY_PATH)), ENOENT));
    IN_CHILD(check("setuid", setuid(USER), 0); check("chown", ERROR(chown("secret", USER, -1)), EPERM));
    check("victim lives", waitpid(victim, NULL, WNOHANG), 0);
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
}

// Says in a new program what it has.
static void tell(void) {
    struct sets sets = caps_of(0);
    uid_t real, effective, saved;
    getresuid(&real, &effective, &saved);
    printf("%lx %lx %lx %d %d %d keep %d dumpable %d bound %d\n", sets.effective, sets.permitted,
           sets.inheritable, real, effective, saved, prctl(PR_GET_KEEPCAPS), prctl(PR_GET_DUMPABLE),
           prctl(PR_CAPBSET_READ, CAP_KILL));
}

static char *self;

static void expect_program(const char *expected) {
    int ends[2];
    pipe(ends);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execl(self, self, "tell", NULL);
        _exit(9);
    }
    close(ends[1]);
    char text[200] = {0};
    read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    if (strcmp(text, expected)) printf("a program has %swanted    %s", text, expected), failures++;
}

static void programs(void) {
    IN_CHILD(keep_only(0); expect_program("1ffffffffff 1ffffffffff 0 0 0 0 keep 0 dumpable 0 bound 1\n"));
    IN_CHILD(prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0);
             expect_program("1ffffffffdf 1ffffffffdf 0 0 0 0 keep 0 dumpable 1 bound 0\n"));
    IN_CHILD(prctl(PR_SET_KEEPCAPS, 1); setresuid(USER, USER, USER);
             expect_program("0 0 0 1000 1000 1000 keep 0 dumpable 1 bound 1\n"));
    IN_CHILD(setresuid(USER, USER, 0);
             check("not dumpable", prctl(PR_GET_DUMPABLE), 0);
             expect_program("0 0 0 1000 1000 1000 keep 0 dumpable 1 bound 1\n"));
    IN_CHILD(setresuid(0, USER, 0);
             expect_program("0 1ffffffffff 0 0 1000 1000 keep 0 dumpable 0 bound 1\n"));
    // What is ambient stays.
    IN_CHILD(set_caps((struct sets){ALL, ALL, BIT(CAP_KILL)});
             check("ambient, not inheritable", ERROR(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0)), EPERM);
             prctl(PR_SET_KEEPCAPS, 1); setresuid(USER, USER, USER);
             check("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0), 0);
             check("is ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0), 1);
             expect_program("20 20 20 1000 1000 1000 keep 0 dumpable 1 bound 1\n"));
    // The administrator's programs have nothing where that is said to be so.
    IN_CHILD(check("securebits", prctl(PR_SET_SECUREBITS, 3), 0);
             check("locked", ERROR(prctl(PR_SET_SECUREBITS, 0)), EPERM);
             expect_program("0 0 0 0 0 0 keep 0 dumpable 1 bound 1\n"));
}

static void arguments(void) {
    struct __user_cap_header_struct head = {1, 0};
    struct __user_cap_data_struct data[2] = {0};
    check("version", ERROR(syscall(SYS_capget, &head, data)), EINVAL);
    check("version told", head.version, _LINUX_CAPABILITY_VERSION_3);
    head = (struct __user_cap_header_struct){1, 0};
    check("version asked", syscall(SYS_capget, &head, NULL), 0);
    head = (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_3, -1};
    check("pid", ERROR(syscall(SYS_capget, &head, data)), EINVAL);
    head.pid = 32000;
    check("nobody", ERROR(syscall(SYS_capget, &head, data)), ESRCH);
    head.pid = getppid();
    check("set of others", ERROR(syscall(SYS_capset, &head, data)), EPERM);
    check("keep 2", ERROR(prctl(PR_SET_KEEPCAPS, 2)), EINVAL);
    check("no such", ERROR(prctl(PR_CAPBSET_READ, 64)), EINVAL);
    check("ambient of none", ERROR(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 64, 0, 0)), EINVAL);
    check("ambient how", ERROR(prctl(PR_CAP_AMBIENT, 9, 1, 0, 0)), EINVAL);
    check("dumpable 3", ERROR(prctl(PR_SET_DUMPABLE, 3)), EINVAL);
    check("nnp 2", ERROR(prctl(PR_SET_NO_NEW_PRIVS, 2, 0, 0, 0)), EINVAL);
    check("nnp", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    check("nnp set", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        tell();
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    char home[] = "/tmp/capsXXXXXX";
    if (!mkdtemp(home) || chdir(home)) return 1;
    chmod(".", 0755);
    // A copy of this program that everybody can read.
    int from = open("/proc/self/exe", O_RDONLY), to = open("self", O_CREAT | O_WRONLY, 0755);
    while (sendfile(to, from, NULL, 1 << 20) > 0) {}
    close(from);
    close(to);
    self = "./self";
    mkdir("shared", 0);
    chmod("shared", 0777);
    close(open("secret", O_CREAT | O_WRONLY, 0600));
    close(open("theirs", O_CREAT | O_WRONLY, 0600));
    chown("theirs", OTHER, OTHER);
    IN_CHILD(follow_ids());
    IN_CHILD(file_ids());
    each_counts();
    programs();
    IN_CHILD(arguments());
    printf(failures ? "" : "passed\n");
    return 0;
}
