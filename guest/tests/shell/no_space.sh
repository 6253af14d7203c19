# Files until there is no memory left: an error for the writer, and everything as before afterwards.
# mem: 128M
# expect-stdout: dd failed\nfull\nstill works\nremoved\nwrites again\ntwo writers\n4\nthe end\n

dd if=/dev/zero of=big bs=65536 count=10000 2>/dev/null || echo dd failed
[ "$(stat -c %s big)" -gt 20000000 ] && echo full
echo $((6 * 7)) | grep -q 42 && echo still works
rm big && echo removed
dd if=/dev/zero of=again bs=65536 count=100 2>/dev/null && echo writes again
rm again
(yes one >first 2>/dev/null; exit 1) & one=$!
(yes two >second 2>/dev/null; exit 3) & two=$!
wait $one; sum=$?
wait $two; sum=$((sum + $?))
echo two writers
echo $sum
rm first second
echo the end
