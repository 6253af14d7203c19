// A load on a file system that is to survive a power failure, and the comparison with what must be there afterwards.
//
//     load run SEED COUNT DIR     performs operations on files in DIR, which is empty, and prints the number of each that has ended
//     load check SEED LEAST DIR   what is there is what operations 1 to P leave, with P at least LEAST, and perhaps a part of P + 1
//     load clear DIR              removes everything, and prints how many blocks are free
//     load stores SEED COUNT FILE makes FILE atomic, and stores to it COUNT times between one msync and the next, whose numbers it prints
//     load whole SEED LEAST FILE  what is there is what it was at one msync, LEAST or one later, and nothing of what was stored since
//
// The operations follow from SEED alone. How many have ended is in DIR/progress, too: what the program printed last may not have
// arrived. Of operation P + 1 names are as before it or after it; of data that were being written any words may be.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { DIRS = 4, NAMES = 8, FILES = 40, WORDS = 4096, SLOTS = (DIRS + 1) * NAMES };
enum kind { CREATE, WRITE, CUT, RENAME, LINK, UNLINK, MKDIR, RMDIR, SYMLINK, MAP, CHMOD, SYNC, KINDS };

// A file or symbolic link.
struct file {
    int links, is_link, mode;
    long size;  // bytes
    uint64_t words[WORDS];
};

// Names are in the root (directory 0) or in one of four directories below it.
struct model {
    int has_dir[DIRS + 1];
    int entry[SLOTS];  // index of a file + 1
    struct file files[FILES];
};

struct operation {
    enum kind kind;
    int slot, other, file;
    long offset, bytes;
    uint64_t value;
};

static uint64_t random_state;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static long below(long n) { return (long)(next_random() % (uint64_t)n); }

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf(" (errno %d)\n", errno);
    exit(1);
}

static int dir_of(int slot) { return slot / NAMES; }

static const char *path_of(const char *root, int slot, char *path) {
    if (dir_of(slot) == 0) sprintf(path, "%s/n%d", root, slot % NAMES);
    else sprintf(path, "%s/d%d/n%d", root, dir_of(slot), slot % NAMES);
    return path;
}

static int free_file(const struct model *m) {
    for (int n = 0; n < FILES; n++)
        if (!m->files[n].links) return n;
    return -1;
}

static int dir_is_empty(const struct model *m, int dir) {
    for (int n = 0; n < NAMES; n++)
        if (m->entry[dir * NAMES + n]) return 0;
    return 1;
}

static struct file *file_at(struct model *m, int slot) {
    return m->entry[slot] ? &m->files[m->entry[slot] - 1] : NULL;
}

// Can this be done, and would it do something?
static int makes_sense(struct model *m, const struct operation *o) {
    struct file *f = file_at(m, o->slot);
    int there = m->has_dir[dir_of(o->slot)];
    switch (o->kind) {
    case CREATE: case SYMLINK: return there && !f && free_file(m) >= 0;
    case WRITE: case CUT: case MAP: case CHMOD: case SYNC:
        return f && !f->is_link && (o->kind != MAP || f->size >= 8);
    case UNLINK: return f != NULL;
    case LINK: return f && !f->is_link && m->has_dir[dir_of(o->other)] && !m->entry[o->other];
    case RENAME:
        return f && m->has_dir[dir_of(o->other)] && o->other != o->slot && m->entry[o->other] != m->entry[o->slot];
    case MKDIR: return !m->has_dir[o->file];
    case RMDIR: return m->has_dir[o->file] && dir_is_empty(m, o->file);
    default: return 0;
    }
}

static struct operation choose(struct model *m, uint64_t number) {
    struct operation o;
    do {
        o.kind = (enum kind)below(KINDS);
        o.slot = (int)below(SLOTS);
        o.other = (int)below(SLOTS);
        o.file = 1 + (int)below(DIRS);
        o.offset = below(WORDS) * 8;
        o.bytes = 8 * (1 + below(below(4) ? 40 : 2000));
        if (o.offset + o.bytes > WORDS * 8) o.bytes = WORDS * 8 - o.offset;
        o.value = number << 20 | (next_random() & 0xfffff);
    } while (!makes_sense(m, &o));
    struct file *f = file_at(m, o.slot);
    if (o.kind == MAP) {
        long words = f->size / 8;
        o.offset = o.offset / 8 % words * 8;
        o.bytes = 8;
    }
    return o;
}

static void drop(struct model *m, int slot) {
    struct file *f = file_at(m, slot);
    if (f && --f->links == 0) memset(f, 0, sizeof *f);
    m->entry[slot] = 0;
}

static void apply(struct model *m, const struct operation *o) {
    struct file *f = file_at(m, o->slot);
    switch (o->kind) {
    case CREATE: case SYMLINK: {
        int n = free_file(m);
        m->entry[o->slot] = n + 1;
        m->files[n].links = 1;
        m->files[n].is_link = o->kind == SYMLINK;
        m->files[n].mode = 0640;
        m->files[n].words[0] = o->value;
        if (o->kind == CREATE) m->files[n].words[0] = 0;
        break;
    }
    case WRITE: case MAP:
        for (long n = 0; n < o->bytes / 8; n++) f->words[o->offset / 8 + n] = o->value + (uint64_t)n;
        if (o->offset + o->bytes > f->size) f->size = o->offset + o->bytes;
        break;
    case CUT:
        for (long n = o->offset / 8; n < WORDS; n++) f->words[n] = 0;
        f->size = o->offset;
        break;
    case UNLINK: drop(m, o->slot); break;
    case LINK: m->entry[o->other] = m->entry[o->slot]; f->links++; break;
    case RENAME: {
        int moved = m->entry[o->slot];
        drop(m, o->other);
        m->entry[o->slot] = 0;
        m->entry[o->other] = moved;
        break;
    }
    case MKDIR: m->has_dir[o->file] = 1; break;
    case RMDIR: m->has_dir[o->file] = 0; break;
    case CHMOD: f->mode = 0600 | (int)(o->value & 077); break;
    default: break;
    }
}

static void perform(const char *root, const struct operation *o) {
    char a[200], b[200];
    static uint64_t buffer[WORDS];
    path_of(root, o->slot, a);
    path_of(root, o->other, b);
    int fd = -1, result = 0;
    switch (o->kind) {
    case CREATE: fd = open(a, O_CREAT | O_EXCL | O_RDWR, 0640); result = fd; break;
    case WRITE:
        for (long n = 0; n < o->bytes / 8; n++) buffer[n] = o->value + (uint64_t)n;
        fd = open(a, O_WRONLY);
        result = pwrite(fd, buffer, (size_t)o->bytes, o->offset) == o->bytes ? 0 : -1;
        break;
    case MAP: {
        fd = open(a, O_RDWR);
        char *at = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) fail("mmap of %s", a);
        *(volatile uint64_t *)(at + o->offset) = o->value;
        result = msync(at, WORDS * 8, MS_SYNC);
        munmap(at, WORDS * 8);
        break;
    }
    case CUT: result = truncate(a, o->offset); break;
    case UNLINK: result = unlink(a); break;
    case LINK: result = link(a, b); break;
    case RENAME: result = rename(a, b); break;
    case MKDIR: sprintf(a, "%s/d%d", root, o->file); result = mkdir(a, 0750); break;
    case RMDIR: sprintf(a, "%s/d%d", root, o->file); result = rmdir(a); break;
    case SYMLINK: sprintf(b, "to-%lx", (unsigned long)o->value); result = symlink(b, a); break;
    case CHMOD: result = chmod(a, 0600 | (mode_t)(o->value & 077)); break;
    case SYNC: fd = open(a, O_RDWR); result = fsync(fd); break;
    default: break;
    }
    if (result < 0) fail("operation %d on %s, %s", (int)o->kind, a, b);
    if (fd >= 0) close(fd);
}

static void run(uint64_t count, const char *root) {
    static struct model m;
    char path[200];
    m.has_dir[0] = 1;
    sprintf(path, "%s/progress", root);
    int progress = open(path, O_CREAT | O_RDWR, 0600);
    if (progress < 0) fail("open %s", path);
    for (uint64_t n = 1; n <= count; n++) {
        struct operation o = choose(&m, n);
        perform(root, &o);
        apply(&m, &o);
        if (pwrite(progress, &n, sizeof n, 0) != sizeof n) fail("progress");
        printf("%lu\n", (unsigned long)n);
        fflush(stdout);
    }
}

static char why[400];

__attribute__((format(printf, 1, 2))) static int differs(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    return 0;
}

// Is what is in a file right? `now` as it was, `then` as it would be afterwards; of a write both are allowed, word by word.
static int same_data(const char *path, const struct file *now, const struct file *then) {
    static uint64_t words[WORDS];
    memset(words, 0, sizeof words);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return differs("%s cannot be opened", path);
    struct stat st;
    fstat(fd, &st);
    long got = read(fd, words, sizeof words);
    close(fd);
    // What a write that makes a file longer has not written yet may not be there.
    int grows = now->size <= st.st_size && st.st_size <= then->size;
    if (st.st_size != now->size && st.st_size != then->size && !grows)
        return differs("%s has %ld bytes, not %ld or %ld", path, (long)st.st_size, now->size, then->size);
    if (got != st.st_size) return differs("%s: read %ld", path, got);
    for (long n = 0; n < st.st_size / 8; n++) {
        int right = words[n] == now->words[n] || words[n] == then->words[n];
        // Behind the old end holes may be seen.
        if (!right && !(n * 8 >= now->size && words[n] == 0))
            return differs("%s: word %ld is %lx, not %lx or %lx", path, n, (unsigned long)words[n],
                           (unsigned long)now->words[n], (unsigned long)then->words[n]);
    }
    return 1;
}

static int count_names(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return -1;
    int count = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "progress")) count++;
    closedir(dir);
    return count;
}

// Are the names those of `m`, with the contents of files between `m` and `then`?
static int same(const char *root, struct model *m, struct model *then) {
    char path[200];
    ino_t inodes[FILES] = {0};
    for (int dir = 0; dir <= DIRS; dir++) {
        int expected = 0;
        if (dir == 0)
            for (int n = 1; n <= DIRS; n++) expected += m->has_dir[n];
        for (int n = 0; n < NAMES; n++) expected += m->entry[dir * NAMES + n] != 0;
        sprintf(path, dir ? "%s/d%d" : "%s", root, dir);
        int there = count_names(path);
        if (there != (m->has_dir[dir] ? expected : -1))
            return differs("%s has %d names, not %d", path, there, m->has_dir[dir] ? expected : -1);
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        struct file *f = file_at(m, slot);
        if (!f) continue;
        struct stat st;
        path_of(root, slot, path);
        if (lstat(path, &st)) return differs("%s is not there", path);
        int n = m->entry[slot] - 1;
        if (inodes[n] && inodes[n] != st.st_ino) return differs("%s is another file", path);
        inodes[n] = st.st_ino;
        if ((int)st.st_nlink != f->links) return differs("%s has %d links, not %d", path, (int)st.st_nlink, f->links);
        if (f->is_link) {
            char text[100] = "", expected[100];
            long got = readlink(path, text, sizeof text - 1);
            sprintf(expected, "to-%lx", (unsigned long)f->words[0]);
            if (!S_ISLNK(st.st_mode) || got < 0 || strcmp(text, expected)) return differs("%s leads to %s", path, text);
            continue;
        }
        if (!S_ISREG(st.st_mode)) return differs("%s has mode %o", path, st.st_mode);
        if ((int)(st.st_mode & 0777) != f->mode) return differs("%s has mode %o, not %o", path, st.st_mode, f->mode);
        if (!same_data(path, f, &then->files[n])) return 0;
    }
    return 1;
}

static void check(uint64_t least, const char *root) {
    static struct model now, then;
    char path[200];
    uint64_t done = 0;
    sprintf(path, "%s/progress", root);
    int progress = open(path, O_RDONLY);
    if (progress >= 0 && read(progress, &done, sizeof done) < 0) fail("progress cannot be read");
    if (done < least) fail("%lu operations were acknowledged, %lu are there", (unsigned long)least, (unsigned long)done);
    now.has_dir[0] = 1;
    for (uint64_t n = 1; n <= done; n++) {
        struct operation o = choose(&now, n);
        apply(&now, &o);
    }
    then = now;
    struct operation o = choose(&then, done + 1);
    apply(&then, &o);
    int is_data = o.kind == WRITE || o.kind == CUT || o.kind == MAP;
    char before[400];
    if (same(root, &now, is_data ? &then : &now)) {
        printf("%lu operations, and what was there before the next\n", (unsigned long)done);
        return;
    }
    strcpy(before, why);
    if (same(root, &then, &then)) {
        printf("%lu operations, and the next\n", (unsigned long)done);
        return;
    }
    fail("after %lu operations, next %d: %s; or: %s", (unsigned long)done, (int)o.kind, before, why);
}

static void clear(const char *root) {
    char path[200];
    for (int slot = 0; slot < SLOTS; slot++) unlink(path_of(root, slot, path));
    for (int dir = 1; dir <= DIRS; dir++) {
        sprintf(path, "%s/d%d", root, dir);
        rmdir(path);
    }
    sprintf(path, "%s/progress", root);
    unlink(path);
    if (count_names(root) != 0) fail("something is left in %s", root);
    struct statvfs st;
    if (statvfs(root, &st)) fail("statvfs");
    printf("%lu blocks free\n", (unsigned long)st.f_bfree);
}

// What is stored between msync `number` - 1 and `number`: a few words anywhere, and the number itself.
static void stores(volatile uint64_t *words, uint64_t number) {
    long count = 1 + below(below(8) ? 30 : 3000);
    for (long n = 0; n < count; n++) {
        long at = 1 + below(WORDS - 1);
        words[at] = number << 20 | (uint64_t)n;
    }
    words[0] = number;
}

static void run_stores(uint64_t count, const char *path) {
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, WORDS * 8) || ioctl(fd, 0xa701, 1)) fail("%s cannot be made atomic", path);
    uint64_t *at = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) fail("mmap");
    for (uint64_t n = 1; n <= count; n++) {
        stores(at, n);
        if (below(2) ? msync(at, WORDS * 8, MS_SYNC) : fsync(fd)) fail("msync");
        printf("%lu\n", (unsigned long)n);
        fflush(stdout);
    }
}

static void check_stores(uint64_t least, const char *path) {
    static uint64_t expected[WORDS], found[WORDS];
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, found, sizeof found) != sizeof found) fail("%s cannot be read", path);
    if (found[0] < least || found[0] > least + 1000)
        fail("%lu was acknowledged, %lu is there", (unsigned long)least, (unsigned long)found[0]);
    for (uint64_t n = 1; n <= found[0]; n++) {
        stores(expected, n);
        below(2);
    }
    for (long n = 0; n < WORDS; n++)
        if (found[n] != expected[n])
            fail("word %ld is %lx, not %lx, after %lu", n, (unsigned long)found[n], (unsigned long)expected[n],
                 (unsigned long)found[0]);
    printf("whole after %lu\n", (unsigned long)found[0]);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "clear")) {
        clear(argv[2]);
        return 0;
    }
    if (argc != 5) return 2;
    random_state = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
    uint64_t number = strtoull(argv[3], NULL, 0);
    if (!strcmp(argv[1], "run")) run(number, argv[4]);
    else if (!strcmp(argv[1], "check")) check(number, argv[4]);
    else if (!strcmp(argv[1], "stores")) run_stores(number, argv[4]);
    else if (!strcmp(argv[1], "whole")) check_stores(number, argv[4]);
    else return 2;
    return 0;
}
