// Copy-on-write is the kernel's promise: a child that has given up its privileges, and makes raw
// invocations on the capabilities that it shares with its parent, neither changes a byte that the
// parent sees nor keeps it from going on. Each attack is a child of its own; it reports how many of its
// invocations were refused, so that none passes by not trying.
//
// args:
// kernel: check=1
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include "caps.h"
#include <time.h>

enum { PAGES = 900, SMALL = 6, WORDS = PAGE / sizeof(long) };
enum { READ = 1, WRITE = 2, ALL = 7, IF_EXCLUSIVE = 8 };
enum { COPIES = 1 };
// Root indexes of chunks and of Mappings (linuxdomain), and those that are free for the child.
enum { NODES = 34, NODES_END = 60, OWN = 62, BITS = 256 };
// Slots of the CNode at index 0 and of those behind it that hold tables, and their Mappings.
enum { TABLES = 96, TABLE_MAPPINGS = 144 };

static volatile unsigned long *region, *small, *hole;
static struct report { long tried, shared, no_rights, accepted; int ready, go; } volatile *report;

static unsigned long pattern(long page, long word) { return page * 0x9e3779b97f4a7c15ul + word; }

static long invoke(long label, unsigned long target, const unsigned long *arguments, unsigned long *results) {
    static unsigned long words[11], spare[7];
    words[0] = label, words[1] = target;
    memcpy(words + 2, arguments, 9 * sizeof *words);
    long status;
    do status = invoke_words(words, results ? results : spare);
    while (status == AGAIN);
    return status;
}

#define INVOKE(label, target, ...) invoke(label, target, (unsigned long[9]){__VA_ARGS__}, NULL)

// An invocation that must be refused.
static void attack(long status) {
    report->tried++;
    if (status == SHARED) report->shared++;
    if (status == NO_RIGHTS) report->no_rights++;
    if (status == DONE) report->accepted++;
}

struct identity { unsigned type, relations; };

static struct identity identify(unsigned long place) {
    unsigned long results[7];
    long status = invoke(IDENTIFY, place, (unsigned long[9]){0}, results);
    if (status != DONE) return (struct identity){0};
    return (struct identity){results[0], results[5]};
}

// Is there an L2CNode at a root index which somebody else has, too?
static int is_shared_node(unsigned index) {
    struct identity node = identify(in_root(0, index));
    return node.type == L2 && node.relations & COPIES;
}

// Calls `f` with every slot of a shared CNode that holds something of a type.
static void for_each(unsigned type, void (*f)(unsigned long place)) {
    for (unsigned node = NODES; node < NODES_END; node++) {
        if (!is_shared_node(node)) continue;
        for (unsigned slot = 0; slot < BITS; slot++) {
            if (identify(own(node, slot)).type == type) f(own(node, slot));
        }
    }
}

static void for_each_table(void (*f)(unsigned long table, unsigned long mapping)) {
    for (unsigned slot = TABLES; slot < TABLE_MAPPINGS; slot++) {
        struct identity table = identify(slot);
        if (table.type == PT && table.relations & COPIES) f(slot, slot - TABLES + TABLE_MAPPINGS);
    }
}

// What the child has for itself, in the CNode at OWN: RAM, tables for 2 MiB at MINE, a Frame of junk.
enum { O_RAM = 255, O_PDPT = 1, O_PD, O_PT, O_JUNK, O_MAPPING, O_FREE = 16 };
#define MINE ((volatile unsigned long *)(100ul << 39))

static unsigned long mine(unsigned slot) { return own(OWN, slot); }

static void prepare(void) {
    unsigned long ram = O_RAM;
    INVOKE(CALL, MEMD, 1, 1 << 20, 4096, 0, 0, 0, 0, ram);
    INVOKE(RETYPE, ram, L2, 0, 16384, 1, in_root(0, OWN));
    static const unsigned char types[] = {PDPT, PD, PT, FRAME_TYPE};
    for (int i = 0; i < 4; i++) INVOKE(RETYPE, ram, types[i], 16384 + i * PAGE, PAGE, 1, mine(O_PDPT + i));
    INVOKE(MAP, VSPACE, 100, 1, mine(O_PDPT), 0, ALL, mine(8));
    INVOKE(MAP, mine(O_PDPT), 0, 1, mine(O_PD), 0, ALL, mine(9));
    INVOKE(MAP, mine(O_PD), 0, 1, mine(O_PT), 0, ALL, mine(10));
    INVOKE(MAP, mine(O_PT), 0, 1, mine(O_JUNK), 0, READ | WRITE, mine(11));
    for (long i = 0; i < WORDS; i++) MINE[i] = 0xbadbadbad;
}

// Maps a Frame of the parent's writable, and writes if that is possible.
static void map_writable(unsigned long frame) {
    long status = INVOKE(MAP, mine(O_PT), 1, 1, frame, 0, READ | WRITE, mine(O_MAPPING));
    attack(status);
    if (status == DONE) MINE[WORDS] = 0xdead;
    INVOKE(DELETE, mine(O_MAPPING), 0);
    // To read it is no harm, and is not to become more than that.
    if (INVOKE(MAP, mine(O_PT), 1, 1, frame, 0, READ | WRITE | IF_EXCLUSIVE, mine(O_MAPPING)) == DONE) {
        attack(INVOKE(PROTECT, mine(O_MAPPING), 0, 1, READ | WRITE));
        attack(INVOKE(PROTECT_MANY, mine(O_MAPPING), 1, READ | WRITE));
        attack(INVOKE(REPLACE, mine(O_MAPPING), frame, READ | WRITE));
    }
    INVOKE(DELETE, mine(O_MAPPING), 0);
}

static void frames(void) { for_each(FRAME_TYPE, map_writable); }

static void map_a_copy(unsigned long frame) {
    INVOKE(COPY, frame, mine(O_FREE));
    map_writable(mine(O_FREE));
    INVOKE(DELETE, mine(O_FREE), 0);
    INVOKE(MINT, frame, mine(O_FREE), 0xff, 0);
    map_writable(mine(O_FREE));
    // Another way to the same page.
    attack(INVOKE(RETYPE, mine(O_FREE), FRAME_TYPE, 0, PAGE, 1, mine(O_FREE + 1)));
    attack(INVOKE(REVOKE, mine(O_FREE), 0));
    INVOKE(DELETE, mine(O_FREE), 0);
}

static void copies(void) { for_each(FRAME_TYPE, map_a_copy); }

static void protect(unsigned long mapping) {
    attack(INVOKE(PROTECT, mapping, 0, 1, READ | WRITE));
    attack(INVOKE(PROTECT_MANY, mapping, 1, READ | WRITE | IF_EXCLUSIVE));
    attack(INVOKE(PROTECT_MANY, mapping, 1, 0));
}

static void protect_table(unsigned long table, unsigned long mapping) {
    (void)table;
    attack(INVOKE(PROTECT, mapping, 0, 1, ALL));
    attack(INVOKE(PROTECT_MANY, mapping, 1, ALL));
}

// Afterwards everything that is present in the shared region would be writable; the store does not
// come back if it is not.
static void mappings(void) {
    for_each(MAPPING, protect);
    for_each_table(protect_table);
    for (long page = 0; page < PAGES; page += 100) store_disabled(region + page * WORDS, 0xdead);
}

static void change_slot(unsigned long place) {
    attack(INVOKE(MOVE, place, mine(O_FREE)));
    attack(INVOKE(DELETE, place, 0));
    attack(INVOKE(DELETE_RANGE, place, 1));
    attack(INVOKE(COPY, mine(O_JUNK), place));
    attack(INVOKE(MOVE, mine(O_JUNK), place));
    attack(INVOKE(RETYPE, O_RAM, FRAME_TYPE, 64 * PAGE, PAGE, 1, place));
    attack(INVOKE(RETYPE_COPY, O_RAM, 64 * PAGE, place, 0, place, PAGE, 1));
    attack(INVOKE(REVOKE, place, 0));
}

static void change_mapping(unsigned long mapping) {
    attack(INVOKE(UNMAP, mapping, 0, 1, mine(O_FREE)));
    attack(INVOKE(REPLACE, mapping, mine(O_JUNK), READ | WRITE));
    change_slot(mapping);
}

static void change_node(unsigned node) {
    if (!is_shared_node(node)) return;
    attack(INVOKE(REVOKE, in_root(0, node), 0));
    attack(INVOKE(DELETE_RANGE, own(node, 0), BITS));
    // The free slots, too: what is put there would be the parent's.
    for (unsigned slot = 0; slot < BITS; slot += 17) attack(INVOKE(COPY, mine(O_JUNK), own(node, slot)));
}

static void slots(void) {
    for_each(FRAME_TYPE, change_slot);
    for_each(MAPPING, change_mapping);
    for (unsigned node = NODES; node < NODES_END; node++) change_node(node);
}

static void change_table(unsigned long table, unsigned long mapping) {
    (void)mapping;
    attack(INVOKE(MAP, mine(O_PD), 1, 1, table, 0, ALL, mine(O_FREE)));
    for (unsigned entry = 0; entry < 512; entry += 31) {
        attack(INVOKE(MAP, table, entry, 1, mine(O_JUNK), 0, READ | WRITE, mine(O_FREE)));
    }
    attack(INVOKE(REVOKE, table, 0));
    // To read through it is no harm.
    if (INVOKE(MAP, mine(O_PD), 1, 1, table, 0, READ, mine(O_FREE)) == DONE) {
        attack(INVOKE(PROTECT, mine(O_FREE), 0, 1, ALL));
        INVOKE(DELETE, mine(O_FREE), 0);
    }
}

static void tables(void) { for_each_table(change_table); }

// Keeps the pages, and gives up the CNodes that it shares with the parent: then it is as if the pages
// were its own, but for the parent, who still has them.
static unsigned kept;

static void keep(unsigned long frame) {
    if (kept < 200) INVOKE(COPY, frame, mine(O_FREE + kept++));
}

static void keep_pages(void) {
    for_each(FRAME_TYPE, keep);
    for (unsigned node = NODES; node < NODES_END; node++) {
        if (is_shared_node(node)) INVOKE(DELETE, in_root(0, node), 0);
    }
}

static void heirs(void) {
    keep_pages();
    for (unsigned i = 0; i < kept; i++) map_writable(mine(O_FREE + i));
    _exit(0);
}

// The same, until the parent has written to every page: then nobody shares the old ones, and to write
// to them is the child's right.
static void widows(void) {
    keep_pages();
    report->ready = 1;
    while (!report->go) INVOKE(YIELD, DISPATCHER, 0);
    unsigned written = 0;
    for (unsigned i = 0; i < kept; i++) {
        long status = INVOKE(MAP, mine(O_PT), 1, 1, mine(O_FREE + i), 0, READ | WRITE, mine(O_MAPPING));
        if (status == DONE) MINE[WORDS] = 0xdead, written++;
        INVOKE(DELETE, mine(O_MAPPING), 0);
    }
    report->tried = kept, report->shared = written;
    _exit(0);
}

static const struct { const char *name; void (*act)(void); } attacks[] = {
    {"frames", frames}, {"copies", copies}, {"mappings", mappings}, {"slots", slots},
    {"tables", tables}, {"heirs", heirs}, {"widows", widows},
};

static int failed;

static void complain(const char *attack, const char *what, long number) {
    printf("FAILED: %s: %s %ld\n", attack, what, number);
    failed = 1;
}

// Is all as it was? The parent writes to a part, too: it must be able to.
static void look(const char *attack, int write) {
    for (long page = 0; page < PAGES; page++) {
        for (long word = 0; word < WORDS; word += 37) {
            volatile unsigned long *at = region + page * WORDS + word;
            if (*at != pattern(page, word)) return complain(attack, "changed page", page);
            if (write || page % 7 == 0) *at = pattern(page, word);
        }
    }
    for (long page = 0; page < SMALL; page++) {
        if (small[page * WORDS] != pattern(page, 1)) return complain(attack, "changed small page", page);
        small[page * WORDS] = pattern(page, 1);
    }
    if (hole[1] != 0) complain(attack, "a hole of a file is filled with", hole[1]);
}

static void reap(const char *attack, pid_t pid) {
    for (int i = 0; i < 20000; i++) {
        if (waitpid(pid, NULL, WNOHANG) == pid) return;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    complain(attack, "hangs", 0);
}

static void fill(void) {
    for (long page = 0; page < PAGES; page++) {
        for (long word = 0; word < WORDS; word += 37) region[page * WORDS + word] = pattern(page, word);
    }
    for (long page = 0; page < SMALL; page++) small[page * WORDS] = pattern(page, 1);
}

static void map_all(void) {
    region = pages(PAGES, PROT_READ | PROT_WRITE);
    small = pages(SMALL, PROT_READ | PROT_WRITE);
    report = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open("/tmp/cow_promise", O_RDWR | O_CREAT, 0600);
    ftruncate(fd, 4 * PAGE);
    hole = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    unlink("/tmp/cow_promise");
    if (report == MAP_FAILED || hole == MAP_FAILED) perror("mmap"), exit(99);
}

static void child(void (*act)(void)) {
    volatile char stack[16 * PAGE];
    for (unsigned i = 0; i < sizeof stack; i += PAGE) stack[i] = 0;
    // What the child writes to meanwhile is its own from now on.
    report->ready = 0;
    if (setgid(1000) != 0 || setuid(1000) != 0) _exit(1);
    prepare();
    act();
    _exit(0);
}

static void try(const char *name, void (*act)(void)) {
    fill();
    if (hole[1] != 0) complain(name, "the hole has", hole[1]);
    memset((void *)report, 0, sizeof *report);
    pid_t pid = fork();
    if (pid == 0) child(act);
    if (act == widows) {
        while (!report->ready && waitpid(pid, NULL, WNOHANG) == 0) usleep(1000);
        look(name, 1);
        report->go = 1;
    }
    reap(name, pid);
    look(name, 0);
    if (getenv("VERBOSE")) {
        printf("%s: %ld tried, %ld shared, %ld without rights, %ld accepted\n", name, report->tried,
               report->shared, report->no_rights, report->accepted);
    }
    if (report->tried < 10) complain(name, "tried only", report->tried);
    if (act == widows && report->shared < 100) complain(name, "could not write to its own", report->shared);
    if (act != widows && report->accepted) complain(name, "accepted", report->accepted);
    if (act != widows && report->shared == 0) complain(name, "refused as shared", report->shared);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    map_all();
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) try(attacks[i].name, attacks[i].act);
    if (!failed) printf("passed\n");
    return failed;
}
