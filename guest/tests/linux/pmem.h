// Where files survive: /pmem. On Linux, whose answers are compared with, a tmpfs.
#include "test.h"

static char folder[64] = "/pmem/test";

static void go_to_folder(void) {
    if (access("/pmem", W_OK) == 0) {
        mkdir(folder, 0755);
    } else {
        strcpy(folder, "/dev/shm/test-XXXXXX");
        if (!mkdtemp(folder)) exit(99);
        chmod(folder, 0755);
    }
    if (chdir(folder) != 0) exit(99);
    umask(022);
}

// Fails if anything is left in it.
static void leave_folder(void) {
    SHOW(chdir("/"));
    CHECK(rmdir(folder) == 0);
}
