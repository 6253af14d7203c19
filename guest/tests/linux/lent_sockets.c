// Streams of local sockets of which bytes go from one process to the other without a request, and everything that has them taken back in
// the middle: whoever else uses an end, whatever else is done to it, what else is to be told, and the end of either process.
//
// build: gcc, musl
// oracle: linux
// cores: 4
#include "test.h"
#include "chance.h"
#include "lent.h"
#include <limits.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/un.h>

#ifndef SIOCOUTQ
#define SIOCOUTQ TIOCOUTQ
#endif

// A pair of connected ends, of either kind.
static void connected(int ends[2], int by_name) {
    if (!by_name) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        return;
    }
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, 40, "lent%d.%d", getpid(), ends[0]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ends[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listener, (void *)&name, sizeof name), listen(listener, 1);
    if (connect(ends[0], (void *)&name, sizeof name)) fail("connect");
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

// Sends the next bytes by one of the ways there are.
static void send_on(int fd, long at, long bytes) {
    fill(buffer, at, bytes);
    long half = bytes / 2;
    struct iovec two[] = {{buffer, half}, {buffer + half, bytes - half}};
    struct msghdr message = {.msg_iov = two, .msg_iovlen = 2};
    for (long done = 0; done < bytes;) {
        ssize_t n;
        switch (below(5)) {
        case 0: n = send(fd, buffer + done, bytes - done, MSG_NOSIGNAL); break;
        case 1: n = send(fd, buffer + done, bytes - done, MSG_DONTWAIT); break;
        case 2: n = done ? sendto(fd, buffer + done, bytes - done, 0, NULL, 0) : writev(fd, two, 2); break;
        case 3: n = done ? write(fd, buffer + done, bytes - done) : sendmsg(fd, &message, MSG_NOSIGNAL); break;
        default: n = write(fd, buffer + done, bytes - done);
        }
        if (n > 0) done += n;
        else if (errno == EAGAIN) poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        else if (errno != EINTR) fail("send");
    }
}

// Receives some by one of the ways there are. 0: the end.
static long receive_on(int fd, long at, long most) {
    for (;;) {
        ssize_t n;
        struct iovec two[] = {{buffer, most / 2}, {buffer + most / 2, most - most / 2}};
        struct msghdr message = {.msg_iov = two, .msg_iovlen = 2};
        int looks = 0;
        switch (below(8)) {
        case 0: n = recv(fd, buffer, most, MSG_DONTWAIT); break;
        case 1: n = recv(fd, buffer, most, MSG_PEEK), looks = 1; break;
        case 2: n = recvfrom(fd, buffer, most, 0, NULL, NULL); break;
        case 3: n = recvmsg(fd, &message, 0); break;
        case 4: n = readv(fd, two, 2); break;
        default: n = read(fd, buffer, most);
        }
        if (n < 0 && errno == EAGAIN) poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
        else if (n < 0 && errno != EINTR) fail("receive");
        else if (n >= 0) {
            if (!is_right(buffer, at, n)) fail("what was received");
            if (!looks || n == 0) return n;
        }
    }
}

// Something else than to write a little.
static long send_otherwise(int fd, long at, long bytes) {
    int count = 0, size = 0;
    socklen_t len = sizeof size;
    switch (below(12)) {
    case 0: if (ioctl(fd, SIOCOUTQ, &count) || count < 0) fail("SIOCOUTQ"); return 0;
    case 1: poll(&(struct pollfd){fd, POLLOUT, 0}, 1, below(2)); return 0;
    case 2: set_nonblocking(fd, below(2)); return 0;
    case 3: if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){100000}, sizeof(int))) fail("SO_SNDBUF"); return 0;
    case 4: { int other = dup(fd); write_on(other, at, bytes); close(other); return bytes; }
    case 5: write_elsewhere(fd, at, bytes); return bytes;
    case 6: by_child(fd, at, bytes, 1); return bytes;
    case 7: by_program(fd, at, bytes); return bytes;
    case 8: sched_yield(); return 0;
    case 9: if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &size, &len) || size) fail("SO_ERROR"); return 0;
    case 10: { struct stat stat; fstat(fd, &stat); return 0; }
    default: send_on(fd, at, bytes); return bytes;
    }
}

// The same of who reads. -1: a child has met the end.
static long receive_otherwise(int fd, long at, long bytes) {
    int count = 0;
    switch (below(10)) {
    case 0: if (ioctl(fd, FIONREAD, &count) || count < 0 || count > 1 << 20) fail("FIONREAD"); return 0;
    case 1: poll(&(struct pollfd){fd, POLLIN, 0}, 1, below(2)); return 0;
    case 2: set_nonblocking(fd, below(2)); return 0;
    case 3: return by_child(fd, at, 1 + below(500), 0);
    case 4: sched_yield(); return 0;
    case 5: if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){below(2) * 1000, 0}, sizeof(struct timeval))) fail("SO_RCVTIMEO"); return 0;
    case 6: if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){below(2)}, sizeof(int))) fail("SO_PASSCRED"); return 0;
    case 7: if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){100000}, sizeof(int))) fail("SO_RCVBUF"); return 0;
    default: return receive_on(fd, at, bytes);
    }
}

static void run_sender(int fd, long total) {
    for (long at = 0; at < total;) {
        long bytes = some_bytes();
        if (bytes > total - at) bytes = total - at;
        if (below(4) == 0) {
            at += send_otherwise(fd, at, bytes);
            continue;
        }
        // Many a few, as most do.
        for (int n = 1 + below(60); n > 0 && at < total; n--) {
            bytes = bytes > 300 ? 300 : bytes;
            if (bytes > total - at) bytes = total - at;
            send_on(fd, at, bytes);
            at += bytes;
        }
    }
}

static long run_receiver(int fd, long total) {
    for (long at = 0; at < total;) {
        long bytes = some_bytes(), n;
        if (below(4) == 0) {
            if ((n = receive_otherwise(fd, at, bytes)) < 0) return -1;
            at += n;
            continue;
        }
        for (int times = 1 + below(60); times > 0; times--) {
            if ((n = receive_on(fd, at, bytes)) == 0) return at;
            at += n;
        }
    }
    return total;
}

// Two processes do anything by chance: first one sends, then the other.
static void by_chance(unsigned long seed) {
    enum { TOTAL = 300000 };
    int ends[2] = {seed};
    connected(ends, seed % 2);
    int pid = fork();
    if (pid == 0) {
        state = seed * 2 + 1;
        close(ends[0]);
        run_sender(ends[1], TOTAL);
        shutdown(ends[1], SHUT_WR);
        set_nonblocking(ends[1], 0);
        long came = run_receiver(ends[1], LONG_MAX);
        _exit(came == TOTAL / 2 || came <= 0 ? 0 : 4);
    }
    state = seed * 2 + 2;
    close(ends[1]);
    long came = run_receiver(ends[0], LONG_MAX);
    set_nonblocking(ends[0], 0);
    long rest = came < 0 ? 0 : TOTAL / 2;
    if (rest) run_sender(ends[0], rest);
    close(ends[0]);
    int status = status_of(pid);
    // A child that met the end has read what was left.
    int is_well = (came == TOTAL || came == -1) && status == 0;
    printf("seed %lu: %s\n", seed, is_well ? "all came" : "NOT ALL CAME");
    if (!is_well) fprintf(stderr, "%ld came, status %x\n", came, status);
}

// Messages to and fro, of all sizes.
static void talk(unsigned long seed) {
    int ends[2] = {100 + seed};
    connected(ends, seed % 2);
    int pid = fork(), fd = ends[pid == 0];
    close(ends[pid != 0]);
    state = seed + 7;
    long at[2] = {0};
    for (int turn = 0; turn < 400; turn++) {
        // Both have the same chance, and so know how much comes.
        long bytes = turn % 50 < 40 ? 1 + below(200) : some_bytes();
        int sends = turn % 2 == (pid == 0);
        unsigned long before = state;
        if (sends) {
            write_on(fd, at[turn % 2], bytes);
        } else {
            for (long done = 0; done < bytes;) {
                ssize_t n = recv(fd, buffer, bytes - done, turn % 3 ? 0 : MSG_WAITALL);
                if (n <= 0 || !is_right(buffer, at[turn % 2] + done, n)) fail("talk");
                if (turn % 3 == 0 && n != bytes) fail("MSG_WAITALL");
                done += n;
            }
        }
        state = before;
        at[turn % 2] += bytes;
    }
    if (pid == 0) _exit(0);
    close(fd);
    printf("talk %lu: status %d\n", seed, status_of(pid));
}

// Bytes to and fro, until what is lent is lent.
static void lend(int fd, int times) {
    for (int i = 0; i < times; i++) {
        char byte = i, back;
        if (write(fd, &byte, 1) != 1 || read(fd, &back, 1) != 1 || back != byte) fail("to and fro");
    }
}

// A process that sends back what it is sent.
static int echo(int *fd) {
    int ends[2];
    connected(ends, 0);
    int pid = fork();
    if (pid == 0) {
        close(ends[0]);
        char byte;
        while (read(ends[1], &byte, 1) == 1) send(ends[1], &byte, 1, MSG_NOSIGNAL);
        _exit(0);
    }
    close(ends[1]);
    *fd = ends[0];
    return pid;
}

// Who waits for a byte gets a signal; the other end is stopped, and killed.
static void with_signals(void) {
    int fd, pid = echo(&fd);
    char byte;
    lend(fd, 100);
    on(SIGALRM, 0);
    came = 0, alarm_in(20000);
    SHOW(read(fd, &byte, 1));
    CHECK(came == SIGALRM);
    lend(fd, 10);
    // The byte comes after the signal: from a child of this process.
    on(SIGALRM, SA_RESTART);
    came = 0, alarm_in(20000);
    if (fork() == 0) {
        usleep(200000);
        write(fd, "x", 1);
        _exit(0);
    }
    SHOW(read(fd, &byte, 1));
    CHECK(came == SIGALRM && byte == 'x');
    wait(NULL);
    lend(fd, 10);
    kill(pid, SIGSTOP);
    write(fd, "y", 1);
    SHOW(recv(fd, &byte, 1, MSG_DONTWAIT));
    set_nonblocking(fd, 1);
    SHOW(read(fd, &byte, 1));
    set_nonblocking(fd, 0);
    kill(pid, SIGCONT);
    SHOW(read(fd, &byte, 1));
    lend(fd, 50);
    // As long as the other end says nothing.
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 20000}, sizeof(struct timeval));
    SHOW(read(fd, &byte, 1));
    lend(fd, 50);
    SHOW(read(fd, &byte, 1));
    kill(pid, SIGKILL);
    SHOW(status_of(pid));
    SHOW(read(fd, &byte, 1));
    on(SIGPIPE, 0);
    came = 0;
    SHOW(send(fd, "z", 1, MSG_NOSIGNAL));
    CHECK(came == 0);
    SHOW(write(fd, "z", 1));
    CHECK(came == SIGPIPE);
    close(fd);
}

enum { RECORD = 64 };

// Who is killed has written records whole or not at all, and those come.
static void with_kills(void) {
    for (int round = 0; round < 20; round++) {
        int ends[2];
        connected(ends, 0);
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

// What goes without a request ends in each of the ways there are. `left`: the other end has not read all.
static void with_ends(int left, int how) {
    int ends[2];
    connected(ends, 0);
    int pid = fork();
    if (pid == 0) {
        close(ends[0]);
        char byte;
        for (int i = 0; i < 60; i++) read(ends[1], &byte, 1), write(ends[1], &byte, 1);
        // Not the last of what comes.
        if (!left) read(ends[1], &byte, 1);
        else poll(&(struct pollfd){ends[1], POLLIN, 0}, 1, -1);
        if (how == 0) _exit(0);
        shutdown(ends[1], how == 1 ? SHUT_WR : how == 2 ? SHUT_RD : SHUT_RDWR);
        raise(SIGSTOP);
        _exit(0);
    }
    close(ends[1]);
    lend(ends[0], 60);
    write(ends[0], "x", 1);
    int status;
    waitpid(pid, &status, WUNTRACED);
    char byte;
    on(SIGPIPE, 0);
    came = 0;
    printf("ends %d %d\n", left, how);
    if (how == 2) {
        SHOW(recv(ends[0], &byte, 1, MSG_DONTWAIT));
    } else {
        SHOW(read(ends[0], &byte, 1));
        SHOW(read(ends[0], &byte, 1));
    }
    SHOW(write(ends[0], "x", 1) < 0 ? -1 : 1);
    printf("signal %d\n", (int)came);
    kill(pid, SIGCONT);
    close(ends[0]);
    if (how) status_of(pid);
}

// A descriptor and bytes before and behind it; who has sent them, once that is wanted.
static void with_more_to_tell(void) {
    int ends[2], fd = -1;
    connected(ends, 0);
    char text[64] = {0};
    for (int i = 0; i < 100; i++) write(ends[0], text, 10), read(ends[1], text, 10);
    write(ends[0], "before", 6);
    union { char bytes[CMSG_SPACE(sizeof(struct ucred))]; struct cmsghdr head; } control = {0};
    struct iovec one = {"along", 5};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof(int))};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    *(int *)CMSG_DATA(&control.head) = ends[0];
    SHOW(sendmsg(ends[0], &message, 0));
    write(ends[0], "behind", 6);
    for (int i = 0; i < 2; i++) {
        one = (struct iovec){text, sizeof text};
        message.msg_controllen = sizeof control;
        ssize_t n = recvmsg(ends[1], &message, 0);
        printf("%.*s, %zu\n", (int)n, text, (size_t)message.msg_controllen);
        if (message.msg_controllen) memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
    }
    // The descriptor is one of the same end.
    for (int i = 0; i < 60; i++) write(i % 2 ? fd : ends[0], text, 10), read(ends[1], text, 10);
    write(ends[0], "one", 3), write(fd, "two", 3), write(ends[0], "three", 5);
    SHOW(recv(ends[1], text, sizeof text, MSG_PEEK));
    SHOW(recv(ends[1], text, 4, MSG_WAITALL));
    int count = 0;
    SHOW(ioctl(ends[1], FIONREAD, &count) | count);
    ioctl(ends[0], SIOCOUTQ, &count);
    CHECK(count > 7);
    printf("%.*s\n", (int)read(ends[1], text, sizeof text), text);
    ioctl(ends[0], SIOCOUTQ, &count);
    SHOW(count);
    close(fd);
    for (int i = 0; i < 60; i++) write(ends[0], text, 10), read(ends[1], text, 10);
    write(ends[0], "unsaid", 6);
    setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
    write(ends[0], "said", 4);
    for (int i = 0; i < 2; i++) {
        one = (struct iovec){text, sizeof text};
        message.msg_controllen = sizeof control;
        ssize_t n = recvmsg(ends[1], &message, 0);
        struct ucred *who = (void *)CMSG_DATA(&control.head);
        printf("%.*s, %s\n", (int)n, text, who->pid == getpid() && who->uid == getuid() ? "by this one" : who->pid == 0 ? "by nobody" : "?");
    }
    struct ucred peer;
    socklen_t len = sizeof peer;
    getsockopt(ends[1], SOL_SOCKET, SO_PEERCRED, &peer, &len);
    CHECK(peer.pid == getpid());
    close(ends[0]), close(ends[1]);
}

// As much can be written to an end that is lent as to one that is not, and all of it comes.
static void how_much(void) {
    int ends[2];
    connected(ends, 0);
    set_nonblocking(ends[0], 1), set_nonblocking(ends[1], 1);
    char bytes[4096] = {0};
    for (int i = 0; i < 200; i++) write(ends[1], bytes, 64), read(ends[0], bytes, 64);
    SHOW(read(ends[0], bytes, 1));
    long count = 0, left = 0, n;
    while ((n = write(ends[1], bytes, 4096)) > 0) count += n;
    CHECK(errno == EAGAIN && count > 2 * 65536 && count < 4 * 65536);
    CHECK(!(poll(&(struct pollfd){ends[1], POLLOUT, 0}, 1, 0)));
    int unread = 0;
    ioctl(ends[0], FIONREAD, &unread);
    CHECK(unread == count);
    while ((n = read(ends[0], bytes, 4096)) > 0) left += n;
    CHECK(left == count);
    SHOW(poll(&(struct pollfd){ends[1], POLLOUT, 0}, 1, 0));
    for (int i = 0; i < 100; i++) write(ends[1], bytes, 64), read(ends[0], bytes, 64);
    char *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(write(ends[1], nowhere, 10));
    SHOW(write(ends[1], bytes, 10));
    SHOW(read(ends[0], nowhere, 10));
    SHOW(read(ends[0], bytes, 100));
    SHOW(write(ends[1], bytes, 0));
    SHOW(read(ends[0], bytes, 100));
    close(ends[1]);
    SHOW(read(ends[0], bytes, 100));
    close(ends[0]);
}

static int thread_end;
static void *send_records(void *which) {
    char record[RECORD];
    memset(record, 'a' + (long)which, RECORD);
    for (int i = 0; i < 2000; i++)
        if (write(thread_end, record, RECORD) != RECORD) fail("record");
    return NULL;
}

// Threads write at once: what each writes is not mixed with what others do.
static void with_threads(void) {
    enum { THREADS = 4 };
    int ends[2];
    connected(ends, 0);
    int pid = fork();
    if (pid == 0) {
        close(ends[0]);
        thread_end = ends[1];
        for (int i = 0; i < 50; i++) write(ends[1], (char[RECORD]){[0 ... RECORD - 1] = 'z'}, RECORD);
        pthread_t all[THREADS];
        for (long i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, send_records, (void *)i);
        for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
        _exit(0);
    }
    close(ends[1]);
    long counts[26] = {0}, mixed = 0;
    char record[RECORD];
    while (recv(ends[0], record, RECORD, MSG_WAITALL) == RECORD) {
        for (int i = 1; i < RECORD; i++) mixed += record[i] != record[0];
        counts[record[0] - 'a']++;
    }
    close(ends[0]);
    printf("threads: %ld %ld %ld %ld %ld, %ld mixed, status %d\n", counts[0], counts[1], counts[2], counts[3], counts[25], mixed, status_of(pid));
}

// Another program takes over in the same process, and goes on where it was.
static void with_programs(void) {
    int ends[2];
    connected(ends, 0);
    int pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (long at = 0; at < 3000; at += 10) write_on(ends[1], at, 10);
        char word[24];
        snprintf(word, 24, "%d", ends[1]);
        execl("/proc/self/exe", "lent", "write", word, "3000", "3000", NULL);
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
    int fds[3], pids[3];
    for (int i = 0; i < 3; i++) pids[i] = echo(&fds[i]), lend(fds[i], 60);
    for (int round = 0; round < 60; round++) {
        int which = below(3);
        char byte = round, back;
        write(fds[which], &byte, 1);
        struct pollfd all[3];
        for (int i = 0; i < 3; i++) all[i] = (struct pollfd){fds[i], POLLIN, 0};
        int n = poll(all, 3, 5000);
        if (n != 1 || all[which].revents != POLLIN) fail("poll");
        if (read(fds[which], &back, 1) != 1 || back != byte) fail("echo");
    }
    for (int i = 0; i < 3; i++) close(fds[i]);
    for (int i = 0; i < 3; i++) status_of(pids[i]);
    puts("several: all came");
}

int main(int argc, char **argv) {
    if (as_program(argc, argv)) return 0;
    for (unsigned long seed = 1; seed <= 10; seed++) by_chance(seed);
    for (unsigned long seed = 1; seed <= 4; seed++) talk(seed);
    with_signals();
    with_kills();
    for (int left = 0; left < 2; left++)
        for (int how = 0; how < 4; how++) with_ends(left, how);
    with_more_to_tell();
    how_much();
    with_threads();
    with_programs();
    with_several();
    return 0;
}
