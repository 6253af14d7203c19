# A memory disk with the programs that know disks: filled, copied from and to, with a file system on it.
#
# kernel: md=2097152
ls -l /dev/ram0 | awk '{ print $1, $3, $4, $5, $6 }'
cat /proc/partitions
blockdev --getsize64 /dev/ram0
blockdev --getsz /dev/ram0
blockdev --getss /dev/ram0
blockdev --getro /dev/ram0
blockdev --flushbufs /dev/ram0 && echo flushed
echo fresh: $(tr -d '\0' </dev/ram0 | wc -c)

seq 1 400000 | dd of=/dev/ram0 bs=64k iflag=fullblock 2>&1 | grep -v copied
seq 1 400000 | head -c 2097152 | cmp - /dev/ram0 && echo the same
dd if=/dev/ram0 of=copy bs=1M 2>&1 | grep -v copied
cmp copy /dev/ram0 && echo a copy
dd if=/dev/ram0 bs=1 skip=2097144 count=100 2>/dev/null | wc -c
printf here | dd of=/dev/ram0 bs=1 seek=1000000 conv=notrunc 2>/dev/null
dd if=/dev/ram0 bs=1 skip=999999 count=6 2>/dev/null | od -c | head -1
dd if=/dev/zero of=/dev/ram0 bs=4k seek=511 count=2 2>&1 | grep -v copied

mke2fs -F /dev/ram0 >/dev/null && echo made
dd if=/dev/ram0 bs=1 skip=1080 count=2 2>/dev/null | od -t x1 | head -1

# What is behind the name is not in it.
cp /dev/ram0 copy2 && wc -c <copy2
mv /dev/ram0 /dev/disk && blockdev --getsize64 /dev/disk && mv /dev/disk /dev/ram0
rm /dev/ram0
mknod /dev/ram0 b 1 0
cmp copy2 /dev/ram0 && echo there again
