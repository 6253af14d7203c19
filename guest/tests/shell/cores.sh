# Several cores: who computes goes to one that is idle, and all of them get something to do.
# cores: 4

echo "processors: $(grep -c ^processor /proc/cpuinfo)"

compute() {
    i=0
    while [ $i -lt 60000 ]; do i=$((i + 1)); done
    echo "$1: $i"
}
busy() { grep "^cpu$1 " /proc/stat | cut -d' ' -f2; }

for core in 1 2 3; do eval before$core="$(busy $core)"; done
for n in 1 2 3 4; do compute $n & done | sort
for core in 1 2 3; do
    eval before=\$before$core
    if [ "$(busy $core)" -gt "$before" ]; then echo "core $core was busy"; fi
done

echo "pipelines beside each other"
for n in 1 2 3 4 5 6 7 8; do
    (seq 1 20000 | sed "s/^/$n /" | sort -k2n | md5sum) &
done | sort | uniq -c | sort -n | wc -l

echo "many short ones"
n=0
while [ $n -lt 40 ]; do
    (true; sh -c 'exit 3'; echo "$n:$?") &
    n=$((n + 1))
done | sort -n | tr '\n' ' '
echo
wait
