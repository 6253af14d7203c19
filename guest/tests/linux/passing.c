// Memory that goes to other processes, in each mode, by a fork, through a socket, by executing a program: contents, who sees what is written
// afterwards, what is mapped where it was, the errors, limits, other users, ends at the wrong time.
//
// build: gcc, musl
// mem: 512M
// cores: 2
// expect-stdout: passed\n
#include "passing.h"
#include <sys/resource.h>
#include <sys/uio.h>

enum { RW = PROT_READ | PROT_WRITE };

// What is passed: few pages, which are copied; and so much that it is an object.
static const size_t sizes[] = {1, 3, 64, 300, 700, 2048, 4096 + 5};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int errno_of(int how, void *addr, size_t len, uint64_t *offset) {
    int fd = export_range(how, addr, len, offset);
    if (fd < 0) return errno;
    close(fd);
    return 0;
}

// A part of a larger mapping: what is in front of it and behind it stays.
static char *part(size_t count, int value) {
    char *all = pages(count + 4, RW);
    fill(all, count + 4, value - 2);
    return all + 2 * PAGE;
}
static void end_part(char *at, size_t count, int value) {
    MUST(is_filled(at - 2 * PAGE, 2, value - 2));
    MUST((unsigned char)at[count * PAGE] == (unsigned char)(value - 2 + (int)((count + 2) % 97)));
    MUST(munmap(at - 2 * PAGE, (count + 4) * PAGE) == 0);
}
static int is_filled_part(const char *at, size_t count, int value) {
    for (size_t n = 0; n < count; n++) {
        unsigned char wanted = (unsigned char)(value - 2 + (int)((n + 2) % 97));
        const unsigned char *page = (const unsigned char *)at + n * PAGE;
        if (page[0] != wanted || page[PAGE - 1] != wanted) return 0;
    }
    return 1;
}

static int pair[2];
static void tell(int socket) { MUST(write(socket, "x", 1) == 1); }
static void hear(int socket) { char byte; MUST(read(socket, &byte, 1) == 1); }

// The receiver is another process, which gets the descriptor through a socket.
static void through_a_socket(int how, size_t count, int other_user) {
    char *at = part(count, 10);
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        // Nothing of the child's copy of the range is used.
        MUST(munmap(at - 2 * PAGE, (count + 4) * PAGE) == 0);
        if (other_user) MUST(setgid(1000) == 0 && setuid(1000) == 0);
        uint64_t offset;
        int fd = receive_range(pair[1], &offset);
        char *got;
        if (how == PASS_SHARE) got = mmap(NULL, count * PAGE, RW, MAP_SHARED, fd, (off_t)offset);
        else got = import_range(how == PASS_COPY ? PASS_IMPORT : PASS_TAKE, fd, count * PAGE, offset);
        MUST(got != MAP_FAILED);
        MUST(close(fd) == 0);
        MUST(is_filled_part(got, count, 10));
        tell(pair[1]);
        hear(pair[1]);
        // The giver has written to the first page, if it has it.
        MUST(got[1] == (how == PASS_SHARE ? 'g' : got[0]));
        fill(got, count, 50);
        MUST(is_filled(got, count, 50));
        tell(pair[1]);
        hear(pair[1]);
        // It is this process's own, or shared, as all such memory: a child inherits it so.
        pid_t grandchild = fork();
        if (grandchild == 0) {
            MUST(is_filled(got, count, 50));
            got[5] = 'c';
            _exit(0);
        }
        CHILD_IS_WELL(grandchild);
        MUST((got[5] == 'c') == (how == PASS_SHARE));
        got = mremap(got, count * PAGE, (count + 1) * PAGE, MREMAP_MAYMOVE);
        MUST(got != MAP_FAILED);
        MUST(how == PASS_SHARE || got[count * PAGE] == 0);
        _exit(0);
    }
    uint64_t offset = 1;
    int fd = export_range(how, at, count * PAGE, &offset);
    MUST(fd >= 0);
    MUST(offset % PAGE == 0);
    send_range(pair[0], fd, offset);
    MUST(close(fd) == 0);
    hear(pair[0]);
    MUST(signal_of(at, 0) == (how == PASS_DONATE ? SIGSEGV : 0));
    MUST(signal_of(at + (count - 1) * PAGE, 1) == (how == PASS_DONATE ? SIGSEGV : 0));
    if (how != PASS_DONATE) at[1] = 'g', at[(count - 1) * PAGE] = at[(count - 1) * PAGE + 1];
    tell(pair[0]);
    hear(pair[0]);
    if (how == PASS_SHARE) MUST(is_filled(at, count, 50));
    if (how == PASS_COPY) MUST(at[1] == 'g' && (at[1] = at[0], 1));
    tell(pair[0]);
    CHILD_IS_WELL(pid);
    if (how == PASS_COPY && count > 1) MUST(is_filled_part(at, count - 1, 10));
    if (how == PASS_SHARE) MUST(at[5] == 'c');
    close(pair[0]), close(pair[1]);
    end_part(at, count, 10);
}

// Memory that relatives have, too, copy-on-write: they keep what they have.
static void shared_with_relatives(size_t count) {
    char *at = part(count, 10);
    int go[2];
    MUST(pipe(go) == 0);
    pid_t relative = fork();
    if (relative == 0) {
        char byte;
        close(go[1]);
        MUST(read(go[0], &byte, 1) == 0);
        MUST(is_filled_part(at, count, 10));
        _exit(0);
    }
    close(go[0]);
    uint64_t offset;
    int copy = export_range(PASS_COPY, at, count * PAGE, &offset);
    MUST(copy >= 0);
    char *got = import_range(PASS_IMPORT, copy, count * PAGE, offset);
    MUST(got != MAP_FAILED);
    fill(got, count, 70);
    MUST(is_filled_part(at, count, 10));
    // Nor does the file change that it came from: it can be had again.
    char *again = import_range(PASS_IMPORT, copy, count * PAGE, offset);
    MUST(again != MAP_FAILED && is_filled_part(again, count, 10));
    close(copy);
    MUST(is_filled_part(again, count, 10) && is_filled(got, count, 70));
    // And what came can be given on.
    uint64_t onward;
    int given = export_range(PASS_DONATE, got, count * PAGE, &onward);
    MUST(given >= 0 && signal_of(got, 0) == SIGSEGV);
    got = import_range(PASS_TAKE, given, count * PAGE, onward);
    MUST(got != MAP_FAILED && is_filled(got, count, 70));
    MUST(import_range(PASS_TAKE, given, count * PAGE, onward) == MAP_FAILED && errno == ENODATA);
    MUST(import_range(PASS_IMPORT, given, count * PAGE, onward) == MAP_FAILED && errno == ENODATA);
    close(given);
    int shared = export_range(PASS_SHARE, at, count * PAGE, &offset);
    MUST(shared >= 0);
    fill(at, count, 30);
    close(shared);
    MUST(is_filled(at, count, 30) && is_filled_part(again, count, 10));
    close(go[1]);
    CHILD_IS_WELL(relative);
    MUST(munmap(got, count * PAGE) == 0 && munmap(again, count * PAGE) == 0);
    end_part(at, count, 10);
}

// Ranges that consist of several things: rights, memory that nobody has touched, a part that became an object, a file.
static void of_many_parts(void) {
    enum { LARGE = 3000, ALL = 3 + LARGE + 20 };
    char *all = pages(ALL, RW);
    MUST(mprotect(all, 3 * PAGE, PROT_READ) == 0);
    memset(all + 2 * PAGE + 4000 + 96, 'l', (LARGE - 1000) * PAGE);
    MUST(mprotect(all, 3 * PAGE, RW) == 0);
    all[1 * PAGE] = 'a';
    all[(ALL - 1) * PAGE] = 'z';
    MUST(mprotect(all, PAGE, PROT_READ) == 0);
    char name[] = "/tmp/passing.XXXXXX";
    int file = mkstemp(name);
    MUST(file >= 0 && unlink(name) == 0);
    MUST(write(file, "of the file", 11) == 11);
    char *mapped = all + (ALL - 3) * PAGE;
    MUST(mmap(mapped, PAGE, RW, MAP_PRIVATE | MAP_FIXED, file, 0) == mapped);
    uint64_t offset;
    // Memory of a file stays where it is, but what it has can be copied.
    MUST(errno_of(PASS_DONATE, all, ALL * PAGE, &offset) == EINVAL);
    MUST(errno_of(PASS_SHARE, all, ALL * PAGE, &offset) == EINVAL);
    for (int written = 0; written < 2; written++) {
        int fd = export_range(PASS_COPY, all, ALL * PAGE, &offset);
        MUST(fd >= 0);
        char *got = import_range(PASS_TAKE, fd, ALL * PAGE, offset);
        MUST(got != MAP_FAILED && memcmp(got, all, ALL * PAGE) == 0);
        got[0] = 1;
        MUST(munmap(got, ALL * PAGE) == 0);
        close(fd);
        memcpy(mapped, "OF", 2);
    }
    MUST(ftruncate(file, 0) == 0);
    MUST(errno_of(PASS_COPY, all, ALL * PAGE, &offset) == EFAULT);
    MUST(mmap(mapped, PAGE, RW, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == mapped);
    char *was = pages(ALL, RW);
    memcpy(was, all, ALL * PAGE);
    int fd = export_range(PASS_SHARE, all, ALL * PAGE, &offset);
    MUST(fd >= 0);
    MUST(memcmp(was, all, ALL * PAGE) == 0);
    MUST(signal_of(all, 1) == SIGSEGV && signal_of(all + PAGE, 1) == 0);
    char *seen = mmap(NULL, ALL * PAGE, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    MUST(seen != MAP_FAILED && memcmp(seen, all, ALL * PAGE) == 0);
    memset(all + 50 * PAGE, 'n', PAGE);
    MUST(memcmp(seen, all, ALL * PAGE) == 0);
    // What is shared now can be copied, but it is not only this process's to give.
    MUST(errno_of(PASS_DONATE, all + PAGE, PAGE, &offset) == EINVAL);
    int copy = export_range(PASS_COPY, all, ALL * PAGE, &offset);
    MUST(copy >= 0);
    all[60 * PAGE]++;
    char *got = import_range(PASS_IMPORT, copy, ALL * PAGE, offset);
    MUST(got != MAP_FAILED && got[60 * PAGE] + 1 == all[60 * PAGE]);
    got[60 * PAGE]++;
    MUST(memcmp(got, all, ALL * PAGE) == 0);
    close(copy), close(fd), close(file);
    MUST(munmap(got, ALL * PAGE) == 0 && munmap(seen, ALL * PAGE) == 0 && munmap(all, ALL * PAGE) == 0 && munmap(was, ALL * PAGE) == 0);
    // A heap, and a stack.
    char *heap = (char *)syscall(SYS_brk, 0);
    heap += -(uintptr_t)heap % PAGE;
    MUST(syscall(SYS_brk, heap + 10 * PAGE) == (long)(heap + 10 * PAGE));
    fill(heap, 10, 20);
    fd = export_range(PASS_DONATE, heap + 2 * PAGE, 5 * PAGE, &offset);
    MUST(fd >= 0 && signal_of(heap + 2 * PAGE, 0) == SIGSEGV && heap[PAGE] == 21 && heap[7 * PAGE] == 27);
    MUST(import_at(PASS_TAKE, fd, heap + 2 * PAGE, 5 * PAGE, offset, RW, MAP_FIXED_NOREPLACE) == heap + 2 * PAGE);
    MUST(is_filled(heap, 10, 20) && syscall(SYS_brk, heap) == (long)heap);
    close(fd);
    char local[3 * PAGE], *inside = local + -(uintptr_t)local % PAGE;
    memset(inside, 's', PAGE);
    MUST(errno_of(PASS_DONATE, inside, PAGE, &offset) == EINVAL);
    fd = export_range(PASS_COPY, inside, PAGE, &offset);
    char byte;
    MUST(fd >= 0 && pread(fd, &byte, 1, (off_t)offset + 17) == 1 && byte == 's');
    close(fd);
}

static void errors(void) {
    char *at = pages(8, RW);
    uint64_t offset;
    fill(at, 8, 1);
    for (int how = PASS_SHARE; how <= PASS_DONATE; how++) {
        MUST(errno_of(how, at + 1, PAGE, &offset) == EINVAL);
        MUST(errno_of(how, at, 0, &offset) == EINVAL);
        MUST(errno_of(how, at, -1ul, &offset) == EINVAL);
        MUST(errno_of(how, (void *)-PAGE, 2 * PAGE, &offset) == EINVAL);
        MUST(errno_of(how, at, 1ul << 60, &offset) != 0);
        MUST(errno_of(how | 0x200, at, PAGE, &offset) == EINVAL);
        MUST(errno_of(how, at, PAGE, NULL) == EFAULT);
        MUST(mprotect(at + 4 * PAGE, PAGE, PROT_NONE) == 0);
        MUST(errno_of(how, at, 8 * PAGE, &offset) == EACCES);
        MUST(mprotect(at + 4 * PAGE, PAGE, RW) == 0);
        char *hole = pages(3, RW);
        MUST(munmap(hole + PAGE, PAGE) == 0);
        MUST(errno_of(how, hole, 3 * PAGE, &offset) == ENOMEM);
        MUST(munmap(hole, 3 * PAGE) == 0);
        MUST(errno_of(how, hole, PAGE, &offset) == ENOMEM);
        struct rlimit files, none;
        MUST(getrlimit(RLIMIT_NOFILE, &files) == 0);
        none = files, none.rlim_cur = 3;
        MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
        MUST(errno_of(how, at, PAGE, &offset) == EMFILE);
        MUST(setrlimit(RLIMIT_NOFILE, &files) == 0);
    }
    MUST(is_filled(at, 8, 1));
    // Told inside of what leaves.
    MUST(errno_of(PASS_DONATE, at, 8 * PAGE, (uint64_t *)(at + PAGE)) == EFAULT);
    // Locked memory stays.
    MUST(mlock(at + PAGE, PAGE) == 0);
    MUST(errno_of(PASS_DONATE, at, 8 * PAGE, &offset) == EAGAIN);
    MUST(errno_of(PASS_SHARE, at, 8 * PAGE, &offset) == EAGAIN);
    MUST(errno_of(PASS_COPY, at, 8 * PAGE, &offset) == 0);
    MUST(munlock(at + PAGE, PAGE) == 0 && is_filled(at, 8, 1));

    int fd = export_range(PASS_COPY | PASS_CLOEXEC, at, 8 * PAGE, &offset);
    MUST(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    for (int how = PASS_IMPORT; how <= PASS_TAKE; how++) {
        struct tessera_import it = {0, PAGE, offset, RW, 0};
        MUST(prctl(PR_TESSERA_PASS, how, fd, &it, sizeof it - 1) == -1 && errno == EINVAL);
        MUST(prctl(PR_TESSERA_PASS, how, fd, NULL, sizeof it) == -1 && errno == EFAULT);
        MUST(prctl(PR_TESSERA_PASS, how | PASS_CLOEXEC, fd, &it, sizeof it) == -1 && errno == EINVAL);
        MUST(import_at(how, 99, NULL, PAGE, offset, RW, 0) == MAP_FAILED && errno == EBADF);
        MUST(import_at(how, fd, NULL, 0, offset, RW, 0) == MAP_FAILED && errno == EINVAL);
        MUST(import_at(how, fd, NULL, PAGE, offset + 1, RW, 0) == MAP_FAILED && errno == EINVAL);
        MUST(import_at(how, fd, NULL, PAGE, offset, 8, 0) == MAP_FAILED && errno == EINVAL);
        MUST(import_at(how, fd, NULL, PAGE, offset, RW, MAP_SHARED) == MAP_FAILED && errno == EINVAL);
        MUST(import_at(how, fd, NULL, 9 * PAGE, offset, RW, 0) == MAP_FAILED && errno == ENODATA);
        MUST(import_at(how, fd, NULL, PAGE, offset + 8 * PAGE, RW, 0) == MAP_FAILED && errno == ENODATA);
        MUST(import_at(how, fd, NULL, PAGE, -PAGE, RW, 0) == MAP_FAILED && errno == EINVAL);
        MUST(import_at(how, fd, at + 1, PAGE, offset, RW, MAP_FIXED) == MAP_FAILED && errno == EINVAL);
        MUST(import_at(how, fd, at, PAGE, offset, RW, MAP_FIXED_NOREPLACE) == MAP_FAILED && errno == EEXIST);
        struct rlimit space, little;
        MUST(getrlimit(RLIMIT_AS, &space) == 0);
        little = space, little.rlim_cur = 2 * PAGE;
        MUST(setrlimit(RLIMIT_AS, &little) == 0);
        MUST(import_at(how, fd, NULL, 8 * PAGE, offset, RW, 0) == MAP_FAILED && errno == ENOMEM);
        MUST(setrlimit(RLIMIT_AS, &space) == 0);
        int ends[2], folder = open("/tmp", O_RDONLY), null = open("/dev/null", O_RDWR);
        MUST(pipe(ends) == 0);
        MUST(import_at(how, ends[0], NULL, PAGE, 0, RW, 0) == MAP_FAILED && (errno == EINVAL || errno == EACCES));
        MUST(import_at(how, folder, NULL, PAGE, 0, RW, 0) == MAP_FAILED && (errno == EISDIR || errno == EACCES));
        MUST(import_at(how, null, NULL, PAGE, 0, RW, 0) == MAP_FAILED && errno == EINVAL);
        close(ends[0]), close(ends[1]), close(folder), close(null);
    }
    // Nothing was taken by all of this. Somebody who may only read may not take.
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int reader = open(path, O_RDONLY), writer = open(path, O_WRONLY);
    MUST(reader >= 0 && writer >= 0);
    MUST(import_range(PASS_TAKE, reader, PAGE, offset) == MAP_FAILED && errno == EACCES);
    MUST(import_range(PASS_IMPORT, writer, PAGE, offset) == MAP_FAILED && errno == EBADF);
    char *copy = import_range(PASS_IMPORT, reader, 8 * PAGE, offset);
    MUST(copy != MAP_FAILED && is_filled(copy, 8, 1));
    // A part out of the middle, to a certain place with certain rights.
    MUST(import_at(PASS_TAKE, fd, copy + PAGE, 2 * PAGE, offset + 4 * PAGE, PROT_READ, MAP_FIXED) == copy + PAGE);
    MUST(is_filled(copy + PAGE, 2, 5) && copy[0] == 1 && copy[3 * PAGE] == 4);
    MUST(signal_of(copy + PAGE, 1) == SIGSEGV && signal_of(copy, 1) == 0);
    MUST(munmap(copy, 8 * PAGE) == 0);
    // Zeros are left of it.
    copy = import_range(PASS_TAKE, fd, 8 * PAGE, offset);
    MUST(copy != MAP_FAILED && is_filled(copy, 4, 1) && is_filled(copy + 6 * PAGE, 2, 7));
    MUST(copy[4 * PAGE] == 0 && copy[6 * PAGE - 1] == 0);
    MUST(munmap(copy, 8 * PAGE) == 0);
    close(fd), close(reader), close(writer);

    // Any file that is memory will do; a sealed one is only copied. What has it mapped sees it no more when it is taken.
    int mem = memfd_create("mem", MFD_ALLOW_SEALING);
    MUST(mem >= 0 && ftruncate(mem, 3 * PAGE + 5) == 0);
    char *seen = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, mem, 0);
    MUST(seen != MAP_FAILED);
    fill(seen, 3, 9);
    copy = import_range(PASS_IMPORT, mem, 4 * PAGE, 0);
    MUST(copy != MAP_FAILED && is_filled(copy, 3, 9));
    seen[0] = 'x', copy[PAGE] = 'y';
    MUST(copy[0] == 9 && seen[PAGE] == 10);
    MUST(fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    MUST(import_range(PASS_TAKE, mem, 4 * PAGE, 0) == MAP_FAILED && errno == EPERM);
    close(mem);
    MUST(munmap(copy, 4 * PAGE) == 0 && munmap(seen, 4 * PAGE) == 0);
    mem = memfd_create("mem", 0);
    MUST(ftruncate(mem, 2 * PAGE) == 0);
    seen = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, mem, 0);
    fill(seen, 2, 9);
    copy = import_range(PASS_TAKE, mem, 2 * PAGE, 0);
    MUST(copy != MAP_FAILED && is_filled(copy, 2, 9));
    MUST(signal_of(seen, 1) == SIGBUS && is_filled(copy, 2, 9));
    close(mem);
    MUST(munmap(copy, 2 * PAGE) == 0 && munmap(seen, 2 * PAGE) == 0 && munmap(at, 8 * PAGE) == 0);
}

// The exporter is gone before anybody asks for it, killed; or has executed another program.
static void without_its_exporter(char *self) {
    for (int how = PASS_COPY; how <= PASS_DONATE; how++) {
        MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
        pid_t pid = fork();
        if (pid == 0) {
            char *at = part(2500, 40);
            uint64_t offset;
            int fd = export_range(how, at, 2500 * PAGE, &offset);
            MUST(fd >= 0);
            send_range(pair[1], fd, offset);
            if (how == PASS_COPY) kill(getpid(), SIGKILL);
            execl(self, self, "nothing", NULL);
        }
        int status;
        MUST(waitpid(pid, &status, 0) == pid && status == (how == PASS_COPY ? SIGKILL : 0));
        uint64_t offset;
        int fd = receive_range(pair[0], &offset);
        char *got = import_range(PASS_TAKE, fd, 2500 * PAGE, offset);
        MUST(got != MAP_FAILED && is_filled_part(got, 2500, 40));
        MUST(munmap(got, 2500 * PAGE) == 0);
        close(fd), close(pair[0]), close(pair[1]);
    }
    // A program that is executed inherits the descriptor.
    char *at = part(600, 40), number[16], place[32];
    uint64_t offset;
    int fd = export_range(PASS_DONATE, at, 600 * PAGE, &offset);
    MUST(fd >= 0);
    snprintf(number, sizeof number, "%d", fd);
    snprintf(place, sizeof place, "%lu", (unsigned long)offset);
    pid_t pid = fork();
    if (pid == 0) execl(self, self, "import", number, place, NULL);
    CHILD_IS_WELL(pid);
    close(fd);
    end_part(at, 600, 40);
}

static void imports(char **argv) {
    char *got = import_range(PASS_TAKE, atoi(argv[2]), 600 * PAGE, strtoul(argv[3], NULL, 0));
    MUST(got != MAP_FAILED && is_filled_part(got, 600, 40));
    fill(got, 600, 3);
    MUST(is_filled(got, 600, 3));
}

// What is given needs no more memory than it did, and all of it comes back.
static void memory_is_conserved(void) {
    enum { COUNT = 64 << 8 };
    char *at = pages(COUNT, RW);
    fill(at, COUNT, 1);
    long with = free_kib();
    for (int n = 0; n < 6; n++) {
        uint64_t offset;
        int fd = export_range(PASS_DONATE, at, COUNT * PAGE, &offset);
        MUST(fd >= 0);
        at = import_range(PASS_TAKE, fd, COUNT * PAGE, offset);
        MUST(at != MAP_FAILED);
        close(fd);
        MUST(is_filled(at, COUNT, n + 1));
        fill(at, COUNT, n + 2);
        if (free_kib() < with - 6000) printf("round %d: %ld KiB less\n", n, with - free_kib());
    }
    MUST(munmap(at, COUNT * PAGE) == 0);
    // Many small ones.
    for (int n = 0; n < 300; n++) {
        char *small = pages(3, RW);
        fill(small, 3, n);
        uint64_t offset;
        int fd = export_range(n % 2 ? PASS_DONATE : PASS_SHARE, small, 3 * PAGE, &offset);
        MUST(fd >= 0);
        char *got = import_range(n % 3 ? PASS_TAKE : PASS_IMPORT, fd, 3 * PAGE, offset);
        MUST(got != MAP_FAILED && is_filled(got, 3, n));
        close(fd);
        MUST(munmap(got, 3 * PAGE) == 0);
        if (n % 2 == 0) MUST(munmap(small, 3 * PAGE) == 0);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "nothing")) return 0;
    if (argc > 1) return imports(argv), 0;
    catch_faults();
    errors();
    for (int n = 0; n < SIZES; n++) {
        for (int how = PASS_SHARE; how <= PASS_DONATE; how++) through_a_socket(how, sizes[n], n % 2);
        shared_with_relatives(sizes[n]);
    }
    of_many_parts();
    without_its_exporter("/proc/self/exe");
    memory_is_conserved();
    puts("passed");
}
