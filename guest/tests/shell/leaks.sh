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
# as the work never has. What they keep also varies by a page or two with how processes overlap, and comes back; what is
# lost does not. So of the last three rounds one must have as much free as the least of the first four.
sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3 | sleep 0.3
least=; lost=; last=
for round in 1 2 3 4 5 6 7 8 9 10; do
    work; work; free_now
    [ -n "$least" ] || least=$free
    lost="$lost $((least - free))"
    if [ $round -le 4 ]; then
        [ "$free" -lt "$least" ] && least=$free
    elif [ $round -ge 8 ]; then
        [ "$free" -ge "$least" ] && last=returned
    fi
done
[ "$least" -gt 0 ] || echo no number
[ -n "$last" ] && echo nothing lost || echo "kB lost, by rounds, of which the first four count for nothing:$lost"
}
measure
