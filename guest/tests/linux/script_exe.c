// Of a script `/proc/PID/exe` and the mappings are the interpreter's, the name is the script's: programs that execute themselves by that link (busybox) do not
// get the script again.
// oracle: linux
// build: gcc, musl
#include "test.h"
#include <spawn.h>
#include <pthread.h>
#include <sys/auxv.h>

extern char **environ;
static char self[256];

static const char *last(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

// What a script's interpreter sees of itself.
static int interpret(int argc, char **argv) {
    char link[256] = "", name[32] = "", line[512] = "";
    if (readlink("/proc/self/exe", link, sizeof link - 1) < 0) perror("readlink");
    int fd = open("/proc/self/comm", O_RDONLY);
    if (read(fd, name, sizeof name - 1) > 0) name[strcspn(name, "\n")] = 0;
    close(fd);
    FILE *maps = fopen("/proc/self/maps", "r");
    char *path = NULL;
    while (!path && fgets(line, sizeof line, maps)) path = strchr(line, '/');
    fclose(maps);
    if (path) path[strcspn(path, "\n")] = 0;
    printf("exe is the interpreter: %d; name %s; mapped is the interpreter: %d; asked for %s; arguments %d: %s %s\n", !strcmp(link, argv[0]), name,
           path && !strcmp(path, argv[0]), last((char *)getauxval(AT_EXECFN)), argc, argv[1], last(argv[2]));
    fflush(stdout);
    return 0;
}

static void *execute(void *path) {
    execl(path, path, "more", NULL);
    perror("execl");
    exit(1);
}

static void end_of(int pid) {
    int status;
    waitpid(pid, &status, 0);
    printf("status %d\n", status);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "interpret")) return interpret(argc, argv);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    char folder[] = "/tmp/scriptXXXXXX", first[300], second[300];
    if (!mkdtemp(folder)) return 1;
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    for (int n = 0; n < 2; n++) {
        // A script whose interpreter is a script.
        int fd = open(n ? second : first, O_WRONLY | O_CREAT, 0700);
        dprintf(fd, "#! %s%s\n", n ? first : self, n ? "" : " interpret");
        close(fd);
    }
    for (int n = 0; n < 2; n++) {
        char *path = n ? second : first, *args[] = {path, NULL};
        int pid = fork();
        if (pid == 0) execute(path);
        end_of(pid);
        int error = posix_spawn(&pid, path, NULL, NULL, args, environ);
        end_of(pid);
        SHOW(error);
        // Of a process with several threads.
        if ((pid = fork()) == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, execute, path);
            pause();
        }
        end_of(pid);
    }
    unlink(first), unlink(second), rmdir(folder);
    return 0;
}
