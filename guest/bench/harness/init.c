// The first process of Linux, when ./x boots it: runs one program and ends the machine as Tessera
// ends it.
//
// What to run is in /run/.args, in the form of Tessera's boot/args: fields that end with NUL, each a
// letter and a text ('a' an argument, 'e' a variable, 'c' the working directory). The first serial
// port is the program's console; a record `@exit STATUS` goes to the second one, behind the kernel's
// log; the machine ends through the debug-exit port.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { EXIT_PORT = 0xf4, ORDERLY = 0x10, MOST = 256 };

static char fields[1 << 17];
static char *arguments[MOST + 1], *environment[MOST + 1];

// Writes a message to the log, after whatever the kernel is writing.
static void say(const char *text, int number) {
    int log = open("/dev/ttyS1", O_WRONLY | O_NOCTTY);
    dprintf(log, "\n@%s %d\n", text, number);
    tcdrain(log);
    close(log);
}

static void end(int status) {
    say("exit", status);
    tcdrain(1);
    if (iopl(3) == 0) outb(ORDERLY, EXIT_PORT);
    // No such port: the kernel panics when its first process ends.
    exit(status);
}

static void read_fields(void) {
    int from = open("/run/.args", O_RDONLY);
    ssize_t length = read(from, fields, sizeof fields - 1);
    int a = 0, e = 0;
    for (char *at = fields; at < fields + length; at += strlen(at) + 1) {
        if (*at == 'a' && a < MOST) arguments[a++] = at + 1;
        if (*at == 'e' && e < MOST) environment[e++] = at + 1;
        if (*at == 'c' && chdir(at + 1)) end(126);
    }
    if (a == 0) end(126);
}

static void open_console(void) {
    struct termios raw;
    int console = open("/dev/ttyS0", O_RDWR);
    tcgetattr(console, &raw);
    cfmakeraw(&raw);
    tcsetattr(console, TCSANOW, &raw);
    for (int i = 0; i < 3; i++) dup2(console, i);
    if (console > 2) close(console);
}

// Modules that were given to us drive devices.
static void load_modules(void) {
    char name[32];
    for (int n = 0;; n++) {
        snprintf(name, sizeof name, "/run/.modules/%d", n);
        int module = open(name, O_RDONLY);
        if (module < 0) return;
        // An empty one is built in.
        if (lseek(module, 0, SEEK_END) > 0 && syscall(SYS_finit_module, module, "", 0)) {
            say("module_error", errno);
            end(125);
        }
        close(module);
        unlink(name);
    }
}

// The disk, if it is for pages. Its driver may need a moment.
static void begin_paging(void) {
    int tries = 0;
    if (unlink("/run/.modules/paging")) return;
    while (swapon("/dev/vda", 0)) {
        if (++tries == 500) {
            say("swapon_error", errno);
            end(125);
        }
        usleep(10000);
    }
}

int main(void) {
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    mount("proc", "/proc", "proc", 0, NULL);
    open_console();
    load_modules();
    begin_paging();
    read_fields();
    pid_t child = fork();
    if (child == 0) {
        execve(arguments[0], arguments, environment);
        perror(arguments[0]);
        _exit(127);
    }
    // Orphans come to us too.
    int status = 0;
    while (wait(&status) != child)
        ;
    end(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
