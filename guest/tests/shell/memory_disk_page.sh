# The smallest disk: a page.
#
# kernel: md=4096
cat /proc/partitions
dd if=/dev/urandom of=/dev/ram0 bs=1000 2>&1 | grep -v copied
wc -c </dev/ram0
dd if=/dev/zero of=/dev/ram0 bs=1 seek=4096 count=1 2>&1 | grep -v copied
