// Pipes of which bytes go from one process to the other without a request, and everything that has them taken back in the middle:
// whoever else uses an end, whatever else is done to it, signals, threads, other programs, and the end of either process.
//
// build: gcc, musl
// oracle: linux
// cores: 4
#include "test.h"
#include "chance.h"
#include "lent.h"
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static void run_writer(int fd, long total) {
    for (long at = 0; at < total;) {
        long bytes = some_bytes();
        if (bytes > total - at) bytes = total - at;
        int count = 0;
        switch (below(40)) {
        case 0: if (ioctl(fd, FIONREAD, &count) || count < 0 || count > 1 << 20) fail("FIONREAD"); break;
        case 1: poll(&(struct pollfd){fd, POLLOUT, 0}, 1, below(2)); break;
        case 2: set_nonblocking(fd, below(2)); break;
        case 3: if (fcntl(fd, F_SETPIPE_SZ, 65536) != 65536 && errno != EBUSY) fail("F_SETPIPE_SZ"); break;
        case 4: { int other = dup(fd); write_on(other, at, bytes); close(other); at += bytes; break; }
        case 5: write_elsewhere(fd, at, bytes); at += bytes; break;
        case 6: by_child(fd, at, bytes, 1); at += bytes; break;
        case 7: by_program(fd, at, bytes); at += bytes; break;
        case 8: sched_yield(); break;
        case 9: { struct stat stat; fstat(fd, &stat); break; }
        // Many a few, as most do.
        default:
            for (int n = 1 + below(60); n > 0 && at < total; n--) {
                bytes = bytes > 300 ? 300 : bytes;
                if (bytes > total - at) bytes = total - at;
                write_on(fd, at, bytes);
                at += bytes;
            }
        }
    }
}

// What is in a pipe is in another one, too, and stays.
static void look_twice(int fd, long at) {
    int ends[2];
    pipe(ends);
    ssize_t n = tee(fd, ends[1], 3000, SPLICE_F_NONBLOCK);
    if (n > 0) read_on(ends[0], at, 3000);
    else if (n < 0 && errno != EAGAIN) fail("tee");
    close(ends[0]), close(ends[1]);
}

static long run_reader(int fd) {
    long at = 0;
    for (;;) {
        int count = 0;
        long bytes = some_bytes(), n;
        switch (below(40)) {
        case 0: if (ioctl(fd, FIONREAD, &count) || count < 0 || count > 1 << 20) fail("FIONREAD"); break;
        case 1: poll(&(struct pollfd){fd, POLLIN, 0}, 1, below(2)); break;
        case 2: set_nonblocking(fd, below(2)); break;
        case 3: look_twice(fd, at); break;
        case 4:
            n = by_child(fd, at, 1 + below(500), 0);
            if (n < 0) return -1;
            at += n;
            break;
        case 5: {
            int other = dup(fd);
            n = read_on(other, at, bytes);
            close(other);
            if (n == 0) return at;
            at += n;
            break;
        }
        case 6: sched_yield(); break;
        default:
            for (int times = 1 + below(60); times > 0; times--) {
                n = read_on(fd, at, bytes);
                if (n == 0) return at;
                at += n;
            }
        }
    }
}

// Two processes do anything by chance.
static void by_chance(unsigned long seed) {
    enum { TOTAL = 400000 };
    int ends[2];
    pipe(ends);
    int pid = fork();
    if (pid == 0) {
        state = seed * 2 + 1;
        close(ends[0]);
        run_writer(ends[1], TOTAL);
        _exit(0);
    }
    state = seed * 2 + 2;
    close(ends[1]);
    long came = run_reader(ends[0]);
    close(ends[0]);
    int status = status_of(pid);
    // A child that met the end has read what was left.
    printf("seed %lu: %s, status %d\n", seed, came == TOTAL || came == -1 ? "all came" : "NOT ALL CAME", status);
}

enum { RECORD = 64 };

// Bytes to and fro, until what is lent is lent.
static void lend(int out, int in, int times) {
    for (int i = 0; i < times; i++) {
        char byte = i, back;
        if (write(out, &byte, 1) != 1 || read(in, &back, 1) != 1 || back != byte) fail("to and fro");
    }
}

static int echo(int *out, int *in) {
    int there[2], back[2];
    pipe(there), pipe(back);
    int pid = fork();
    if (pid == 0) {
        close(there[1]), close(back[0]);
        char byte;
        while (read(there[0], &byte, 1) == 1) write(back[1], &byte, 1);
        _exit(0);
    }
    close(there[0]), close(back[1]);
    *out = there[1], *in = back[0];
    return pid;
}

// Who waits for a byte gets a signal.
static void with_signals(void) {
    int out, in, pid = echo(&out, &in);
    char byte;
    lend(out, in, 100);
    on(SIGALRM, 0);
    came = 0, alarm_in(20000);
    SHOW(read(in, &byte, 1));
    CHECK(came == SIGALRM);
    lend(out, in, 10);
    // The byte comes after the signal: from a child of this process.
    on(SIGALRM, SA_RESTART);
    came = 0, alarm_in(20000);
    if (fork() == 0) {
        usleep(200000);
        write(out, "x", 1);
        _exit(0);
    }
    SHOW(read(in, &byte, 1));
    CHECK(came == SIGALRM && byte == 'x');
    wait(NULL);
    lend(out, in, 10);
    // Stopped, and going on.
    kill(pid, SIGSTOP);
    write(out, "y", 1);
    set_nonblocking(in, 1);
    SHOW(read(in, &byte, 1));
    set_nonblocking(in, 0);
    kill(pid, SIGCONT);
    SHOW(read(in, &byte, 1));
    lend(out, in, 50);
    kill(pid, SIGKILL);
    SHOW(status_of(pid));
    SHOW(read(in, &byte, 1));
    on(SIGPIPE, 0);
    came = 0;
    SHOW(write(out, "z", 1));
    CHECK(came == SIGPIPE);
    close(out), close(in);
}

// Who is killed has written records whole or not at all, and those come.
static void with_kills(void) {
    for (int round = 0; round < 20; round++) {
        int ends[2];
        pipe(ends);
        int pid = fork();
        if (pid == 0) {
            unsigned char record[RECORD];
            for (long n = 0;; n++) {
                fill(record, n * RECORD, RECORD);
                write(ends[1], record, RECORD);
            }
        }
        close(ends[1]);
        long at = 0;
        for (long most = 2000 + 1500 * round; at < most;) at += read_on(ends[0], at, 1 + below(3000));
        kill(pid, SIGKILL);
        if (status_of(pid) != SIGKILL) fail("kill");
        for (long n; (n = read_on(ends[0], at, 5000)) > 0;) at += n;
        if (at % RECORD) printf("%ld bytes\n", at);
        close(ends[0]);
    }
    puts("records are whole");
}

// What a writer that never waits can write to an end that is lent, and how much is left out.
static void how_much(void) {
    int ends[2];
    pipe(ends);
    set_nonblocking(ends[0], 1), set_nonblocking(ends[1], 1);
    char bytes[4096] = {0};
    for (int i = 0; i < 200; i++) write(ends[1], bytes, 64), read(ends[0], bytes, 64);
    SHOW(read(ends[0], bytes, 1));
    int count = 0, left = 0;
    while (write(ends[1], bytes, 64) == 64) count++;
    CHECK(errno == EAGAIN);
    SHOW(count);
    ioctl(ends[0], FIONREAD, &left);
    SHOW(left);
    SHOW(read(ends[0], bytes, 4096));
    SHOW(poll(&(struct pollfd){ends[1], POLLOUT, 0}, 1, 0));
    SHOW(write(ends[1], bytes, 4096));
    SHOW(write(ends[1], bytes, 64));
    SHOW(fcntl(ends[1], F_SETPIPE_SZ, 1 << 17));
    for (count = 0; write(ends[1], bytes, 4096) == 4096;) count++;
    SHOW(count);
    while (read(ends[0], bytes, 4096) > 0) {}
    for (int i = 0; i < 100; i++) write(ends[1], bytes, 64), read(ends[0], bytes, 64);
    char *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(write(ends[1], nowhere, 10));
    SHOW(write(ends[1], bytes, 10));
    SHOW(read(ends[0], nowhere, 10));
    SHOW(read(ends[0], bytes, 100));
    close(ends[1]);
    SHOW(read(ends[0], bytes, 100));
    close(ends[0]);
}

static int thread_ends[2];
static void *write_records(void *which) {
    char record[RECORD];
    memset(record, 'a' + (long)which, RECORD);
    for (int i = 0; i < 3000; i++)
        if (write(thread_ends[1], record, RECORD) != RECORD) fail("record");
    return NULL;
}

// Threads write at once: what each writes is not mixed with what others do.
static void with_threads(void) {
    enum { THREADS = 4 };
    pipe(thread_ends);
    int pid = fork();
    if (pid == 0) {
        close(thread_ends[0]);
        for (int i = 0; i < 50; i++) {
            char record[RECORD];
            memset(record, 'z', RECORD);
            write(thread_ends[1], record, RECORD);
        }
        pthread_t all[THREADS];
        for (long i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, write_records, (void *)i);
        for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
        _exit(0);
    }
    close(thread_ends[1]);
    long counts[26] = {0}, mixed = 0;
    char record[RECORD];
    for (;;) {
        size_t done = 0;
        ssize_t n = 1;
        while (done < RECORD && (n = read(thread_ends[0], record + done, RECORD - done)) > 0) done += n;
        if (done < RECORD) break;
        for (int i = 1; i < RECORD; i++) mixed += record[i] != record[0];
        counts[record[0] - 'a']++;
    }
    close(thread_ends[0]);
    printf("threads: %ld %ld %ld %ld %ld, %ld mixed, status %d\n", counts[0], counts[1], counts[2], counts[3], counts[25], mixed, status_of(pid));
}

// Another program takes over in the same process, and goes on where it was.
static void with_programs(void) {
    int ends[2];
    pipe(ends);
    int pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (long at = 0; at < 3000; at += 10) write_on(ends[1], at, 10);
        char word[24];
        snprintf(word, 24, "%d", ends[1]);
        execl("/proc/self/exe", "lent_pipes", "write", word, "3000", "3000", NULL);
        _exit(9);
    }
    close(ends[1]);
    long at = 0;
    for (long n; (n = read_on(ends[0], at, 100)) > 0;) at += n;
    close(ends[0]);
    printf("programs: %ld bytes, status %d\n", at, status_of(pid));
}

// Who reads looks at more than one: what is lent says that there is something.
static void with_several(void) {
    int outs[3], ins[3], pids[3];
    for (int i = 0; i < 3; i++) pids[i] = echo(&outs[i], &ins[i]), lend(outs[i], ins[i], 60);
    for (int round = 0; round < 60; round++) {
        int which = below(3);
        char byte = round, back;
        write(outs[which], &byte, 1);
        struct pollfd all[3];
        for (int i = 0; i < 3; i++) all[i] = (struct pollfd){ins[i], POLLIN, 0};
        int n = poll(all, 3, 5000);
        if (n != 1 || all[which].revents != POLLIN) fail("poll");
        if (read(ins[which], &back, 1) != 1 || back != byte) fail("echo");
    }
    for (int i = 0; i < 3; i++) close(outs[i]), close(ins[i]);
    for (int i = 0; i < 3; i++) status_of(pids[i]);
    puts("several: all came");
}

int main(int argc, char **argv) {
    if (as_program(argc, argv)) return 0;
    for (unsigned long seed = 1; seed <= 12; seed++) by_chance(seed);
    with_signals();
    with_kills();
    how_much();
    with_threads();
    with_programs();
    with_several();
    return 0;
}
