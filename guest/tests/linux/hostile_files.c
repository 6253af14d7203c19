// What a user gets of a file through a description: no more than the mode in which it was opened, also
// by requests that no library would send. The file is somebody else's; so is the program that runs.
//
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <sys/sendfile.h>

enum { USER = 1000, GOT = 1, EXEC = 1, WRITE_AT = 106, CWD_DESC = 0 };
#define LENGTH (3 * PAGE)
#define ERROR(call) ((call) == -1 ? errno : 0)

static int failures;
static void check(const char *what, long got, long expected) {
    if (got != expected) printf("FAILED: %s: %ld, not %ld\n", what, got, expected), failures++;
}

// Reads what a description of the user's own answers: the id is in the first word.
static long open_raw(const char *path, unsigned flags, unsigned extra, unsigned *desc) {
    long error = REQUEST(OP_OPEN, path, CWD_DESC, flags, 0, extra);
    *desc = error ? 0 : (unsigned)raw_results[1];
    return error;
}

// Did a Frame come? Answers its rights, 0 for none.
static unsigned long frame_of(unsigned desc, int write, long *error) {
    unsigned long slot = own(RAW_NODE, GOT);
    INVOKE(DELETE, slot, 0);
    *error = REQUEST_CAPS(OP_FILE_EXTENT, NULL, slot, desc, 0, write);
    if (INVOKE(IDENTIFY, slot, 0) != DONE) return 0;
    unsigned long rights = raw_results[3];
    return rights ? rights : ~0ul;
}

static char *map_frame(int write);

// Tries to get at the contents through a description. Answers the right bits: 1 read, 2 write.
static int gets(unsigned desc) {
    int got = 0;
    for (int write = 0; write < 2; write++) {
        long error;
        if (!frame_of(desc, write, &error)) continue;
        char *shown = map_frame(1);
        if (shown) {
            got |= 3;
            continue;
        }
        shown = map_frame(0);
        if (shown) got |= 1;
    }
    return got;
}

// A page table of our own, in an entry of the library's table that nothing uses.
enum { LIBRARY_PD = 26, FREE_ENTRY = 300, TABLE = 2, MAPPINGS = 3 };
static int have_table;
static char *map_frame(int write) {
    if (!have_table) {
        unsigned long ram = own(RAW_NODE, 20);
        if (!raw_make_ram(ram, 4096)) return NULL;
        if (INVOKE(RETYPE, ram, PT, 0, 4096, 1, own(RAW_NODE, TABLE))) return NULL;
        if (INVOKE(MAP, LIBRARY_PD, FREE_ENTRY, 1, own(RAW_NODE, TABLE), 0, 7, own(RAW_NODE, MAPPINGS))) return NULL;
        have_table = 1;
    }
    unsigned long mapping = own(RAW_NODE, MAPPINGS + 1);
    INVOKE(DELETE, mapping, 0);
    unsigned flags = write ? 3 : 1;
    if (INVOKE(MAP, own(RAW_NODE, TABLE), 0, 1, own(RAW_NODE, GOT), 0, flags, mapping)) return NULL;
    return (char *)(0x7fffc0000000ul + FREE_ENTRY * 0x200000ul);
}

static void make(const char *path, int mode) {
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    static char text[LENGTH];
    memset(text, 's', sizeof text);
    write(fd, text, sizeof text);
    fchmod(fd, mode);
    close(fd);
}

static void hostile(void) {
    setresgid(USER, USER, USER), setresuid(USER, USER, USER);
    if (!raw_make_node()) { printf("FAILED: no slots\n"); failures++; return; }
    unsigned desc;
    // Of a program that may only be executed.
    static const unsigned writing[] = {O_WRONLY, O_RDWR, O_TRUNC, O_WRONLY | O_TRUNC, O_RDWR | O_APPEND, O_CREAT,
                                       O_PATH, O_DIRECTORY, O_WRONLY | O_RDWR, O_TMPFILE};
    for (size_t i = 0; i < sizeof writing / sizeof *writing; i++) {
        long error = open_raw("/tmp/program", writing[i], EXEC, &desc);
        if (error == 0 && gets(desc) & 2) printf("FAILED: flags %#o, executed: writable\n", writing[i]), failures++;
        check("executed, and more", error != 0, 1);
    }
    check("to execute", open_raw("/tmp/program", 0, EXEC, &desc), 0);
    check("rights of what is executed", gets(desc), 1);
    check("writes to it", REQUEST(WRITE_AT, "x", desc, 0) != 0, 1);
    check("truncates without a write mode", open_raw("/tmp/program", O_TRUNC, 0, &desc), EACCES);
    check("truncates what is read", open_raw("/tmp/read", O_TRUNC, 0, &desc), EACCES);
    check("executes what is not to be", open_raw("/tmp/read", 0, EXEC, &desc), EACCES);
    // What may only be written.
    check("to write", open_raw("/tmp/write", O_WRONLY, 0, &desc), 0);
    check("rights of what is written", gets(desc), 0);
    check("reads it", REQUEST(OP_READ, NULL, desc, 100) != 0, 1);
    check("what may be read of it", REQUEST(OP_READ_BEGIN, NULL, desc, 0, 100), EBADF);
    check("to read", open_raw("/tmp/read", O_RDONLY, 0, &desc), 0);
    check("rights of what is read", gets(desc), 1);
    check("writes to what is read", REQUEST(WRITE_AT, "x", desc, 0), EBADF);
    check("room in what is read", REQUEST(OP_WRITE_BEGIN, NULL, desc, 0, 100), EBADF);
    check("neither", open_raw("/tmp/read", 3, 0, &desc), EACCES);
    check("a place", open_raw("/tmp/write", O_PATH, 0, &desc), 0);
    check("rights of a place", gets(desc), 0);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    make("/tmp/program", 0711), make("/tmp/write", 0722), make("/tmp/read", 0744);
    chmod("/tmp/read", 0644);
    pid_t child = fork();
    if (child == 0) {
        hostile();
        fflush(stdout);
        _exit(failures != 0);
    }
    int status;
    waitpid(child, &status, 0);
    struct stat now;
    static const char *const files[] = {"/tmp/program", "/tmp/write", "/tmp/read"};
    for (int i = 0; i < 3; i++) {
        check(files[i], stat(files[i], &now) == 0 ? now.st_size : -1, LENGTH);
        int fd = open(files[i], O_RDONLY);
        char first;
        check("its first byte", read(fd, &first, 1) == 1 ? first : -1, 's');
        close(fd);
    }
    check("the user's process", status, 0);
    if (!failures) printf("passed\n");
    return 0;
}
