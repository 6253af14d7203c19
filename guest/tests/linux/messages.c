// build: gcc, musl
// oracle: linux
// cores: 4
// System V messages: which one is received, what is refused, who waits and how that ends.
#include "test.h"
#include <limits.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/time.h>
#include <time.h>

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif

static struct message {
    long kind;
    char text[70000];
} out, in;

static int queue;

static long put(long kind, const char *text, int flags) {
    out.kind = kind;
    strcpy(out.text, text);
    return msgsnd(queue, &out, strlen(text), flags);
}

static void get(const char *what, size_t room, long kind, int flags) {
    memset(&in, 0, 200);
    errno = 0;
    long got = msgrcv(queue, &in, room, kind, flags);
    if (got < 0) printf("%s: errno %d\n", what, errno);
    else printf("%s: %ld bytes, kind %ld, '%s'\n", what, got, in.kind, in.text);
}

static void show(const char *what) {
    struct msqid_ds ds;
    memset(&ds, 0xaa, sizeof ds);
    if (msgctl(queue, IPC_STAT, &ds)) {
        printf("%s: errno %d\n", what, errno);
        return;
    }
    printf("%s: mode %o, %lu messages of %lu, %lu bytes, sent %d by %d, received %d by %d, changed %d\n", what,
           ds.msg_perm.mode, (unsigned long)ds.msg_qnum, (unsigned long)ds.msg_qbytes,
           *(unsigned long *)((char *)&ds + 72), ds.msg_stime != 0, ds.msg_lspid == getpid(), ds.msg_rtime != 0,
           ds.msg_lrpid == getpid(), ds.msg_ctime != 0);
}

static void keys(void) {
    SHOW(msgget(0x7e55e7a5, 0600));
    SHOW((queue = msgget(0x7e55e7a5, IPC_CREAT | 0640)) >= 0);
    SHOW(msgget(0x7e55e7a5, 0600) == queue);
    SHOW(msgget(0x7e55e7a5, IPC_CREAT | IPC_EXCL | 0600));
    int other = msgget(IPC_PRIVATE, 0), third = msgget(IPC_PRIVATE, 0600);
    SHOW(other >= 0 && third >= 0 && other != queue && third != other);
    SHOW(msgctl(other, IPC_RMID, NULL));
    SHOW(msgctl(other, IPC_RMID, NULL));
    SHOW(msgctl(third, IPC_RMID, NULL));
    SHOW(msgctl(-1, IPC_STAT, NULL));
    SHOW(msgctl(0x7ffffff, IPC_RMID, NULL));
    SHOW(msgctl(queue, 77, NULL));
    SHOW(msgctl(queue, IPC_STAT, NULL));
    SHOW(msgctl(queue, IPC_SET, NULL));
    show("new");
}

static void choice(void) {
    out.kind = 0;
    SHOW(msgsnd(queue, &out, 1, 0));
    out.kind = -1;
    SHOW(msgsnd(queue, &out, 1, 0));
    out.kind = 1;
    SHOW(msgsnd(-1, &out, 1, 0));
    SHOW(msgsnd(0x7ffffff, &out, 1, 0));
    SHOW(msgsnd(queue, NULL, 1, 0));
    SHOW(msgsnd(queue, &out, -1, 0));
    SHOW(msgsnd(queue, &out, 8193, 0));
    SHOW(msgsnd(queue, &out, 8192, 0));
    SHOW(msgsnd(queue, &out, 8192, 0));
    SHOW(msgsnd(queue, &out, 1, IPC_NOWAIT));
    SHOW(msgsnd(queue, &out, 0, IPC_NOWAIT));
    show("full");
    SHOW(msgrcv(queue, &in, 8191, 0, 0));
    SHOW(msgrcv(queue, &in, 8191, 0, MSG_NOERROR));
    SHOW(msgrcv(queue, &in, 65536, 0, MSG_NOERROR));
    SHOW(msgrcv(queue, &in, 65536, 0, MSG_NOERROR));
    SHOW(msgrcv(queue, &in, -1, 0, IPC_NOWAIT));
    SHOW(msgrcv(-1, &in, 1, 0, IPC_NOWAIT));
    get("empty", 100, 0, IPC_NOWAIT);
    get("no such kind", 100, 5, IPC_NOWAIT);
    put(3, "three", 0), put(1, "one", 0), put(2, "two", 0), put(1, "another one", 0), put(LONG_MAX, "most", 0);
    get("copy of 0", 100, 0, IPC_NOWAIT | MSG_COPY);
    get("copy of 3", 100, 3, IPC_NOWAIT | MSG_COPY);
    get("copy of 5", 100, 5, IPC_NOWAIT | MSG_COPY);
    get("copy, waiting", 100, 0, MSG_COPY);
    get("copy, except", 100, 0, IPC_NOWAIT | MSG_COPY | MSG_EXCEPT);
    get("copy, small", 2, 0, IPC_NOWAIT | MSG_COPY);
    get("copy, cut", 2, 0, IPC_NOWAIT | MSG_COPY | MSG_NOERROR);
    get("kind 1", 100, 1, 0);
    get("not 3", 100, 3, MSG_EXCEPT);
    get("up to 2", 100, -2, 0);
    get("up to 2", 100, -2, IPC_NOWAIT);
    get("lowest", 100, LONG_MIN, 0);
    get("any, except", 100, 0, MSG_EXCEPT);
    get("nothing", 100, 0, IPC_NOWAIT);
    // What cannot be stored is lost.
    put(1, "lost", 0);
    SHOW(msgrcv(queue, NULL, 100, 0, 0));
    get("after that", 100, 0, IPC_NOWAIT);
    put(9, "", 0);
    get("no bytes", 0, 0, 0);
    show("used");
}

static void settings(void) {
    struct msqid_ds ds;
    SHOW(msgctl(queue, IPC_STAT, &ds));
    ds.msg_qbytes = 10;
    ds.msg_perm.mode = 0666;
    SHOW(msgctl(queue, IPC_SET, &ds));
    show("small");
    SHOW(put(1, "ten bytes.", IPC_NOWAIT));
    SHOW(put(1, "x", IPC_NOWAIT));
    get("room", 100, 0, 0);
    for (int n = 0; n < 11; n++) {
        long sent = put(1, "", IPC_NOWAIT);
        if (sent) printf("message %d: errno %d\n", n, errno);
    }
    for (int n = 0; n < 10; n++) msgrcv(queue, &in, 10, 0, IPC_NOWAIT);
    ds.msg_qbytes = 16384;
    SHOW(msgctl(queue, IPC_SET, &ds));
    for (int n = 0; n < 12; n++) msgsnd(queue, &out, 8192, IPC_NOWAIT);
    show("large again");
    struct msginfo info;
    SHOW(msgctl(queue, MSG_INFO, (void *)&info) >= 0);
    printf("%d messages in queues, %d bytes\n", info.msgmap, info.msgtql);
    SHOW(msgctl(0, IPC_INFO, (void *)&info) >= 0);
    printf("most %d, %d, %d %d\n", info.msgmax, info.msgmnb, info.msgssz, info.msgseg);
    int found = 0;
    for (int place = 0; place <= 4096 && !found; place++) found = msgctl(place, MSG_STAT, &ds) == queue;
    SHOW(found);
    while (msgrcv(queue, &in, 8192, 0, IPC_NOWAIT) >= 0) { }
}

static void users(void) {
    struct msqid_ds ds;
    msgctl(queue, IPC_STAT, &ds);
    ds.msg_perm.mode = 0640;
    ds.msg_qbytes = 16384;
    SHOW(msgctl(queue, IPC_SET, &ds));
    put(1, "secret", 0);
    IN_CHILD(
        "another user", if (setgid(1000) || setuid(1000)) _exit(9); SHOW(msgget(0x7e55e7a5, 0400)); SHOW(msgget(0x7e55e7a5, 0) >= 0);
        get("steal", 100, 0, IPC_NOWAIT); get("look", 100, 0, IPC_NOWAIT | MSG_COPY); SHOW(put(1, "x", IPC_NOWAIT));
        SHOW(msgctl(queue, IPC_STAT, &ds)); SHOW(msgctl(queue, IPC_RMID, NULL)); SHOW(msgctl(queue, IPC_SET, &ds));
        int own = msgget(IPC_PRIVATE, 0600); SHOW(msgctl(own, IPC_STAT, &ds)); ds.msg_qbytes = 16385;
        SHOW(msgctl(own, IPC_SET, &ds)); ds.msg_qbytes = 100; SHOW(msgctl(own, IPC_SET, &ds));
        ds.msg_perm.mode = 0; SHOW(msgctl(own, IPC_SET, &ds)); SHOW(msgctl(own, IPC_STAT, &ds)); SHOW(msgctl(own, IPC_RMID, NULL)));
    get("still there", 100, 0, IPC_NOWAIT);
}

static void on_signal(int signal) { (void)signal; }

static void waiting(void) {
    pid_t child = fork();
    if (child == 0) {
        get("child waited", 100, 7, 0);
        _exit(0);
    }
    usleep(50000);
    put(6, "not for the child", 0);
    usleep(20000);
    put(7, "for the child", 0);
    waitpid(child, NULL, 0);
    get("rest", 100, 0, IPC_NOWAIT);
    // A sender waits for room.
    msgsnd(queue, &out, 8192, 0), msgsnd(queue, &out, 8192, 0);
    child = fork();
    if (child == 0) {
        SHOW(put(4, "there is room", 0));
        _exit(0);
    }
    usleep(50000);
    long got = msgrcv(queue, &in, 8192, 0, 0);
    waitpid(child, NULL, 0);
    SHOW(got);
    get("sent", 100, 4, 0);
    SHOW(msgrcv(queue, &in, 8192, 0, 0));
    // A signal ends a wait, whatever was said about restarting.
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = {{0, 0}, {0, 50000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    get("interrupted", 100, 0, 0);
    msgsnd(queue, &out, 8192, 0), msgsnd(queue, &out, 8192, 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    SHOW(msgsnd(queue, &out, 8192, 0));
    // One that waits is killed; what comes then is somebody else's.
    while (msgrcv(queue, &in, 8192, 0, IPC_NOWAIT) >= 0) { }
    child = fork();
    if (child == 0) msgrcv(queue, &in, 100, 0, 0), _exit(1);
    usleep(50000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    put(1, "nobody's", 0);
    get("of the killed", 100, 0, IPC_NOWAIT);
    // Removed while others wait.
    int removed = msgget(IPC_PRIVATE, 0600);
    child = fork();
    if (child == 0) {
        SHOW(msgrcv(removed, &in, 100, 0, 0));
        _exit(0);
    }
    usleep(50000);
    got = msgctl(removed, IPC_RMID, NULL);
    waitpid(child, NULL, 0);
    SHOW(got);
    removed = msgget(IPC_PRIVATE, 0600);
    msgsnd(removed, &out, 8192, 0), msgsnd(removed, &out, 8192, 0);
    child = fork();
    if (child == 0) {
        SHOW(msgsnd(removed, &out, 1, 0));
        _exit(0);
    }
    usleep(50000);
    got = msgctl(removed, IPC_RMID, NULL);
    waitpid(child, NULL, 0);
    SHOW(got);
    SHOW(msgrcv(removed, &in, 100, 0, 0));
}

// Several send and several receive at once: each message arrives once, those of one sender and kind in order.
#define EACH 300
static long sums[3];
static int disorder;

static void *send_all(void *arg) {
    struct { long kind; int from, number; } message = {1 + (long)arg, (int)(long)arg, 0};
    for (; message.number < EACH; message.number++)
        if (msgsnd(queue, &message, 8, 0)) perror("msgsnd");
    return NULL;
}

static void *receive_all(void *arg) {
    struct { long kind; int from, number; } message;
    for (int n = 0; n < EACH; n++) {
        if (msgrcv(queue, &message, 8, 1 + (long)arg, 0) != 8) perror("msgrcv");
        disorder += message.number != n || message.from != (int)(long)arg;
        sums[(long)arg] += message.number;
    }
    return NULL;
}

static void crowd(void) {
    pthread_t threads[6];
    for (long n = 0; n < 6; n++) pthread_create(&threads[n], NULL, n < 3 ? send_all : receive_all, (void *)(n % 3));
    for (int n = 0; n < 6; n++) pthread_join(threads[n], NULL);
    printf("sums %ld %ld %ld, out of order %d\n", sums[0], sums[1], sums[2], disorder);
    show("after the crowd");
}

int main(void) {
    int old = msgget(0x7e55e7a5, 0);
    if (old >= 0) msgctl(old, IPC_RMID, NULL);
    keys();
    choice();
    settings();
    users();
    waiting();
    crowd();
    SHOW(msgctl(queue, IPC_RMID, NULL));
    show("removed");
    get("removed", 100, 0, 0);
    return 0;
}
