// Programs that are damaged or meant to harm: exec answers an errno or the new program dies, and
// everybody else goes on. Arguments: seed, number of random ones
// (and, to hear what became of them, anything).
//
// args: 1 300
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include <elf.h>
#include <stddef.h>

// A whole program: headers, then code that exits with 42.
static const unsigned char code[] = {0xb8, 60, 0, 0, 0, 0xbf, 42, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b};
enum { HEADERS = 4, CODE_AT = sizeof(Elf64_Ehdr) + HEADERS * sizeof(Elf64_Phdr), BASE = 0x400000 };

struct file {
    Elf64_Ehdr header;
    Elf64_Phdr segment[HEADERS];
    unsigned char rest[3 * PAGE - CODE_AT];
} __attribute__((packed));

static struct file good;
static int failures, tried, refused, killed, ended;
static unsigned long seed;

static unsigned long random_word(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1d;
}

static void make_good(void) {
    memset(&good, 0, sizeof good);
    memcpy(good.header.e_ident, ELFMAG "\2\1\1", 7);
    good.header.e_type = ET_EXEC;
    good.header.e_machine = EM_X86_64;
    good.header.e_version = 1;
    good.header.e_entry = BASE + CODE_AT;
    good.header.e_phoff = sizeof(Elf64_Ehdr);
    good.header.e_ehsize = sizeof(Elf64_Ehdr);
    good.header.e_phentsize = sizeof(Elf64_Phdr);
    good.header.e_phnum = HEADERS;
    Elf64_Phdr text = {PT_LOAD, PF_R | PF_X, 0, BASE, BASE, PAGE, PAGE, PAGE};
    Elf64_Phdr data = {PT_LOAD, PF_R | PF_W, PAGE, BASE + PAGE, 0, PAGE, 3 * PAGE, PAGE};
    Elf64_Phdr more = {PT_LOAD, PF_R, 2 * PAGE, BASE + 8 * PAGE, 0, PAGE, PAGE, PAGE};
    Elf64_Phdr stack = {PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16};
    good.segment[0] = text, good.segment[1] = data, good.segment[2] = more;
    good.segment[3] = stack;
    memcpy((char *)&good + CODE_AT, code, sizeof code);
}

enum { REFUSED = 1000, KILLED = 2000 };

// Executes these bytes: the exit status, or REFUSED + errno, or KILLED + signal.
static int outcome(const void *bytes, size_t length) {
    int fd = open("hostile", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (write(fd, bytes, length) != (long)length) perror("write"), exit(99);
    close(fd);
    int told[2];
    pipe2(told, O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        char *none[] = {NULL};
        // What is random may as well run for ever.
        alarm(2);
        // The reason is told on standard error.
        dup2(open("/dev/null", O_WRONLY), 2);
        execve("./hostile", none, none);
        write(told[1], &errno, sizeof errno);
        _exit(0);
    }
    close(told[1]);
    int error, status;
    long got = read(told[0], &error, sizeof error);
    close(told[0]);
    if (waitpid(pid, &status, 0) != pid) perror("waitpid"), exit(99);
    tried++;
    if (got == sizeof error) return refused++, REFUSED + error;
    if (WIFSIGNALED(status)) return killed++, KILLED + WTERMSIG(status);
    return ended++, WEXITSTATUS(status);
}

static int of(const struct file *file) { return outcome(file, sizeof *file); }

static void expect(const char *what, int got, int wanted) {
    if (got == wanted) return;
    printf("FAILED %s: %d, expected %d\n", what, got, wanted);
    failures++;
}

// Anything but a program that ran as if nothing were wrong.
static void expect_death(const char *what, int got) {
    if (got >= REFUSED) return;
    printf("FAILED %s: it ran and exited with %d\n", what, got);
    failures++;
}

#define WITH(what, wanted, change)                     \
    do {                                               \
        struct file f = good;                          \
        change;                                        \
        expect(what, of(&f), wanted);                  \
    } while (0)
#define DEADLY(what, change)                           \
    do {                                               \
        struct file f = good;                          \
        change;                                        \
        expect_death(what, of(&f));                    \
    } while (0)

static void headers(void) {
    int no = REFUSED + ENOEXEC;
    WITH("a good one", 42, (void)f);
    WITH("magic number", no, f.header.e_ident[1] = 'L');
    WITH("machine", no, f.header.e_machine = EM_AARCH64);
    WITH("type REL", no, f.header.e_type = ET_REL);
    WITH("type CORE", no, f.header.e_type = ET_CORE);
    WITH("no segments", no, f.header.e_phnum = 0);
    WITH("size of a program header", no, f.header.e_phentsize = 55);
    WITH("size of a program header 0", no, f.header.e_phentsize = 0);
    WITH("program headers that wrap around", no, f.header.e_phnum = 65535);
    DEADLY("program headers behind the end", f.header.e_phoff = sizeof f);
    DEADLY("program headers far away", f.header.e_phoff = 1ul << 62);
    DEADLY("program headers at the very end", f.header.e_phoff = -8ul);
    DEADLY("entry 0", f.header.e_entry = 0);
    DEADLY("entry in a hole", f.header.e_entry = BASE + 0x100000);
    DEADLY("entry in data", f.header.e_entry = BASE + PAGE);
    DEADLY("entry in the kernel", f.header.e_entry = 0xffffffff80000000);
    DEADLY("entry not canonical", f.header.e_entry = 0x800000000000);
    DEADLY("entry in the library", f.header.e_entry = 0x7fffe0000000);
    DEADLY("entry in the frame shared with the kernel", f.header.e_entry = 0x7fffe0001000);
    WITH("no text at all", no, (void)0; memset(&f, 0, sizeof f));
}

static void segments(void) {
    for (int i = 0; i < 3; i++) {
        DEADLY("memory smaller than file", f.segment[i].p_memsz = 16);
        DEADLY("size wraps around", f.segment[i].p_memsz = -1ul);
        DEADLY("size to the end of the lower half", f.segment[i].p_memsz = 0x7ffffffff000);
        DEADLY("address in the kernel", f.segment[i].p_vaddr = 0xffff800000000000 + i * PAGE);
        DEADLY("address not canonical", f.segment[i].p_vaddr = 0x800000000000);
        DEADLY("address at the top", f.segment[i].p_vaddr = -PAGE);
        DEADLY("file size too large", f.segment[i].p_filesz = -1ul);
        DEADLY("both sizes too large", f.segment[i].p_filesz = f.segment[i].p_memsz = -PAGE);
        DEADLY("offset not congruent", f.segment[i].p_offset += 16);
    }
    DEADLY("text at 0", f.segment[0].p_vaddr = 0);
    DEADLY("text in the library", f.segment[0].p_vaddr = 0x7fffe0000000);
    DEADLY("text far behind the end", f.segment[0].p_offset = 1ul << 40);
    DEADLY("text offset wraps around", f.segment[0].p_offset = -PAGE);
    // Data where the library is: over it, over its stack, over the frames.
    for (unsigned long at = 0x7fffe0000000; at < 0x7fffe0200000; at += 0x22000) {
        struct file f = good;
        f.segment[1].p_vaddr = at;
        of(&f);
        f.segment[1].p_memsz = 0x200000;
        of(&f);
    }
    DEADLY("more memory than there is addresses", f.segment[1].p_memsz = 1ul << 46);
    // Up to the library and into it.
    struct file f = good;
    f.segment[1].p_vaddr = 0x7fffdfffe000, f.segment[1].p_memsz = 0x10000;
    of(&f);
    // Overlaps: whatever comes of it, only this process sees it.
    f = good;
    f.segment[1].p_vaddr = BASE;
    of(&f);
    f.segment[2].p_vaddr = BASE;
    of(&f);
    f = good;
    f.segment[2].p_vaddr = BASE - 8 * PAGE;
    of(&f);
    for (int i = 0; i < 64; i++) {
        f = good;
        f.segment[i % 3].p_align = 1ul << i;
        of(&f);
        f.segment[i % 3].p_align = (1ul << i) - 1;
        of(&f);
        f.segment[i % 3].p_memsz = 1ul << i;
        of(&f);
    }
}

// An interpreter that is not there, has no end, or is nonsense.
static void dynamic(void) {
    struct file f = good;
    Elf64_Phdr interpreter = {PT_INTERP, PF_R, PAGE, BASE + PAGE, 0, 20, 20, 1};
    f.segment[2] = interpreter;
    strcpy((char *)&f + PAGE, "/lib64/nothing.so.2");
    expect("missing interpreter", of(&f), REFUSED + ENOENT);
    memset((char *)&f + PAGE, 'x', PAGE);
    expect_death("interpreter without an end", of(&f));
    f.segment[2].p_filesz = 0;
    expect_death("interpreter without a name", of(&f));
    f.segment[2].p_filesz = 1 << 20;
    expect_death("interpreter with a long name", of(&f));
    f.segment[2].p_filesz = 20, f.segment[2].p_offset = -10ul;
    expect_death("interpreter far away", of(&f));
    strcpy((char *)&f + PAGE, "./hostile");
    f.segment[2].p_filesz = 10, f.segment[2].p_offset = PAGE;
    of(&f);
}

// Cut off at every interesting place: nothing that is cut inside its headers may run.
static void truncated(void) {
    size_t steps[] = {0, 1, 3, 4, 5, 15, 16, 17, 18, 20, 24, 31, 32, 40, 52, 54, 56, 57, 58, 62, 63};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        expect("cut inside the header", outcome(&good, steps[i]), REFUSED + ENOEXEC);
    for (size_t length = 64; length < CODE_AT; length += 7)
        expect_death("cut inside the program headers", outcome(&good, length));
    for (size_t length = CODE_AT; length < CODE_AT + sizeof code; length++) outcome(&good, length);
    outcome(&good, PAGE - 1), outcome(&good, PAGE), outcome(&good, PAGE + 1);
    // Segments that lie behind the end of the file: refused, or SIGBUS for whoever touches them.
    outcome(&good, 2 * PAGE);
}

static void scripts(void) {
    expect("interpreter of a script that is missing", outcome("#!/nothing\n", 11), REFUSED + ENOENT);
    expect("empty file", outcome("", 0), REFUSED + ENOEXEC);
    expect_death("script without an interpreter", outcome("#!", 2));
    expect_death("script with blanks only", outcome("#!   \n", 6));
    expect("its own interpreter", outcome("#!./hostile\n", 12), REFUSED + ELOOP);
    char line[5000] = "#!/";
    memset(line + 3, 'x', sizeof line - 3);
    expect_death("long interpreter", outcome(line, sizeof line));
    expect("interpreter that is a directory", outcome("#!/tmp\n", 7), REFUSED + EACCES);
}

// Random words in random places of the headers.
static void random_ones(long count) {
    static const unsigned long wild[] = {
        0, 1, 7, 64, 56, 4095, 4096, 4097, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
        0x7fffdffff000, 0x7fffe0000000, 0x7fffe0001000, 0x7ffffffff000, 0x800000000000,
        0xffff800000000000, 0xffffffff80000000, -4096ul, -4095ul, -1ul, BASE, BASE + CODE_AT};
    while (count-- > 0) {
        struct file f = good;
        for (int changes = 1 + random_word() % 4; changes > 0; changes--) {
            size_t at = 16 + random_word() % (CODE_AT - 16 - 8);
            unsigned long value = wild[random_word() % (sizeof wild / sizeof *wild)];
            if (random_word() % 4 == 0) value = random_word();
            if (random_word() % 4 != 0) at &= ~7ul;
            memcpy((char *)&f + at, &value, (random_word() & 1) ? 8 : 1ul << random_word() % 4);
        }
        outcome(&f, random_word() % 8 ? sizeof f : random_word() % sizeof f);
    }
}

int main(int argc, char **argv) {
    unsigned long number = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    seed = number * 0x9e3779b97f4a7c15 + 1;
    make_good();
    headers();
    segments();
    dynamic();
    truncated();
    scripts();
    random_ones(argc > 2 ? atol(argv[2]) : 300);
    expect("a good one at the end", of(&good), 42);
    unlink("hostile");
    if (argc > 3)
        printf("seed %lu: %d tried, %d refused, %d killed, %d ended\n", number, tried, refused, killed,
               ended);
    if (!failures) printf("passed\n");
    return failures != 0;
}
