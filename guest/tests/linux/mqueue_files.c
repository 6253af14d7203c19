// Message queues as files: what a mounted mqueue file system shows, and what can be done there.
// oracle: linux
#include "test.h"
#include "must.h"
#include <dirent.h>
#include <mqueue.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>

static char here[64];

static const char *at(const char *name) {
    static char path[4][128];
    static int turn;
    char *one = path[turn++ & 3];
    snprintf(one, 128, "%s/%s", here, name);
    return one;
}
#define TRY(e)                                                                      \
    do {                                                                            \
        errno = 0;                                                                  \
        long value_ = (e);                                                          \
        printf("%s: %ld", #e, value_ < 0 ? -errno : value_ > 2 ? 3 : value_);       \
        printf("\n");                                                               \
    } while (0)

static int compare(const void *a, const void *b) { return strcmp(a, b); }
static void list(void) {
    char names[16][64];
    int count = 0;
    DIR *dir = opendir(here);
    MUST(dir != NULL);
    for (struct dirent *one; (one = readdir(dir)) && count < 16;)
        if (one->d_name[0] != '.') snprintf(names[count++], 64, "%.50s type %d", one->d_name, one->d_type);
    closedir(dir);
    qsort(names, count, 64, compare);
    printf("%d:", count);
    for (int i = 0; i < count; i++) printf(" %s", names[i]);
    printf("\n");
}
static void text(int fd) {
    char bytes[200] = "";
    lseek(fd, 0, SEEK_SET);
    long count = pread(fd, bytes, sizeof bytes - 1, 0);
    char *pid = strstr(bytes, "NOTIFY_PID:");
    if (pid && atoi(pid + 11) == getpid()) strcpy(pid + 11, "own\n");
    printf("%d: %s", count > 0, bytes);
}

static void files(void) {
    struct stat st;
    struct statfs fs;
    MUST(stat(here, &st) == 0 && statfs(here, &fs) == 0);
    printf("directory %o, of %u, type %lx\n", st.st_mode, st.st_uid, (long)fs.f_type);
    list();
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 100};
    mqd_t queue = mq_open("/one", O_RDWR | O_CREAT | O_NONBLOCK, 0640, &attributes);
    MUST(queue != (mqd_t)-1);
    list();
    MUST(stat(at("one"), &st) == 0);
    printf("mode %o, size %ld, links %lu, of %u\n", st.st_mode, (long)st.st_size, (long)st.st_nlink, st.st_uid);
    int fd = open(at("one"), O_RDONLY | O_NONBLOCK);
    text(fd);
    MUST(mq_send(queue, "hello", 5, 1) == 0 && mq_send(queue, "you", 3, 1) == 0);
    text(fd);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    MUST(mq_notify(queue, &event) == 0);
    text(fd);
    MUST(mq_notify(queue, NULL) == 0);
    event.sigev_notify = SIGEV_NONE;
    MUST(mq_notify(queue, &event) == 0);
    text(fd);
    MUST(mq_notify(queue, NULL) == 0);
    text(fd);
    // It is the queue, however it was opened.
    char bytes[100];
    int other = open(at("one"), O_RDWR | O_NONBLOCK);
    TRY(mq_receive(other, bytes, sizeof bytes, NULL));
    TRY(write(other, "x", 1));
    TRY(mq_receive(fd, bytes, sizeof bytes, NULL));
    TRY(mq_send(fd, "x", 1, 0));
    TRY(mq_receive(fd, bytes, sizeof bytes, NULL));
    close(other), close(fd);
    // Made as a file, it is what it is by default.
    TRY(open(at("two"), O_CREAT | O_EXCL | O_RDWR, 0600));
    TRY(open(at("two"), O_CREAT | O_EXCL | O_RDWR, 0600));
    mqd_t two = mq_open("/two", O_RDONLY);
    struct mq_attr got = {0};
    TRY(mq_getattr(two, &got));
    printf("%ld messages of %ld bytes\n", got.mq_maxmsg, got.mq_msgsize);
    mq_close(two);
    list();
    TRY(mkdir(at("dir"), 0700));
    TRY(symlink("one", at("link")));
    TRY(link(at("one"), at("three")));
    TRY(rename(at("one"), at("three")));
    TRY(mknod(at("fifo"), S_IFIFO | 0600, 0));
    TRY(chmod(at("two"), 0400));
    TRY(chown(at("two"), 1000, 1000));
    MUST(stat(at("two"), &st) == 0);
    printf("mode %o, of %u\n", st.st_mode, st.st_uid);
    IN_CHILD("a user", {
        setgid(1000), setuid(1000);
        TRY(open(at("two"), O_RDONLY));
        TRY(open(at("two"), O_WRONLY));
        TRY(open(at("one"), O_RDONLY));
        TRY(unlink(at("one")));
        TRY(mq_unlink("/one"));
        TRY(open(at("mine"), O_CREAT | O_RDWR, 0600));
        list();
        TRY(unlink(at("two")));
        TRY(unlink(at("mine")));
    });
    list();
    TRY(unlink(at("one")));
    TRY(unlink(at("one")));
    TRY(mq_unlink("/one"));
    TRY(mq_send(queue, "still", 5, 0));
    mq_close(queue);
    list();
    TRY(rmdir(at("none")));
    TRY(open(at("none"), O_RDONLY));
}

static void spaces(void) {
    MUST(mq_open("/outside", O_RDWR | O_CREAT, 0600, NULL) != (mqd_t)-1);
    IN_CHILD("another name space", {
        MUST(unshare(CLONE_NEWIPC) == 0);
        // What is mounted shows what it did.
        list();
        TRY(mq_open("/outside", O_RDWR));
        MUST(mq_open("/inside", O_RDWR | O_CREAT, 0600, NULL) != (mqd_t)-1);
        list();
        MUST(mount("inside", here, "mqueue", 0, NULL) == 0);
        list();
        MUST(umount(here) == 0);
        list();
        MUST(mount("inside", here, "mqueue", 0, NULL) == 0);
        list();
    });
    mq_unlink("/outside");
}

int main(void) {
    MUST(unshare(CLONE_NEWNS | CLONE_NEWIPC) == 0);
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    snprintf(here, sizeof here, "/tmp/mqueue.%d", getpid());
    MUST(mkdir(here, 0700) == 0 && mount("queues", here, "mqueue", 0, NULL) == 0);
    umask(022);
    files();
    spaces();
    TRY(mount("again", here, "mqueue", 0, "size=3"));
    umount(here), umount(here), rmdir(here);
    return 0;
}
