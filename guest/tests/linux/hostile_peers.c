// Processes that write what they like into the memory that they share with the other end of a pipe, or of a stream of local sockets: the other
// end, and everybody else, is as well as before. What a process may not write it cannot, and what it has given up it does not see.
//
// build: gcc, musl
// cores: 4
// expect-stdout: pipes\nlent: yes\nits bytes are there: yes\nthe other's words cannot be written: yes\na reader cannot write the bytes: yes\na writer that lies: 0 lost\na reader that lies: 0 lost\nbytes that change: 0 lost\nwoken for nothing: 0 wrong\ngiven up by a reader: gone\ngiven up by a writer: gone\nof one that has ended: gone\na child has none: yes\nmany: 0 wrong\ntold and taken back: 0 wrong\nsockets\nlent: yes\nits bytes are there: yes\nthe other's words cannot be written: yes\na reader cannot write the bytes: yes\na writer that lies: 0 lost\na reader that lies: 0 lost\nbytes that change: 0 lost\nwoken for nothing: 0 wrong\ngiven up by a reader: gone\ngiven up by a writer: gone\nof one that has ended: gone\na child has none: yes\nmany: 0 wrong\ntold and taken back: 0 wrong\n
#include "test.h"
#include "chance.h"
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/socket.h>

// Where the library has the first ring: its bytes, the words of this end, and those of the other.
enum { RING = 65536 };
static volatile unsigned char *const bytes = (void *)0x7ffff8000000;
static volatile uint32_t *const own = (void *)(0x7ffff8000000 + RING);
static volatile uint32_t *const other = (void *)(0x7ffff8000000 + 2 * RING);
enum { COUNT = 0, SLEEPS = 16 };

static sigjmp_buf before;
static void on_fault(int signal) { siglongjmp(before, signal); }

// Does an access fault?
#define FAULTS(access) (sigsetjmp(before, 1) ? 1 : ((void)(access), 0))

static void say(const char *what, int is_so) { printf("%s: %s\n", what, is_so ? "yes" : "NO"); }

static int are_sockets;

// Two ends: what is written to the second is read from the first.
static void connected(int ends[2]) {
    if (are_sockets) socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    else pipe(ends);
}

static void lend(int out, int in, int times) {
    for (int i = 0; i < times; i++) {
        char byte = i, back;
        if (write(out, &byte, 1) != 1 || read(in, &back, 1) != 1) _exit(9);
    }
}

// A process that sends back what it is sent.
static int echo(int *out, int *in) {
    int there[2], back[2];
    connected(there), connected(back);
    int pid = fork();
    if (pid == 0) {
        close(there[1]), close(back[0]);
        char text[256];
        for (ssize_t n; (n = read(there[0], text, sizeof text)) > 0;) write(back[1], text, n);
        _exit(0);
    }
    close(there[0]), close(back[1]);
    *out = there[1], *in = back[0];
    return pid;
}

static int end_of(int pid) {
    int status;
    waitpid(pid, &status, 0);
    return status;
}

// Did it end by a fault, and not because of the time or of the other end?
static int is_lost(int pid) {
    int status = end_of(pid);
    return WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM && WTERMSIG(status) != SIGPIPE && WTERMSIG(status) != SIGKILL;
}

// One process has one end, another one the other: the first one lies.
static int with_liar(int liar_writes, int how) {
    int ends[2], lost = 0;
    connected(ends);
    int reader = fork();
    if (reader == 0) {
        signal(SIGSEGV, SIG_DFL);
        alarm(4);
        close(ends[1]);
        char text[5000];
        state = how + 1;
        for (int n = 0; n < 200000 && read(ends[0], text, 1 + below(sizeof text)) > 0; n++) {
            if (liar_writes || n < 60) continue;
            switch (how) {
            case 0: own[COUNT] = random_word(); break;
            case 1: own[COUNT] += below(3000); break;
            case 2: own[COUNT] -= below(3000); break;
            case 3: own[SLEEPS] = random_word() | 1; break;
            }
        }
        _exit(0);
    }
    int writer = fork();
    if (writer == 0) {
        signal(SIGSEGV, SIG_DFL);
        alarm(4);
        close(ends[0]);
        char text[5000] = {0};
        state = how + 1;
        for (int n = 0; n < 4000 && write(ends[1], text, 1 + below(n < 60 ? 20 : 4000)) > 0; n++) {
            if (n < 60) usleep(100);
            if (!liar_writes || n < 60) continue;
            switch (how) {
            case 0: own[COUNT] = random_word(); break;
            case 1: own[COUNT] += below(3000); break;
            case 2: own[COUNT] -= below(3000); break;
            case 3: own[SLEEPS] = random_word() | 1; break;
            }
        }
        _exit(0);
    }
    close(ends[0]), close(ends[1]);
    int pids[] = {reader, writer};
    // The liar itself may find that nothing is shown there, and end by that.
    for (int i = 0; i < 2; i++) {
        int is_liar = (i == 1) == liar_writes, is_gone = is_lost(pids[i]);
        lost += is_gone && !is_liar;
    }
    return lost;
}

static volatile int stop;
static void *change(void *unused) {
    (void)unused;
    while (!stop)
        if (FAULTS(bytes[below(RING)] ^= 1)) break;
    return NULL;
}

// Bytes that are not read yet change all the time.
static int with_changes(void) {
    int ends[2];
    connected(ends);
    int reader = fork();
    if (reader == 0) {
        alarm(20);
        close(ends[1]);
        char text[3000];
        long sum = 0;
        for (ssize_t n; (n = read(ends[0], text, sizeof text)) > 0;) sum += n;
        _exit(sum == 2000 * 300 + 100 ? 0 : 1);
    }
    close(ends[0]);
    char text[300] = {0};
    for (int i = 0; i < 100; i++) write(ends[1], text, 1), usleep(100);
    pthread_t thread;
    pthread_create(&thread, NULL, change, NULL);
    for (int i = 0; i < 2000; i++) write(ends[1], text, sizeof text);
    stop = 1;
    pthread_join(thread, NULL);
    close(ends[1]);
    return end_of(reader) != 0;
}

// The reader says again and again that it sleeps.
static int woken_for_nothing(void) {
    int out, in, pid = echo(&out, &in), wrong = 0;
    lend(out, in, 60);
    for (int i = 0; i < 500; i++) {
        char byte = i, back = ~i;
        if (!FAULTS(own[SLEEPS] = 1 + 2 * i) && (write(out, &byte, 1) != 1 || read(in, &back, 1) != 1)) wrong++;
        wrong += back != byte;
    }
    close(out), close(in);
    return wrong + (end_of(pid) != 0);
}

// An end is closed: what its process had lent of it is gone.
static int given_up(int writes) {
    int ends[2], pid;
    connected(ends);
    char byte = 'x';
    if ((pid = fork()) == 0) {
        close(ends[writes]);
        if (writes) for (int i = 0; i < 100; i++) read(ends[0], &byte, 1);
        else for (int i = 0; i < 100; i++) write(ends[1], &byte, 1), usleep(100);
        usleep(100000);
        _exit(0);
    }
    close(ends[!writes]);
    if (writes) for (int i = 0; i < 90; i++) write(ends[1], &byte, 1), usleep(200);
    else for (int i = 0; i < 90; i++) read(ends[0], &byte, 1);
    int was_there = !FAULTS(bytes[0]);
    close(ends[writes]);
    int is_gone = FAULTS(bytes[0]);
    end_of(pid);
    return was_there && is_gone;
}

// The other process has ended: what this one had lent for its end is taken away.
static int taken_back(void) {
    int ends[2], pid;
    connected(ends);
    char byte = 'x';
    if ((pid = fork()) == 0) {
        close(ends[0]);
        for (int i = 0; i < 100; i++) write(ends[1], &byte, 1), usleep(100);
        _exit(0);
    }
    close(ends[1]);
    for (int i = 0; i < 90; i++) read(ends[0], &byte, 1);
    int was_there = !FAULTS(bytes[0]);
    end_of(pid);
    int is_gone = FAULTS(bytes[0]);
    long rest = 0;
    while (read(ends[0], &byte, 1) == 1) rest++;
    close(ends[0]);
    return was_there && is_gone && rest == 10;
}

// More pipes than can be lent to a process.
static int many(void) {
    enum { PIPES = 40 };
    int outs[PIPES], ins[PIPES], pids[PIPES], wrong = 0;
    for (int i = 0; i < PIPES; i++) pids[i] = echo(&outs[i], &ins[i]);
    for (int round = 0; round < 60; round++)
        for (int i = 0; i < PIPES; i++) {
            char byte = round + i, back;
            wrong += write(outs[i], &byte, 1) != 1 || read(ins[i], &back, 1) != 1 || back != byte;
        }
    for (int i = 0; i < PIPES; i++) close(outs[i]), close(ins[i]);
    for (int i = 0; i < PIPES; i++) wrong += end_of(pids[i]) != 0;
    return wrong;
}

// Who was told that there is something to be read does not wait for it, although the writer has taken it back.
static int told_and_taken_back(void) {
    int ends[2], told[2], done[2];
    connected(ends), pipe(told), pipe(done);
    int reader = fork();
    char byte = 'x';
    if (reader == 0) {
        alarm(20);
        close(ends[1]);
        struct pollfd one = {ends[0], POLLIN, 0};
        for (int i = 0; i < 200; i++) poll(&one, 1, -1), read(ends[0], &byte, 1);
        poll(&one, 1, -1);
        write(told[1], &byte, 1), read(done[0], &byte, 1);
        read(ends[0], &byte, 1);
        _exit(0);
    }
    close(ends[0]);
    for (int i = 0; i < 201; i++) write(ends[1], &byte, 1), usleep(200);
    read(told[0], &byte, 1);
    int is_lent = !FAULTS(own[COUNT] -= 1);
    write(done[1], &byte, 1);
    int wrong = (end_of(reader) != 0) + (are_sockets && !is_lent);
    close(ends[1]), close(told[0]), close(told[1]), close(done[0]), close(done[1]);
    return wrong;
}

// The same of pipes and of sockets.
static void all(void) {
    puts(are_sockets ? "sockets" : "pipes");
    // One to itself is lent at both ends: the writer's comes first.
    int ends[2], is_written = 0;
    connected(ends);
    for (int i = 0; i < 100; i++) {
        char byte = 'a' + i % 26, back;
        write(ends[1], &byte, 1), read(ends[0], &back, 1);
    }
    write(ends[1], "tessera", 7);
    int is_lent = !FAULTS(bytes[0]);
    say("lent", is_lent);
    if (!is_lent) return;
    for (int i = 0; i < RING - 7; i++) is_written |= !memcmp((const void *)(bytes + i), "tessera", 7);
    say("its bytes are there", is_written);
    say("the other's words cannot be written", FAULTS(other[COUNT] = 0));
    // The second ring is the reader's: four windows behind.
    say("a reader cannot write the bytes", !FAULTS(bytes[4 * RING]) && FAULTS(bytes[4 * RING] = 1));
    close(ends[0]), close(ends[1]);
    int lost = 0;
    for (int how = 0; how < 4; how++) lost += with_liar(1, how);
    printf("a writer that lies: %d lost\n", lost);
    lost = 0;
    for (int how = 0; how < 4; how++) lost += with_liar(0, how);
    printf("a reader that lies: %d lost\n", lost);
    printf("bytes that change: %d lost\n", with_changes());
    printf("woken for nothing: %d wrong\n", woken_for_nothing());
    printf("given up by a reader: %s\n", given_up(0) ? "gone" : "THERE");
    printf("given up by a writer: %s\n", given_up(1) ? "gone" : "THERE");
    printf("of one that has ended: %s\n", taken_back() ? "gone" : "THERE");
    int out_fd, in_fd, pid = echo(&out_fd, &in_fd);
    lend(out_fd, in_fd, 60);
    int child = fork();
    if (child == 0) _exit(FAULTS(bytes[0]) ? 0 : 1);
    say("a child has none", !FAULTS(bytes[0]) && end_of(child) == 0);
    close(out_fd), close(in_fd), end_of(pid);
    printf("many: %d wrong\n", many());
    printf("told and taken back: %d wrong\n", told_and_taken_back());
}

int main(void) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    all();
    are_sockets = 1;
    all();
    return 0;
}
