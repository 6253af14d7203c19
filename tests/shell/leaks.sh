# After much work there is as much free memory as before.
# timeout: 120
free_now() { awk '/^MemFree/ { print $2 }' /proc/meminfo; }
work() {
    seq 1 20000 | sort -rn | md5sum >/dev/null
    i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i + 1)); done
    dd if=/dev/zero of=big bs=65536 count=64 2>/dev/null; rm big
}
work
free_now >/dev/null
before=$(free_now)
work; work; work
after=$(free_now)
[ "$before" -gt 0 ] && [ "$before" -eq "$after" ] && echo nothing lost ||
    echo "free before: $before kB, after: $after kB"
