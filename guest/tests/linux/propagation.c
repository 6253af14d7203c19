// Mounts that follow each other: shared ones, slaves, private and unbindable ones, in one name space and in several.
// oracle: linux
#include "spaces.h"
#include <sys/mount.h>

#ifndef MS_UNBINDABLE
#define MS_UNBINDABLE (1 << 17)
#endif

static long groups[64];
static int known;

// Groups by the order in which one list has them.
static int named(long group) {
    for (int n = 0; n < known; n++)
        if (groups[n] == group) return n + 1;
    groups[known++] = group;
    return known;
}

static void show(const char *when) {
    static struct { char place[64], fields[200]; } all[100];
    int count = 0;
    char line[1024];
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (fgets(line, sizeof line, file) && count < 100) {
        // Number, number of what it is in, device, root, place, options, those fields, a dash.
        char place[200];
        int behind = 0;
        if (sscanf(line, "%*s %*s %*s %*s %199s %*s%n", place, &behind) != 1 || strncmp(place, "/tmp/p", 6)) continue;
        *strstr(line + behind, " - ") = 0;
        int at = count++;
        // By their places: the order of the list is nobody's business.
        for (; at > 0 && strcmp(all[at - 1].place, place + 5) > 0; at--) all[at] = all[at - 1];
        snprintf(all[at].place, sizeof all[at].place, "%s", place + 5);
        snprintf(all[at].fields, sizeof all[at].fields, "%s", line + behind);
    }
    fclose(file);
    printf("%s:", when);
    known = 0;
    for (int n = 0; n < count; n++) {
        printf(" %s", all[n].place);
        for (char *field = strtok(all[n].fields, " "); field; field = strtok(NULL, " ")) {
            char *colon = strchr(field, ':');
            if (!strncmp(field, "propagate", 9)) continue;
            if (!colon) printf("[%s]", field);
            else printf("[%.*s %d]", (int)(colon - field), field, named(atol(colon + 1)));
        }
    }
    printf("\n");
}

static int tmpfs(const char *path) {
    return mount("none", path, "tmpfs", 0, "mode=755") ? -errno : 0;
}
static int bind_to(const char *from, const char *to, unsigned long flags) {
    return mount(from, to, NULL, MS_BIND | flags, NULL) ? -errno : 0;
}
static int make(const char *path, unsigned long how) { return mount("none", path, NULL, how, NULL) ? -errno : 0; }
static int leave(const char *path, int flags) { return umount2(path, flags) ? -errno : 0; }
// One after the other, as arguments are not.
#define DO(call) printf("%s: %d\n", #call, call)
static int move(const char *from, const char *to) { return mount(from, to, NULL, MS_MOVE, NULL) ? -errno : 0; }
static void folder(const char *path) { mkdir(path, 0755); }

static void peers(void) {
    folder("/tmp/p/a"), folder("/tmp/p/b"), folder("/tmp/p/c"), folder("/tmp/p/d"), folder("/tmp/p/e");
    tmpfs("/tmp/p/a");
    folder("/tmp/p/a/x"), folder("/tmp/p/a/y"), folder("/tmp/p/a/deep"), folder("/tmp/p/a/deep/z");
    DO(make("/tmp/p/a", MS_SHARED));
    DO(bind_to("/tmp/p/a", "/tmp/p/b", 0));
    show("peers");
    DO(tmpfs("/tmp/p/a/x"));
    show("in both");
    DO(mkdir("/tmp/p/b/x/in", 0755) || tmpfs("/tmp/p/b/x/in"));
    show("deeper");
    DO(leave("/tmp/p/a/x", 0));
    DO(leave("/tmp/p/a/x/in", 0));
    DO(leave("/tmp/p/b/x", 0));
    show("gone in both");
}

static void slaves(void) {
    DO(bind_to("/tmp/p/a", "/tmp/p/c", 0));
    DO(make("/tmp/p/c", MS_SLAVE));
    DO(tmpfs("/tmp/p/b/x"));
    DO(tmpfs("/tmp/p/c/y"));
    show("slave");
    DO(leave("/tmp/p/a/x", 0));
    DO(leave("/tmp/p/c/y", 0));
    DO(make("/tmp/p/c", MS_SHARED));
    DO(bind_to("/tmp/p/c", "/tmp/p/d", 0));
    DO(tmpfs("/tmp/p/a/x"));
    show("a slave with a peer");
    DO(tmpfs("/tmp/p/d/y"));
    show("not in the master");
    DO(leave("/tmp/p/a/x", MNT_DETACH));
    DO(leave("/tmp/p/c/y", 0));
    show("out");
    // The last of its group, with those that follow it.
    DO(make("/tmp/p/a", MS_PRIVATE));
    DO(make("/tmp/p/b", MS_PRIVATE));
    show("nobody to follow");
}

static void parts(void) {
    DO(make("/tmp/p/a", MS_SHARED));
    DO(bind_to("/tmp/p/a/deep", "/tmp/p/e", 0));
    show("a part");
    DO(tmpfs("/tmp/p/a/y"));
    DO(tmpfs("/tmp/p/a/deep/z"));
    show("parts");
    DO(leave("/tmp/p/e/z", 0));
    DO(leave("/tmp/p/a/y", 0));
    DO(tmpfs("/tmp/p/a/deep/z"));
    DO(chdir("/tmp/p/e/z"));
    DO(leave("/tmp/p/a/deep/z", 0));
    DO(chdir("/") || leave("/tmp/p/a/deep/z", 0));
    DO(leave("/tmp/p/e", 0));
}

static void trees(void) {
    folder("/tmp/p/f"), folder("/tmp/p/g");
    DO(tmpfs("/tmp/p/f"));
    DO(mkdir("/tmp/p/f/in", 0755));
    DO(tmpfs("/tmp/p/f/in"));
    DO(bind_to("/tmp/p/a", "/tmp/p/b", 0));
    DO(bind_to("/tmp/p/f", "/tmp/p/a/y", MS_REC));
    show("a tree in both");
    DO(leave("/tmp/p/b/y", MNT_DETACH));
    DO(move("/tmp/p/f", "/tmp/p/b/y"));
    show("moved into one");
    DO(move("/tmp/p/a/y", "/tmp/p/g"));
    DO(leave("/tmp/p/a/y", MNT_DETACH));
    show("out");
}

static void unbindable(void) {
    DO(tmpfs("/tmp/p/f"));
    DO(make("/tmp/p/f", MS_UNBINDABLE));
    show("unbindable");
    DO(bind_to("/tmp/p/f", "/tmp/p/g", 0));
    DO(move("/tmp/p/f", "/tmp/p/a/x"));
    DO(bind_to("/tmp/p", "/tmp/p/g", MS_REC));
    show("without it");
    DO(leave("/tmp/p/g", MNT_DETACH));
    DO(leave("/tmp/p/f", 0));
    show("out");
}

static void refused(void) {
    DO(make("/tmp/p/a", MS_SHARED | MS_PRIVATE));
    DO(make("/tmp/p/a/x", MS_SHARED));
    DO(make("/tmp/p/a", MS_SHARED | MS_NOEXEC));
    DO(make("/tmp/p", MS_REC | MS_PRIVATE));
    show("private");
    DO(make("/tmp/p", MS_REC | MS_SHARED));
    show("shared");
}

static void in_space(void) {
    show("in it");
    DO(tmpfs("/tmp/p/a/x"));
    DO(make("/tmp/p", MS_REC | MS_SLAVE));
    DO(tmpfs("/tmp/p/a/y"));
    show("a slave");
}

static void for_user(void) {
    show("of a user");
    DO(tmpfs("/tmp/p/a/y"));
}

static void spaces(void) {
    fflush(stdout);
    int to[2], from[2];
    if (pipe(to) || pipe(from)) return;
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        if (unshare(CLONE_NEWNS)) _exit(1);
        in_space();
        fflush(stdout);
        if (write(from[1], "x", 1) != 1 || read(to[0], &byte, 1) != 1) _exit(2);
        show("what came meanwhile");
        fflush(stdout);
        _exit(0);
    }
    char byte;
    if (read(from[0], &byte, 1) != 1) return;
    show("of the other");
    DO(tmpfs("/tmp/p/c/y"));
    fflush(stdout);
    if (write(to[1], "x", 1) != 1) return;
    printf("status %x\n", wait_for(pid));
    DO(leave("/tmp/p/a/x", 0));
    DO(leave("/tmp/p/c/y", 0));
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) _exit(1);
        for_user();
        fflush(stdout);
        _exit(0);
    }
    printf("status %x\n", wait_for(pid));
    show("at the end");
}

int main(void) {
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    mkdir("/tmp/p", 0755);
    if (tmpfs("/tmp/p")) return 2;
    show("at first");
    peers();
    slaves();
    parts();
    trees();
    unbindable();
    refused();
    spaces();
    return 0;
}
