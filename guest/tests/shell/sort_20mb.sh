# Makes 20 MB of lines in no order, sorts them, and sorts them again in another way.
# mem: 1G
# timeout: 240

seq 1 320000 |
    awk '{ x = and(x * 69069 + 1, 4294967295); print x " is the number made in the line that comes as " $1 }' |
    head -c 20000000 >unsorted
wc unsorted
md5sum <unsorted

sort unsorted >sorted
wc -c <sorted
md5sum <sorted
sort -c sorted && echo in order
head -n 2 sorted
tail -n 1 sorted

sort -n unsorted | md5sum
rm unsorted sorted
ls
