// Paths that are walked again and again lead where they would lead if they were walked for the first time, whatever has happened meanwhile
// to the directories, links and mounts on them, and whoever walks them.
// oracle: linux
// build: gcc, musl
#include "must.h"
#include "test.h"
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>

enum { STEPS = 2000, PROBES = 12, AGAIN = 5, SERIALS = 1 << 16 };

// Which file is which: its number says so until it is gone.
static struct {
    ino_t ino;
    dev_t dev;
    unsigned serial;
} serials[SERIALS];
static unsigned last_serial, mounted;
static uint64_t state = 20261129, sum = 14695981039346656037u;
static unsigned long found, refused, missing;

static unsigned below(unsigned end) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % end;
}

static void fold(uint64_t value) { sum = (sum ^ value) * 1099511628211u; }

static unsigned *serial_of(const struct stat *is) {
    unsigned at = (is->st_ino * 31 + is->st_dev) % SERIALS;
    while (serials[at].serial && (serials[at].ino != is->st_ino || serials[at].dev != is->st_dev)) at = (at + 1) % SERIALS;
    serials[at].ino = is->st_ino, serials[at].dev = is->st_dev;
    return &serials[at].serial;
}

static void made(const char *path) {
    struct stat is;
    if (lstat(path, &is) == 0) *serial_of(&is) = ++last_serial;
}

// A path of one to five names, sometimes with dots.
static void path(char *to, unsigned most) {
    static const char *const names[] = {"a", "b", "c", "a", "b", "c", "l", "m", ".", ".."};
    unsigned count = 1 + below(most);
    *to = 0;
    if (below(3) == 0) strcpy(to, "/");
    while (count--) {
        strcat(to, names[below(10)]);
        if (count) strcat(to, "/");
    }
}

static void probe(void) {
    char at[PATH_MAX];
    path(at, 5);
    int who = below(3) == 0, how = below(4);
    if (who && seteuid(1000)) printf("seteuid: errno %d\n", errno);
    uint64_t first = 0;
    for (int i = 0; i < AGAIN; i++) {
        struct stat is;
        int fd = -1, failed;
        errno = 0;
        switch (how) {
        case 0: failed = stat(at, &is); break;
        case 1: failed = lstat(at, &is); break;
        case 2: failed = fd = open(at, O_PATH), failed = fd < 0 || fstat(fd, &is); break;
        default: failed = fd = open(at, O_RDONLY | O_NONBLOCK), failed = fd < 0 || fstat(fd, &is);
        }
        uint64_t now = failed ? 1000u + errno : (uint64_t)*serial_of(&is) << 32 | is.st_mode;
        if (fd >= 0) close(fd);
        if (i == 0) {
            first = now;
            if (!failed) found++;
            else if (errno == ENOENT) missing++;
            else refused++;
        }
        if (now != first) printf("%s: %llx, then %llx\n", at, (unsigned long long)first, (unsigned long long)now);
    }
    if (who && seteuid(0)) printf("seteuid: errno %d\n", errno);
    fold(first);
}

static void step(void) {
    static const mode_t modes[] = {0755, 0700, 0711, 0744, 0777, 0770};
    char one[PATH_MAX], two[PATH_MAX];
    path(one, 4);
    path(two, 4);
    long result = 0;
    errno = 0;
    int fd;
    switch (below(16)) {
    case 0 ... 2: result = mkdir(one, 0755); if (result == 0) made(one); break;
    case 3 ... 4:
        result = fd = open(one, O_CREAT | O_EXCL | O_RDWR, 0644);
        if (fd >= 0) made(one), close(fd), result = 0;
        break;
    case 5: result = symlink(two, one); if (result == 0) made(one); break;
    case 6: result = rmdir(one); break;
    case 7: result = unlink(one); break;
    case 8 ... 9: result = rename(one, two); break;
    case 10: result = syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, two, 2); break;
    case 11: result = chmod(one, modes[below(6)]); break;
    case 12: result = lchown(one, below(2) ? 1000 : 0, below(2) ? 1000 : 0); break;
    case 13: result = link(one, two); break;
    case 14:
        if (mounted < 3) {
            result = mount(one, two, NULL, MS_BIND, NULL);
            if (result == 0) mounted++;
        }
        break;
    default:
        // From another directory the same names are others.
        if (mounted) {
            // Without its root there is not much to do.
            struct stat is;
            if (stat(one, &is) == 0 && *serial_of(&is) == 1) break;
            result = umount2(one, MNT_DETACH);
            if (result == 0) mounted--;
        } else {
            result = chdir(below(2) ? "/" : one);
        }
    }
    fold(result < 0 ? errno : result);
}

static void all_in(const char *root) {
    // All happens in a file system of its own that is the root: nothing else can be reached from there.
    MUST(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    MUST(mount("again", root, "tmpfs", 0, "mode=755") == 0);
    MUST(chdir(root) == 0 && chroot(".") == 0 && chdir("/") == 0);
    made("/");
    for (int i = 1; i <= STEPS; i++) {
        step();
        for (int j = 0; j < PROBES; j++) probe();
        if (i % 100 == 0) {
            MUST(chdir("/") == 0);
            printf("%d: %016llx, found %lu, missing %lu, refused %lu\n", i, (unsigned long long)sum, found, missing, refused);
        }
    }
    exit(0);
}

int main(void) {
    char root[] = "/tmp/again.XXXXXX";
    MUST(mkdtemp(root) != NULL);
    pid_t child = fork();
    if (child == 0) all_in(root);
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(rmdir(root) == 0);
    return 0;
}
