# A small machine's memory is left to programs: the system and what it was booted from take less than
# 25.75 of 128 MiB, two of them for what is known of pages of files, and half of one more for tables where the kernel maps memory
# page by page (--map cache).
# (The archive is in memory for good: no symbols and debug sections are in it.)
# mem: 128M
# expect-stdout: enough\n
while read -r name value _; do
    [ "$name" = MemFree: ] && free=$value
done </proc/meminfo
[ "$free" -ge $((409 * 256)) ] && echo enough || echo "only $free kB are free"
