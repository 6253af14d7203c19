// Random requests of a hostile user to the server, with an oracle: nothing changes that this user may not
// change. A user's processes send what no library would, with capabilities that they have no right to
// hand on, and use whatever capabilities they are answered. Beside them live processes, files, pipes and
// locks of the administrator and of another user, which are as they were after each.
//
//     fuzz_requests SEED OPERATIONS [FIRST] < TABLE
//
// TABLE has a line for each request, made of the declarations of crates/protocol/unixproto: `30 Open Opened
// dir:u32 flags:u32`. What a process does depends on the seed and its number alone, so a failure is
// repeated by giving its number as FIRST and few OPERATIONS (unless it takes two at once). With TRACE in
// the environment each request is printed before it is sent.
//
// gives: requests
// args: 1 400000
// long-args: 1 10000000
// nvdimm: 4M
// kernel: check=1
// build: gcc
// timeout: 400
// expect-stdout: passed\n
#include "test.h"
#include "chance.h"
#include "raw.h"
#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>

enum { USER = 1000, OTHER = 1001, CALLS = 250, STUCK_AFTER_MS = 40, START_MS = 4000, STOCK = 6 << 20 };
enum { REQUESTS_MAX = 400, FIELDS_MAX = 5, POOL = 24 };

// The table of requests.

static struct request {
    int number, fields;
    char name[24], reply[16], field[FIELDS_MAX][16], type[FIELDS_MAX][8];
} requests[REQUESTS_MAX];
static int request_count;

static void read_table(void) {
    char line[512];
    while (fgets(line, sizeof line, stdin) && request_count < REQUESTS_MAX) {
        struct request *it = &requests[request_count];
        int at = 0, used;
        if (sscanf(line, "%d %23s %15s%n", &it->number, it->name, it->reply, &at) != 3) continue;
        while (it->fields < FIELDS_MAX &&
               sscanf(line + at, " %15[^:]:%7s%n", it->field[it->fields], it->type[it->fields], &used) == 2)
            at += used, it->fields++;
        request_count++;
    }
}

// What those see that are to be left alone.

enum { SENTINELS = 3 };
static struct { volatile long signals[SENTINELS + 1]; } *seen;
static int sentinels[SENTINELS];

// What the hostile processes say, which they may also write to as they like: it is in a file of theirs.
// Things that were accepted are marked with YES.
enum { YES = 0x6f4b };
struct said { volatile int done, started, gained, accepted[REQUESTS_MAX]; };
static struct said *shared;
static int said_fd;
static long done, accepted[REQUESTS_MAX];
static int failures, tracing, number;
static unsigned long seed;

#define FAIL(...)                                                              \
    do {                                                                       \
        printf("FAILED: seed %lu, process %d: ", seed, number);                \
        printf(__VA_ARGS__);                                                   \
        printf("\n");                                                          \
        failures++;                                                            \
    } while (0)

// The hostile processes.

enum { GOT = 8, GOT_COUNT = 4, VOICES = 40, VOICES_MAX = 6, TABLE = 2, MAPPINGS = 3 };
enum { LIBRARY_PD = 26, FREE_ENTRY = 300 };
#define SHOWN ((volatile unsigned long *)(0x7fffc0000000ul + FREE_ENTRY * 0x200000ul))

static unsigned descs[POOL], pids[POOL], voices;
// What was opened just now: the next requests are mostly about that.
static unsigned focus, focus_left;

static const char *const names[] = {
    "/tmp/v", "/tmp/v/secret", "/tmp/private", "/tmp/public", "/tmp/other", "/tmp/other-public", "/tmp/fifo",
    "/tmp/link", "/tmp/mine", "/tmp/mine/a", "/tmp/mine/b", "/tmp/mine/link", "/tmp/mine/fifo", "/tmp/program",
    "/tmp/writable", "/tmp", "/", "/dev/null", "/dev/console", "/dev/tty", "/dev/full", "/dev/urandom", "/bin",
    "/bin/busybox", "/root", "/etc", "/proc", "/proc/self", "/proc/self/fd/0", "/proc/self/fd", "/proc/self/exe",
    "/proc/self/cwd", "/proc/self/root", "/proc/self/comm", "/proc/thread-self/comm", "/proc/tessera/capabilities",
    "/proc/tessera/unixd", "/proc/meminfo", "/proc/1", "a", "b", ".", "..", "", "a/b", "../v/secret", "nothing",
    "/tmp/new", "/new", "/dev/new", "/tmp/v/new", "/proc/new", "/pmem", "/pmem/a", "/pmem/new", "user.a",
    // More often: some requests are accepted for what survives only.
    "/pmem/a", "/pmem/b", "/pmem/b", "/pmem/c", "/pmem/c", "/pmem/new",
};

static const char *a_name(void) {
    static char made[4300];
    switch (below(12)) {
    case 0: {
        static const char *const of[] = {"", "/fd", "/fd/0", "/fd/1", "/fd/3", "/fd/4", "/cwd", "/exe", "/root", "/comm",
                                         "/task", "/status", "/stat", "/environ", "/maps", "/cwd/private"};
        snprintf(made, sizeof made, "/proc/%d%s", sentinels[below(SENTINELS)], of[below(16)]);
        return made;
    }
    case 1: {
        unsigned length = PICK(1, 255, 256, 4095, 4096, 4200);
        memset(made, 'x', length), made[length] = 0;
        return made;
    }
    case 2:
        for (int i = 0; i < 8; i++) made[i] = (char)random_word();
        made[8] = 0;
        return made;
    default: return names[below(sizeof names / sizeof *names)];
    }
}

static unsigned long a_number(void) {
    switch (below(6)) {
    case 0: return below(16);
    case 1: return PICK(0, 1, 4095, 4096, 4097, 65536, 1ul << 20, 1ul << 31, 1ul << 32, (1ul << 40) - 1, 1ul << 43);
    case 2: return PICK(-1ul, -2ul, -4096ul, 1ul << 63, (1ul << 63) - 1, -1ul << 32);
    case 3: return 1ul << below(64);
    case 4: return below(100000);
    default: return random_word() >> below(64);
    }
}

static unsigned long some_flags(void) {
    unsigned long flags = PICK(0, 0, 1, 2, 3);
    for (unsigned i = below(4); i > 0; i--)
        flags |= PICK(O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NONBLOCK, O_DIRECTORY, O_NOFOLLOW, O_PATH, O_TMPFILE,
                      O_NOCTTY, 0x100, 0x200, 0x400, 0x800, 0x1000, 1ul << below(32));
    return flags;
}

static unsigned long a_process(void) {
    switch (below(6)) {
    case 0: return sentinels[below(SENTINELS)];
    case 1: return -(long)sentinels[below(SENTINELS)];
    case 2: return PICK(0, -1, 1, 2, getpid(), getppid(), -getppid());
    case 3: return pids[below(POOL)];
    default: return below(64);
    }
}

static int is_one_of(const char *name, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(name, *list)) return 1;
    return 0;
}

#define ONE_OF(name, ...) is_one_of(name, (const char *const[]){__VA_ARGS__, NULL})

static unsigned long a_value(const char *field, const char *type) {
    unsigned long value;
    if (below(16) == 0) return a_number();
    if (strstr(field, "desc") && focus_left && below(8)) value = focus;
    else if (strstr(field, "desc") || strstr(field, "dir")) value = below(4) ? descs[below(POOL)] : below(4) ? 0 : below(80);
    else if (strstr(field, "pid") || strstr(field, "pgid") || strstr(field, "tid")) value = a_process();
    else if (strstr(field, "flags")) value = some_flags();
    else if (!strcmp(field, "signal")) value = below(67);
    else if (!strcmp(field, "mode")) value = below(2) ? below(010000) : below(0200000);
    else if (ONE_OF(field, "ns", "value", "interval"))
        value = below(40) ? PICK(0, 0, 1, 1000, 1000000) : PICK(-1ul, 1ul << 62);
    else if (ONE_OF(field, "id", "domain", "protocol", "kind", "how", "bits") && below(2)) value = below(3);
    else if (ONE_OF(field, "offset", "bytes", "first", "pages") && below(2)) value = 4096 * below(4);
    else if (ONE_OF(field, "set", "member") && !strcmp(type, "u32")) value = descs[below(POOL)];
    else if (ONE_OF(field, "uid", "gid", "real", "effective", "saved", "id"))
        value = PICK(0, USER, OTHER, -1u, a_number());
    else if (!strcmp(field, "extra")) value = below(3) == 0;
    else if (!strcmp(field, "code")) value = PICK(0, -1, -2, -6, 0x80, 1, 2);
    else if (!strcmp(field, "command")) value = below(4) ? 0x5400 + below(0x60) : a_number();
    else if (!strcmp(field, "inode")) value = below(200);
    else if (!strcmp(field, "done")) value = below(3) ? below(70000) : a_number();
    else if (below(3) == 0) value = below(8);
    else value = a_number();
    // Mostly of the right type, so that it is looked at.
    if (!strcmp(type, "bool")) return below(2);
    if (!strcmp(type, "u32")) return (uint32_t)value;
    if (!strcmp(type, "i32")) return (unsigned long)(long)(int32_t)value;
    return value;
}

static void remember(unsigned *pool, unsigned value) {
    for (int i = 0; i < POOL; i++)
        if (pool[i] == value) return;
    pool[below(POOL)] = value;
}

// Writes to whatever memory came, and keeps whatever can be spoken with.
static void use_capability(unsigned long slot) {
    unsigned long mapping = own(RAW_NODE, MAPPINGS + 1);
    INVOKE(DELETE, mapping, 0);
    if (!INVOKE(MAP, own(RAW_NODE, TABLE), 0, 1, slot, 0, 3, mapping)) {
        for (int i = 0; i < 512; i += 64) SHOWN[i] = 0xeeeeeeeeeeeeeeee;
        INVOKE(DELETE, mapping, 0);
    }
    if (voices < VOICES_MAX && !INVOKE(COPY, slot, own(RAW_NODE, VOICES + voices))) voices++;
}

// An address of this machine, or a name in the folder of the user. Answers how long it is.
static unsigned long address_in(char *to) {
    if (below(2)) {
        struct sockaddr_in it = {AF_INET, htons(1024 + below(4)), {htonl(INADDR_LOOPBACK)}, {0}};
        memcpy(to, &it, sizeof it);
        return sizeof it;
    }
    struct sockaddr_un it = {AF_UNIX, {0}};
    snprintf(it.sun_path, sizeof it.sun_path, "/tmp/mine/s%u", (unsigned)below(3));
    memcpy(to, &it, sizeof it);
    return 2 + strlen(it.sun_path);
}

// Opening is what most else begins with.
static int choose(void) {
    int which = below(request_count + 5);
    if (which >= request_count)
        for (which = request_count - 1; which > 0 && strcmp(requests[which].name, "Open"); which--) continue;
    if (focus_left > 0) {
        focus_left--;
        for (int tries = 0; tries < 100 && (requests[which].fields == 0 || !strstr(requests[which].field[0], "desc")); tries++)
            which = below(request_count);
    }
    return which;
}

static void send_request(void) {
    int which = choose();
    const struct request *it = &requests[which];
    // These end or stop the sender.
    if (ONE_OF(it->name, "Exit", "ThreadExit", "Stop", "Pause", "Replace", "Sleep") && below(12)) return;
    unsigned long words[6] = {0};
    for (int i = 0; i < it->fields; i++) words[i + 1] = a_value(it->field[i], it->type[i]);
    for (int i = it->fields; i < 5; i++) words[i + 1] = below(8) ? 0 : random_word();
    const char *a = a_name();
    unsigned long length = strlen(a), second = 0;
    memcpy((void *)RAW_DATA, a, length);
    switch (below(6)) {
    case 0: {
        const char *b = a_name();
        second = strlen(b);
        memcpy((char *)RAW_DATA + length, b, second);
        break;
    }
    case 1: // Some ids, or entries of a poll.
        length = 8 * below(20);
        for (unsigned long i = 0; i < length / 4; i++)
            ((unsigned *)RAW_DATA)[i] = below(2) ? descs[below(POOL)] : (unsigned)random_word();
        break;
    case 2: length = PICK(0, 1, 4096, 12288, 12289, 65535); break;
    case 3: // The address of a socket.
        if (below(3) == 0) length = address_in((void *)RAW_DATA);
        break;
    }
    words[0] = (below(200) ? (unsigned)it->number : (unsigned)below(65536)) | (length & 0xffff) << 16 |
               (second & 0xffff) << 32 | (below(100) ? 0 : random_word() << 48);
    unsigned long label = CALL, first = 0;
    if (below(10) == 0) {
        label |= (1 + below(4)) << 16 | (below(2) ? 1ul << below(32) : 0);
        first = below(2) ? below(30) : own(RAW_NODE, below(64));
    }
    unsigned long receive = own(RAW_NODE, GOT);
    for (int i = 0; i < GOT_COUNT; i++) INVOKE(DELETE, own(RAW_NODE, GOT + i), 0);
    unsigned long through = voices && below(4) == 0 ? own(RAW_NODE, VOICES + below(voices)) : UNIXD;
    if (tracing) {
        printf("%d %s %.30s:", number, it->name, a);
        for (int i = 0; i < 6; i++) printf(" %lx", words[i]);
        printf(" through %lx caps %lx %lx\n", through, label, first);
    }
    shared->done++;
    long status = raw_invoke(label, through,
                             (unsigned long[9]){words[0], words[1], words[2], words[3], words[4], words[5], first, receive});
    if (status || raw_results[0]) return;
    shared->accepted[which] = YES;
    if (!strcmp(it->reply, "Opened") && raw_results[1] != focus) {
        remember(descs, raw_results[1]);
        focus = raw_results[1], focus_left = below(9);
    }
    if (!strcmp(it->reply, "PipeEnds")) remember(descs, raw_results[1]), remember(descs, raw_results[2]);
    if (!strcmp(it->reply, "Process")) remember(pids, raw_results[1]);
    if (!strcmp(it->reply, "PosixCaps") && words[1] == 0 && through == UNIXD && (raw_results[1] | raw_results[2]))
        shared->gained = YES;
    for (int i = 0; i < GOT_COUNT; i++)
        if (INVOKE(IDENTIFY, own(RAW_NODE, GOT + i), 0) == DONE) use_capability(own(RAW_NODE, GOT + i));
}

// The number of a request; 0: there is none of that name.
static unsigned number_of(const char *name) {
    for (int i = 0; i < request_count; i++)
        if (!strcmp(requests[i].name, name)) return requests[i].number;
    return 0;
}

// Sockets of each kind, and a queue of messages.
static void open_sockets(void) {
    static const struct { unsigned domain, kind; } sockets[] = {{AF_UNIX, SOCK_STREAM}, {AF_INET, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}};
    for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++)
        if (REQUEST(number_of("Socket"), NULL, sockets[i].domain, 0, sockets[i].kind, O_NONBLOCK) == 0) descs[18 + i] = raw_results[1];
    if (REQUEST(number_of("SocketPair"), NULL, SOCK_STREAM, O_NONBLOCK) == 0) descs[21] = raw_results[1], descs[22] = raw_results[2];
    if (REQUEST(number_of("OpenMessages"), "mine", O_RDWR | O_CREAT | O_NONBLOCK, 0600, 819200) == 0) descs[23] = raw_results[1];
}

static void open_things(void) {
    static const struct { const char *name; unsigned flags; } things[] = {
        {"/tmp/public", O_RDONLY}, {"/tmp/writable", O_WRONLY}, {"/tmp/writable", O_RDWR}, {"/tmp/other-public", O_RDONLY},
        {"/tmp/mine", O_RDONLY | O_DIRECTORY}, {"/tmp/mine/a", O_RDWR | O_CREAT}, {"/tmp", O_PATH}, {"/tmp/private", O_PATH},
        {"/proc/self/status", O_RDONLY}, {"/dev/null", O_RDWR}, {"/tmp/v", O_PATH},
    };
    for (size_t i = 0; i < sizeof things / sizeof *things; i++)
        if (REQUEST(OP_OPEN, things[i].name, 0, things[i].flags, 0644, 0) == 0) descs[i] = raw_results[1];
    if (REQUEST(OP_OPEN, "/tmp/program", 0, 0, 0, 1) == 0) descs[12] = raw_results[1];
    for (int i = 0; i < 2; i++)
        if (REQUEST(OP_PIPE, NULL, i ? O_NONBLOCK : 0) == 0)
            descs[13 + 2 * i] = raw_results[1], descs[14 + 2 * i] = raw_results[2];
    if (REQUEST(OP_MEM_FILE, "m", 8192) == 0) descs[17] = raw_results[1];
    open_sockets();
}

static int make_table(void) {
    unsigned long ram = own(RAW_NODE, 20);
    return raw_make_node() && raw_make_ram(ram, 4096) && !INVOKE(RETYPE, ram, PT, 0, 4096, 1, own(RAW_NODE, TABLE)) &&
           !INVOKE(MAP, LIBRARY_PD, FREE_ENTRY, 1, own(RAW_NODE, TABLE), 0, 7, own(RAW_NODE, MAPPINGS));
}

static void hostile(void) {
    setsid();
    setresgid(USER, USER, USER), setresuid(USER, USER, USER);
    munmap(seen, sizeof *seen);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, said_fd, 0);
    mkdir("/tmp/mine", 0755);
    for (int fd = 0; fd < 3 && !tracing; fd++) close(fd);
    // Two at once, with the same descriptions.
    int twin = below(4) == 0 && fork() == 0;
    if (!make_table()) _exit(1);
    open_things();
    if (twin) state ^= 0x9e3779b97f4a7c15;
    shared->started = 1;
    for (int i = 0; i < CALLS; i++) send_request();
    _exit(0);
}

// What they must not touch.

static void count_signal(int signal) {
    (void)signal;
    for (int i = 0; i < SENTINELS; i++)
        if (sentinels[i] == getpid()) {
            seen->signals[i]++;
            return;
        }
    seen->signals[SENTINELS]++;
}

static void count_signals(int but) {
    for (int signal_ = 1; signal_ < 65; signal_++)
        if (signal_ != but && signal_ != SIGKILL && signal_ != SIGSTOP && signal_ != 32 && signal_ != 33)
            signal(signal_, count_signal);
}

static int victim_pipe[2];
static void sentinel(int which, uid_t user) {
    int ready[2];
    pipe(ready);
    pid_t pid = fork();
    if (pid == 0) {
        close(ready[0]);
        sentinels[which] = getpid();
        if (which == 1) setsid();
        if (user) setresgid(user, user, user), setresuid(user, user, user);
        chdir("/tmp");
        int fd = open("/tmp/private", O_RDWR);
        if (which == 0) flock(fd, LOCK_EX), lseek(fd, 5, SEEK_SET);
        count_signals(0);
        write(ready[1], "", 1);
        for (;;) poll(NULL, 0, -1);
    }
    char byte;
    close(ready[1]);
    read(ready[0], &byte, 1);
    close(ready[0]);
    sentinels[which] = pid;
}

static char before[65536], now[65536];
static char *end_;
#define SAY(...) (end_ += snprintf(end_, now + sizeof now - end_, __VA_ARGS__))

static void say_file(const char *path) {
    struct stat it;
    if (lstat(path, &it)) {
        SAY("%s: errno %d\n", path, errno);
        return;
    }
    SAY("%s: %o %u %u %lu %ld %ld.%ld %ld.%ld", path, it.st_mode, it.st_uid, it.st_gid, it.st_nlink, (long)it.st_size,
        it.st_mtim.tv_sec, it.st_mtim.tv_nsec, it.st_ctim.tv_sec, it.st_ctim.tv_nsec);
    if (S_ISREG(it.st_mode)) {
        unsigned long sum = 0;
        char bytes[4096];
        int fd = open(path, O_RDONLY);
        ssize_t n;
        while ((n = read(fd, bytes, sizeof bytes)) > 0)
            for (ssize_t i = 0; i < n; i++) sum = sum * 31 + (unsigned char)bytes[i];
        close(fd);
        SAY(" %lx", sum);
    }
    SAY("\n");
}

static void say_text(const char *format, int pid, const char *keep) {
    char path[64], text[2048];
    snprintf(path, sizeof path, format, pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!keep || strstr(keep, (char[]){line[0], line[1], line[2], 0})) SAY("%s: %s\n", path, line);
}

static void say_process(int which) {
    int pid = sentinels[which];
    say_text("/proc/%d/status", pid, "Nam Sta Uid Gid Cap PPi Sig");
    say_text("/proc/%d/comm", pid, NULL);
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    ssize_t n = readlink(path, text, sizeof text - 1);
    SAY("%s %.*s, group %d, session %d, signals %ld\n", path, (int)(n < 0 ? 0 : n), text, getpgid(pid), getsid(pid),
        seen->signals[which]);
    for (int fd = 0; fd < 12; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
        n = readlink(path, text, sizeof text - 1);
        if (n > 0) SAY("%s %.*s\n", path, (int)n, text);
    }
}

static const char *const watched[] = {
    "/", "/dev", "/bin", "/root", "/etc", "/dev/null", "/dev/console", "/dev/tty", "/bin/busybox", "/tmp/v",
    "/tmp/v/secret", "/tmp/private", "/tmp/public", "/tmp/other", "/tmp/other-public", "/tmp/fifo", "/tmp/link",
    "/tmp/program",
};

static void look(void) {
    end_ = now;
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) say_file(watched[i]);
    for (int i = 0; i < SENTINELS; i++) say_process(i);
    int bytes = 0;
    ioctl(victim_pipe[0], FIONREAD, &bytes);
    SAY("pipe: %d bytes, flags %o %o\n", bytes, fcntl(victim_pipe[0], F_GETFL), fcntl(victim_pipe[1], F_GETFL));
    int fd = open("/tmp/private", O_RDWR);
    SAY("lock: %d\n", flock(fd, LOCK_EX | LOCK_NB) == -1 ? errno : 0);
    close(fd);
    struct utsname system;
    uname(&system);
    struct timespec wall, since;
    clock_gettime(CLOCK_REALTIME, &wall), clock_gettime(CLOCK_MONOTONIC, &since);
    // The clocks are apart as far as they were; not to the second, as they are read one after the other.
    static long apart;
    long difference = wall.tv_sec - since.tv_sec;
    if (!apart) apart = difference;
    SAY("host %s, clocks %s, mask %o\n", system.nodename, labs(difference - apart) <= 2 ? "as before" : "set", umask(022));
    SAY("own user %d %d, group %d, session %d, signals %ld\n", getuid(), geteuid(), getpgrp(), getsid(0),
        seen->signals[SENTINELS]);
    int status;
    for (int i = 0; i < SENTINELS; i++)
        if (waitpid(sentinels[i], &status, WNOHANG | WUNTRACED | WCONTINUED) != 0) SAY("process %d: %#x\n", i, status);
}

static void compare(void) {
    look();
    if (!strcmp(before, now)) return;
    char *was = before, *is = now;
    while (*was && *is) {
        size_t old = strcspn(was, "\n"), new = strcspn(is, "\n");
        if (old != new || memcmp(was, is, old)) {
            FAIL("\n  was %.*s\n  is  %.*s", (int)old, was, (int)new, is);
            break;
        }
        was += old + 1, is += new + 1;
    }
    if (!*was != !*is) FAIL("more or less than before: %s%s", was, is);
    strcpy(before, now);
}

// Who is in this folder of /proc: -1 if nobody.
static int user_of(const char *name) {
    char path[300];
    struct stat it;
    snprintf(path, sizeof path, "/proc/%s/status", name);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    int ids[4] = {-1, -1, -1, -1};
    char line[256];
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Uid: %d %d %d %d", &ids[0], &ids[1], &ids[2], &ids[3]) == 4) break;
    fclose(file);
    if (stat(path, &it)) return -1;
    for (int i = 1; i < 4; i++)
        if (ids[i] != ids[0]) return -2;
    return ids[0];
}

// Kills what is left of the user. Everybody else is known.
static void clear_processes(void) {
    for (int round = 0, left = 1; left && round < 400; round++) {
        left = 0;
        DIR *folder = opendir("/proc");
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            int pid = atoi(entry->d_name), known = pid <= 1 || pid == getpid();
            for (int i = 0; i < SENTINELS; i++) known |= pid == sentinels[i];
            if (known) continue;
            int user = user_of(entry->d_name);
            if (user == -1) continue;
            if (user != USER) FAIL("process %d has user %d", pid, user);
            kill(pid, SIGKILL);
            left++;
        }
        if (folder) closedir(folder);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (left) usleep(2000);
        if (left && round == 399) FAIL("%d processes cannot be killed", left);
    }
}

static int clear_file(const char *path, const struct stat *it, int type, struct FTW *ftw) {
    (void)ftw;
    if (!strncmp(path, "/proc", 5)) return 0;
    if (it->st_uid != USER || !strcmp(path, "/tmp/writable")) return 0;
    if (strncmp(path, "/tmp", 4)) FAIL("%s belongs to the user", path);
    if (type == FTW_DP) rmdir(path);
    else unlink(path);
    return 0;
}

// Removes what the user has made, which may be in /tmp alone.
static void clear_files(int everywhere) {
    nftw(everywhere ? "/" : "/tmp", clear_file, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
    chmod("/tmp/writable", 0666);
    truncate("/tmp/writable", 8192);
}

static long free_memory(void) {
    struct sysinfo system;
    return sysinfo(&system) == 0 ? (long)(system.freeram * system.mem_unit) : 0;
}

static void make(const char *path, int mode, uid_t user, int bytes) {
    static char text[20000];
    memset(text, 'v', sizeof text);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    write(fd, text, bytes);
    fchown(fd, user, user), fchmod(fd, mode);
    close(fd);
}

static void prepare(void) {
    mkdir("/tmp/v", 0700);
    make("/tmp/v/secret", 0666, 0, 10000), make("/tmp/private", 0600, 0, 10000), make("/tmp/public", 0644, 0, 10000);
    make("/tmp/other", 0600, OTHER, 10000), make("/tmp/other-public", 0644, OTHER, 10000);
    make("/tmp/program", 04711, 0, 10000), make("/tmp/writable", 0666, 0, 8192);
    symlink("/tmp/v/secret", "/tmp/link");
    mkfifo("/tmp/fifo", 0600);
    pipe(victim_pipe);
    static char bytes[5000];
    write(victim_pipe[1], bytes, sizeof bytes);
    sentinel(0, 0), sentinel(1, 0), sentinel(2, OTHER);
    count_signals(SIGCHLD);
    setvbuf(stdout, NULL, _IONBF, 0);
}

// Lets one run until it ends, or does nothing any more.
static void run(void) {
    static struct said said;
    ftruncate(said_fd, 0), ftruncate(said_fd, sizeof said);
    pid_t pid = fork();
    if (pid == 0) {
        state = (seed * 2654435761ul + number) * 0x9e3779b97f4a7c15 | 1;
        for (int i = 0; i < 8; i++) random_word();
        close(victim_pipe[0]), close(victim_pipe[1]);
        for (int signal_ = 1; signal_ < 65; signal_++) signal(signal_, SIG_DFL);
        hostile();
    }
    int last = 0, status, ended = 0;
    for (int idle = 0; idle < (said.started ? STUCK_AFTER_MS : START_MS) && !ended; idle++) {
        ended = waitpid(pid, &status, WNOHANG) == pid;
        memset((void *)&said, 0, sizeof said);
        pread(said_fd, (void *)&said, sizeof said, 0);
        if (said.done != last) idle = 0, last = said.done;
        if (!ended) usleep(1000);
    }
    clear_processes();
    // They may have made it as large as they like.
    ftruncate(said_fd, 0);
    done += said.done > 0 && said.done < 2 * CALLS ? said.done : 1;
    for (int i = 0; i < request_count; i++) accepted[i] += said.accepted[i] == YES;
    if (said.gained == YES) FAIL("capabilities gained");
}

int main(int argc, char **argv) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    long operations = argc > 2 ? atol(argv[2]) : 1000;
    number = argc > 3 ? atoi(argv[3]) : 0;
    tracing = getenv("TRACE") != NULL;
    read_table();
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    said_fd = memfd_create("said", 0);
    prepare();
    look();
    strcpy(before, now);
    long at_first = 0;
    for (int rounds = 0; done < operations && failures < 5; rounds++, number++) {
        run();
        compare();
        clear_files(rounds % 64 == 63);
        // Servers and this process have got their stock by then.
        if (rounds == 8) at_first = free_memory();
    }
    clear_files(1);
    look();
    long lost = at_first ? at_first - free_memory() : 0;
    if (lost > STOCK) FAIL("%ld bytes are lost", lost);
    char bytes[6000];
    if (read(victim_pipe[0], bytes, sizeof bytes) != 5000) FAIL("the pipe has lost something");
    int kinds = 0;
    for (int i = 0; i < request_count; i++) kinds += accepted[i] > 0;
    if (tracing || failures)
        for (int i = 0; i < request_count; i++) printf("%s %ld\n", requests[i].name, accepted[i]);
    // Else nothing was tried.
    int too_few = operations >= 10000 && kinds < request_count * 2 / 3;
    if (too_few) printf("never accepted:");
    for (int i = 0; i < request_count && too_few; i++)
        if (!accepted[i]) printf(" %s", requests[i].name);
    if (too_few) printf("\n");
    if (too_few)
        FAIL("%d of %d requests were accepted", kinds, request_count);
    for (int i = 0; i < SENTINELS; i++) kill(sentinels[i], SIGKILL);
    while (wait(NULL) > 0) continue;
    if (!failures) printf("passed\n");
    return 0;
}
