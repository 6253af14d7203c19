# Native programs as processes: ends of all kinds, signals, stopping, files, standard input.

exec 2>/dev/null
t() { nativetest "$@" 2>&1; echo "$1: $?"; }
t status 0
t status 7
t exit 255
t error 'the reason' | cat
t panic | sed 's/main.rs:[0-9:]*/main.rs/'
t fault
t recursion 100
t recursion
t environment HOME
t environment NONE
NEW='a value' nativetest environment NEW
printf 'one\ntwo\n\nno end' | nativetest upper 2>&1
nativetest upper </dev/null 2>&1
t copy /bin/busybox copied
cmp /bin/busybox copied && echo same
t copy /nowhere x
t copy copied /no/place
t threads 3 | sort | uniq | wc -l
t heap 20
seq 3000 | nativetest upper 2>/dev/null | head -n 2
nativetest spin & sleep 0.1; kill $!; wait $!; echo "terminated $?"
nativetest spin & sleep 0.1; kill -9 $!; wait $!; echo "killed $?"
nativetest sleep 100000 & kill -INT $!; kill -HUP $!; wait $!; echo "sleeper $?"
nativetest sleep 300 & p=$!; sleep 0.1
kill -STOP $p; sleep 0.5; grep State /proc/$p/status; kill -CONT $p; wait $p; echo "continued $?"
nativetest spin & p=$!; sleep 0.1
kill -STOP $p; kill -TERM $p; grep State /proc/$p/status; kill -CONT $p; wait $p; echo "stopped, then $?"
