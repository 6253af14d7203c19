// What /proc says of memory, limits and the machine: of the process itself, of others, of those that have ended.
// oracle: linux
#include "test.h"
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>

// The text of a file, without memory from malloc; NULL: it cannot be read.
static char *text_of(const char *path) {
    static char text[1 << 18];
    size_t length = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0) return NULL;
    for (long got; length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0;)
        length += got;
    close(fd);
    text[length] = 0;
    return text;
}

// The line with a name of a text, behind "NAME:"; NULL: there is none.
static char *line_of(char *text, const char *name) {
    size_t length = strlen(name);
    for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (!strncmp(line, name, length) && line[length] == ':') return line + length + 1;
    return NULL;
}

// A number of a file with lines "NAME: NUMBER ..."; -1: there is no such line, -2: there is no file.
static long number_named(const char *path, const char *name) {
    char *text = text_of(path), *line = text ? line_of(text, name) : NULL;
    return !text ? -2 : line ? atol(line) : -1;
}

static long number_of(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return number_named(path, name);
}

// Field N of /proc/PID/stat, counted from 1.
static unsigned long stat_field(pid_t pid, int n) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    char *text = text_of(path), *at = text ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < n; field++) at = strchr(at + 1, ' ');
    return at ? strtoul(at, NULL, 10) : -1ul;
}

// The same of smaps, of the entry that begins at an address. Of its flags: can it be written to?
static long smaps(void *start, const char *name) {
    char begin[64];
    snprintf(begin, sizeof begin, "\n%08lx-", (unsigned long)start);
    char *text = text_of("/proc/self/smaps"), *entry = text ? strstr(text, begin) : NULL;
    char *line = entry ? line_of(entry + 1, name) : NULL;
    if (!line) return -1;
    return strcmp(name, "VmFlags") ? atol(line) : !strncmp(line, " rd wr mr mw me", 15);
}

static void touch(char *at, size_t count) {
    for (size_t n = 0; n < count; n++) at[n * PAGE] = 1;
}

static char *plain(size_t count) {
    char *at = pages(count, PROT_READ | PROT_WRITE);
    madvise(at, count * PAGE, MADV_NOHUGEPAGE);
    return at;
}

static void own(void) {
    long size = number_of(getpid(), "VmSize"), resident = number_of(getpid(), "VmRSS");
    CHECK(size > 0 && resident > 0 && resident <= size);
    unsigned long faults = stat_field(getpid(), 10);
    char *at = plain(1024);
    CHECK(number_of(getpid(), "VmSize") == size + 4096);
    touch(at, 512);
    long grown = number_of(getpid(), "VmRSS");
    CHECK(grown >= resident + 2048 - 512 && grown <= resident + 2048 + 512);
    CHECK(stat_field(getpid(), 10) > faults);
    CHECK(stat_field(getpid(), 23) == (unsigned long)number_of(getpid(), "VmSize") * 1024);
    CHECK(number_of(getpid(), "VmData") >= 4096 && number_of(getpid(), "VmStk") > 0);
    CHECK(number_of(getpid(), "VmPTE") > 0);
    CHECK(number_of(getpid(), "RssAnon") + number_of(getpid(), "RssFile") + number_of(getpid(), "RssShmem") ==
          number_of(getpid(), "VmRSS"));
    munmap(at, 1024 * PAGE);
    CHECK(number_of(getpid(), "VmSize") == size);
    CHECK(number_of(getpid(), "VmPeak") >= size + 4096);
    CHECK(number_of(getpid(), "VmHWM") >= grown - 256);
    CHECK(number_of(getpid(), "VmRSS") < grown - 1024);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    CHECK(usage.ru_maxrss >= 1500 && usage.ru_minflt > 0);
}

static void each_entry(void) {
    char *at = plain(64);
    touch(at, 64);
    SHOW(smaps(at, "Size"));
    SHOW(smaps(at, "Rss"));
    SHOW(smaps(at, "Private_Dirty"));
    SHOW(smaps(at, "Shared_Dirty"));
    SHOW(smaps(at, "Anonymous"));
    SHOW(smaps(at, "Pss"));
    SHOW(smaps(at, "Locked"));
    SHOW(smaps(at, "VmFlags"));
    IN_CHILD("a child", {
        SHOW(smaps(at, "Rss"));
        SHOW(smaps(at, "Shared_Dirty"));
        SHOW(smaps(at, "Private_Dirty"));
        touch(at, 10);
        SHOW(smaps(at, "Private_Dirty"));
        SHOW(smaps(at, "Pss"));
    });
    // Whose they are now is found out when they are written to.
    SHOW(smaps(at, "Private_Dirty") + smaps(at, "Shared_Dirty"));
    SHOW(mlock(at, 64 * PAGE));
    SHOW(smaps(at, "Locked"));
    SHOW(number_of(getpid(), "VmLck"));
    SHOW(munlock(at, 64 * PAGE));
    SHOW(mprotect(at + 32 * PAGE, 32 * PAGE, PROT_READ));
    SHOW(smaps(at, "Rss"));
    SHOW(smaps(at + 32 * PAGE, "Rss"));
    SHOW(smaps(at + 32 * PAGE, "VmFlags"));
    CHECK(number_named("/proc/self/smaps_rollup", "Rss") >= 250);
    CHECK(number_named("/proc/self/smaps_rollup", "Private_Dirty") >= 250);
    munmap(at, 64 * PAGE);
}

static void others(void) {
    int ready[2], go[2];
    char byte;
    if (pipe(ready) || pipe(go)) return;
    pid_t child = fork();
    if (!child) {
        close(go[1]);
        char *at = plain(2048);
        touch(at, 768);
        if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1)) _exit(1);
        _exit(0);
    }
    close(go[0]);
    SHOW(read(ready[0], &byte, 1));
    CHECK(number_of(child, "VmSize") >= number_of(getpid(), "VmSize") + 8192);
    CHECK(number_of(child, "VmRSS") >= 3072 - 256);
    CHECK(number_of(child, "VmHWM") >= number_of(child, "VmRSS") - 256);
    CHECK(stat_field(child, 24) * 4 >= 3072 - 256);
    CHECK(stat_field(child, 10) > 0);
    CHECK(number_of(child, "Pid") == child && number_of(child, "PPid") == getpid());
    close(go[1]);
    siginfo_t info;
    SHOW(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    SHOW(number_of(child, "VmSize"));
    SHOW(number_of(child, "Threads"));
    CHECK(stat_field(child, 23) == 0 && stat_field(child, 24) == 0);
    struct rusage usage;
    int status = -1;
    CHECK(wait4(child, &status, 0, &usage) == child && status == 0);
    CHECK(usage.ru_maxrss >= 3072 - 256 && usage.ru_minflt > 0);
    getrusage(RUSAGE_CHILDREN, &usage);
    CHECK(usage.ru_maxrss >= 3072 - 256 && usage.ru_minflt > 0);
    SHOW(number_of(child, "VmSize"));
}

// As somebody else: what is for everybody, and what is not.
static void strangers(void) {
    char path[64];
    pid_t target = getpid();
    IN_CHILD("a stranger", {
        SHOW(setuid(1234));
        CHECK(number_of(target, "VmSize") > 0);
        const char *names[] = {"statm", "stat", "limits", "maps", "smaps", "smaps_rollup", "auxv", "environ"};
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            snprintf(path, sizeof path, "/proc/%d/%s", target, names[n]);
            int fd = open(path, O_RDONLY);
            printf("%s: %s\n", names[n], fd >= 0 ? "open" : strerror(errno));
            if (fd >= 0) close(fd);
        }
    });
}

// A name with what would end the line, and the escape itself.
static void names(void) {
    char name[17];
    SHOW(prctl(PR_SET_NAME, "a\nb\\c'd\"e"));
    SHOW(prctl(PR_GET_NAME, name));
    char *text = text_of("/proc/self/status");
    printf("%.*s\n", (int)strcspn(text, "\n"), text);
}

static void limits(void) {
    struct rlimit limit = {100, 200};
    SHOW(setrlimit(RLIMIT_NOFILE, &limit));
    limit = (struct rlimit){1 << 20, RLIM_INFINITY};
    SHOW(setrlimit(RLIMIT_CORE, &limit));
    int lines = 0;
    for (char *line = strtok(text_of("/proc/self/limits"), "\n"); line; line = strtok(NULL, "\n")) {
        const char *shown[] = {"Limit", "open files", "core", "nice"};
        for (size_t n = 0; n < sizeof shown / sizeof *shown; n++)
            if (strstr(line, shown[n])) printf("[%s]\n", line);
        lines++;
    }
    SHOW(lines);
}

static void auxiliary(void) {
    unsigned long words[128] = {0};
    int fd = open("/proc/self/auxv", O_RDONLY);
    long got = read(fd, words, sizeof words);
    close(fd);
    CHECK(got > 0 && got % 16 == 0);
    CHECK(words[got / 8 - 2] == AT_NULL);
    int same = 0;
    for (long n = 0; n < got / 8; n += 2) {
        if (words[n] == AT_PAGESZ || words[n] == AT_PHDR || words[n] == AT_ENTRY || words[n] == AT_RANDOM)
            same += getauxval(words[n]) == words[n + 1];
    }
    SHOW(same);
}

static void machine(void) {
    long total = number_named("/proc/meminfo", "MemTotal"), free = number_named("/proc/meminfo", "MemFree");
    CHECK(total > 0 && free > 0 && free <= total);
    const char *names[] = {"MemAvailable", "Buffers", "Cached", "Active(anon)", "AnonPages", "Mapped", "Shmem",
                           "PageTables", "Committed_AS", "SwapTotal", "HugePages_Total", "Hugepagesize"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        printf("%s: %s\n", names[n], number_named("/proc/meminfo", names[n]) >= 0 ? "there" : "missing");
    double one, five, fifteen;
    int running, all, last;
    FILE *file = fopen("/proc/loadavg", "r");
    SHOW(fscanf(file, "%lf %lf %lf %d/%d %d", &one, &five, &fifteen, &running, &all, &last));
    CHECK(running >= 1 && all >= running && last >= 1 && one >= 0);
    fclose(file);
    char *text = text_of("/proc/cpuinfo"), *flags = strstr(text, "\nflags\t");
    if (flags) *strchr(flags + 1, '\n') = 0;
    CHECK(flags && strstr(flags, " sse2 ") && strstr(flags, " lm ") && strstr(flags, " nx "));
}

// Through /proc/self/mem: as far as there is memory, and an error where there is none, also if all that is to be written
// has been fetched by then.
static void through_a_file(void) {
    size_t half = 128 << 10;
    char *at = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *other = malloc(2 * half);
    CHECK(!munmap(at + half, half));
    memset(other, 7, 2 * half);
    int fd = open("/proc/self/mem", O_RDWR);
    SHOW(pwrite(fd, other, 0, (off_t)at));
    SHOW(pwrite(fd, other, 2 * half, (off_t)at));
    CHECK(at[0] == 7 && at[half - 1] == 7);
    SHOW(pread(fd, other, 2 * half, (off_t)at));
    SHOW(pwrite(fd, other, 8, (off_t)(at + half)));
    SHOW(pread(fd, other, 8, (off_t)(at + half)));
    SHOW(pwrite(fd, other, 16, (off_t)(at + half - 8)));
    close(fd);
}

int main(void) {
    own();
    through_a_file();
    each_entry();
    others();
    strangers();
    names();
    limits();
    auxiliary();
    machine();
    return 0;
}
