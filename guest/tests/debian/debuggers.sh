# gdb (breakpoints, backtraces, watched variables, threads, calls, signals, a process to attach to) and strace (-f of a pipeline, -c, -e, an attached process)
# deb: gdb,strace,gcc,libc6-dev,dash,coreutils,grep,sed,mawk
# mem: 1G
set -e
cd /tmp; export PATH=/usr/bin:/bin LC_ALL=C.UTF-8 HOME=/tmp DEBUGINFOD_URLS=
cat > p.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
int total;
static pthread_barrier_t all;
__attribute__((noinline)) int fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }
static void *work(void *arg) { pthread_barrier_wait(&all); return arg; }
int main(void) {
    pthread_t t[3];
    pthread_barrier_init(&all, 0, 4);
    for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void *)i);
    total = fact(5);
    total += 7;
    pthread_barrier_wait(&all);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    printf("total %d\n", total);
    if (getenv("FAIL")) abort();
    return 3;
}
C
gcc -g -O0 -fno-pie -no-pie -pthread -o p p.c
g() { gdb -q -nx -batch -ex 'set style enabled off' -ex 'set print thread-events off' -ex 'set debuginfod enabled off' "$@" < /dev/null 2>&1 |
    sed -E 's/0x[0-9a-f]+/ADDR/g; s/\(LWP [0-9]+\)/(LWP N)/g; s/process [0-9]+/process N/g; s/line-buffered//; s/Thread ADDR/Thread T/' |
    grep -v -e '^warning' -e '^Using host' -e '^$' -e '^\[New Thread' -e '^\[Thread debugging'; }
echo "-- breakpoint"; g -ex 'break fact if n == 2' -ex run -ex bt -ex 'frame 2' -ex 'print n * 10' -ex 'info args' -ex finish -ex 'delete' -ex continue p
echo "-- watch with the processor"; g -ex 'break 12' -ex run -ex 'watch total' -ex continue -ex continue -ex 'print total' -ex 'delete 2' -ex continue p
echo "-- read, written, executed"; g -ex 'break 12' -ex run -ex 'rwatch total' -ex 'awatch total' -ex 'hbreak 17' -ex continue -ex continue -ex continue -ex bt -ex delete -ex continue p
echo "-- watch by steps"; g -ex 'set can-use-hw-watchpoints 0' -ex 'break 12' -ex run -ex 'watch total' -ex continue -ex continue -ex 'print total' -ex 'delete 2' -ex continue p
echo "-- step"; g -ex 'break fact' -ex run -ex step -ex up -ex down -ex 'set var n = 1' -ex 'stepi' -ex 'x/2i $pc' -ex 'delete' -ex continue p
echo "-- threads"; g -ex 'break 14' -ex run -ex 'print $_inferior_thread_count' -ex 'thread 1' -ex 'print total' -ex 'thread apply all -s print $_thread' -ex 'delete' -ex continue p
echo "-- call"; g -ex 'break 14' -ex run -ex 'call fact(6)' -ex 'print (long)$rsp % 16' -ex 'set var total = 1000' -ex delete -ex continue p
echo "-- signal"; g -ex 'set env FAIL=1' -ex run -ex 'print $_siginfo.si_signo' -ex 'info signals SIGABRT' -ex 'signal 0' p
echo "-- attach"; sleep 100 & s=$!; g -p $s -ex 'info inferiors' -ex detach | grep -c -e Num -e 'Detaching' -e sleep || true; kill $s
echo "-- strace"
strace -o log -e trace=write,exit_group ./p > /dev/null || echo "status $?"; cat log
mkdir all; strace -ff -qq -o all/log -e trace=execve,pipe,pipe2,dup2,write sh -c 'echo one two | cat | tr o 0 | cat'
sed -E 's/0x[0-9a-f]+ .*/ADDR/; s/ \/\*.*\*\/.*/ ENV/' all/log.* | grep -v SIGCHLD | sort | uniq -c
strace -c -f -o log sh -c 'true; cat /dev/null'; grep -c -e total -e execve log; awk '$NF == "execve" { print $4, $NF }' log
strace -qq -o log -e trace=%file -e inject=openat:error=EIO:when=1+ cat p.c || echo "status $?"; grep -c EIO log | sed 's/[0-9]*/some/'
strace -qq -o log -e trace=kill -e signal=all sh -c 'trap "echo got" USR1; kill -USR1 $$; kill -TERM $$' || echo "status $?"; sed -E 's/[0-9]{2,}/N/g' log
sleep 100 & s=$!; strace -qq -p $s -o log -e trace=all & t=$!; sleep 3; kill $s; wait $t || true; sed -E 's/pid=[0-9]+/pid=N/' log | tail -n 2
echo "-- strace of threads"; mkdir each; strace -ff -qq -o each/log -e trace=clone3,exit ./p > /dev/null || echo "status $?"; cat each/* | grep -c 'clone3('; cat each/* | grep -c 'exit(0)'
