# A disk larger than the memory takes what is written; what does not fit is refused, and the rest stays as it is.
#
# kernel: md=1099511627776
# mem: 128M
free() { awk '$1 == "free" { print int($2 / 1048576) }' /proc/tessera/memory; }
before=$(free)
blockdev --getsize64 /dev/ram0
printf end | dd of=/dev/ram0 bs=4096 seek=268435455 conv=notrunc 2>/dev/null
dd if=/dev/ram0 bs=4096 skip=268435455 2>/dev/null | head -c 3
echo
dd if=/dev/ram0 bs=1M skip=500000 count=10 2>/dev/null | tr -d '\0' | wc -c
[ $((before - $(free))) -lt 6 ] && echo a hole takes no memory
dd if=/dev/zero of=/dev/ram0 bs=64k count=4000 2>&1 | grep -o 'No space.*'
dd if=/dev/ram0 bs=4096 skip=268435455 2>/dev/null | head -c 3
echo
# What is there can be written again, and programs go on.
printf again | dd of=/dev/ram0 bs=4096 conv=notrunc 2>/dev/null
head -c 5 /dev/ram0
echo
seq 1 10 | sort -n | tail -1
