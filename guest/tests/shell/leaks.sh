# After much work there is as much free memory as before, every time.
# timeout: 180
# The shell reads it by itself: another process would be in the way of what is measured.
free_now() {
    while read -r name value _; do
        [ "$name" = MemFree: ] && free=$value
    done </proc/meminfo
}
work() {
    seq 1 20000 | sort -rn | md5sum >/dev/null
    i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i + 1)); done
    dd if=/dev/zero of=big bs=65536 count=64 2>/dev/null; rm big
}
# One command, so that the shell has read all of this before anything is measured: it reads what is left of its script through a
# window, for which it needs memory once.
measure() {
# What servers keep in stock depends on how many processes have ever lived at the same time: first as many
# as the work never has. The least free memory of some rounds is what no later round may be below.
sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3
least=; lost=; failed=
for round in 1 2 3 4 5 6 7 8 9 10; do
    work; work; free_now
    [ -n "$least" ] || least=$free
    lost="$lost $((least - free))"
    if [ "$free" -lt "$least" ]; then
        [ $round -le 4 ] && least=$free || failed=yes
    fi
done
[ "$least" -gt 0 ] || echo no number
[ -z "$failed" ] && echo nothing lost || echo "kB lost, by rounds, of which the first four count for nothing:$lost"
}
measure
