# Without --md there is no disk, by whatever name.
ls /dev/ram0 2>&1
mknod disk b 1 0 && cat disk 2>&1
cat /proc/partitions
ls -l disk | cut -c 1-10
