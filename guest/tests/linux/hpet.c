// The registers of the machine's timer, mapped by a program: what they say, that nobody can write to them, children, other addresses, other users.
//
// build: gcc, musl
// expect-stdout: passed\n
#include "must.h"
#include "raw.h"
#include <sys/sysmacros.h>
#include <sys/uio.h>

enum { USER = 1000, RW = PROT_READ | PROT_WRITE };

// The first register: the period of the counter in femtoseconds, whose timer it is, and what it can do.
static int is_timer(const volatile uint64_t *registers) {
    uint64_t word = registers[0], period = word >> 32;
    return 0 < period && period <= 100000000 && (word >> 16 & 0xffff) == 0x8086 && (word >> 8 & 0x1f) >= 2 && (word & 0xff) > 0;
}

static int errno_of_map(size_t bytes, int prot, int flags, int fd, off_t offset) {
    void *at = mmap(NULL, bytes, prot, flags, fd, offset);
    return at == MAP_FAILED ? errno : 0;
}

static void ends_well(pid_t pid, int line) {
    int status = -1;
    must(waitpid(pid, &status, 0) == pid && status == 0, line, "a child that ends well");
}

static int maps_says(const char *what) {
    char line[512];
    int found = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, file)) found += strstr(line, what) != NULL;
    fclose(file);
    return found;
}

static void other_user(int fd, const volatile uint64_t *registers) {
    MUST(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
    MUST(open("/dev/hpet", O_RDONLY) == -1 && errno == EACCES);
    MUST(mknod("/tmp/own", S_IFCHR | 0666, makedev(10, 228)) == -1 && errno == EPERM);
    MUST(open("/tmp/writes", O_RDWR) == -1 && errno == EINVAL);
    // What was opened before, and mapped.
    MUST(is_timer(registers));
    MUST(errno_of_map(PAGE, PROT_READ, MAP_SHARED, fd, 0) == 0);
    MUST(errno_of_map(PAGE, RW, MAP_SHARED, fd, 0) == EACCES);
    if (access("/proc/tessera", F_OK) != 0) _exit(0);
    int place = open("/dev/hpet", O_PATH);
    MUST(place >= 0 && errno_of_map(PAGE, PROT_READ, MAP_SHARED, place, 0) == EBADF);
    // Asked of the server itself: of every description that there may be, nothing is to be written to, and nothing is shown of what is not open.
    for (unsigned long desc = 0; desc < 200; desc++)
        MUST(REQUEST(OP_FILE_EXTENT, NULL, desc, 0, 1, ~0ul) != 0);
    _exit(0);
}

int main(void) {
    struct stat info;
    catch_faults();
    if (stat("/dev/hpet", &info) != 0) return printf("no timer\n"), 1;
    MUST(S_ISCHR(info.st_mode) && (info.st_mode & 0777) == 0600 && info.st_uid == 0 && info.st_rdev == makedev(10, 228));
    MUST(open("/dev/hpet", O_RDWR) == -1 && errno == EINVAL);
    MUST(open("/dev/hpet", O_WRONLY) == -1 && errno == EINVAL);
    MUST(mknod("/tmp/writes", S_IFCHR | 0666, makedev(10, 228)) == 0 && chmod("/tmp/writes", 0666) == 0);
    int fd = open("/dev/hpet", O_RDONLY);
    char bytes[8];
    MUST(fd >= 0);
    MUST(read(fd, bytes, 8) == -1 && errno == EIO);
    MUST(write(fd, bytes, 8) == -1 && errno == EBADF);
    MUST(lseek(fd, 0, SEEK_SET) == -1 && errno == ESPIPE);

    MUST(errno_of_map(2 * PAGE, PROT_READ, MAP_SHARED, fd, 0) == EINVAL);
    MUST(errno_of_map(PAGE, PROT_READ, MAP_SHARED, fd, PAGE) == EINVAL);
    MUST(errno_of_map(PAGE, RW, MAP_SHARED, fd, 0) == EACCES);
    MUST(errno_of_map(PAGE, RW, MAP_PRIVATE, fd, 0) == EACCES);
    const volatile uint64_t *registers = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    MUST(registers != MAP_FAILED);
    void *at = (void *)registers;
    MUST(is_timer(registers) && maps_says("/dev/hpet") == 1);
    MUST(signal_of((char *)at + 0xf0, 0) == 0);
    MUST(signal_of(at, 1) == SIGSEGV && is_timer(registers));
    MUST(mprotect(at, PAGE, RW) == -1 && errno == EACCES);
    MUST(mprotect(at, PAGE, PROT_NONE) == 0 && signal_of(at, 0) == SIGSEGV);
    MUST(mprotect(at, PAGE, PROT_READ) == 0 && is_timer(registers));
    // By a call, as from any memory.
    int ends[2];
    uint64_t word = 0;
    MUST(pipe(ends) == 0 && write(ends[1], at, 8) == 8 && read(ends[0], &word, 8) == 8 && word == registers[0]);
    MUST(read(ends[0], at, 0) == 0);
    MUST(write(ends[1], "written!", 8) == 8 && read(ends[0], at, 8) == -1 && errno == EFAULT);
    // It can be given up, and is there again; it moves; it need not be locked, and cannot leave.
    MUST(mlock(at, PAGE) == 0 && munlock(at, PAGE) == 0);
    madvise(at, PAGE, MADV_PAGEOUT);
    MUST(is_timer(registers));
    madvise(at, PAGE, MADV_DONTNEED);
    MUST(is_timer(registers));
    void *place = pages(1, RW), *moved = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    MUST(moved == place && signal_of(at, 0) == SIGSEGV && is_timer(moved) && signal_of(moved, 1) == SIGSEGV);
    at = moved, registers = at;
    // Without its descriptor, and in children.
    int again = dup(fd);
    MUST(close(fd) == 0 && is_timer(registers));
    pid_t pid = fork();
    if (pid == 0) {
        MUST(is_timer(registers) && signal_of(at, 1) == SIGSEGV);
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(!is_timer(registers));
        ends_well(grandchild, __LINE__);
        MUST(munmap(at, PAGE) == 0);
        _exit(0);
    }
    ends_well(pid, __LINE__);
    MUST(is_timer(registers));
    pid = fork();
    if (pid == 0) other_user(again, registers);
    ends_well(pid, __LINE__);
    // From another process, which copies.
    pid = fork();
    if (pid == 0) {
        struct iovec own = {&word, 8}, other = {at, 8};
        word = 0;
        MUST(process_vm_readv(getppid(), &own, 1, &other, 1, 0) == 8 && word == registers[0]);
        MUST(process_vm_writev(getppid(), &own, 1, &other, 1, 0) == -1 && errno == EFAULT);
        _exit(0);
    }
    ends_well(pid, __LINE__);
    MUST(munmap(at, PAGE) == 0 && signal_of(at, 0) == SIGSEGV && maps_says("/dev/hpet") == 0);
    MUST(close(again) == 0 && unlink("/tmp/writes") == 0);
    printf("passed\n");
    return 0;
}
