// `ptrace`: attaching, seizing, group stops, events of fork, exec, threads and exit; process_vm_readv and its twin.
// oracle: linux
// build: gcc
#define _GNU_SOURCE
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <sys/user.h>
#include <sys/uio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/ptrace.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
static int w(const char *what, pid_t pid) {
    int st = 0; pid_t r = waitpid(pid, &st, __WALL);
    if (r != pid && pid != -1) { printf("%s: waitpid %d errno %d\n", what, r, errno); return -1; }
    if (WIFSTOPPED(st)) printf("%s: stopped %d event %d\n", what, WSTOPSIG(st), st >> 16);
    else if (WIFEXITED(st)) printf("%s: exited %d\n", what, WEXITSTATUS(st));
    else if (WIFSIGNALED(st)) printf("%s: killed %d\n", what, WTERMSIG(st));
    return st;
}
static void ms(int n) { struct timespec t = { n / 1000, n % 1000 * 1000000L }; nanosleep(&t, 0); }
static int pt(const char *n, int req, pid_t pid, long a, long d) { errno = 0; long r = ptrace(req, pid, a, d); printf("%s %ld %d\n", n, r, r < 0 ? errno : 0); return r; }
static void *thread(void *p) { printf("in thread\n"); return 0; }
static volatile int flag;
static void *spin(void *p) { while (!flag) ms(5); return 0; }
int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IONBF, 0);
    if (argc > 1) { /* behind what the tracer says of it */ ms(50); printf("executed %s\n", argv[1]); return 5; }
    /* attach to one that waits */
    pid_t pid = fork();
    if (!pid) { for (;;) pause(); }
    ms(30);
    pt("not ours", PTRACE_CONT, pid, 0, 0);
    pt("attach", PTRACE_ATTACH, pid, 0, 0);
    pt("attach again", PTRACE_ATTACH, pid, 0, 0);
    w("attached", pid);
    siginfo_t si; pt("info", PTRACE_GETSIGINFO, pid, 0, (long)&si); printf("%d %d\n", si.si_signo, si.si_code);
    struct user_regs_struct r; pt("regs", PTRACE_GETREGS, pid, 0, (long)&r); printf("orig %lld rax %lld\n", r.orig_rax, r.rax);
    pt("interrupt", PTRACE_INTERRUPT, pid, 0, 0);
    pt("listen", PTRACE_LISTEN, pid, 0, 0);
    pt("detach", PTRACE_DETACH, pid, 0, 0);
    kill(pid, SIGTERM); w("end", pid);
    /* attach to one that runs */
    pid = fork();
    if (!pid) { for (;;) ; }
    ms(30);
    pt("attach", PTRACE_ATTACH, pid, 0, 0); w("attached", pid);
    pt("cont", PTRACE_CONT, pid, 0, SIGSTOP); w("group stop", pid);
    pt("info in group stop", PTRACE_GETSIGINFO, pid, 0, (long)&si);
    pt("cont", PTRACE_CONT, pid, 0, 0);
    ms(20);
    kill(pid, SIGCONT); w("sigcont", pid);
    pt("cont", PTRACE_CONT, pid, 0, SIGCONT);
    kill(pid, SIGKILL); w("end", pid);
    /* seize, interrupt, group stop, listen */
    pid = fork();
    if (!pid) { for (;;) ms(10); }
    ms(30);
    pt("seize bad", PTRACE_SEIZE, pid, 1, 0);
    pt("seize bad", PTRACE_SEIZE, pid, 0, 0x40000000);
    pt("seize", PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD);
    pt("running", PTRACE_CONT, pid, 0, 0);
    pt("interrupt", PTRACE_INTERRUPT, pid, 0, 0); w("interrupted", pid);
    pt("info", PTRACE_GETSIGINFO, pid, 0, (long)&si); printf("%d %x\n", si.si_signo, si.si_code);
    pt("cont", PTRACE_CONT, pid, 0, 0);
    pt("listen", PTRACE_LISTEN, pid, 0, 0);
    kill(pid, SIGSTOP); w("stop signal", pid);
    pt("cont", PTRACE_CONT, pid, 0, SIGSTOP); w("group stop", pid);
    pt("info", PTRACE_GETSIGINFO, pid, 0, (long)&si); printf("%d %x\n", si.si_signo, si.si_code);
    pt("listen", PTRACE_LISTEN, pid, 0, 0);
    ms(20);
    { int st; printf("nothing %d\n", waitpid(pid, &st, WNOHANG | __WALL)); }
    pt("listening", PTRACE_CONT, pid, 0, 0);
    kill(pid, SIGCONT); w("goes on", pid);
    pt("cont", PTRACE_CONT, pid, 0, 0); w("sigcont", pid);
    pt("cont", PTRACE_CONT, pid, 0, 0);
    pt("interrupt", PTRACE_INTERRUPT, pid, 0, 0); w("interrupted", pid);
    pt("detach", PTRACE_DETACH, pid, 0, SIGTERM); ms(20); kill(pid, SIGTERM); w("end", pid);
    /* fork, vfork, exec events */
    pid = fork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); pid_t c = fork(); if (!c) _exit(4); int st; waitpid(c, &st, 0);
        c = vfork(); if (!c) _exit(6); waitpid(c, &st, 0);
        execl(argv[0], argv[0], "again", (char *)0); _exit(1); }
    w("stop", pid);
    pt("options", PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK|PTRACE_O_TRACEVFORK|PTRACE_O_TRACEEXEC|PTRACE_O_TRACEVFORKDONE|PTRACE_O_TRACECLONE);
    pt("cont", PTRACE_CONT, pid, 0, 0);
    for (int i = 0; i < 2; i++) {
        unsigned long child;
        w(i ? "vfork" : "fork", pid);
        ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
        w("child", child);
        pt("cont child", PTRACE_CONT, child, 0, 0);
        if (!i) { w("child end", child); pt("cont", PTRACE_CONT, pid, 0, 0); w("sigchld", pid); pt("cont", PTRACE_CONT, pid, 0, 0); }
        else { pt("cont", PTRACE_CONT, pid, 0, 0); w("child end", child); w("vfork done", pid); pt("cont", PTRACE_CONT, pid, 0, 0); w("sigchld", pid); pt("cont", PTRACE_CONT, pid, 0, 0);}
    }
    w("exec", pid);
    unsigned long m; ptrace(PTRACE_GETEVENTMSG, pid, 0, &m); printf("former %d\n", m == pid);
    pt("cont", PTRACE_CONT, pid, 0, 0); w("end", pid);
    /* exec without the option */
    pid = fork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); execl(argv[0], argv[0], "once more", (char *)0); _exit(1); }
    w("exec trap", pid);
    pt("info", PTRACE_GETSIGINFO, pid, 0, (long)&si); printf("%d %d %d\n", si.si_signo, si.si_code, si.si_pid == pid);
    pt("cont", PTRACE_CONT, pid, 0, 0); w("end", pid);
    /* vfork child that is traced */
    pid = vfork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); execl(argv[0], argv[0], "from vfork", (char *)0); _exit(1); }
    w("exec trap", pid);
    pt("cont", PTRACE_CONT, pid, 0, 0); w("end", pid);
    /* threads */
    pid = fork();
    if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0); ms(50); _exit(8); }
    w("stop", pid);
    pt("options", PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE|PTRACE_O_EXITKILL);
    pt("cont", PTRACE_CONT, pid, 0, 0);
    w("clone", pid); ptrace(PTRACE_GETEVENTMSG, pid, 0, &m);
    w("thread", m);
    pt("cont", PTRACE_CONT, pid, 0, 0); pt("cont", PTRACE_CONT, m, 0, 0);
    w("thread end", m); w("end", pid);
    /* process_vm */
    static char area[20000]; memset(area, 'x', sizeof area);
    char *shared = mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    pid = fork();
    if (!pid) { memset(area, 'y', sizeof area); shared[0] = 1; while (shared[0] != 2) ms(1); _exit(area[19999] == 'z' ? 9 : 10); }
    while (shared[0] != 1) ms(1);
    static char copy[20000]; ssize_t n;
    struct iovec l = { copy, sizeof copy }, rm[2] = { { area, 5000 }, { area + 5000, 15000 } };
    printf("readv %zd\n", process_vm_readv(pid, &l, 1, rm, 2, 0));
    printf("%c %c\n", copy[0], copy[19999]);
    memset(copy, 'z', sizeof copy);
    printf("writev %zd\n", process_vm_writev(pid, &l, 1, rm, 2, 0));
    errno = 0; n = process_vm_readv(pid, &l, 1, rm, 2, 1); printf("flags %zd %d\n", n, errno);
    rm[0].iov_base = (void *)8; errno = 0;
    errno = 0; n = process_vm_readv(pid, &l, 1, rm, 1, 0); printf("bad %zd %d\n", n, errno); errno = 0;
    errno = 0; n = process_vm_readv(99999, &l, 1, rm, 1, 0); printf("nobody %zd %d\n", n, errno); errno = 0;
    rm[0].iov_base = area; rm[0].iov_len = 100; rm[1].iov_base = (void*)8; errno = 0;
    errno = 0; n = process_vm_readv(pid, &l, 1, rm, 2, 0); printf("partly %zd %d\n", n, errno);
    shared[0] = 2; w("end", pid);
    /* tracer dies: goes on; with EXITKILL it ends */
    for (int kill_it = 0; kill_it < 2; kill_it++) {
        int p[2]; pipe(p); char c;
        pid = fork();
        if (!pid) { close(p[0]); for (int i = 0; i < 10; i++) ms(10); write(p[1], "x", 1); _exit(0); }
        close(p[1]);
        pid_t tracer = fork();
        if (!tracer) { close(p[0]); ptrace(PTRACE_SEIZE, pid, 0, kill_it ? PTRACE_O_EXITKILL : 0); ptrace(PTRACE_INTERRUPT, pid, 0, 0); int st; waitpid(pid, &st, __WALL); _exit(0); }
        w("tracer", tracer);
        printf("read %zd\n", read(p[0], &c, 1)); close(p[0]);
        w("it", pid);
    }
    /* attach to a stopped one */
    pid = fork();
    if (!pid) { for (;;) pause(); }
    ms(20); kill(pid, SIGSTOP); { int st; waitpid(pid, &st, WUNTRACED); printf("stopped %d\n", WIFSTOPPED(st)); }
    pt("seize", PTRACE_SEIZE, pid, 0, 0); w("at once", pid);
    pt("cont", PTRACE_CONT, pid, 0, 0);
    kill(pid, SIGCONT); w("cont", pid); pt("cont", PTRACE_CONT, pid, 0, 0); 
    kill(pid, SIGKILL);
    for (;;) { int st = w("then", pid); if (!WIFSTOPPED(st)) break; ptrace(PTRACE_CONT, pid, 0, 0); }
    pt("self", PTRACE_ATTACH, getpid(), 0, 0);
    pt("none", PTRACE_ATTACH, 99999, 0, 0);
    pt("negative", PTRACE_ATTACH, -5, 0, 0);
    pt("unknown", 9999, pid, 0, 0);
    return 0;
}
