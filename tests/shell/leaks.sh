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
# What servers keep in stock depends on how many processes have ever lived at the same time, and
# that on timing. A leak, in contrast, is there every time.
work; work; free_now
for round in 1 2 3 4 5 6; do
    before=$free
    work; work; free_now
    [ "$before" -gt 0 ] && [ "$free" -ge "$before" ] && echo nothing lost && exit
    lost="$lost $((before - free))"
done
echo "kB lost in each round:$lost"
