# After much work there is as much free memory as before.
# timeout: 120
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
work; free_now
work; free_now; before=$free
work; work; work; free_now
[ "$before" -gt 0 ] && [ "$before" -eq "$free" ] && echo nothing lost ||
    echo "free before: $before kB, after: $free kB"
