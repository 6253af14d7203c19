# gcc and coreutils' sort with several times the memory there is, one by one, and four at once: equal to the byte, and nothing stays on the disk for pages
# deb: gcc,libc6-dev,dash,coreutils,mawk
# mem: 64M
# swap: 512M
# timeout: 3600
# runs: when its suite is asked for
set -e
export LC_ALL=C PATH=/usr/bin:/bin
mkdir /tmp/w; cd /tmp/w
# C of which the compiler keeps all in memory: 1000 functions are more than there is.
source_of() {
    awk -v n="$1" -v seed="$2" 'BEGIN {
        print "typedef unsigned long word;\nstruct node { struct node *left, *right; word key, count; };\nextern struct node *fresh(word);"
        for (i = 0; i < n; i++) {
            a = (i * 7919 + seed * 104729) % 65521; b = (a * 31 + 17) % 8191
            printf "static word of%d(struct node **at, word key) {\n", i
            printf "    while (*at && (*at)->key != key) { (*at)->count += %d; at = key < (*at)->key ? &(*at)->left : &(*at)->right; }\n", a
            printf "    if (!*at) *at = fresh(key);\n    switch (key %% 7) {\n"
            for (k = 0; k < 7; k++) printf "    case %d: key = key * %d + (key >> %d); break;\n", k, a + k * b, 3 + (a + k) % 40
            printf "    }\n    return ((*at)->count ^= key)%s;\n}\n", i ? " + of" int(a * i / 65521) "(at, key ^ " b ")" : ""
        }
        print "word all(struct node **at, word key) {\n    word sum = 0;"
        for (i = 0; i < n; i++) printf "    sum += of%d(at, key + %d);\n", i, i
        print "    return sum;\n}"
    }'
}
# Lines of 100 bytes, in no order.
lines() {
    awk -v n="$1" -v seed="$2" 'BEGIN {
        rest = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.0123456789abcdefghijkl"
        x = seed
        for (i = 0; i < n; i++) { x = (x * 16807) % 2147483647; printf "%010d %03d%s\n", x, i % 1000, rest }
    }'
}
used() { awk '/^SwapTotal/ { total = $2 } /^SwapFree/ { print total - $2 }' /proc/meminfo; }
# Without optimisation: where cc1 decides how to give out registers it stores a flag by `setg`, which QEMU 7.2 gets wrong if the page is not there
# (docs/pager.md).
compile() { source_of $2 $2 > $1.c; gcc -O0 -c -o $1.o $1.c; sha256sum $1.o; }
# Its temporary files are memory, too.
sorted() { lines $2 $2 > $1; sort -S 48M $1 | sha256sum; rm $1; }
before=$(used)
compile large 1000
sorted lines 2000000
# Four at once.
compile one 500 > 1 & compile two 480 > 2 & sorted three 300000 > 3 & sorted four 310000 > 4 &
wait
cat 1 2 3 4
cd /; rm -r /tmp/w
# Ends are seen to; a shell that has left memory is not gone.
for n in 1 2 3 4 5 6 7 8 9 10; do test $(($(used) - before)) -lt 2048 && break; sleep 0.2; done
test $(($(used) - before)) -lt 2048 && echo "the disk is as before"
