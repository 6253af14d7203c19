// /proc/1: there is a first process, to which those belong whose parents have ended; nobody looks into it.
//
// build: gcc, musl
// expect-stdout: listed: 1\nstat: 1 (init) S 0 1 1, 52 words\nstatus: 1 0 0 1\ncmdline: init\nentries: cmdline comm ns stat statm status\nthe parent of an orphan is there\nby root: nice 5 5, policy 3 0, io 0 16388, limit 22 1, compared 0 9 22, taken 9\n/proc/1 is written to: 21\n/proc/1/comm is written to: 13\n/proc/1/mem: 2\n/proc/1/task: 2\n/proc/1/stat/..: 20\n/proc/1/new is made: 2\ntraced: 1\npgid 1, sid 1\nall its capabilities: yes\nby a user: 1 1 1 1 1 3 1\n
#include "test.h"
#include <dirent.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

static char text[4096];

static char *file(const char *path) {
    int fd = open(path, O_RDONLY);
    long bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes < 0 ? 0 : bytes] = 0;
    return text;
}

static void failed(const char *what, int result) { printf("%s: %d\n", what, result == -1 ? errno : 0); }

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int main(void) {
    DIR *all = opendir("/proc");
    int listed = 0;
    for (struct dirent *entry; (entry = readdir(all));) {
        struct stat seen;
        listed += strcmp(entry->d_name, "1") == 0 && entry->d_type == DT_DIR && stat("/proc/1", &seen) == 0 &&
                  seen.st_ino == entry->d_ino && seen.st_uid == 0 && seen.st_mode == (S_IFDIR | 0555);
    }
    closedir(all);
    printf("listed: %d\n", listed);

    file("/proc/1/stat");
    int words = 0, length = 0;
    for (char *at = text; *at; at++) words += *at == ' ' || *at == '\n';
    sscanf(text, "1 (init) S 0 1 1%n", &length);
    printf("stat: %.*s, %d words\n", length, text, words);
    printf("status: %ld %ld %ld %ld\n", number_in("/proc/1/status", "Pid: %ld"), number_in("/proc/1/status", "PPid: %ld"),
           number_in("/proc/1/status", "Uid: %ld"), number_in("/proc/1/status", "Threads: %ld"));
    printf("cmdline: %s\nentries:", file("/proc/1/cmdline"));
    struct dirent **entries;
    int count = scandir("/proc/1", &entries, NULL, by_name);
    for (int n = 0; n < count; n++)
        if (entries[n]->d_name[0] != '.') printf(" %s", entries[n]->d_name);
    printf("\n");
    fflush(stdout);

    // Whose parent ends first.
    int ends[2];
    if (pipe(ends)) return 1;
    if (fork() == 0) {
        if (fork() == 0) {
            char path[32];
            while (getppid() != 1) usleep(1000);
            snprintf(path, sizeof path, "/proc/%d/comm", getppid());
            char is_there = strcmp(file(path), "init\n") == 0;
            _exit(write(ends[1], &is_there, 1) != 1);
        }
        _exit(0);
    }
    wait(NULL);
    char is_there = 0;
    printf("the parent of an orphan is %s\n", read(ends[0], &is_there, 1) == 1 && is_there ? "there" : "not there");

    // Who may change it finds it changed; its limits nobody here can.
    struct rlimit limit = {1024, 1024}, shown;
    struct sched_param param = {0};
    printf("by root: nice %d ", setpriority(PRIO_PROCESS, 1, 5) ? errno : getpriority(PRIO_PROCESS, 1));
    printf("%d", getpriority(PRIO_PGRP, 1));
    setpriority(PRIO_PROCESS, 1, 0);
    long batch = syscall(SYS_sched_setscheduler, 1, SCHED_BATCH, &param);
    printf(", policy %ld %ld", syscall(SYS_sched_getscheduler, 1), batch);
    syscall(SYS_sched_setscheduler, 1, SCHED_OTHER, &param);
    long io = syscall(SYS_ioprio_set, 1, 1, 2 << 13 | 4);
    printf(", io %ld %ld", io, syscall(SYS_ioprio_get, 1, 1));
    printf(", limit %d", prlimit(1, 16, NULL, &shown) ? errno : 0);
    printf(" %d", prlimit(1, RLIMIT_NOFILE, &limit, NULL) ? errno : 0);
    printf(", compared %ld", syscall(SYS_kcmp, 1, 1, 1, 0, 0));
    printf(" %d", syscall(SYS_kcmp, 1, 1, 0, 0, 0) ? errno : 0);
    printf(" %d", syscall(SYS_kcmp, 1, 1, 99, 0, 0) ? errno : 0);
    int opened = syscall(434, 1, 0);
    printf(", taken %d\n", syscall(438, opened, 0, 0) == -1 ? errno : 0);

    // Not as the administrator, who may write where modes forbid it.
    if (setuid(12)) return 1;
    failed("/proc/1 is written to", open("/proc/1", O_WRONLY));
    failed("/proc/1/comm is written to", open("/proc/1/comm", O_WRONLY));
    failed("/proc/1/mem", open("/proc/1/mem", O_RDONLY));
    failed("/proc/1/task", open("/proc/1/task", O_RDONLY));
    failed("/proc/1/stat/..", open("/proc/1/stat/..", O_RDONLY));
    failed("/proc/1/new is made", open("/proc/1/new", O_CREAT | O_WRONLY, 0600));
    failed("traced", ptrace(PTRACE_ATTACH, 1, NULL, NULL));

    printf("pgid %d, sid %d\n", getpgid(1), getsid(1));
    struct { uint32_t version; int pid; } header = {0x20080522, 1};
    struct { uint32_t effective, permitted, inheritable; } sets[2] = {0};
    int has_all = syscall(SYS_capget, &header, sets) == 0 && sets[0].effective == ~0u && sets[0].permitted == ~0u &&
                  sets[1].effective == 0x1ff && sets[0].inheritable == 0;
    printf("all its capabilities: %s\n", has_all ? "yes" : "NO");
    printf("by a user: %d", setpriority(PRIO_PROCESS, 1, 19) ? errno : 0);
    printf(" %d", syscall(SYS_sched_setscheduler, 1, SCHED_BATCH, &param) ? errno : 0);
    printf(" %d", syscall(SYS_sched_setparam, 1, &param) ? errno : 0);
    printf(" %d", syscall(SYS_ioprio_set, 1, 1, 2 << 13 | 4) ? errno : 0);
    printf(" %d", prlimit(1, RLIMIT_NOFILE, &limit, NULL) ? errno : 0);
    printf(" %d", syscall(SYS_tgkill, getpid(), 1, 0) ? errno : 0);
    printf(" %d\n", syscall(438, opened, 0, 0) == -1 ? errno : 0);
    return 0;
}
