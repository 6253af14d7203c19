// execve: arguments, environment, descriptors, signals and errors, seen by the next program.
// oracle: linux
// expect-status: 17
// args: first
// env: COLOUR=blue
#include "test.h"
#include <sys/auxv.h>
#include <unistd.h>

static void second(int count, char **arguments) {
    for (int i = 0; i < count; i++) printf("[%s]", arguments[i]);
    printf("\nCOLOUR=%s ADDED=%s\n", getenv("COLOUR"), getenv("ADDED"));
    SHOW(fcntl(10, F_GETFD));
    SHOW(fcntl(11, F_GETFD));
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    CHECK(action.sa_handler == SIG_DFL);
    sigaction(SIGUSR2, NULL, &action);
    CHECK(action.sa_handler == SIG_IGN);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    CHECK(sigismember(&mask, SIGHUP));
}

static void start_of_program(char **arguments) {
    CHECK(getauxval(AT_PAGESZ) == PAGE);
    CHECK(getauxval(AT_PHDR) != 0 && getauxval(AT_PHNUM) > 0 && getauxval(AT_PHENT) == 56);
    CHECK(getauxval(AT_ENTRY) != 0 && getauxval(AT_RANDOM) != 0);
    CHECK(getauxval(AT_SECURE) == 0 && getauxval(AT_UID) == getuid());
    CHECK(getauxval(AT_CLKTCK) == 100);
    CHECK(strstr((char *)getauxval(AT_EXECFN), "exec") != NULL);
    CHECK(((uintptr_t)&arguments[-1] & 15) == 0);
}

static void handler(int signal) { (void)signal; }

int main(int count, char **arguments) {
    if (strcmp(arguments[1], "first") != 0) {
        second(count, arguments);
        return 17;
    }
    start_of_program(arguments);
    int fd = open("/dev/null", O_RDONLY);
    dup2(fd, 10);
    dup3(fd, 11, O_CLOEXEC);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    char *none[] = {"x", NULL};
    SHOW(execv("./none", none));
    SHOW(execv(".", none));
    SHOW(execv("", none));
    fd = open("text", O_CREAT | O_WRONLY, 0600);
    write(fd, "just text\n", 10);
    SHOW(execv("./text", none));
    chmod("text", 0700);
    close(fd);
    SHOW(execv("./text", none));
    fd = open("text", O_WRONLY | O_TRUNC);
    write(fd, "\x7f" "ELF\2\1\1", 7);
    close(fd);
    SHOW(execv("./text", none));
    unlink("text");
    char *big = malloc(1 << 20);
    memset(big, 'b', 1 << 20);
    big[(1 << 20) - 1] = 0;
    char *too_big[] = {"x", big, NULL};
    SHOW(execv(arguments[0], too_big));
    big[100000] = 0;
    IN_CHILD("a long argument", {
        char *arguments_of[] = {arguments[0], big, NULL};
        freopen("/dev/null", "w", stdout);
        execv(arguments[0], arguments_of);
    });
    char *next[] = {"other name", "", "an argument", "-x", NULL};
    char *environment[] = {"COLOUR=red", "ADDED=yes", NULL};
    fflush(stdout);
    execve(arguments[0], next, environment);
    return 1;
}
